"""The bootstrap: refits to resampled rows.

Neither classes nor components need matching between resamples: labels identify the classes, and every fit starts from the
original one.
"""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from marmix.core.arrays import Array
from marmix.core.workers import one_thread
from marmix.inference.fitted import Fitted
from marmix.inference.intervals import check_count, check_level
from marmix.inference.parameters import mixture_values
from marmix.inference.simulation import refit, seed_sequence
from marmix.inference.tables import Shown, Table

_MANY, _TOO_MANY = 0.05, 0.5  # shares of failed resamples that give a note, and an error


@dataclass(frozen=True)
class Bootstrap(Shown):
    """Estimates of many resamples, with standard errors and intervals.

    Parameters
    ----------
    estimates : array of shape (B, m)
        One row for each resample that succeeded.
    names : list of str
        Names of the columns.
    params : array of shape (m,)
        The estimates from the data.
    n_failed : int
        Number of resamples without an estimate.
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
    >>> resampled = result.bootstrap(39, random_state=0)    # hundreds are usual
    >>> resampled.conf_int().shape == (len(resampled.names), 2)
    True
    """

    estimates: Array
    names: list[str]
    params: Array
    n_failed: int = 0
    notes: list[str] = field(default_factory=list)

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

    def conf_int(self, alpha: float = 0.05) -> Array:
        """Percentile intervals of level 1 - alpha, (m, 2), from the alpha / 2 to the 1 - alpha / 2 quantile of the estimates.

        They stay within the range of the parameter, also if some estimates are at a limit, such as a shape of 0 or infinity.
        Use at least ``2 / alpha - 1`` resamples.
        """
        tail = check_level(alpha) / 2.0
        return np.quantile(self.estimates, [tail, 1.0 - tail], axis=0, method="weibull").T

    def summary(self, alpha: float = 0.05) -> Table:
        """A table of the estimates: print it, or use its `as_text`, `as_html` and `frame`."""
        rows = [list(row) for row in zip(self.params, self.bse, self.bias, *self.conf_int(alpha).T, strict=True)]
        level = 100 * alpha / 2
        columns = ["estimate", "std err", "bias", f"[{level:g}%", f"{100 - level:g}%]"]
        facts = [("resamples", f"{len(self.estimates) + self.n_failed}, of which {self.n_failed} failed")]
        return Table("Bootstrap of the fit", columns, self.names, rows, facts, self.notes)


def bootstrap(
    fitted: Fitted,
    n_resamples: int = 999,
    statistic: Callable[[Any], Any] | None = None,
    n_jobs: int | None = None,
    random_state: Any = None,
) -> Bootstrap:
    """Refit to resampled rows; see `Inference.bootstrap`."""
    seeds = seed_sequence(random_state).spawn(check_count("n_resamples", n_resamples, 2))
    if statistic is None:
        params, names = fitted.values, fitted.parameters.names
    else:
        value = np.asarray(statistic(named(fitted, fitted.estimator)), dtype=float)
        indices = [f"statistic[{', '.join(map(str, index))}]" for index in np.ndindex(*value.shape)]
        params, names = value.ravel(), indices if value.ndim else ["statistic"]
    outcomes = Parallel(n_jobs=n_jobs)(delayed(_resampled)(fitted, statistic, seed) for seed in seeds)
    estimates = np.array([values for values in outcomes if values is not None])
    failed = n_resamples - len(estimates)
    reason = f"{failed} of {n_resamples} resamples failed: a class had no labelled row, or the fit did not converge."
    if failed > _TOO_MANY * n_resamples:
        raise ValueError(f"{reason} The others would be a biased sample: simplify the model, or label more rows.")
    notes = [f"{reason} Standard errors and intervals are therefore too small."] if failed > _MANY * n_resamples else []
    return Bootstrap(estimates, names, params, failed, notes)


def _resampled(fitted: Fitted, statistic: Callable[[Any], Any] | None, seed: np.random.SeedSequence) -> Array | None:
    """The estimates of one resample, None if it has none."""
    rng = np.random.default_rng(seed)
    weight = _weights(fitted, rng)
    drawn = fitted.z[weight > 0.0]
    if len(np.unique(drawn[drawn >= 0])) < len(fitted.classes):
        return None
    settings: dict[str, Any] = {"random_state": int(rng.integers(2**31)), "verbose": 0}
    if "n_init" in fitted.estimator.get_params():
        settings["n_init"] = "auto"  # starts from the original fit alone
    try:
        with one_thread():
            estimator = refit(fitted.estimator, fitted.X, fitted.z, weight, fitted.missing, **settings)
    except ValueError:  # LinAlgError is one
        return None
    if statistic is None:
        values = values_of(fitted, estimator)
    else:
        estimator.transduction_ = fitted.classes[estimator.transduction_]
        values = np.ravel(np.asarray(statistic(named(fitted, estimator)), dtype=float))
    return values if estimator.converged_ and np.isfinite(values).all() else None


def _weights(fitted: Fitted, rng: np.random.Generator) -> Array:
    """The weights of a resample: how often each row was drawn, with all its copies."""
    n = len(fitted.z)
    if fitted.weight is None:
        return np.bincount(rng.integers(n, size=n), minlength=n).astype(float)
    total = float(fitted.weight.sum())
    draws = max(round(total), 1)
    if fitted.copied:
        _, row = fitted.distinct
        weight = np.bincount(row, fitted.weight)
        drawn = rng.multinomial(draws, weight / total)[row] * fitted.weight / weight[row]
    else:
        drawn = rng.multinomial(draws, fitted.weight / total).astype(float)
    return np.asarray(drawn * float(total / draws))


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
