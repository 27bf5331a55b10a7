"""
Credit: only accepted applicants have an outcome
================================================

A lender learns whether a loan is paid back only if it was granted, and loans are refused on *one* side: to applicants who
look risky. The standard mechanism of marmix, labels missing where the class is unclear, is wrong here. This example shows
how far it misleads, the check that reveals it, the mechanism that fits, and what no mechanism can repair.

The applicants are **simulated**, so that the outcome of refused applications is known too.
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
# The symmetric mechanism is badly wrong, and far worse than none: it shrinks both slopes so that refused applicants look
# like unclear ones, and a third of the defaults disappear. The one-sided mechanism is right, but no better than ignoring
# the missingness. Once the features are known, who was accepted says nothing more about the outcome.
#
# The check that reveals it
# -------------------------
# Sort the applicants by their probability of default, and compare the observed share of missing labels with the fitted one
# (`marmix.evaluation.missingness_check`). `MARClassifierCV` and ``marmix fit`` run this check themselves.

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
# What cannot be repaired
# -----------------------
# Now a loan officer also goes by a personal impression, which says something about the outcome and is not in the file. Among
# applicants with the same numbers those accepted are then better than those refused: labels are missing *because of the
# label*. All three fits miss more than a quarter of the defaults, and the check of the one-sided mechanism stays quiet.

default = rng.uniform(size=3000) < expit(risk + 1.5 * impression)
accepted = rng.uniform(size=3000) < expit(0.6 - 1.6 * (risk + 1.2 * impression))
y = np.where(accepted, default, -1)
print(f"{'truth':26} expected defaults {default.mean():.1%}")
for name, clf in fits.items():
    print(f"{name:26} expected defaults {clf.fit(X, y).predict_proba(X)[:, 1].mean():.1%}")
p = clf.predict_proba(X)[:, 1]
print(
    f"p-value of the check, one-sided: {missingness_check(y, clf.missing_proba(X), p).p_value:.2g}"
)

# %%
# A sensitivity analysis says what would follow if, among applicants who look alike, those who would default had been refused
# more often. It does not say how much more often. That takes outcomes of refused applicants, such as a small random sample
# of loans granted all the same.

sweep = clf.sensitivity(X, y, delta=np.log([1, 2, 4, 8, 16]), label=1)
odds, share, interval = np.exp(sweep.delta), sweep.shares[:, 1], sweep.shares_interval[:, 1]
figure, ax = plt.subplots(figsize=(6.2, 3.4), layout="constrained")
ax.fill_between(odds, *interval.T, alpha=0.2)
ax.plot(odds, share, "o-", label="expected defaults, with 95 % interval")
ax.axhline(default.mean(), color="k", ls=":", label="in truth, which nobody knows")
ax.set(xscale="log", xticks=odds, xticklabels=[f"{value:.0f}" for value in odds])
ax.set(xlabel="odds ratio of being refused, if one would default", ylabel="share of defaults")
ax.minorticks_off()
ax.legend(loc="lower right")

# %%
# See also
# --------
# :doc:`/evidence`; :doc:`/auto_examples/plot_sensitivity`; :doc:`/guide/estimators`.
