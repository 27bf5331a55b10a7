r"""Theory without data: the Bayes error, the cost of missing labels, and the value of modelling the mechanism.

The plug-in rule assigns a row to the class that is most probable under the estimated parameters. If these are estimated
by maximum likelihood from n rows, its risk R exceeds the Bayes risk R* by

.. math::

    E R - R^* = \frac{c}{2 n} + o(1 / n), \qquad c = \mathrm{tr}(D V),

where D is the curvature of the risk in the parameters and V the inverse of the information in a row. Missing labels
enter through V alone, so ratios of the coefficients c are ratios of numbers of rows: an analysis with twice the
coefficient needs twice the rows. `excess_risk` computes c, `relative_efficiency` compares ways of labelling, and
`label_budget` turns the comparison into a number of labels. They take a fitted `MARGaussianMixture`, or
`GaussianClasses` with parameters of your choice.
"""

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
