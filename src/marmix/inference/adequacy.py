"""Is the mechanism right? The fit against the one that ignores the mechanism, and fitted against observed missingness.

Both tests use what a right model implies. Ignoring a mechanism that depends on the features alone is valid too, only
less efficient (for the logistic regression it is the fit to the labelled rows), so the two fits must agree (Hausman). The
score ``s`` of the ignorable likelihood at the full fit tells, to first order, how far they are apart, and

    s' C^+ s ~ chi-square(rank C),    C = I_ig - I_ig V I_ig

with ``I_ig`` the information of the ignorable likelihood and ``V`` the covariance of the full fit, both expected. And residuals
``m_j - q_j`` averaged with any functions ``b_j`` of the features must vanish:

    r = sum_j b_j (m_j - q_j),    r' C^+ r ~ chi-square,    C = sum_j b_j b_j' q_j (1 - q_j) - D V D',    D = sum_j b_j dq_j

where the second term is what estimating q takes away.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from marmix.arrays import Array
from marmix.inference.curvature import by_coefficients, curvature, expected_outer, hazard_rows, rows_of
from marmix.inference.fitted import Fitted
from marmix.inference.hypotheses import (
    HypothesisTest,
    caution,
    reference_of,
    simulated_p,
    simulated_statistics,
    verdict,
)
from marmix.inference.refits import refit, with_link
from marmix.inference.simulation import simulate
from marmix.inference.tables import Table, number

_RANK = 1e-3  # smallest share of variance, after scaling, that counts as a direction
_WAVES = 4  # smooth functions of the rank
_EXPECTED = 5.0  # least labels, and least gaps, expected in a bin
_GRID = 50  # points of the smoothed curve


def quadratic_form(vector: Array, covariance: Array, least: float) -> tuple[float, int]:
    """The form ``v' C^+ v`` and the rank of C: eigenvalues above `least` count."""
    values, vectors = np.linalg.eigh(covariance)
    kept = values > least
    along = (vectors.T @ vector)[kept]
    return float(np.sum(along**2 / values[kept])), int(kept.sum())


def p_of(statistic: float, df: int) -> float:
    """The chi-square p-value; 1 where there was nothing to test."""
    return float(chi2.sf(statistic, df)) if df else 1.0


def hausman(
    fitted: Fitted,
    bootstrap: bool | None = None,
    n_resamples: int = 199,
    n_jobs: int | None = None,
    random_state: Any = None,
) -> HypothesisTest:
    """Whether the full fit agrees with the one that ignores the mechanism."""
    fitted.require_mechanism("this test")
    fitted.require_likelihood("the contrast of two fits")
    statistic, df, covariance = _contrast(fitted)
    p_chi = p_of(statistic, df)
    simulated, failed = np.empty(0), 0
    if bootstrap or (bootstrap is None and fitted.few_rows is not None and fitted.weight is None):

        def one(rng: np.random.Generator) -> float:
            X, z = simulate(fitted.estimator, fitted.X, rng)
            again = refit(fitted.estimator, X, z).inference(X, z)
            return _contrast(again._fitted)[0]

        simulated, failed = simulated_statistics(fitted, one, n_resamples, n_jobs, random_state)
    p_value = simulated_p(statistic, simulated) if len(simulated) else p_chi
    contrasts = _contrasts(fitted, covariance)
    joint = fitted.objective.model.joint
    other = "the fit that ignores the mechanism" if joint else "the fit to the labelled rows alone"
    largest = max(contrasts, key=lambda name: abs(contrasts[name][2]), default=None)
    if p_value < 0.1:
        sentence = (
            f"There is {verdict(p_value)} that the fit with the mechanism and {other} differ by more than chance (most in "
            f"{largest}): the mechanism, or the model of the classes, is not quite right."
        )
    else:
        sentence = f"The fit with the mechanism and {other} agree within chance."
    sentence += caution(fitted, p_chi, f"chi-square({df})", simulated)
    return HypothesisTest(
        "Is the mechanism right (hypothesis: ignoring it changes nothing but the precision)?",
        statistic,
        reference_of(f"chi-square({df})", simulated, failed),
        p_value,
        sentence,
        {"contrasts": contrasts, "p_chi2": p_chi, "simulated": simulated},
    )


def _contrast(fitted: Fitted) -> tuple[float, int, Array]:
    """The statistic, its degrees of freedom, and the covariance of the difference of the two fits."""
    objective, theta, information = fitted.objective, fitted.theta, fitted.information
    size = fitted.coordinates.n_theta
    outer = expected_outer(objective, theta, fitted.mechanism, modelled=False)
    pull = information.pull[:size, : len(outer)]
    ignorable = pull @ outer @ pull.T
    V = np.linalg.pinv(information.expected, hermitian=True)[:size, :size]
    score = pull @ curvature(objective, theta, None).gradient
    values, vectors = np.linalg.eigh(ignorable)
    known = values > 1e-8 * values[-1]
    root = vectors[:, known] * np.sqrt(values[known])
    # in units of the ignorable information: shares of it that the mechanism adds, between 0 and 1
    white = vectors[:, known] / np.sqrt(values[known])
    added = np.eye(int(known.sum())) - root.T @ V @ root
    largest = float(np.linalg.eigvalsh(added)[-1]) if len(added) else 0.0
    statistic, df = quadratic_form(white.T @ score, added, max(_RANK * largest, 1e-8))
    return statistic, df, white @ white.T - V


