"""Without data: how well one could classify, what missing labels cost, and what modelling the mechanism gives back."""

from marmix.theory.budget import LabelBudget, label_budget
from marmix.theory.description import GaussianClasses
from marmix.theory.efficiency import (
    Efficiencies,
    bayes_error,
    excess_risk,
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
