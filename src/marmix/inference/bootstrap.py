"""The bootstrap: refits to resampled or simulated rows.

Classes need no matching between resamples, as their labels identify them. The components of a class do: they are put in the
order nearest to the original fit.
"""

import warnings
from collections import Counter
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.stats import norm

from marmix.core.arrays import Array
from marmix.core.charts import SHAPE_MAX
from marmix.core.workers import one_thread
from marmix.inference.fitted import Fitted
from marmix.inference.intervals import check_count, check_level
from marmix.inference.parameters import mixture_values
from marmix.inference.simulation import refit, seed_sequence, simulate
from marmix.inference.tables import Table, listed

Statistic = Callable[[Any], Any]

KINDS = ("nonparametric", "parametric")
METHODS = ("percentile", "normal")

NO_LABEL, ALL_LABELLED = "a class had no labelled row", "no label was missing"
NOT_CONVERGED, NOT_FINITE = "the fit did not converge", "the estimates were not finite"
FAILED_FIT, FAILED_STATISTIC = "the fit failed", "the statistic failed"
_ADVICE = {
    NO_LABEL: "label more rows of the rarest class",
    ALL_LABELLED: "fit with link=None, as hardly any label is missing",
    NOT_CONVERGED: "raise max_iter or simplify the model",
    NOT_FINITE: "simplify the model",
    FAILED_FIT: "simplify the model",
    FAILED_STATISTIC: "make the statistic work for other rows",
}
_MANY, _TOO_MANY = 0.05, 0.5  # shares of failed resamples that give a warning, and an error


@dataclass(frozen=True)
class Bootstrap:
    """Estimates of many resamples, with standard errors and intervals.

    Parameters
    ----------
    estimates : array of shape (B, m)
        One row for each resample that succeeded.
    names : list of str
        Names of the columns.
    params : array of shape (m,)
        The estimates from the data.
    kind : {"nonparametric", "parametric"}
        Whether rows were resampled, or drawn from the fit.
    failures : dict
        Number of failed resamples by reason.
    notes : list of str
        Remarks on the reliability of these numbers.

    See Also
    --------
    marmix.Inference : its method `bootstrap` returns it.

    Examples
    --------
    >>> from marmix import MARGaussianMixture
    >>> from marmix.datasets import load_tumours
    >>> rows = load_tumours()
    >>> X, y = rows.data[:, :2], rows.target    # -1 where the label is missing
    >>> result = MARGaussianMixture().fit(X, y).inference(X, y)
    >>> resampled = result.bootstrap(10, random_state=0)    # hundreds are usual
    >>> resampled.conf_int(method="normal").shape == (len(resampled.names), 2)
    True
    """

    estimates: Array
    names: list[str]
    params: Array
    kind: str
    failures: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def n_failed(self) -> int:
        """Resamples without an estimate."""
        return sum(self.failures.values())

    @property
    def bse(self) -> Array:
        """Standard errors: standard deviations of the resamples' estimates."""
        return np.std(self.estimates, axis=0, ddof=1)

    @property
    def bias(self) -> Array:
        """Mean of the resamples' estimates minus the estimate from the data."""
        return self.estimates.mean(axis=0) - self.params

    def cov_params(self) -> Array:
        """Covariance matrix of the estimates, (m, m)."""
        return np.atleast_2d(np.cov(self.estimates, rowvar=False))

    def conf_int(self, alpha: float = 0.05, method: str = "percentile") -> Array:
        """Intervals of level 1 - alpha, (m, 2).

        Parameters
        ----------
        alpha : float, default=0.05
            One minus the confidence level.
        method : {"percentile", "normal"}, default="percentile"
            With q(p) the p-quantile of the resamples' estimates:

            - "percentile": from q(alpha / 2) to q(1 - alpha / 2). Stays within the range of the parameter, also if some
              estimates are at a limit, such as a shape of 0 or infinity.
            - "normal": estimate - bias ± z bse.
        """
        alpha = check_level(alpha)
        if method not in METHODS:
            raise ValueError(f"method={method!r} is not one of {', '.join(map(repr, METHODS))}.")
        if method == "normal":
            half = norm.isf(alpha / 2.0) * self.bse
            centre = self.params - self.bias
            return np.column_stack([centre - half, centre + half])
        needed = int(np.ceil(2.0 / alpha - 1e-9)) - 1
        if len(self.estimates) < needed:
            raise ValueError(
                f"{method} limits for alpha={alpha:g} need {needed} resamples, and there are {len(self.estimates)}: "
                "raise n_resamples (999 is usual), or use method='normal'."
            )
        low, high = np.quantile(self.estimates, [alpha / 2.0, 1.0 - alpha / 2.0], axis=0, method="weibull")
        return np.column_stack([low, high])

    def __str__(self) -> str:
        return self._default_summary().as_text()

    def _repr_html_(self) -> str:
        return self._default_summary().as_html()

    def _default_summary(self) -> Table:
        """The summary, with percentiles if there are enough resamples."""
        return self.summary(method="percentile" if len(self.estimates) >= 39 else "normal")

    def summary(self, alpha: float = 0.05, method: str = "percentile") -> Table:
        """A table of the estimates: print it, or use its `as_text`, `as_html` and `frame`."""
        limits = self.conf_int(alpha, method)
        rows = [list(row) for row in zip(self.params, self.bse, self.bias, *limits.T, strict=True)]
        level = 100 * alpha / 2
        columns = ["estimate", "std err", "bias", f"[{level:g}%", f"{100 - level:g}%]"]
        facts = [
            ("bootstrap", self.kind),
            ("resamples", f"{len(self.estimates) + self.n_failed}, of which {self.n_failed} failed"),
            ("intervals", method),
        ]
        return Table("Bootstrap of the fit", columns, self.names, rows, facts, self.notes)


