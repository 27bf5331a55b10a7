"""Scores of class probabilities: as the paper computes them, and as they should be computed."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.calibration import calibration_curve
from sklearn.metrics import (
    accuracy_score,
    brier_score_loss,
    f1_score,
    log_loss,
    precision_score,
    recall_score,
    roc_auc_score,
    roc_curve,
)

Labels = NDArray[Any]

_COMMON = {"auc": "AUC", "log_loss": "LogLoss", "brier": "Brier"}
METRICS = _COMMON | {"calibration": "calibration error", "accuracy": "accuracy"}
PUBLISHED = _COMMON | {"precision": "precision", "recall": "recall", "f1": "F1"}
FALSE_POSITIVES = np.linspace(0.0, 1.0, 51)
SMALLEST = 1e-6  # probability in a log-loss: a single 0 would make it infinite


def scores(truth, proba, ranking=None):
    """Scores of probabilities (n, K) for labels 0, ..., K - 1.

    With two classes the AUC is that of `ranking` if given, for instance log-odds, which still order rows whose probabilities
    round to 1. Probabilities are clipped at `SMALLEST` in the log-loss only. The calibration error is the mean absolute
    difference between accuracy and mean confidence over ten groups of rows by their largest probability.
    """
    p = np.minimum(proba, 1.0)  # a weighted mean of ones may be above one by rounding
    bounded = np.maximum(p, SMALLEST)
    bounded /= bounded.sum(axis=1, keepdims=True)
    classes = np.arange(p.shape[1])
    hot = (truth[:, None] == classes).astype(float)
    binary = len(classes) == 2
    order = p[:, 1] if ranking is None else ranking
    best = p.argmax(axis=1)
    right, expected = calibration_curve((best == truth).astype(int), p.max(axis=1), n_bins=10, strategy="quantile")
    return {
        "auc": float(roc_auc_score(truth, order) if binary else roc_auc_score(truth, p, multi_class="ovr")),
        "log_loss": float(log_loss(truth, bounded, labels=classes)),
        "brier": float(np.mean(((p - hot) ** 2).sum(axis=1))) / (2.0 if binary else 1.0),
        "calibration": float(np.mean(np.abs(right - expected))),
        "accuracy": float(accuracy_score(truth, best)),
    }


def published_scores(positive, p):
    """Scores of the paper's tables, computed as its scripts do.

    The ROC routine chooses the direction that gives an AUC above one half, and the threshold with the largest Youden index in
    that direction; a row then counts as positive if p is *above* the threshold, whatever the direction. With classes swapped
    the AUC therefore looks right, but precision, recall, log-loss and Brier score do not. `turned` is 1 if the routine
    reversed the direction.
    """
    turned = roc_auc_score(positive, p) < 0.5
    ranked = -p if turned else p
    false, true, thresholds = roc_curve(positive, ranked, drop_intermediate=False)
    above = ranked >= thresholds[np.argmax(true - false)]
    predicted = ~above if turned else above
    return {
        "turned": float(turned),
        "auc": float(roc_auc_score(positive, ranked)),
        "log_loss": float(log_loss(positive, p)),
        "brier": float(brier_score_loss(positive, p)),
        "precision": float(precision_score(positive, predicted, zero_division=0.0)),
        "recall": float(recall_score(positive, predicted)),
        "f1": float(f1_score(positive, predicted)),
    }


def roc(positive, p):
    """True positive rates at `FALSE_POSITIVES`."""
    false, true, _ = roc_curve(positive, p)
    return np.interp(FALSE_POSITIVES, false, true)


def at_thresholds(positive, p, thresholds):
    """Precision, recall and accuracy if rows with p of at least the threshold count as positive, by name and threshold."""
    results = {}
    for t in thresholds:
        predicted = p >= t
        hits, called = np.sum(predicted & positive), np.sum(predicted)
        results["precision", t] = float(hits / called) if called else np.nan
        results["recall", t] = float(hits / positive.sum())
        results["accuracy", t] = float(np.mean(predicted == positive))
    return results
