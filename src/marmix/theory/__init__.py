"""Theory without data: Bayes error, the cost of missing labels, and the value of modelling the mechanism."""

from marmix.theory.description import GaussianClasses
from marmix.theory.efficiency import (
    Efficiencies,
    LabelBudget,
    bayes_error,
    excess_risk,
    label_budget,
    mechanism_at_rate,
    missing_rate,
    relative_efficiency,
    unlabelled_efficiency,
)
from marmix.theory.rules import Computed

__all__ = [
    "Computed",
    "Efficiencies",
    "GaussianClasses",
    "LabelBudget",
    "bayes_error",
    "excess_risk",
    "label_budget",
    "mechanism_at_rate",
    "missing_rate",
    "relative_efficiency",
    "unlabelled_efficiency",
]
