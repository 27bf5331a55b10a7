r"""Scores, cross-validation and conformal sets when labelled rows are not representative.

If the labels of hard rows are missing, a score over the labelled rows is optimistic. Let :math:`q_j` be the probability
that the label of row j is missing, :math:`m_j` be 1 if it is and 0 otherwise, and :math:`w_j = 1 / (1 - q_j)`. The loss
on the whole population can then be estimated for any classifier, from its probabilities :math:`p_j`. The *weighted*
estimate is

.. math::

    \frac{\sum_j (1 - m_j)\, w_j\, l(y_j, p_j)}{\sum_j (1 - m_j)\, w_j},

and the *doubly robust* one, with the posteriors :math:`\tau_j` of a model, is

.. math::

    \frac{1}{n} \sum_j \left[ l^{\tau}_j + (1 - m_j)\, w_j\, (l(y_j, p_j) - l^{\tau}_j) \right], \qquad
    l^{\tau}_j = \sum_k \tau_{jk}\, l(k, p_j).

The first is consistent if q is right, the second if q or tau is. Both are means of the losses l(k, p_j) with weights
r_jk, the *pseudo-labels*

.. math::

    r_{jk} = w_j\, y_{jk} \quad \text{and} \quad r_{jk} = \tau_{jk} + (1 - m_j)\, w_j\, (y_{jk} - \tau_{jk}),

where y_jk is 1 if k is the label of row j, otherwise 0; if y has votes, with a column for each class, it is the share
of class k in the votes for row j, and a row of zeros or NaN has no label. The standard errors of both take q and tau as
known, which is far too optimistic where hardly any hard row has a label.

The *imputed* estimate, which `MARClassifierCV` uses for its scores, is

.. math::

    \frac{1}{n} \sum_j \left[ (1 - m_j)\, l(y_j, p_j) + m_j\, l^{\tau}_j \right].

Its tau is an `UncertainPosterior`, so its standard error says how far tau may be off. The square of this error is the
sum of the squared error of the doubly robust estimate and of the squared changes of the estimate as tau moves by one
standard deviation in each way in which it may be off.

Weights are truncated at ``sqrt(n_labelled)`` times ``n / n_labelled``, which is their mean if q is right (Ionides'
rule): the bias vanishes as rows are added, and the variance stays finite. `Score.n_effective`, ``(sum w)^2 / sum w^2``,
is the number of equally weighted rows with the same variance.
"""

from marmix.evaluation.conformal import conformal_sets
from marmix.evaluation.folds import PartialLabelKFold, StratifiedPartialLabelKFold
from marmix.evaluation.missingness import MissingnessCheck, missingness_check
from marmix.evaluation.scorer import population_scorer
from marmix.evaluation.scores import Score, accuracy, brier, log_loss, roc_auc

__all__ = [
    "MissingnessCheck",
    "PartialLabelKFold",
    "Score",
    "StratifiedPartialLabelKFold",
    "accuracy",
    "brier",
    "conformal_sets",
    "log_loss",
    "missingness_check",
    "population_scorer",
    "roc_auc",
]
