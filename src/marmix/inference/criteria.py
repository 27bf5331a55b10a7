"""Information criteria, and a table that compares fits by them.

With L the maximised log-likelihood, p the number of parameters, n the total weight of the rows and H the summed entropy of the
posteriors of the unlabelled rows:

    AIC = 2 p - 2 L,    BIC = p log n - 2 L,    ICL = BIC + 2 H

Smaller is better. ICL is the BIC of the likelihood with the imputed labels in it: it also favours well-separated classes.
"""

from typing import Any, NamedTuple

import numpy as np

from marmix.core.linear import KernelScores
from marmix.core.model import FittedModel
from marmix.inference.tables import Table

CRITERIA = ("aic", "bic", "icl")


class Criteria(NamedTuple):
    """Information criteria of a fit, and the numbers they are computed from."""

    loglik: float
    n_parameters: int
    n: float
    entropy: float

    @classmethod
    def of(cls, model: FittedModel) -> "Criteria":
        """The criteria of a fitted model on its training rows."""
        # a logistic regression without mechanism sees the labelled rows only
        labelled_only = model.mechanism is None and not model.score_model.joint
        n = model.total_weight - model.missing_weight * labelled_only
        return cls(model.loglik, model.n_parameters, n, np.nan if model.entropy is None else model.entropy)

    def aic(self) -> float:
        """Akaike's criterion."""
        return 2.0 * self.n_parameters - 2.0 * self.loglik

    def bic(self) -> float:
        """Schwarz's criterion."""
        return self.n_parameters * float(np.log(self.n)) - 2.0 * self.loglik

    def icl(self) -> float:
        """The integrated classification likelihood."""
        return self.bic() + 2.0 * self.entropy


def compare(*fits: Any, names: list[str] | None = None, by: str = "bic") -> Table:
    r"""Compare fits to the same rows by an information criterion, best first.

    With the maximised log-likelihood L, p parameters, n rows and the summed entropy H of the posteriors of unlabelled rows,

    .. math::

        \text{AIC} = 2 p - 2 L, \qquad \text{BIC} = p \log n - 2 L, \qquad \text{ICL} = \text{BIC} + 2 H.

    Smaller is better. ICL also favours well-separated classes.

    Parameters
    ----------
    *fits : fitted estimators
        `MARGaussianMixture` and `MARStudentMixture`, or `MARLogisticRegression`: the likelihood of a mixture includes the
        features, that of a logistic regression does not, so they are not comparable.
    names : list of str or None
        Names of the fits; by default the code that makes them.
    by : {"aic", "bic", "icl"}, default="bic"
        The criterion to sort by.

    Returns
    -------
    Table
        Print it, or use its `as_text`, `as_html` and `frame`. Differences are from the best; `weight` is the Akaike weight
        of the criterion. The likelihood of a fit with ``link=None`` leaves the missingness out: among fits with a mechanism it is
        completed by a constant probability of a missing label. Penalised fits (finite C) count all their parameters, which is too
        many.

    See Also
    --------
    MARClassifierCV : compare and average candidates of all kinds by held-out rows.
    Inference : tests of nested models.

    Examples
    --------
    >>> from marmix import MARGaussianMixture, compare
    >>> from marmix.datasets import load_tumours
    >>> rows = load_tumours()
    >>> X, y = rows.data[:, :3], rows.target
    >>> fits = [MARGaussianMixture(covariance_type=kind).fit(X, y) for kind in ("tied", "full")]
    >>> compare(*fits, names=["tied", "full"]).frame()[["parameters", "BIC"]].round()
          parameters     BIC
    full          21  3700.0
    tied          15  3744.0
    """
    if by not in CRITERIA:
        raise ValueError(f"by={by!r} is not one of {', '.join(map(repr, CRITERIA))}.")
    for fit in fits:
        if not isinstance(getattr(fit, "model_", None), FittedModel):
            raise ValueError(f"compare takes fitted mixtures or MARLogisticRegression, not {fit!r}.")
    models = [fit.model_ for fit in fits]
    _check_comparable(models)
    mixed = len({model.mechanism is None for model in models}) == 2
    counts = [_with_constant(model) if mixed and model.mechanism is None else Criteria.of(model) for model in models]
    values = np.array([[getattr(count, name)() for name in CRITERIA] for count in counts])
    main = values[:, CRITERIA.index(by)]
    weights = np.exp(-0.5 * (main - main.min()))
    weights /= weights.sum()
    labels = names if names is not None else [" ".join(str(fit).split()) for fit in fits]
    order = np.argsort(main, kind="stable")
    rows = [
        [counts[i].n_parameters, counts[i].loglik, *values[i], float(main[i] - main.min()), float(weights[i])]
        for i in order
    ]
    columns = ["parameters", "log-likelihood", "AIC", "BIC", "ICL", f"{by.upper()} - best", "weight"]
    decimals = {"log-likelihood": 2, "AIC": 1, "BIC": 1, "ICL": 1, f"{by.upper()} - best": 1, "weight": 3}
    notes = []
    if mixed:
        notes.append(
            "Fits that ignore the mechanism are completed as missing completely at random, with the rate as one more parameter."
        )
    if not all(fit.converged_ for fit in fits):
        notes.append("Some of these fits did not converge.")
    if any(np.isfinite(getattr(fit, "C", np.inf)) for fit in fits):
        notes.append("Penalised fits (finite C) count all parameters, and their log-likelihood is not the maximum.")
    title = f"Comparison of {len(fits)} fits, best {by.upper()} first"
    return Table(title, columns, [labels[i] for i in order], rows, notes=notes, decimals=decimals)


def _check_comparable(models: list[FittedModel]) -> None:
    """Raise unless the likelihoods of the fits are comparable."""
    first = models[0]
    for model in models:
        if isinstance(model.score_model, KernelScores) or (model.mechanism is not None and model.tempering != 1.0):
            raise ValueError(
                "a kernel logistic regression, or a fit with mechanism_weight below 1, does not maximise its likelihood: compare "
                "held-out predictions, as MARClassifierCV does."
            )
        if model.score_model.joint is not first.score_model.joint:
            raise ValueError(
                "the likelihood of a mixture includes the features, that of a logistic regression does not: use "
                "MARClassifierCV to compare their predictions."
            )
        if not np.array_equal(model.classes, first.classes) or not model.moments.same(first.moments):
            raise ValueError("these fits have different rows, features or labels: fit all of them to the same data.")


def _with_constant(model: FittedModel) -> Criteria:
    """Criteria of an ignorable fit completed by a constant probability of a missing label."""
    counts, missing, n = Criteria.of(model), model.missing_weight, model.total_weight
    if not missing:
        return counts
    loglik = sum(part * np.log(part / n) for part in (missing, n - missing) if part > 0.0)
    return counts._replace(loglik=counts.loglik + float(loglik), n_parameters=counts.n_parameters + 1, n=n)
