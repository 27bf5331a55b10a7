"""
Sensitivity: what if the class itself decides?
==============================================

Every model here assumes that, among rows that look alike, each class loses its labels equally often. A sensitivity analysis
says what follows if this is wrong, and how wrong it would have to be before your conclusion changes.
"""

# %%
# What share of the masses is malignant?
# --------------------------------------
# A radiologist left 473 of 830 masses open. Of the others most are malignant.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.preprocessing import StandardScaler

from marmix import MARGaussianMixture
from marmix.datasets import load_mammography

masses = load_mammography(as_frame=True)
y = masses.target.map({0: "benign", 1: "malignant"})  # NaN where he left it open
X = StandardScaler().set_output(transform="pandas").fit_transform(masses.data)
clf = MARGaussianMixture().fit(X, y)
print(f"malignant: {np.mean(y.dropna() == 'malignant'):.0%} of the labelled masses")
now = np.sum(y == "malignant") + clf.predict_proba(X[y.isna()])[:, 1].sum()
print(f"malignant: {now / len(y):.0%} of all masses, by the model")

# %%
# Vary the assumption
# -------------------
# An odds ratio of 1/4 means: of masses that look alike, the malignant ones are a quarter as likely to be left open. That is
# plausible: a radiologist is quick to decide what worries him. The figure can show the truth, because biopsies found it.

ratios = np.array([1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1, 2])
sweep = clf.sensitivity(X, y, delta=np.log(ratios), label="malignant")

plt.style.use("tableau-colorblind10")
figure, ax = plt.subplots(figsize=(6.2, 3.6), layout="constrained")
share, interval = sweep.shares[:, 1], sweep.shares_interval[:, 1]
ax.fill_between(ratios, *interval.T, alpha=0.2)
ax.plot(ratios, share, "o-", label="malignant, with 95 % interval")
ax.axhline(masses.target_true.mean(), color="k", ls=":", label="in truth, by biopsies")
ax.set(xscale="log", xticks=ratios, ylabel="share of all masses")
ax.set_xticklabels([f"1/{1 / r:.0f}" if r < 1 else f"{r:.0f}" for r in ratios])
ax.set_xlabel("odds ratio of being left open, malignant against benign")
ax.minorticks_off()
ax.legend(loc="upper left", frameon=False)

# %%
# The interval first holds the truth at an odds ratio of 1/16.
#
# In words, the odds ratios at which something else would follow:

print(*sweep.tipping_words(), sep="\n")

# %%
# Another share follows at 0.58 already, so a report of this study should say that it rests on the assumption.
#
# Can the file tell the odds ratio?
# ---------------------------------
# Only through the assumed shape of the classes. Here the test is right:

print(clf.inference(X, y).test_label_term())

# %%
# With other data it finds odds ratios that are not there (:doc:`/evidence`). Twenty rows that you label can tell:
# :doc:`/auto_examples/plot_audit`.
#
# See also
# --------
# :doc:`/guide/inference`; :doc:`/auto_examples/plot_credit`.
