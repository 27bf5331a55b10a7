"""
A regression: does age matter?
==============================

How much do the odds that a mass is malignant rise with ten years of age, and how much older are women whose mass is malignant?
Labels of doubtful masses are missing. Imputed labels that are treated as data give answers that are too sure.
"""

# %%
# The label as response
# ---------------------

import matplotlib.pyplot as plt
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
sources = {
    "all biopsies": (sure[truth], truth),
    "imputed labels": (sure[truth], clf.impute(X, y)),
    "50 rows audited": (result, y),
}
plt.style.use("tableau-colorblind10")
figure, ax = plt.subplots(figsize=(6, 2.4), layout="constrained")
for place, (name, (source, labels)) in enumerate(sources.items()):
    answer = estimate.regression(source, X, labels, covariates)
    ratio, (low, high) = np.exp(answer.value[1]), np.exp(answer.interval[1])
    ax.errorbar(ratio, place, xerr=[[ratio - low], [high - ratio]], fmt="o", capsize=4)
    print(f"{name:16} odds ratio {ratio:.2f} ({low:.2f} to {high:.2f})")
ax.set(yticks=range(3), yticklabels=list(sources), ylim=(2.5, -0.5))
ax.set_xlabel("odds ratio of malignant, for ten years of age")

# %%
# The label as covariate
# ----------------------
# The response is then something else, here age. The coefficient of the label is the difference in years.

print(estimate.regression(result, X, y, [], "linear", response=X[:, 0]))

# %%
# See also
# --------
# :doc:`/guide/answers`.
