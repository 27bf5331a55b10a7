"""Usual classifiers, tuned on labelled rows by their log-loss in 5 stratified folds (fewer if a class has fewer labels).

Logistic regression (standardised features, 9 values of C), random forest (500 trees, half a tree added to every class,
`min_samples_leaf` by out-of-bag rows), LightGBM (4 settings, rounds by early stopping) and HistGradientBoosting (rounds).
"""

import numpy as np
from common.rows import smoothed
from common.tables import log_losses
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

TUNED = ("logistic", "random forest", "LightGBM", "HistGradientBoosting")
SAMPLED = {"colsample_bytree": 0.5, "subsample": 0.7, "subsample_freq": 1}  # columns and rows of a tree
LIGHTGBM_GRID = (
    {"num_leaves": 4, "min_child_samples": 20},
    {"num_leaves": 4, "min_child_samples": 5, **SAMPLED},
    {"num_leaves": 8, "min_child_samples": 20, "colsample_bytree": 0.5},
    {"num_leaves": 16, "min_child_samples": 10, "reg_lambda": 5.0, **SAMPLED},
)
LIGHTGBM = {
    "learning_rate": 0.05, "n_jobs": 1, "verbosity": -1, "deterministic": True, "force_col_wise": True, "seed": 0,
}  # fmt: skip


class Forest(RandomForestClassifier):
    """A random forest whose probabilities are never exactly zero."""

    def predict_proba(self, X):
        return smoothed(super().predict_proba(X), len(self.estimators_))


def scaled(estimator):
    """A pipeline that standardises the features."""
    return make_pipeline(StandardScaler(), estimator)


def folds_of(y):
    """Five stratified folds, fewer if a class has fewer labels."""
    return StratifiedKFold(min(5, int(np.bincount(y).min())), shuffle=True, random_state=0)


def build(method, settings):
    """A rival with its settings."""
    if method == "logistic":
        return scaled(LogisticRegression(max_iter=2000, **settings))
    if method == "random forest":
        return Forest(**({"n_estimators": 500, "random_state": 0} | settings))
    if method == "HistGradientBoosting":
        return HistGradientBoostingClassifier(early_stopping=False, max_leaf_nodes=15, random_state=0, **settings)
    from lightgbm import LGBMClassifier

    return LGBMClassifier(**settings, **LIGHTGBM)


def tune(method, X, y):
    """The settings of a rival with the lowest cross-validated log-loss, and that loss."""
    tuners = dict(zip(TUNED, (tune_logistic, tune_forest, tune_lightgbm, tune_boosting), strict=True))
    return tuners[method](X, y)


def tune_logistic(X, y):
    grid = {"logisticregression__C": np.logspace(-3, 2, 9)}
    search = GridSearchCV(build("logistic", {}), grid, scoring="neg_log_loss", cv=folds_of(y), refit=False).fit(X, y)
    return {"C": float(search.best_params_["logisticregression__C"])}, -search.best_score_


def tune_forest(X, y):
    losses = {}
    for leaf in (1, 3, 10):
        forest = build("random forest", {"min_samples_leaf": leaf, "n_estimators": 200, "oob_score": True}).fit(X, y)
        losses[leaf] = log_losses(y, smoothed(forest.oob_decision_function_, 0.37 * 200)).mean()
    leaf = min(losses, key=losses.get)
    return {"min_samples_leaf": leaf}, losses[leaf]


def tune_boosting(X, y):
    curves = []
    for train, test in folds_of(y).split(X, y):
        model = build("HistGradientBoosting", {"max_iter": 100}).fit(X[train], y[train])
        curves.append([log_losses(y[test], p).mean() for p in model.staged_predict_proba(X[test])])
    curve = np.mean(curves, axis=0)
    return {"max_iter": int(curve.argmin()) + 1}, curve.min()


def tune_lightgbm(X, y):
    import lightgbm

    folds, classes = list(folds_of(y).split(X, y)), int(y.max()) + 1
    loss = {"objective": "binary"} if classes == 2 else {"objective": "multiclass", "num_class": classes}
    best = ({}, np.inf)
    for settings in LIGHTGBM_GRID:
        stop = lightgbm.early_stopping(25, verbose=False)
        curves = lightgbm.cv(LIGHTGBM | loss | settings, lightgbm.Dataset(X, y), 600, folds=folds, callbacks=[stop])
        curve = next(values for name, values in curves.items() if name.endswith("-mean"))
        if min(curve) < best[1]:
            best = (settings | {"n_estimators": int(np.argmin(curve)) + 1}, min(curve))
    return best
