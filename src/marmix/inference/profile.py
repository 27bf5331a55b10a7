"""Profile-likelihood intervals of the mechanism's slopes, shape and share.

The interval of level 1 - a contains the values whose profile log-likelihood, maximised over all other parameters, lies within
half the chi-square quantile of the maximum. Its limits are where the signed root ``sqrt(2 (L_max - L(value)))``, which is
nearly linear in the value, crosses the normal quantile.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize
from scipy.stats import norm

from marmix.core.arrays import Array, quiet
from marmix.core.charts import SHAPE_MAX, SHARE_MAX, MechanismChart
from marmix.core.links import eta_at, hazard, stretch
from marmix.core.mechanism import Mechanism
from marmix.core.workers import one_thread
from marmix.inference.coordinates import Coordinates
from marmix.inference.curvature import expected_outer
from marmix.inference.fitted import Fitted
from marmix.inference.tables import number

_LARGE = 5.0  # a shape above which slopes are steep
_RHO_MAX = SHAPE_MAX / (1.0 + SHAPE_MAX)
_LIMITS = {"shape": (0.0, _RHO_MAX), "share": (0.0, SHARE_MAX), "slope": (-np.inf, np.inf)}  # of the place
_MOST_STEPS = 80  # points of the profile before a limit is taken to be out of reach
_CLOSE = 1e-3  # precision of a limit, in units of the root
_BETTER = 1e-3  # gain in log-likelihood that means another maximum, not rounding


@dataclass(frozen=True)
class Profile:
    """Profile-likelihood interval of a parameter of the mechanism.

    Attributes
    ----------
    name : str
        The parameter.
    estimate : float
        Its maximum-likelihood estimate.
    lower, upper : float
        The interval; a limit that the data do not determine is infinite (for a shape: 0 or infinity).
    level : float
        The confidence level.
    sentence : str
        The interval in words.

    See Also
    --------
    marmix.Inference : its method `profile` returns it.
    marmix.Inference.conf_int : Wald intervals of all parameters.

    Notes
    -----
    The interval holds the values of the parameter whose profile log-likelihood, the maximum over all other parameters, is at most
    half a chi-square(1) quantile (1.92 for 95 %) below the maximum.

    Examples
    --------
    >>> from marmix import MARGaussianMixture
    >>> from marmix.datasets import load_tumours
    >>> rows = load_tumours()
    >>> X, y = rows.data[:, :3], rows.target    # -1 where the label is missing
    >>> result = MARGaussianMixture().fit(X, y).inference(X, y)
    >>> profile = result.profile("alpha_1")
    >>> print(f"{profile.lower:.1f} to {profile.upper:.1f}")
    2.8 to 5.2
    """

    name: str
    estimate: float
    lower: float
    upper: float
    level: float
    sentence: str

    def __str__(self) -> str:
        return self.sentence


class _SlopeChart:
    """A chart, like `MechanismChart`, with coordinates ``(log n(centre), slopes, label terms, shape / (1 + shape), share)``.

    The first is the log hazard at the mean drivers, which determines alpha_0 for any shape.
    """

    def __init__(self, reference: Mechanism, centre: Array):
        self.reference, self.centre = reference, centre
        n = hazard(reference.eta(centre[:, None]), reference.shape).n
        rho = reference.shape / (1.0 + reference.shape)
        labels = reference.label[1:] if reference.free_label else ()
        self.place = np.array([np.log(n[0]), *reference.alpha[1:], *labels, rho, reference.share])

    def mechanism_at(self, place: Array) -> Mechanism:
        """The mechanism at these coordinates."""
        b, *slopes, rho, share = place
        slopes, labels = slopes[: len(self.centre)], slopes[len(self.centre) :]
        shape = float(rho / (1.0 - rho)) if self.reference.free_shape else self.reference.shape
        level = eta_at(float(np.exp(np.clip(b, -690.0, 690.0))), shape) - float(np.dot(slopes, self.centre))
        moved = replace(self.reference, alpha=(level, *slopes), shape=shape, share=float(share))
        return replace(moved, label=(0.0, *labels)) if labels else moved

    def jacobian_at(self, place: Array) -> Array:
        """d(alpha, shape, share) / d(place)."""
        size, rho = len(place), place[-2]
        shape = rho / (1.0 - rho) if self.reference.free_shape else self.reference.shape
        n = float(np.exp(np.clip(place[0], -690.0, 690.0)))
        ratio = stretch(shape * n)[0]
        out = np.eye(size)
        out[0, 0] = ratio
        out[0, 1 : 1 + len(self.centre)] = -self.centre
        out[0, -2] = (0.5 * n if shape * n < 1e-4 else (ratio - 1.0) / shape) * (1.0 + shape) ** 2
        out[-2, -2] = (1.0 + shape) ** 2
        return out


class _Surface:
    """The log-likelihood as a function of theta's coordinates and the mechanism's place.

    ``y`` are coordinates of all parameters but the profiled one, in which the log-likelihood is about ``-|y|^2 / 2``; a free
    shape and share are kept as they are, as they have bounds.
    """

    def __init__(self, fitted: Fitted, profiled: int):
        objective, theta, mechanism = fitted.objective, fitted.theta, fitted.mechanism
        assert mechanism is not None
        self.objective = objective
        self.coordinates = Coordinates(objective, theta, None)
        sample = objective.driver_sample(theta, mechanism, 4096)
        chart = MechanismChart(mechanism, sample.drivers, sample.weight)
        self.of_slope = profiled < len(mechanism.alpha) + mechanism.n_free_labels
        self.chart: _SlopeChart | MechanismChart = _SlopeChart(mechanism, chart.centre) if self.of_slope else chart
        self.profiled, size = self.coordinates.size + profiled, self.coordinates.size + len(self.chart.place)
        limits = {size - 2: _LIMITS["shape"], size - 1: _LIMITS["share"]}
        fixed = [i for i, free in ((size - 2, mechanism.free_shape), (size - 1, mechanism.free_share)) if not free]
        rest = [i for i in range(size) if i != self.profiled and i not in fixed]
        free = [i for i in rest if i not in limits]
        bounded = [i for i in rest if i in limits]
        information = self._information(fitted)
        values, vectors = np.linalg.eigh(information[np.ix_(free, free)])
        root = vectors / np.sqrt(np.maximum(values, 1e-8 * values[-1]))
        shear = -root @ (root.T @ information[np.ix_(free, [*bounded, self.profiled])])
        self.transform = np.zeros((size, len(rest) + 1))  # from (y, displacement of the profiled parameter)
        self.transform[np.ix_(free, range(len(free)))] = root
        self.transform[np.ix_(free, range(len(free), len(rest) + 1))] = shear
        for column, i in enumerate([*bounded, self.profiled], start=len(free)):
            self.transform[i, column] = 1.0
        self.bounds = [(None, None)] * len(free) + [tuple(limits[i] - self.chart.place[i - size]) for i in bounded]
        inverse = np.linalg.pinv(information[np.ix_([*rest, self.profiled], [*rest, self.profiled])], hermitian=True)
        self.error = float(np.sqrt(max(inverse[-1, -1], 1e-300)))
        self.y, self.gain = np.zeros(len(rest)), 0.0
        self.base = self.evaluate(self.y, 0.0)[0]
        self.centre = float(self.chart.place[profiled])  # the estimate of the profiled parameter
        # the uncertainty separates missing from given labels, so that the slope has no finite maximum
        self.separated = objective.sums(theta, mechanism).missing > -1e-3 * objective.engine.total_weight
        self.rough = self.separated or mechanism.shape > _LARGE  # the quadratic approximation is poor

    def _information(self, fitted: Fitted) -> Array:
        """Expected information in these coordinates."""
        outer = expected_outer(self.objective, fitted.theta, fitted.mechanism)
        slopes = len(self.chart.place)
        weights = len(outer) - slopes
        pull = np.zeros((self.coordinates.size + slopes, len(outer)))
        pull[: self.coordinates.size, :weights] = self.coordinates.pull(weights)
        pull[self.coordinates.size :, weights:] = self.chart.jacobian_at(self.chart.place).T
        return pull @ outer @ pull.T

    def at(self, y: Array, displacement: float) -> tuple[Array, Array]:
        """Coordinates of theta and place of the mechanism."""
        full = self.transform @ np.append(y, displacement)
        place = self.chart.place + full[self.coordinates.size :]
        place[-2], place[-1] = np.clip(place[-2], 0.0, _RHO_MAX), np.clip(place[-1], 0.0, SHARE_MAX)
        return full[: self.coordinates.size], place

    def evaluate(self, y: Array, displacement: float) -> tuple[float, Array]:
        """Log-likelihood and its gradient in y, in one pass over the rows."""
        vector, place = self.at(y, displacement)
        with quiet():
            theta, _ = self.coordinates.at(vector)
            sums = self.objective.sums(theta, self.chart.mechanism_at(place))
            by_theta = self.coordinates.gradient(vector, theta, sums)
            by_place = np.array([*sums.alpha, sums.shape, sums.share]) @ self.chart.jacobian_at(place)
            gradient = self.transform.T @ np.concatenate([by_theta, by_place])
        return sums.ignorable + sums.missing, gradient[:-1]

    def highest(self, value: float) -> float:
        """The profile log-likelihood minus the maximum; the search starts where the last one ended."""
        displacement = value - self.centre

        def negative(y: Array) -> tuple[float, Array]:
            if not np.isfinite(y).all():
                return 1e10, np.zeros_like(y)
            value, gradient = self.evaluate(y, displacement)
            if not (np.isfinite(value) and np.isfinite(gradient).all()):
                return 1e10, np.zeros_like(y)
            return self.base - value, -gradient

        options = {"maxcor": 30, "ftol": 1e-7, "gtol": 5e-3, "maxiter": 200}
        result = min(
            (minimize(negative, start, jac=True, method="L-BFGS-B", bounds=self.bounds, options=options)
             for start in self._starts(value)),
            key=lambda result: float(result.fun),
        )  # fmt: skip
        self.y = result.x
        self.gain = max(self.gain, -float(result.fun))
        return -float(result.fun)

    def _starts(self, value: float) -> list[Array]:
        """The end of the last search; if `rough`, also proportional slopes, and a shape that keeps the fit's steepness."""
        reference = self.chart.reference
        if not (self.of_slope and self.rough and value * self.centre > 0.0):
            return [self.y]
        ratio = value / self.centre
        proportional = replace(reference, alpha=tuple(ratio * a for a in reference.alpha))
        starts = [self.y, self._start(_SlopeChart(proportional, self.chart.centre).place)]
        if reference.free_shape:
            n = float(np.exp(np.clip(self.chart.place[0], -300.0, 300.0)))
            low, high = 0.0, SHAPE_MAX
            for _ in range(50):
                shape = 0.5 * (low + high)
                too_flat = stretch(shape * n)[0] < ratio * stretch(reference.shape * n)[0]
                low, high = (shape, high) if too_flat else (low, shape)
            place = self.chart.place.copy()
            place[self.profiled - self.coordinates.size], place[-2] = value, low / (1.0 + low)
            starts.append(self._start(place))
        return starts

    def _start(self, place: Array) -> Array:
        """y at the fit's theta and this place."""
        full = np.concatenate([np.zeros(self.coordinates.size), place - self.chart.place])
        return np.asarray(np.linalg.lstsq(self.transform, full, rcond=None)[0][:-1], dtype=float)

    def root(self, value: float) -> float:
        """``sqrt(2 (L_max - L(value)))``."""
        return float(np.sqrt(max(-2.0 * self.highest(value), 0.0)))

    @property
    def shape_at_limit(self) -> bool:
        """Whether the last search ended at the largest shape, which stands for infinity."""
        return bool(self.chart.reference.free_shape and self.at(self.y, 0.0)[1][-2] > 0.9999 * _RHO_MAX)


