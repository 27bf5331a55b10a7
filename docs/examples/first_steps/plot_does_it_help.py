"""
Does modelling the missingness help?
====================================

`marmix.MARClassifierCV` answers for your rows. It cross-validates candidates that model the missingness and candidates that
ignore it, averages them by how well they predict, and says what the difference is worth, with an interval.

The rows are **simulated**, so that its answers can be compared with the truth.
"""

# %%
# Labels lost by the uncertainty
# ------------------------------
# Two Gaussian classes, ten features; 80 % of the labels are missing, hard rows first. By default about twenty-five candidates are
# compared; we give four, to keep the page quick.

from textwrap import fill

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.metrics import log_loss

from marmix import MARClassifierCV, MARGaussianMixture, MARLogisticRegression
from marmix.datasets import make_mar_mixture
from marmix.plotting import CalibrationDisplay, UncertaintyDisplay

candidates = {
    "Gaussian": MARGaussianMixture(),
    "Gaussian, ignored": MARGaussianMixture(link=None),
    "logistic": MARLogisticRegression(C=0.1),
    "logistic, ignored": MARLogisticRegression(C=0.1, link=None),
}
setting = {"n_features": 10, "separation": 2.0}
rows = make_mar_mixture(1500, rate=0.8, random_state=0, **setting)
clf = MARClassifierCV(estimators=candidates).fit(rows.data, rows.target)
print(fill(clf.verdict_))

# %%
# A careful answer: there is a gain in the estimate, but the labels are too few to be sure. Here are the candidates.
# ``log_loss`` is estimated for all rows; ``plain_log_loss`` is that of the labelled rows, which are the easy ones, and it
# flatters. The last column is the truth, from 20,000 fresh rows with all their labels.

fresh = make_mar_mixture(20_000, rate=0, random_state=1, **setting)


def true_loss(model):
    """Log-loss on fresh rows."""
    return log_loss(fresh.target, model.predict_proba(fresh.data))


table = pd.DataFrame(clf.results_)[
    ["candidate", "mechanism", "weight", "log_loss", "plain_log_loss"]
]
table["truth"] = [true_loss(clf.estimators_[name]) for name in table.candidate]
table.sort_values("log_loss").round(3)

# %%
# The classifier is sure of most labelled rows, and of few others. That is what there is to learn from.

UncertaintyDisplay.from_estimator(clf, rows.data, rows.target)

# %%
# Are the probabilities right? Those of labelled rows are held out by the cross-validation, and the curve is corrected for the
# rows without a label.

CalibrationDisplay.from_predictions(
    rows.target,
    clf.held_out_proba_,
    clf.missing_proba_,
    posterior=clf.reference_proba_,
    n_bins=5,
)

# %%
# More rows, and labels lost at random
# ------------------------------------
# With more rows the intervals become shorter, and so does the gain: with enough labels there is less left for the missing ones to
# tell. Crosses are the true gains, positive in favour of modelling the missingness. They are there in all four files whose hard
# rows lost their labels, yet none of these files proves it. If as many labels are lost by the toss of a coin, there is nothing
# to gain, and next to nothing to lose.

plt.style.use("tableau-colorblind10")
figure, ax = plt.subplots(figsize=(5.8, 3.8), layout="constrained")
sizes = [750, 1500, 3000, 6000]
for i, (name, link) in enumerate(
    {"hard rows lose labels first": "logit", "labels lost by a coin": None}.items()
):
    for n in sizes:
        data = make_mar_mixture(n, rate=0.8, link=link, random_state=0, **setting)
        fit = MARClassifierCV(estimators=candidates).fit(data.data, data.target)
        ignored = {key: model for key, model in candidates.items() if "ignored" in key}
        without = MARClassifierCV(estimators=ignored).fit(data.data, data.target)
        gain, x = fit.comparison_.gain, n * 1.1 ** (2 * i - 1)
        ends = np.abs(np.array(fit.comparison_.interval) - gain)[:, None]
        ax.errorbar(x, gain, ends, fmt="os"[i], color=f"C{i}", capsize=3, label=name)
        ax.plot(x, true_loss(without) - true_loss(fit), "kx", label="in truth")
ax.axhline(0, color="0.5", lw=0.8)
ax.set(xscale="log", xticks=sizes, xticklabels=sizes, xlabel="rows", ylabel="gain in log-loss")
ax.minorticks_off()
handles = dict(zip(*ax.get_legend_handles_labels()[::-1], strict=True))
ax.legend(handles.values(), handles.keys(), loc="upper right")
# sphinx_gallery_thumbnail_number = 3

# %%
# On your own rows, ``print(marmix.report(clf, X, y))`` has the verdict, the scoreboard and the cautions; in a notebook,
# `marmix.report` shows the whole page.
#
# See also
# --------
# :doc:`/guide/choice`; :doc:`/real` and :doc:`/quality` on when it helps, and when not.