def _contrasts(fitted: Fitted, covariance: Array) -> dict[str, tuple[float, float, float]]:
    """Parameters of the classes: with the mechanism, without it, and the difference in standard errors."""
    other = refit(fitted.estimator, fitted.X, fitted.z, fitted.weight, **with_link(None))
    ignored = other.inference(fitted.X, fitted.z, fitted.weight).params
    own = fitted.jacobian[: len(ignored), : fitted.coordinates.n_theta]
    error = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", own, covariance, own), 0.0))
    out = {}
    for name, a, b, e in zip(fitted.parameters.names, fitted.values, ignored, error, strict=False):
        out[name] = (float(a), float(b), float((a - b) / e) if e > 1e-8 * (abs(a) + abs(b)) else 0.0)
    return out


@dataclass(frozen=True)
class GoodnessOfFit:
    """Observed against fitted missingness along a variable.

    Attributes
    ----------
    binned, smooth : HypothesisTest
        By bins of about equal size, and by smooth functions of the rank, which see slow trends better.
    table : Table
        A row a bin: range of the variable, rows, observed and fitted rates, standardised difference.
    at, observed, fitted : arrays
        The smoothed rates at values of the variable.
    """

    binned: HypothesisTest
    smooth: HypothesisTest
    table: Table
    at: Array
    observed: Array
    fitted: Array

    def __str__(self) -> str:
        return f"{self.smooth}\n{self.binned}\n\n{self.table}"


def goodness_of_fit(fitted: Fitted, by: Any = None, n_bins: int = 10) -> GoodnessOfFit:
    """Does q fit? Along the uncertainty, a feature, the probability of a class, or any variable of the rows."""
    fitted.require_mechanism("this test")
    fitted.require_likelihood("the reference distribution of these residuals")
    fitted.require_memory("this test")
    if not isinstance(n_bins, int) or n_bins < 2:
        raise ValueError(f"n_bins={n_bins!r} must be a whole number, at least 2.")
    order = np.argsort(np.where(fitted.z < 0, len(fitted.classes), fitted.z), kind="stable")  # that of the engine
    variable, name = _variable(fitted, by)
    place = variable[order]
    if np.ptp(place) == 0.0:
        raise ValueError(f"{name} is the same for every row: there is nothing to sort them by.")
    w = np.ones(len(place)) if fitted.weight is None else fitted.weight[order]
    q = fitted.estimator.missing_proba(fitted.X)[order]
    ranks = _midranks(place, w)
    bins = _bins(ranks, q, w, n_bins)
    waves = np.array([np.cos(np.pi * k * ranks) for k in range(1, _WAVES + 1)])
    moments = _residual_moments(fitted, np.vstack([bins, waves]))
    cells, smooth = (
        _residual_test(fitted, moments, part, name) for part in (slice(0, len(bins)), slice(len(bins), None))
    )
    missing = np.arange(len(q)) >= fitted.objective.engine.labelled
    table = _bin_table(bins, place, missing, q, w, moments, name)
    return GoodnessOfFit(cells, smooth, table, *_smoothed(ranks, place, missing, q, w))


def _midranks(place: Array, w: Array) -> Array:
    """Weight below each row and half of that at it, as a share of all: rows that tie are equals, a row of weight two is two."""
    _, own = np.unique(place, return_inverse=True)
    sizes = np.bincount(own, weights=w)
    return ((np.cumsum(sizes) - 0.5 * sizes) / w.sum())[own]


def _bins(ranks: Array, q: Array, w: Array, n_bins: int) -> Array:
    """Indicators (b, n) of bins of about equal weight, joined until each expects enough labels and enough gaps."""
    at = np.minimum((ranks * n_bins).astype(int), n_bins - 1)
    gaps, labels = (np.bincount(at, weights=w * part, minlength=n_bins) for part in (q, 1.0 - q))
    join, lost, kept = np.zeros(n_bins, dtype=int), 0.0, 0.0
    bin_ = 0
    for i in range(n_bins):
        join[i] = bin_
        lost, kept = lost + gaps[i], kept + labels[i]
        if min(lost, kept) >= _EXPECTED:
            bin_, lost, kept = bin_ + 1, 0.0, 0.0
    join = np.minimum(join, max(bin_ - 1, 0))  # what is left over joins the last full one
    bins = (join[at] == np.arange(join.max() + 1)[:, None]) * 1.0
    return bins[bins.any(axis=1)]