def profile(fitted: Fitted, name: str, alpha: float = 0.05) -> Profile:
    """Profile-likelihood interval of a slope, the shape or the share."""
    profiled, kind, unit = _profiled(fitted, name)
    fitted.require_likelihood("a profile likelihood")
    with one_thread():
        surface = _Surface(fitted, profiled)
        level = float(norm.isf(alpha / 2.0))
        ends = [_end(surface, kind, sign, level) for sign in (-1.0, 1.0)]

    def on_scale(value: float) -> float:
        if kind != "shape":
            return value / unit
        return np.inf if value > 0.9999 * _RHO_MAX else value / (1.0 - value)

    estimate, lower, upper = map(on_scale, (surface.centre, *ends))
    words = f"{100 - 100 * alpha:g} % profile-likelihood interval for {name}: {number(lower)} to {number(upper)} "
    words += f"(estimate {number(estimate)})."
    if not np.isfinite([lower, upper]).all():
        words += " On the infinite side the data set no limit."
    if surface.gain > _BETTER:
        words += f" The search found a log-likelihood higher by {number(surface.gain)}: fit again with a larger n_init."
    return Profile(name, estimate, lower, upper, 1.0 - alpha, words)


def _profiled(fitted: Fitted, name: str) -> tuple[int, str, float]:
    """The coordinate of the place with that name, its kind, and its unit in the user's axes."""
    mechanism = fitted.require_mechanism("a profile likelihood")
    names, kinds = fitted.parameters.names, fitted.parameters.kinds
    profiled = ("alpha", "delta", "shape", "share")
    choices = [n for n, kind in zip(names, kinds, strict=True) if kind in profiled and n != "alpha_0"]
    if name not in choices:
        fixed = " The shape was fixed, not estimated." if name == "shape" else ""
        raise ValueError(
            f"no profile likelihood of {name!r}, only of {', '.join(choices)}.{fixed} For other parameters use conf_int() or "
            "bootstrap()."
        )
    slopes = len(mechanism.alpha) - 1 + mechanism.n_free_labels
    if name == "shape":
        return 1 + slopes, "shape", 1.0
    if name == "share":
        return 2 + slopes, "share", 1.0
    index = choices.index(name)
    of_covariate = 0 < index < len(mechanism.alpha) - 1
    unit = float(fitted.covariates.frame.unwhitener[index - 1, index - 1]) if of_covariate else 1.0
    return 1 + index, "slope", unit


