"""
A test: how sensitive is it, when mostly positive ones were followed up?
========================================================================

Patients with a positive test are examined further more often than others. Among those who were examined the test then looks more
sensitive and less specific than it is.
"""

# %%
# A binary test
# -------------
# A liver scan of 650 patients, of whom 344 were examined further (Drum and Christacopoulos, 1972).

import matplotlib.pyplot as plt
import numpy as np

from marmix import Audit, MARLogisticRegression, diagnose
from marmix.datasets import load_mammography

scan = np.repeat([1, 1, 1, 0, 0, 0], [231, 32, 166, 27, 54, 140])
disease = np.repeat([1, 0, -1, 1, 0, -1], [231, 32, 166, 27, 54, 140])
print(diagnose(scan, disease))

# %%
# A score, and what else decided
# ------------------------------
# How well does age alone tell malignant from benign masses? Labels are missing where the radiologist was undecided. Without an
# audit, X names all that may have decided which labels are missing; an audit needs no such assumption. Biopsies tell the truth.

masses = load_mammography()
X, y, truth = masses.data, masses.target, masses.target_true
audit = Audit(MARLogisticRegression().fit(X, y), X, y, n=50)
result = audit.record(truth[audit.rows])
age = X[:, 0]
curves = {
    "all biopsies": diagnose(age, truth),
    "no audit": diagnose(age, y, X),
    "50 rows audited": diagnose(age, y, X, source=result),
}
for name, one in curves.items():
    print("{:16} AUC {:.2f} ({:.2f} to {:.2f})".format(name, *one["AUC"]))
plt.style.use("tableau-colorblind10")
figure, ax = plt.subplots(figsize=(4.4, 4), layout="constrained")
for name, one in curves.items():
    ax.plot(one.fpr, one.tpr, label=name)
ax.set(xlabel="false positive rate", ylabel="true positive rate", aspect="equal")
ax.legend()

# %%
# See also
# --------
# :doc:`/guide/answers`, and ``marmix evaluate data.csv --label disease --score test``.
