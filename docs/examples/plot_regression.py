"""
A regression: does age matter?
==============================

How much do the odds that a mass is malignant rise with ten years of age, and how much older are women whose mass is malignant?
Labels of doubtful masses are missing. Imputed labels that are treated as data give answers that are too sure.
"""

# %%
# The label as response
# ---------------------

import numpy as np

from marmix import Audit, MARLogisticRegression, estimate
from marmix.datasets import load_mammography

masses = load_mammography()
X, y, truth = masses.data, masses.target, masses.target_true
clf = MARLogisticRegression().fit(X, y)
audit = Audit(clf, X, y, n=50)
result = audit.record(truth[audit.rows])  # 50 biopsies
covariates = {"ten years": X[:, 0] / 10, "density": X[:, 3]}
print(estimate.regression(result, X, y, covariates))

# %%
# With all biopsies, with imputed labels taken for data, and with the audit:

sure = np.eye(2)  # posteriors are not needed where all labels are given
for name, source, labels in (
    ("all biopsies", sure[truth], truth),
    ("imputed labels", sure[truth], clf.impute(X, y)),
    ("50 rows audited", result, y),
):
    answer = estimate.regression(source, X, labels, covariates)
    low, high = np.exp(answer.interval[1])
    print(f"{name:16} odds ratio {np.exp(answer.value[1]):.2f} ({low:.2f} to {high:.2f})")

# %%
# The label as covariate
# ----------------------
# The response is then something else, here age. The coefficient of the label is the difference in years.

print(estimate.regression(result, X, y, [], "linear", response=X[:, 0]))

# %%
# See also
# --------
# :doc:`/guide/answers`.