def _end(surface: _Surface, kind: str, sign: float, level: float) -> float:
    """The limit of the interval on that side, on the scale of the place."""
    limit = _LIMITS[kind][0 if sign < 0.0 else 1]
    outer = sign * surface.centre > 0.0
    if kind == "slope" and outer and surface.separated:
        return float(sign * np.inf)
    surface.y = np.zeros_like(surface.y)
    inside, inside_root, outside, outside_root = surface.centre, 0.0, None, 0.0
    far = 1.0 + abs(surface.centre)
    step = level * surface.error
    value = surface.centre + sign * (step if 1e-9 * far < step < 10.0 * far else 0.5 * far)
    for _ in range(_MOST_STEPS):
        value = min(value, limit) if sign > 0.0 else max(value, limit)
        root = surface.root(value)
        if root >= level:
            outside, outside_root = value, root
        else:
            inside, inside_root = value, root
            if value == limit:
                return limit
            if kind == "slope" and outer and surface.shape_at_limit:
                return float(sign * np.inf)  # slopes grow with the shape without limit
        if abs(root - level) < _CLOSE:
            return value
        if outside is None:  # a little beyond where a straight root would pass the level
            stretch_by = np.clip(1.1 * level / max(inside_root, 1e-6), 1.2, 3.0)
            value = surface.centre + (value - surface.centre) * stretch_by
        else:
            part = np.clip((level - inside_root) / (outside_root - inside_root), 0.05, 0.95)
            part = 0.5 if outside_root > 5.0 * level else part  # far out the root is not linear
            value = inside + part * (outside - inside)
            if abs(outside - inside) < 1e-9 * (1.0 + abs(inside)):
                return inside
    return float(sign * np.inf) if outside is None and kind == "slope" else inside
