"""Information criteria, and a table that compares fits by them.

With L the maximised log-likelihood, p the number of parameters, n the total weight of the rows and H the summed entropy of the
posteriors of the unlabelled rows:

    AIC = 2 p - 2 L,    BIC = p log n - 2 L,    ICL = BIC + 2 H

Smaller is better. ICL is the BIC of the likelihood with the imputed labels in it: it also favours well-separated classes.
"""

from typing import Any, NamedTuple

import numpy as np

from marmix.core.arrays import Array
from marmix.core.linear import KernelScores
from marmix.core.measures import as_measure
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
        entropy = np.nan if model.entropy is None else model.entropy
        return cls(model.loglik, model.n_parameters, counted_weight(model, model.moments.weight), entropy)

    def aic(self) -> float:
        """Akaike's criterion."""
        return 2.0 * self.n_parameters - 2.0 * self.loglik

    def bic(self) -> float:
        """Schwarz's criterion."""
        return self.n_parameters * float(np.log(self.n)) - 2.0 * self.loglik

    def icl(self) -> float:
        """The integrated classification likelihood."""
        return self.bic() + 2.0 * self.entropy


def counted_weight(model: FittedModel, group_weight: Array) -> float:
    """Total weight of the rows in the likelihood: the labelled ones only for a logistic regression without mechanism."""
    labelled_only = model.mechanism is None and not model.score_model.joint
    return float(group_weight[:-1].sum() if labelled_only else group_weight.sum())


def compare(*fits: Any, names: list[str] | None = None, by: str = "bic", ignored: str = "refuse") -> Table:
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
        Names of the fits; by default their settings.
    by : {"aic", "bic", "icl"}, default="bic"
        The criterion to sort by.
    ignored : {"refuse", "mcar"}, default="refuse"
        The likelihood of a fit with ``link=None`` leaves the missingness out, so it is not comparable with the others. "mcar"
        completes it by a constant probability of a missing label.

    Returns
    -------
    Table
        Print it, or use its `as_text`, `as_html` and `frame`. Differences are from the best; `weight` is the Akaike weight
        of the criterion. Penalised fits (finite C) count all their parameters, which is too many.

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
    if ignored not in ("refuse", "mcar"):
        raise ValueError(f"ignored={ignored!r} is not one of 'refuse', 'mcar'.")
    if len(fits) == 1 and isinstance(fits[0], list | tuple):
        fits = tuple(fits[0])
    if len(fits) < 2:
        raise ValueError("compare needs at least two fitted estimators.")
    for fit in fits:
        if not isinstance(getattr(fit, "model_", None), FittedModel):
            raise ValueError(f"compare takes fitted mixtures or MARLogisticRegression, not {fit!r}.")
    _check_comparable(fits, ignored)
    models = [fit.model_ for fit in fits]
    mixed = len({model.mechanism is None for model in models}) == 2
    counts = [_with_constant(model) if mixed and model.mechanism is None else Criteria.of(model) for model in models]
    values = np.array([[getattr(count, name)() for name in CRITERIA] for count in counts])
    main = values[:, CRITERIA.index(by)]
    weights = np.exp(-0.5 * (main - main.min()))
    weights /= weights.sum()
    labels = names if names is not None else _labels(fits)
    if len(labels) != len(fits):
        raise ValueError(f"names has {len(labels)} entries for {len(fits)} fits.")
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


def _check_comparable(fits: tuple[Any, ...], ignored: str) -> None:
    """Raise unless the likelihoods of the fits are comparable."""
    first = fits[0]
    if any(isinstance(fit.model_.score_model, KernelScores) for fit in fits):
        raise ValueError(
            "a kernel logistic regression has no information criteria, as its penalty leaves fewer parameters free than there "
            "are coefficients: compare held-out predictions, as MARClassifierCV does."
        )
    if any(fit.model_.tempering != 1.0 and fit.model_.mechanism is not None for fit in fits):
        raise ValueError("a fit with mechanism_weight below 1 does not maximise its likelihood: criteria do not apply.")
    for fit in fits[1:]:
        if fit.model_.score_model.joint is not first.model_.score_model.joint:
            raise ValueError(
                f"{type(first).__name__} and {type(fit).__name__} have likelihoods of different kinds (of the features, and "
                "given the features): use MARClassifierCV to compare their predictions."
            )
        if not np.array_equal(fit.classes_, first.classes_) or not fit.model_.moments.same(first.model_.moments):
            raise ValueError("these fits have different rows, features or labels: fit all of them to the same data.")
        if (fit.mechanism_ is None) != (first.mechanism_ is None) and ignored == "refuse":
            raise ValueError(
                "some of these fits ignore the mechanism (link=None), so their likelihood leaves the missingness out: "
                "pass ignored='mcar' to complete it by a constant probability of a missing label."
            )


def _with_constant(model: FittedModel) -> Criteria:
    """Criteria of an ignorable fit completed by a constant probability of a missing label."""
    counts, missing, n = Criteria.of(model), model.missing_weight, model.total_weight
    if not missing:
        return counts
    loglik = sum(part * np.log(part / n) for part in (missing, n - missing) if part > 0.0)
    return counts._replace(loglik=counts.loglik + float(loglik), n_parameters=counts.n_parameters + 1, n=n)


def _labels(fits: tuple[Any, ...]) -> list[str]:
    """The settings of each fit, numbered if several fits share them."""
    labels = []
    for fit in fits:
        params = fit.get_params()
        student = "Student " if "dof" in params else ""
        parts = (
            [f"{student}{params['covariance_type']}"] if "covariance_type" in params else [f"degree {params['degree']}"]
        )
        if "n_components" in params and params["n_components"] != 1:
            parts.append(f"{len(fit.weights_)} components")
        parts.append("ignored" if params["link"] is None else str(params["link"]))
        if params["link"] is not None:
            if params["shape"] is not None:
                parts[-1] += f" {params['shape']:g}"
            parts.append(as_measure(params["measure"]).name)
            parts += ["share"] * bool(params["mcar_share"])
            parts += [f"+ {name}" for name in params["mechanism_features"] or ()]
            if isinstance(params.get("delta"), str):
                parts.append("label term")
            elif params.get("delta"):
                parts += [f"delta {name} {value:g}" for name, value in params["delta"].items()]
        labels.append(", ".join(parts))
    numbers = [labels[: i + 1].count(label) for i, label in enumerate(labels)]
    return [label if number == 1 else f"{label} ({number})" for label, number in zip(labels, numbers, strict=True)]
