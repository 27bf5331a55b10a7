"""
Screening: when you know how common the disease is
==================================================

Sick people were looked for, so a third of the labels are positive where 3 % of the people are. Every model then expects far
too many cases. If you know the prevalence from a registry, pass it as ``prior``.

The people are **simulated**, so that we can check the probabilities against the truth.
"""

# %%
# Enriched labels
# ---------------
# Of 3000 people 60 have been tested: 20 sick ones and 40 healthy ones.

from textwrap import fill

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import log_loss

from marmix import MARClassifierCV, MARGaussianMixture, MARLogisticRegression
from marmix.datasets import make_mar_mixture

people = make_mar_mixture(
    3000,
    n_features=3,
    distribution=("gaussian", {"separation": 2.5}),
    weights=[0.97, 0.03],
    rate=0,
    random_state=0,
)
X, sick = people.data, people.target_true == 1
tested = np.concatenate([np.flatnonzero(sick)[:20], np.flatnonzero(~sick)[:40]])
y = np.full(3000, None)
y[tested] = np.where(sick[tested], "sick", "healthy")
print(f"{np.mean(sick[tested]):.0%} of the tested people are sick, {np.mean(sick):.1%} of all")

# %%
# Without and with the prevalence
# -------------------------------
# `MARClassifierCV` shifts the log-odds of each candidate by a constant until the shares agree. The order of the people hardly
# changes, but their probabilities do.

candidates = {
    "mixture": MARGaussianMixture(link=None),
    "logistic": MARLogisticRegression(link=None),
}
fits = {
    "as labelled": MARClassifierCV(estimators=candidates).fit(X, y),
    "prevalence known": MARClassifierCV(estimators=candidates, prior={"sick": 0.03}).fit(X, y),
}
rest = np.setdiff1d(np.arange(3000), tested)
print(f"in truth           {sick[rest].sum():4d} of the untested are sick")
for name, clf in fits.items():
    risk = clf.predict_proba(X[rest])[:, 1]
    print(
        f"{name:17} {risk.sum():5.0f} expected, {np.sum(risk > 0.5):3d} called sick,", end=" "
    )
    print(
        f"of whom {np.mean(sick[rest][risk > 0.5]):.0%} are; log-loss {log_loss(sick[rest], risk):.3f}"
    )

# %%
# The fit notices that something is odd, although it cannot know what:

print(fill(fits["as labelled"].notes_[0], 110))

# %%
# Are the probabilities right?
# ----------------------------
# Untested people in groups of similar risk: mean probability against the share who are sick. On the line they agree.

plt.style.use("tableau-colorblind10")
figure, ax = plt.subplots(figsize=(5.4, 4), layout="constrained")
for (name, clf), marker in zip(fits.items(), "so", strict=True):
    risk = clf.predict_proba(X[rest])[:, 1]
    groups = np.split(np.argsort(risk), [1500, 2200, 2600, 2800, 2900])
    means, shares = zip(*((risk[i].mean(), sick[rest][i].mean()) for i in groups), strict=True)
    ax.plot(means, shares, marker + "-", label=name)
ax.plot([1e-3, 1], [1e-3, 1], "k:", lw=1)
ax.set(xscale="log", yscale="log", xlim=(3e-4, 1), ylim=(3e-4, 1))
ax.set(xlabel="predicted probability", ylabel="share who are sick")
ax.legend(loc="upper left")

# %%
# And if the prevalence is wrong?
# -------------------------------
# A registry may be out of date, so try the ends of its range. Even a rough figure is far better than none.

for prior in (0.01, 0.02, 0.03, 0.045, 0.06):
    clf = MARClassifierCV(estimators=candidates, prior={"sick": prior}).fit(X, y)
    print(
        f"prevalence {prior:5.1%}: log-loss {log_loss(sick[rest], clf.predict_proba(X[rest])[:, 1]):.3f}"
    )

# %%
# See also
# --------
# :doc:`/guide/estimators`, and ``marmix fit --prevalence``.