def bootstrap(
    fitted: Fitted,
    n_resamples: int = 999,
    kind: str = "nonparametric",
    statistic: Statistic | None = None,
    n_jobs: int | None = None,
    random_state: Any = None,
) -> Bootstrap:
    """Refit to resampled rows; see `Inference.bootstrap`."""
    if kind not in KINDS:
        raise ValueError(f"kind={kind!r} is not one of {', '.join(map(repr, KINDS))}.")
    seeds = seed_sequence(random_state).spawn(check_count("n_resamples", n_resamples, 2))
    if kind == "parametric":
        _check_parametric(fitted)
    if statistic is None:
        params, names = fitted.values, fitted.parameters.names
    else:
        value = np.asarray(statistic(named(fitted, fitted.estimator)), dtype=float)
        indices = [f"statistic[{', '.join(map(str, index))}]" for index in np.ndindex(*value.shape)]
        params, names = value.ravel(), indices if value.ndim else ["statistic"]
    outcomes: list[Array | str] = Parallel(n_jobs=n_jobs)(
        delayed(_resampled)(fitted, kind, statistic, len(params), seed) for seed in seeds
    )
    failures = dict(Counter(outcome for outcome in outcomes if isinstance(outcome, str)).most_common())
    estimates = np.array([outcome for outcome in outcomes if not isinstance(outcome, str)]).reshape(-1, len(params))
    notes = _failure_notes(failures, len(seeds))
    if statistic is None:
        notes += _limit_notes(estimates, fitted.parameters.kinds)
    return Bootstrap(estimates, names, params, kind, failures, notes)


def _check_parametric(fitted: Fitted) -> None:
    if fitted.copied:
        raise ValueError("kind='parametric' draws one label for a row, not votes: use kind='nonparametric'.")
    if fitted.missing is not None:
        raise ValueError("kind='parametric' does not draw which labels are asked for: use kind='nonparametric'.")
    if fitted.weight is not None:
        raise ValueError(
            "kind='parametric' cannot draw weighted rows: use kind='nonparametric', or fit without sample_weight."
        )
    if fitted.mechanism is None and fitted.objective.model.joint and (fitted.z < 0).any():
        raise ValueError(
            "kind='parametric' needs a mechanism to draw missing labels from, and link=None has none: use "
            "kind='nonparametric', or fit with a link."
        )


def _resampled(
    fitted: Fitted, kind: str, statistic: Statistic | None, size: int, seed: np.random.SeedSequence
) -> Array | str:
    """The estimates of one resample, or the reason of its failure."""
    rng = np.random.default_rng(seed)
    X, z, weight = _rows(fitted, kind, rng)
    counted = z if weight is None else z[weight > 0.0]
    if len(np.unique(counted[counted >= 0])) < len(fitted.classes):
        return NO_LABEL
    missing = None if kind == "parametric" else fitted.missing
    was_missing = z < 0 if missing is None else missing
    if fitted.mechanism is not None and not (was_missing if weight is None else was_missing[weight > 0.0]).any():
        return ALL_LABELLED
    try:
        with one_thread():
            estimator = refit(fitted.estimator, X, z, weight, missing, random_state=int(rng.integers(2**31)), verbose=0)
    except ValueError as error:  # LinAlgError is one
        return f"{FAILED_FIT}: {error}"
    if not estimator.converged_:
        return NOT_CONVERGED
    align(fitted.estimator, estimator)
    if statistic is None:
        values = values_of(fitted, estimator)
    else:
        estimator.transduction_ = fitted.classes[estimator.transduction_]
        try:
            values = np.ravel(np.asarray(statistic(named(fitted, estimator)), dtype=float))
        except ValueError as error:
            return f"{FAILED_STATISTIC}: {error}"
        if len(values) != size:
            return f"{FAILED_STATISTIC}: it returned {len(values)} numbers instead of {size}"
    return values if np.isfinite(values).all() else NOT_FINITE


