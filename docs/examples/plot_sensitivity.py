"""
What if labels are missing because of the label?
================================================

Every model here assumes that, among rows that look alike, each class loses its labels equally often. The data can hint that
this is wrong, but cannot prove that it is right. A sensitivity analysis turns the doubt into numbers: how much would have to
be wrong before the conclusion changes?
"""

# %%
# A conclusion that holds
# -----------------------
# Of 569 real tumours 375 have no diagnosis (`marmix.datasets.load_tumours`), and we report the share of malignant ones. Could
# it be off because malignant tumours lose their diagnosis more often than benign ones with the same measurements?

import matplotlib.pyplot as plt
import numpy as np

from marmix import MARGaussianMixture
from marmix.datasets import load_tumours, make_mar_mixture
from marmix.plotting import SensitivityDisplay

tumours = load_tumours(as_frame=True)
X, y = np.log(tumours.data), tumours.target.map({0: "benign", 1: "malignant"})
clf = MARGaussianMixture().fit(X, y)
sweep = clf.sensitivity(X, y, label="malignant")
SensitivityDisplay.from_sensitivity(sweep)

# %%
# In words, the odds ratios at which something else would follow:

print(*sweep.tipping_words(), sep="\n")
print(f"(These labels were hidden, so we know the share: {tumours.target_true.mean():.1%}.)")

# %%
# Malignant tumours would have to lose their diagnosis almost three times as readily as benign ones that look the same. If that
# is absurd in your clinic, the conclusion stands.
#
# A conclusion that does not
# --------------------------
# A **simulated** survey: 30 % of the people have a trait, and those who have it are four times as likely not to answer.

people = make_mar_mixture(
    1500,
    n_features=4,
    distribution=("gaussian", {"separation": 2.5}),
    weights=[0.7, 0.3],
    rate=0,
    random_state=0,
)
X, trait = people.data, people.target_true
odds = np.where(trait == 1, 4.0, 1.0)
silent = np.random.default_rng(1).uniform(size=1500) < odds / (1 + odds)
y = np.where(silent, -1, trait)
clf = MARGaussianMixture().fit(X, y)
print(
    f"share with the trait: {np.mean(trait[~silent]):.1%} of the answers, {np.mean(trait):.1%} in truth"
)

# %%
# Does anything in the data warn us? Here it does. The test relies on the classes being Gaussian, as it says.

print(clf.inference(X, y).test_label_term())

# %%
# The share under each assumption, with its 95 % interval. At an odds ratio of one, where every model starts, the interval
# misses the truth; at the true ratio of four it holds it. ``delta="estimate"`` estimates the ratio instead, which again
# relies on the shape of the classes.

ratios = np.array([0.5, 1, 2, 4, 8])
sweep = clf.sensitivity(X, y, delta=np.log(ratios), label=1)
estimated = MARGaussianMixture(delta="estimate").fit(X, y)

plt.style.use("tableau-colorblind10")
figure, ax = plt.subplots(figsize=(5.8, 3.6), layout="constrained")
share, interval = sweep.shares[:, 1], sweep.shares_interval[:, 1]
ax.errorbar(
    ratios, share, np.abs(interval.T - share), fmt="o", capsize=3, label="assumed odds ratio"
)
ax.plot(
    np.exp(estimated.delta_[1]), estimated.class_prior_[1], "D", label="estimated odds ratio"
)
ax.axhline(trait.mean(), color="k", ls=":", label="truth")
ax.axhline(trait[~silent].mean(), color="0.5", ls="--", label="among the answers")
ax.set(xscale="log", xticks=ratios, xticklabels=[f"{ratio:g}" for ratio in ratios])
ax.set(
    xlabel="odds ratio of not answering, with the trait against without",
    ylabel="share with the trait",
    ylim=(0.1, 0.42),
)
ax.minorticks_off()
ax.legend(loc="upper left", ncols=2)
# sphinx_gallery_thumbnail_number = 2

# %%
# See also
# --------
# :doc:`/guide/inference`; :doc:`/evidence` on how well odds ratios can be estimated, and when not.
