"""
Six estimators, one picture
===========================

Which estimator should you take? Six of them are fitted to the same tumours, two measurements each: what boundaries do they draw,
how sure are they, and how right are they about tumours without a diagnosis?
"""

# %%
# The rows are scikit-learn's breast-cancer data. `marmix.datasets.load_tumours` hides two thirds of the diagnoses, hard cases
# first, so that we can score the hidden ones.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from marmix import (
    MARBoostingClassifier,
    MARGaussianMixture,
    MARKernelClassifier,
    MARLogisticRegression,
    MARStudentMixture,
)
from marmix.datasets import load_tumours

tumours = load_tumours()
X, y, truth, lost = (
    np.log(tumours.data[:, :2]),
    tumours.target,
    tumours.target_true,
    tumours.missing,
)


def estimators(**options):
    """The six estimators, by name."""
    return {
        "Gaussian, tied": MARGaussianMixture(**options),
        "Gaussian, full": MARGaussianMixture(covariance_type="full", **options),
        "Student, tied": MARStudentMixture(**options),
        "logistic": MARLogisticRegression(**options),
        "kernel": MARKernelClassifier(**options),
        "boosting": MARBoostingClassifier(n_jobs=1, **options),
    }


# %%
# Two fits of each: with the mechanism, as by default, and without it (``link=None``). The loss is that of the hidden labels.

fits, losses = {}, {}
for name, clf in estimators().items():
    fits[name] = make_pipeline(StandardScaler(), clf).fit(X, y)
    ignored = make_pipeline(StandardScaler(), estimators(link=None)[name]).fit(X, y)
    losses[name] = [
        log_loss(truth[lost], fit.predict_proba(X[lost])) for fit in (fits[name], ignored)
    ]
    print(
        f"{name:15} log-loss with the mechanism {losses[name][0]:.3f}, without {losses[name][1]:.3f}"
    )

# %%
# The boundaries of the fits with the mechanism. The shade is the probability of malignant: a wide pale band means an estimator
# that knows what it does not know. Filled points have a diagnosis, hollow ones do not, and their colour is the truth.

grid = np.meshgrid(*(np.linspace(x.min() - 0.1, x.max() + 0.1, 120) for x in X.T))
figure, axes = plt.subplots(
    2, 3, figsize=(8.4, 5.6), sharex=True, sharey=True, layout="constrained"
)
for ax, (name, clf) in zip(axes.flat, fits.items(), strict=True):
    risk = clf.predict_proba(np.column_stack([g.ravel() for g in grid]))[:, 1].reshape(
        grid[0].shape
    )
    shade = ax.contourf(*grid, risk, levels=np.linspace(0, 1, 11), cmap="PuOr_r", alpha=0.6)
    ax.contour(*grid, risk, levels=[0.5], colors="k", linewidths=1.2)
    for k, colour in enumerate(("#542788", "#b35806")):
        ax.plot(
            *X[lost & (truth == k)].T, "o", ms=3, mfc="none", mec=colour, mew=0.6, alpha=0.7
        )
        ax.plot(*X[~lost & (truth == k)].T, "o", ms=3, color=colour)
    ax.set_title(f"{name}, log-loss {losses[name][0]:.3f}", fontsize=10)
figure.supxlabel("log radius")
figure.supylabel("log texture")
figure.colorbar(shade, ax=axes, label="probability of malignant", shrink=0.7)

# %%
# With two features and a boundary that is nearly straight, the simple estimators are as good as any, and the mechanism makes
# little difference: better for four of the six, worse for two. Boosting draws steps where others draw lines; it is for tables
# with many features, empty cells and categories. If you do not know which to take, `marmix.MARClassifierCV` compares and
# averages them.
#
# See also
# --------
# :doc:`/guide/estimators`.
