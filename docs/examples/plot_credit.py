"""
One side: only accepted applicants have an outcome
==================================================

A lender learns whether a loan is paid back only if it was granted, and refuses loans on *one* side: to applicants who look
risky. The default mechanism of marmix, labels missing where the class is unclear, is wrong here. This example shows how far it
misleads, the check that reveals it, and the mechanism that fits.

The applicants are **simulated**, so that we know how those who were refused would have paid.
"""

# %%
# The applicants
# --------------
# Risk falls with income and rises with debt. The lender uses the same two numbers and accepts about 70 %.

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit

from marmix import MARLogisticRegression
from marmix.evaluation import missingness_check

rng = np.random.default_rng(0)
income, debt, impression = rng.normal(size=(3, 3000))
X = np.column_stack([income, debt])
risk = -0.8 - income + 1.5 * debt  # log-odds of a default
default = rng.uniform(size=3000) < expit(risk)
accepted = rng.uniform(size=3000) < expit(0.6 - 1.6 * risk)
y = np.where(accepted, default, -1)
print(
    f"{accepted.mean():.0%} accepted, of whom {default[accepted].mean():.1%} default; of all it would be",
    end=" ",
)
print(f"{default.mean():.1%}")

# %%
# Three fits
# ----------
# ``"signed-margin"`` is a mechanism for one side: its measure is the log-odds of the second class, with their sign.

fits = {
    "missingness ignored": MARLogisticRegression(C=np.inf, link=None),
    "symmetric (entropy)": MARLogisticRegression(C=np.inf),
    "one-sided (signed-margin)": MARLogisticRegression(C=np.inf, measure="signed-margin"),
}
print(f"{'truth':26} slopes -1.00  1.50, expected defaults {default.mean():.1%}")
for name, clf in fits.items():
    clf.fit(X, y)
    slopes = " ".join(f"{slope:5.2f}" for slope in clf.coef_[0])
    print(
        f"{name:26} slopes {slopes}, expected defaults {clf.predict_proba(X)[:, 1].mean():.1%}"
    )

# %%
# The symmetric mechanism is far worse than none: it shrinks both slopes so that refused applicants look like unclear ones, and
# a third of the defaults disappear. The one-sided mechanism is right, but no better than ignoring the missingness: once the
# features are known, who was accepted says nothing more about the outcome.
#
# The check that reveals it
# -------------------------
# Sort the applicants by their probability of default, and compare the observed share of missing labels with the fitted one
# (`marmix.evaluation.missingness_check`).

plt.style.use("tableau-colorblind10")
figure, ax = plt.subplots(figsize=(6.2, 3.6), layout="constrained")
ax.axhspan(-2, 2, color="0.92")
for name, marker in (("symmetric (entropy)", "s--"), ("one-sided (signed-margin)", "o-")):
    check = missingness_check(y, fits[name].missing_proba(X), fits[name].predict_proba(X)[:, 1])
    ax.plot(range(1, 11), check.z, marker, ms=5, label=f"{name}, p-value {check.p_value:.2g}")
ax.set(
    xlabel="applicants by probability of default, in tenths",
    ylabel="refused: observed less fitted\n(standard errors)",
)
ax.set_xticks(range(1, 11))
ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False)

# %%
# See also
# --------
# :doc:`/evidence`; :doc:`/guide/estimators`; :doc:`/auto_examples/plot_sensitivity`, for a lender who also goes by an impression
# that is not in the file: labels are then missing because of the outcome, and this check stays quiet.
