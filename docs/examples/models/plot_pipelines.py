"""
Tune a scikit-learn pipeline when labels are missing
====================================================

Pipelines, column transformers and grid searches of scikit-learn work with missing labels as they are. Two things need care: how
rows are split, and on which rows a score is computed. This example tunes a penalty twice, by the score of the labelled rows and
by an estimate for all rows, and compares both with the truth.
"""

# %%
# A pipeline for columns of two kinds
# -----------------------------------
# The rows are scikit-learn's tumours with two thirds of the diagnoses hidden, hard cases first
# (`marmix.datasets.load_tumours`). Measurements of size get splines; the others are only standardised.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import SplineTransformer, StandardScaler

from marmix import LabelledRows, MARLogisticRegression
from marmix.datasets import load_tumours
from marmix.evaluation import StratifiedPartialLabelKFold, population_scorer

tumours = load_tumours(as_frame=True)
X, y, truth = tumours.data, tumours.target, tumours.target_true
lost = tumours.missing.to_numpy()
size = ["radius", "texture"]
model = make_pipeline(
    make_column_transformer(
        (make_pipeline(StandardScaler(), SplineTransformer(5)), size),
        (StandardScaler(), [name for name in X if name not in size]),
    ),
    MARLogisticRegression(),
)

# %%
# A grid search with two scorers
# ------------------------------
# `marmix.evaluation.StratifiedPartialLabelKFold` keeps unlabelled rows in every training set and tests on labelled ones.
# `marmix.evaluation.population_scorer` weights these so that they stand for all rows; ``"neg_log_loss"`` is scikit-learn's own.

grid = {
    "marlogisticregression__C": np.logspace(-2, 3, 6),
    "marlogisticregression__mechanism_weight": [0.0, 1.0],
}
folds = StratifiedPartialLabelKFold(5, shuffle=True, random_state=0)
scorers = {"all rows (marmix)": population_scorer("log_loss"), "labelled rows": "neg_log_loss"}
search = GridSearchCV(model, grid, scoring=scorers, refit="all rows (marmix)", cv=folds).fit(
    X, y
)
results = pd.DataFrame(search.cv_results_)

# %%
# What would have been right? We know the hidden labels. The loss on all rows is that of the hidden labels, by a fit to all rows,
# and the cross-validated one of the labelled rows, each by its share.


def true_loss(clf, of_labelled):
    """The log-loss on all rows, given that of the labelled ones."""
    of_hidden = log_loss(truth[lost], clf.fit(X, y).predict_proba(X[lost]))
    return np.mean(lost) * of_hidden + np.mean(~lost) * of_labelled


results["truth"] = [
    true_loss(model.set_params(**setting), -score)
    for setting, score in zip(results.params, results["mean_test_labelled rows"], strict=True)
]
for name in scorers:
    best = results[f"mean_test_{name}"].idxmax()
    C, weight = results.params[best].values()
    claim = -results[f"mean_test_{name}"][best]
    print(
        f"by {name:18} C = {C:g}, weight {weight:g}: log-loss {claim:.3f}, in truth {results.truth[best]:.3f}"
    )
print(f"the best in hindsight: {results.truth.min():.3f}")

# %%
# The labelled rows are easy, so their loss is far too small. They also see no use for the mechanism (weight 0), since it pays off
# in other rows. The estimate for all rows is nearer, but still too small: few hard rows have labels.

plt.style.use("tableau-colorblind10")
figure, ax = plt.subplots(figsize=(5.8, 4), layout="constrained")
one = results[results.param_marlogisticregression__mechanism_weight == 1.0]
C = one.param_marlogisticregression__C
ax.plot(C, one.truth, "k^:", label="all rows, in truth")
ax.plot(
    C,
    -one["mean_test_all rows (marmix)"],
    "C0o-",
    label="all rows, estimated (population_scorer)",
)
ax.plot(C, -one["mean_test_labelled rows"], "C1s--", label="labelled rows (neg_log_loss)")
ax.set(xscale="log", xlabel="C (inverse penalty)", ylabel="log-loss", ylim=(0, None))
ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False)

# %%
# A fair rival
# ------------
# Any classifier can be compared: `marmix.LabelledRows` fits it to the labelled rows, and the scorer takes the probabilities of a
# missing label from our model for both.

scorer = population_scorer("log_loss", missingness=search.best_estimator_)
forest = LabelledRows(RandomForestClassifier(100, min_samples_leaf=3, random_state=0))
for name, clf in {"tuned pipeline": search.best_estimator_, "random forest": forest}.items():
    of_labelled = -cross_val_score(clf, X, y, cv=folds, scoring="neg_log_loss").mean()
    estimate = -cross_val_score(clf, X, y, cv=folds, scoring=scorer).mean()
    print(
        f"{name:15} labelled rows {of_labelled:.3f}, all rows {estimate:.3f}, in truth {true_loss(clf, of_labelled):.3f}"
    )

# %%
# See also
# --------
# :doc:`/guide/pipelines`: calibration, stacking and voting with `marmix.WithUnlabelled`, and a table of what works.
