"""
Intervals, tests and pooled analyses
====================================

How sure are we of a parameter, of the label of a row, of the mechanism itself? And how does an analysis of your own take
imputed labels into account?
"""

# %%
# **Simulated** rows: one class is rare, and 70 % of the labels are missing.

import numpy as np

from marmix import MARLogisticRegression
from marmix.datasets import make_mar_mixture
from marmix.plotting import ProfileDisplay

rows = make_mar_mixture(1500, weights=[0.8, 0.2], random_state=0)
X, y = rows.data, rows.target

# %%
# Tests and profiles need a likelihood, so the logistic regression is fitted without penalty.

clf = MARLogisticRegression(C=np.inf, link="logit").fit(X, y)
result = clf.inference(X, y)
print(result.summary())

# %%
# Is the mechanism there, and is it right?
# ----------------------------------------

print(result.test_informative())
print(result.test_mechanism())
print(result.goodness_of_fit(n_bins=6))

# %%
# The slope of the mechanism, by its profile likelihood: better than a standard error where the likelihood is not
# quadratic.

ProfileDisplay.from_estimator(clf, X, y, name="alpha_1", n_points=15)

# %%
# How sure is the label of a row?
# -------------------------------
# A label is settled where its 95 % interval leaves one class as the most probable. The others are worth an
# expert's time.

imputed = result.imputed_labels()
right = imputed.label == rows.target_true[imputed.row]
print(f"{len(right)} labels imputed, {imputed.settled.mean():.0%} of them settled")
print(f"right: {right[imputed.settled].mean():.0%} of the settled,", end=" ")
print(f"{right[~imputed.settled].mean():.0%} of the others")

# %%
# An analysis of your own
# -----------------------
# How many rows are of class 1? The labelled ones are not a fair sample. Impute the labels twenty times,
# analyse each, and pool: the interval then knows that labels were imputed.


def share(labels):
    """A proportion, and its variance."""
    p = np.mean(labels == 1)
    return p, p * (1 - p) / len(labels)


pooled = clf.multiple_imputations(X, y, m=20, random_state=0).pool(share)
print(f"among the labelled rows {np.mean(y[y >= 0] == 1):.3f}")
low, high = pooled.conf_int()[0]
print(f"pooled                  {pooled.params[0]:.3f}, 95 % interval {low:.3f} to {high:.3f}")
print(f"in truth                {np.mean(rows.target_true == 1):.3f}")

# %%
# See also
# --------
# :doc:`/guide/inference`; `marmix.Inference` has all tests, `marmix.compare` compares fits by AIC and BIC; :doc:`/coverage`
# on how often the intervals hold.