def _rows(fitted: Fitted, kind: str, rng: np.random.Generator) -> tuple[NDArray[Any], NDArray[Any], Array | None]:
    """The rows of a resample, labels -1 where missing; weights count how often a row was drawn, with all its copies."""
    n = len(fitted.z)
    if kind == "parametric":
        # a logistic regression without mechanism keeps its rows, and which of them are labelled
        missing = None if fitted.mechanism is not None else (fitted.z < 0).astype(float)
        return *simulate(fitted.estimator, fitted.X, rng, missing), None
    if fitted.weight is None:
        return fitted.X, fitted.z, np.bincount(rng.integers(n, size=n), minlength=n).astype(float)
    total = float(fitted.weight.sum())
    draws = max(round(total), 1)
    if fitted.copied:
        _, row = fitted.distinct
        weight = np.bincount(row, fitted.weight)
        drawn = rng.multinomial(draws, weight / total)[row] * fitted.weight / weight[row]
    else:
        drawn = rng.multinomial(draws, fitted.weight / total).astype(float)
    return fitted.X, fitted.z, drawn * float(total / draws)


def values_of(fitted: Fitted, estimator: Any) -> Array:
    """The user's parameters, in the order of `fitted.parameters.names`, of an estimator fitted to other rows."""
    model: Any = fitted.objective.model
    if model.joint:
        parts = [mixture_values(model, estimator.model_.values)]
    elif fitted.kernel:
        parts = [np.empty(0)]
    else:
        parts = [np.column_stack([estimator.intercept_, estimator.coef_]).ravel()]
    mechanism = fitted.mechanism
    if mechanism is not None:
        free = [estimator.shape_] * mechanism.free_shape + [estimator.share_] * mechanism.free_share
        parts += [estimator.alpha_, estimator.delta_[1:] if mechanism.free_label else np.empty(0), np.array(free)]
    return np.concatenate(parts)


def named(fitted: Fitted, estimator: Any) -> Any:
    """A copy of the estimator with the user's names of classes and features."""
    copied = copy(estimator)
    copied.model_ = estimator.model_.renamed(fitted.model.classes, fitted.model.features)
    return copied


def align(reference: Any, estimator: Any) -> None:
    """Put the components of each class of an estimator in the order nearest to the reference.

    It minimises the Kullback-Leibler divergence between the two mixtures as models of the rows and their components, the sum
    over components of ``v {log(v / w) + D}`` with

        D = ½ {tr(R^-1 S) - log|R^-1 S| - d + (a - m)' R^-1 (a - m)},

    where w, m, R are weight, mean and covariance of the reference, and v, a, S those of the estimator.
    """
    scores = reference.model_.score_model
    if not scores.joint or scores.single:
        return
    first, second = reference.model_, estimator.model_
    first_roots, second_roots = (scores.roots(model.theta, model.frame) for model in (first, second))
    order = np.arange(len(scores.owner))
    for k in range(scores.n_classes):
        members = np.flatnonzero(scores.owner == k)
        inverse = np.linalg.inv(first_roots[members])
        A = inverse[:, None] @ second_roots[members]
        difference = second.values["means"][members] - first.values["means"][members][:, None]
        shift = np.einsum("aij,abj->abi", inverse, difference)
        apart = 0.5 * ((A**2).sum(axis=(2, 3)) - A.shape[-1] + (shift**2).sum(axis=2)) - np.linalg.slogdet(A)[1]
        w, v = first.values["weights"][members][:, None], np.maximum(second.values["weights"][members], 1e-300)
        order[members] = members[linear_sum_assignment(v * (np.log(v / w) + apart))[1]]
    theta = second.theta  # components of a class have the same degrees of freedom, if they have any
    chol = theta.chol[order] if scores.structure.by_component else theta.chol
    estimator.model_ = replace(second, theta=theta._replace(log_pi=theta.log_pi[order], mu=theta.mu[order], chol=chol))


def _failure_notes(failures: dict[str, int], n: int) -> list[str]:
    """A note on failed resamples; many give a warning, too many an error."""
    failed = sum(failures.values())
    if not failed:
        return []
    reasons = [f"{reason} ({count})" for reason, count in failures.items()]
    note = f"{failed} of {n} resamples failed: {'; '.join(reasons[:3])}{'; ...' if len(reasons) > 3 else ''}."
    advice = listed(list(dict.fromkeys(_ADVICE[reason.split(":")[0]] for reason in failures)))
    if failed > _TOO_MANY * n:
        raise ValueError(f"{note} The others would be a biased sample: {advice}.")
    if failed > _MANY * n:
        note += f" Standard errors and intervals are therefore too small: {advice}."
        warnings.warn(note, UserWarning, stacklevel=3)
    return [note]


def _limit_notes(estimates: Array, kinds: list[str]) -> list[str]:
    """A note on shapes that ran to a limit."""
    if "shape" not in kinds or not len(estimates):
        return []
    shape = estimates[:, kinds.index("shape")]
    at_limit = float(np.mean((shape < 1e-6) | (shape > 0.999 * SHAPE_MAX)))
    if not at_limit:
        return []
    return [
        f"The shape ran to 0 or to {SHAPE_MAX:g} (infinity) in {at_limit:.0%} of the resamples: use percentile intervals for "
        "it and for alpha, their standard errors mean little."
    ]