def _variable(fitted: Fitted, by: Any) -> tuple[Array, str]:
    """The variable to sort by, in the order of the user's rows."""
    estimator = fitted.estimator
    if by is None:
        return estimator.uncertainty(fitted.X), "the uncertainty"
    if isinstance(by, str) and by in fitted.features:
        return np.asarray(fitted.X[:, fitted.features.index(by)], dtype=float), by
    known = [k for k, name in enumerate(fitted.classes.tolist()) if isinstance(by, str) and str(name) == by]
    if known:
        return estimator.predict_proba(fitted.X)[:, known[0]], f"the probability of class {by}"
    if isinstance(by, str):
        raise ValueError(f"by={by!r} is neither a feature ({', '.join(fitted.features)}) nor a class.")
    values = np.asarray(by, dtype=float)
    if values.shape != (fitted.n_rows,):
        raise ValueError(f"by must have shape {(fitted.n_rows,)}, one value a row; got {values.shape}.")
    if np.isnan(values[fitted.kept]).any():
        raise ValueError("by has NaN: give every row a value.")
    return values[fitted.kept], "the given variable"


@dataclass(frozen=True)
class _Moments:
    residual: Array  # (m,)
    variance: Array  # (m, m), of residuals at the true parameters
    left: Array  # (m, m), what remains of it at the estimates


def _residual_moments(fitted: Fitted, functions: Array) -> _Moments:
    """Sums of ``b (m - q)`` with their covariances, for functions (m, n) of the rows in the engine's order."""
    model, mechanism, information = fitted.objective.model, fitted.mechanism, fitted.information
    assert mechanism is not None
    count, start = len(functions), 0
    residual, variance = np.zeros(count), np.zeros((count, count))
    slope = np.zeros((len(information.sums.gradient), count))
    with np.errstate(all="ignore"):
        for rows in rows_of(fitted.objective, fitted.theta):
            about = hazard_rows(mechanism, rows, with_curvature=False)
            q = -np.expm1(-about.n)
            b = functions[:, start : start + len(q)]
            m = np.arange(len(q)) >= rows.labelled
            residual += b @ (rows.weight * (m - q))
            variance += (b * (rows.weight * q * (1.0 - q))) @ b.T
            slope += by_coefficients(rows, model, (1.0 - q) * about.gradient) @ (rows.weight * b).T
            start += len(q)
    D = information.pull @ slope
    left = variance - D.T @ np.linalg.pinv(information.expected, hermitian=True) @ D
    return _Moments(residual, variance, left)


def _residual_test(fitted: Fitted, moments: _Moments, part: slice, name: str) -> HypothesisTest:
    scale = np.sqrt(np.maximum(np.diag(moments.variance)[part], 1e-300))
    left = moments.left[part, part] / scale[:, None] / scale
    statistic, df = quadratic_form(moments.residual[part] / scale, left, _RANK)
    p_value = p_of(statistic, df)
    kind = "binned" if part.start == 0 else "smoothed"
    if p_value < 0.1:
        sentence = (
            f"There is {verdict(p_value)} that observed and fitted rates of missing labels differ along {name}: the mechanism "
            "misses something there."
        )
    else:
        sentence = f"Observed and fitted rates of missing labels along {name} agree within chance."
    sentence += caution(fitted, p_value, f"chi-square({df})", np.empty(0))
    question = f"Does q fit (hypothesis: the missing labels along {name} are as fitted; {kind})?"
    return HypothesisTest(question, statistic, f"chi-square({df})", p_value, sentence)


def _bin_table(
    bins: Array, place: Array, missing: NDArray[np.bool_], q: Array, w: Array, moments: _Moments, name: str
) -> Table:
    rows, index, shown = [], [], {"rows": 0, "observed": 3, "fitted": 3, "z": 2}
    for i, b in enumerate(bins):
        own = b > 0.0
        weight = w[own]
        left = float(moments.left[i, i])
        z = moments.residual[i] / np.sqrt(left) if left > _RANK * moments.variance[i, i] else np.nan
        rows.append(
            [
                float(weight.sum()),
                float(np.average(missing[own], weights=weight)),
                float(np.average(q[own], weights=weight)),
                float(z),
            ]
        )
        index.append(f"{number(float(place[own].min()))} to {number(float(place[own].max()))}")
    return Table(f"Missing labels along {name}", ["rows", "observed", "fitted", "z"], index, rows, decimals=shown)


def _smoothed(ranks: Array, place: Array, missing: NDArray[np.bool_], q: Array, w: Array) -> tuple[Array, Array, Array]:
    """Observed and fitted rates, averaged with a normal kernel over ranks."""
    grid = np.linspace(0.0, 1.0, _GRID)
    width = max(0.03, len(ranks) ** -0.2 / 4.0)
    values, first = np.unique(place, return_index=True)
    at = np.interp(grid, ranks[first], values)
    observed, fitted = np.empty(_GRID), np.empty(_GRID)
    for i, centre in enumerate(grid):
        kernel = w * np.exp(-0.5 * ((ranks - centre) / width) ** 2)
        observed[i], fitted[i] = kernel @ missing / kernel.sum(), kernel @ q / kernel.sum()
    return at, observed, fitted
