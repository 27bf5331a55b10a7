"""
Known shares: when you know how common a class is
=================================================

Most masses that a radiologist decided are malignant; of all masses it is about half. A model that learns from the labels expects
far too many malignant ones. If you know the share of a class among all rows, from a registry or an earlier study, pass it as
``prior``.
"""

# %%
# Without and with the share
# --------------------------
# `marmix.datasets.load_mammography` has 830 masses, 473 of them without a label; biopsies say what the labels would have been.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import log_loss
from sklearn.preprocessing import StandardScaler

from marmix import MARClassifierCV, MARGaussianMixture, MARLogisticRegression
from marmix.datasets import load_mammography

masses = load_mammography()
X, y = StandardScaler().fit_transform(masses.data), masses.target
truth, missing = masses.target_true, masses.missing
print(f"malignant: {y[~missing].mean():.0%} of the labelled masses, {truth.mean():.0%} of all")


def fit(share=None):
    """Two candidates, averaged, with the share of malignant masses if it is given."""
    candidates = {
        "mixture": MARGaussianMixture(link=None),
        "logistic": MARLogisticRegression(link=None),
    }
    prior = None if share is None else {1: share}
    return MARClassifierCV(estimators=candidates, prior=prior).fit(X, y)


fits = {"labels alone": fit(), "share known: 50 %": fit(0.5)}
for name, clf in fits.items():
    risk = clf.predict_proba(X[missing])[:, 1]
    print(
        f"{name:18} {np.sum((risk > 0.5) != truth[missing]):3d} imputed labels are wrong,"
        f" log-loss {log_loss(truth[missing], risk):.3f}"
    )

# %%
# `MARClassifierCV` shifts the log-odds by a constant until the probabilities add up to the given share. The order of the masses
# hardly changes, but the probabilities do:

plt.style.use("tableau-colorblind10")
figure, ax = plt.subplots(figsize=(5.4, 4), layout="constrained")
for (name, clf), marker in zip(fits.items(), "so", strict=True):
    risk = clf.predict_proba(X[missing])[:, 1]
    groups = np.array_split(np.argsort(risk), 6)
    means = [risk[rows].mean() for rows in groups]
    shares = [truth[missing][rows].mean() for rows in groups]
    ax.plot(means, shares, marker + "-", label=name)
ax.plot([0, 1], [0, 1], "k:", lw=1)
ax.set(xlabel="predicted probability of malignant", ylabel="share that is malignant")
ax.legend(loc="upper left", frameon=False)

# %%
# And if the share is wrong?
# --------------------------
# Try the ends of what you believe. Even a rough figure is far better than none.

for share in (0.4, 0.45, 0.5, 0.55, 0.6):
    risk = fit(share).predict_proba(X[missing])[:, 1]
    print(
        f"{share:.0%} malignant: {np.sum((risk > 0.5) != truth[missing]):3d} imputed labels are wrong,"
        f" log-loss {log_loss(truth[missing], risk):.3f}"
    )

# %%
# See also
# --------
# :doc:`/guide/estimators`, and ``marmix fit --prevalence``.
