"""Evaluation when labels are missing: scores, cross-validation, the joint table of a file, conformal sets."""

from marmix.evaluation.scores import (
    PartialLabelKFold,
    Score,
    StratifiedPartialLabelKFold,
    accuracy,
    brier,
    log_loss,
    missingness_check,
    population_scorer,
    roc_auc,
)

__all__ = [
    "PartialLabelKFold",
    "Score",
    "StratifiedPartialLabelKFold",
    "accuracy",
    "brier",
    "log_loss",
    "missingness_check",
    "population_scorer",
    "roc_auc",
]
