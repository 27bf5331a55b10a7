"""
Votes: keep what your annotators said
=====================================

Seven readers look at each case, and the file has the label of the majority, or none if they disagree too much. Then the hard
cases lack their labels. This example compares three fits: to the labels, to the labels with their missingness modelled, and to
the votes themselves.

Cases and readers are **simulated**: two Gaussian classes, and readers who vote at random with the probability that an expert
would assign to each class.
"""

# %%
# Cases and votes
# ---------------
# `marmix.votes` counts the labels of several annotators. A label is kept if at least six of the seven agree.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.metrics import log_loss

import marmix
from marmix import MARGaussianMixture
from marmix.datasets import make_mar_mixture

names = np.array(["benign", "malignant"])


def read(seed, n=150):
    """Features, the votes of seven readers as a table, and the true classes."""
    rows = make_mar_mixture(n, n_features=4, rate=0, random_state=seed)
    draws = np.random.default_rng([seed, 1]).uniform(size=(n, 7)) < rows.posterior[:, 1:]
    votes = pd.DataFrame(names[draws.astype(int)], columns=[f"reader {i}" for i in range(1, 8)])
    return rows.data, votes, rows.target_true


X, readers, _ = read(0)
counts, classes = marmix.votes(readers)
agreed = counts.max(axis=1) >= 6
y = np.where(agreed, classes[counts.argmax(axis=1)], None)
print(readers.assign(label=y).iloc[:4, [0, 1, 2, 6, 7]])
print(f"{np.mean(~agreed):.0%} of the cases have no label")

# %%
# Where the readers disagree, the fitted model is unsure as well.

clf = MARGaussianMixture(classes=classes).fit(X, counts)
p, share = clf.predict_proba(X)[:, 1], counts[:, 1] / 7

plt.style.use("tableau-colorblind10")
figure, ax = plt.subplots(figsize=(5.6, 3.6), layout="constrained")
jitter = np.random.default_rng(0).uniform(-0.25, 0.25, len(p)) / 7
ax.plot(p[agreed], (share + jitter)[agreed], "o", ms=4, label="label kept")
ax.plot(
    p[~agreed],
    (share + jitter)[~agreed],
    "s",
    ms=4,
    mfc="none",
    label="no label: fewer than six agree",
)
ax.set(xlabel="fitted probability of malignant", ylabel="share of votes for malignant")
ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, frameon=False)

# %%
# What the votes are worth
# ------------------------
# Log-loss on 20,000 fresh cases with known classes, for thirty such files. The last fit, which nobody can make, knows the true
# class of every case. The votes beat even that: a divided vote tells how hard a case is, and a class does not.

fresh = make_mar_mixture(20_000, n_features=4, rate=0, random_state=1000)
losses = []
for seed in range(30):
    X, readers, truth = read(seed)
    counts, _ = marmix.votes(readers)
    labels = np.where(counts.max(axis=1) >= 6, counts.argmax(axis=1), -1)
    fits = {
        "labels": MARGaussianMixture(link=None).fit(X, labels),
        "labels and why\nthey are missing": MARGaussianMixture().fit(X, labels),
        "votes": MARGaussianMixture().fit(X, counts),
        "true classes\n(nobody has them)": MARGaussianMixture(link=None).fit(X, truth),
    }
    losses.append(
        [log_loss(fresh.target_true, fit.predict_proba(fresh.data)) for fit in fits.values()]
    )
losses = np.array(losses)
for name, mean, error in zip(
    fits, losses.mean(axis=0), losses.std(axis=0) / np.sqrt(30), strict=True
):
    print(f"{' '.join(name.split()):35} {mean:.4f} ± {error:.4f}")

# %%
figure, ax = plt.subplots(figsize=(5.6, 3.4), layout="constrained")
ax.boxplot(losses, tick_labels=list(fits), widths=0.5, medianprops={"color": "C1", "lw": 2})
best = log_loss(fresh.target_true, fresh.posterior)
ax.axhline(best, color="k", ls=":", lw=1)
ax.annotate(" best\n possible", (4.5, best), va="center", annotation_clip=False)
ax.set_ylabel("log-loss on fresh cases")
# sphinx_gallery_thumbnail_number = 2

# %%
# These readers are as good as readers can be. With biased readers the gain is smaller; if readers know more than the features
# show, votes are slightly worse than labels (:doc:`/evidence`).
#
# See also
# --------
# :doc:`/guide/estimators`, in Python and with ``marmix fit --votes``.
