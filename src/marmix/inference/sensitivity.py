"""Sensitivity analysis for labels that are missing because of the label itself.

No data can tell by themselves whether, among rows that look alike, those of one class lose their labels more often. `Sensitivity`
shows what would follow. In rows without a label the class probabilities are tilted,

    P(y = k | x, missing)  proportional to  p_k e^{delta_k},

where e^delta is the odds ratio of losing the label: with a logit mechanism, eta of class k is larger by delta_k than that of
other rows with the same features ("pattern-mixture"). A mixture can also be fitted again with such a term in its mechanism, which
moves its classes too ("selection").
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_softmax, softmax

from marmix.core.arrays import AnyArray, Array, Ints
from marmix.evaluation.prior import TINY
from marmix.inference.tables import Table

Draw = Callable[
    [np.random.Generator], Array
]  # posteriors (n, K) of the unlabelled rows, with the uncertainty of the fit

LARGEST_DELTA = 50.0
DELTAS = np.log(2.0) * np.arange(-4, 5) / 2.0  # odds ratios from 1/4 to 4
_FLIPPED = 0.05  # share of the imputed labels whose change counts as another conclusion
_FINE, _HALVINGS = 100, 30  # steps to each side, and bisections, in the search for tipping points
TIPPING = {
    "share": "the share of {name} leaves its present 95 % interval",
    "flips": "more than 5 % of the imputed labels change",
    "largest": "another class becomes the largest",
}


@dataclass(frozen=True, eq=False, repr=False)
class Sensitivity:
    r"""What becomes of the results if rows of one class lose their labels more, or less, often than they seem to.

    No data can tell by themselves whether labels are missing because of the label. In rows without a label, the probability
    of the varied class is tilted,

    .. math::

        P(y = k \mid x, \text{missing}) \propto p_k(x) \, e^{\delta_k},

    where :math:`e^\delta` is how many times as likely (as odds) a row of that class is to lose its label as others that look
    alike. Made by the method `sensitivity` of a fitted estimator.

    Intervals have level 95 % and include the draw of the missing labels and, unless `notes` say otherwise, the uncertainty of
    the fit; they are wide enough to include the estimate.

    Attributes
    ----------
    classes : array of shape (K,)
        The classes.
    varied : object
        The class whose odds of losing the label are varied.
    delta : array of shape (D,)
        The logarithms of the odds ratios, ascending; 0 is among them.
    method : {"selection", "pattern-mixture"}
        Whether the model was fitted again at every delta, or kept.
    shares, shares_interval : arrays of shape (D, K) and (D, K, 2)
        Shares of the classes among all rows, given labels counted as they are.
    error, error_interval : arrays of shape (D,) and (D, 2)
        Expected share of wrong labels among those imputed at delta = 0.
    flips, flips_interval : arrays of shape (D,) and (D, 2)
        Number of imputed labels that differ from those at delta = 0.
    n_rows, n_unlabelled : float
        Total weight of all rows, and of the unlabelled ones.
    tipping : dict of (float or None, float or None)
        Tipping points: the nearest delta below and above 0 at which a conclusion changes; None if it does not within the sweep.
        "share": the share of the varied class leaves its 95 % interval at delta = 0; "flips": more than 5 % of the imputed labels
        change; "largest": another class becomes the largest.
    notes : list of str
        What the intervals do not include.

    See Also
    --------
    MARGaussianMixture : its method `sensitivity` returns this; so do those of the other estimators.
    marmix.plotting.SensitivityDisplay : a picture of the sweep.
    Inference : its method `test_label_term` asks whether a model of the classes sees a sign of it.

    Examples
    --------
    >>> from marmix import MARGaussianMixture
    >>> from marmix.datasets import load_tumours
    >>> rows = load_tumours()
    >>> X, y = rows.data[:, :3], rows.target
    >>> clf = MARGaussianMixture().fit(X, y)
    >>> sweep = clf.sensitivity(X, y, delta=[-0.7, 0.0, 0.7], method="pattern-mixture", n_draws=20)
    >>> sweep.odds_ratio.round(1)
    array([0.5, 1. , 2. ])
    >>> sweep.share.round(2)    # share of class 1 among all rows
    array([0.28, 0.32, 0.35])
    """

    classes: AnyArray
    varied: Any
    delta: Array
    method: str
    shares: Array
    shares_interval: Array
    error: Array
    error_interval: Array
    flips: Array
    flips_interval: Array
    n_rows: float
    n_unlabelled: float
    tipping: dict[str, tuple[float | None, float | None]]
    notes: list[str] = field(default_factory=list)

    @property
    def odds_ratio(self) -> Array:
        """How many times the odds of losing the label are those of other rows with the same features, (D,)."""
        return np.exp(self.delta)

    @property
    def place(self) -> int:
        """The position of the varied class among `classes`."""
        return self.classes.tolist().index(self.varied)

    @property
    def share(self) -> Array:
        """Share of the varied class, (D,)."""
        return self.shares[:, self.place]

    @property
    def share_interval(self) -> Array:
        """Its intervals, (D, 2)."""
        return self.shares_interval[:, self.place]

    def at(self, odds: float) -> int:
        """The position of the odds ratio of the sweep that is nearest to `odds`, as an index of the arrays."""
        return int(np.abs(self.delta - np.log(odds)).argmin())

    def tipping_words(self) -> list[str]:
        """The tipping points, a sentence each."""
        name, sentences = repr(str(self.varied)), []
        for key, sides in self.tipping.items():
            what = TIPPING[key].format(name=name)
            reached = [times(np.exp(side)) for side in sides if side is not None]
            when = f"if {name} is {' or '.join(reached)} as likely to lose its label"
            if not reached:
                when = f"at no odds ratio from {self.odds_ratio[0]:.2g} to {self.odds_ratio[-1]:.2g}"
            sentences.append(f"{what[0].upper()}{what[1:]} {when}.")
        return sentences

    def table(self) -> Table:
        """The sweep as a table of text; `shares` has those of the other classes."""
        columns = ["share", "[2.5%", "97.5%]", "wrong", "[2.5%", "97.5%]", "flips", "[2.5%", "97.5%]"]
        rows = [
            [
                f"{value:.{digits}{kind}}"
                for value, digits, kind in zip(row, (1,) * 6 + (0,) * 3, "%%%%%%fff", strict=True)
            ]
            for row in np.column_stack(
                [self.share, self.share_interval, self.error, self.error_interval, self.flips, self.flips_interval]
            )
        ]
        facts = [
            ("class", str(self.varied)),
            ("method", self.method),
            ("rows", f"{self.n_rows:,.0f}, of which {self.n_unlabelled:,.0f} without label"),
        ]
        notes = [
            f"Odds ratio: how many times as likely rows of class {str(self.varied)!r} are to lose their label as others that "
            "look alike; 1 is what the model assumes.",
            "share: of the class among all rows; wrong: of the labels imputed at 1; flips: imputed labels that change.",
            *self.tipping_words(),
            *self.notes,
        ]
        index = [f"odds ratio {odds:.2g}" for odds in self.odds_ratio]
        return Table("What if labels are missing because of the label?", columns, index, rows, facts, notes)

    def __str__(self) -> str:
        return self.table().as_text()

    def _repr_html_(self) -> str:
        return self.table().as_html()

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; tipping points are odds ratios."""
        tipping = {
            key: [None if side is None else float(np.exp(side)) for side in sides]
            for key, sides in self.tipping.items()
        }
        arrays = ("odds_ratio", "shares", "shares_interval", "error", "error_interval", "flips", "flips_interval")
        return {
            "class": str(self.varied),
            "classes": [str(name) for name in self.classes],
            "method": self.method,
            "rows": self.n_rows,
            "unlabelled": self.n_unlabelled,
            **{name: getattr(self, name).tolist() for name in arrays},
            "tipping": tipping,
            "notes": list(self.notes),
        }


def times(odds: float) -> str:
    """An odds ratio in words: 'twice', 'half', '1.5 times'."""
    if abs(odds - 1.0) < 0.005:
        return "just"
    for value, words in ((2.0, "twice"), (0.5, "half"), (0.25, "a quarter"), (1 / 3, "a third")):
        if abs(odds / value - 1.0) < 0.005:
            return words
    return f"{odds:.2g} times"


def swept(delta: ArrayLike | None) -> Array:
    """The values of delta of a sweep, sorted, with 0 among them."""
    values = np.atleast_1d(np.asarray(DELTAS if delta is None else delta, dtype=float))
    if values.ndim != 1 or not (np.abs(values) <= LARGEST_DELTA).all():
        raise ValueError(
            f"delta must be numbers between -{LARGEST_DELTA:g} and {LARGEST_DELTA:g}, logarithms of odds ratios; got {delta!r}."
        )
    return np.unique(np.append(values, 0.0))


def deltas_of(delta: Mapping[Any, float], classes: AnyArray) -> Array:
    """delta of every class, (K,), from a mapping; zero for classes that it does not name."""
    names = classes.tolist()
    if unknown := [name for name in delta if name not in names]:
        raise ValueError(f"delta names the class {unknown[0]!r}, but the classes are {names}.")
    values = np.array([float(delta.get(name, 0.0)) for name in names])
    if not (np.abs(values) <= LARGEST_DELTA).all():
        raise ValueError(
            f"delta is the logarithm of an odds ratio: it must lie between -{LARGEST_DELTA:g} and {LARGEST_DELTA:g}."
        )
    return values


def rarest(proba: Array, given: Array) -> int:
    """The class with the fewest rows: given labels, and probabilities of unlabelled rows (n, K)."""
    return int((given + proba.sum(axis=0)).argmin())


def class_place(label: Any, classes: AnyArray) -> int:
    """The position of a class."""
    names = classes.tolist()
    if label not in names:
        raise ValueError(f"label={label!r} is not one of the classes {names}.")
    return names.index(label)


def pattern_mixture(proba: Array, k: int, delta: Array) -> Array:
    """Log probabilities (D, n, K) of unlabelled rows when class k is tilted by each delta."""
    log_p = np.log(np.maximum(proba, TINY))
    return np.array([log_softmax(log_p + value * (np.arange(proba.shape[1]) == k), axis=1) for value in delta])


def calibration_draws(held_out: Array, z: Ints, proba: Array) -> Draw:
    """Draws of probabilities (n, K) with the uncertainty of their calibration alone.

    Held-out probabilities of labelled rows (classes z) are recalibrated, ``softmax(e^a log p + b)``, by one Newton step from
    a = b = 0 with the rows weighted as in a Bayesian bootstrap, and a standard normal prior.
    """
    log_p, p = np.log(np.maximum(held_out, TINY)), held_out
    K = p.shape[1]
    residual = np.eye(K)[z] - p
    design = np.concatenate([log_p[:, :, None], np.broadcast_to(np.eye(K)[:, 1:], (len(p), K, K - 1))], axis=2)
    gradient = np.einsum("nk,nkp->np", residual, design)
    mean = np.einsum("nk,nkp->np", p, design)
    information = np.einsum("nk,nkp,nkr->pr", p, design, design) - mean.T @ mean + np.eye(K)
    steps = np.linalg.solve(information, gradient.T)
    rows = np.log(np.maximum(proba, TINY))

    def draw(rng: np.random.Generator) -> Array:
        w = rng.exponential(size=len(p))
        a, *b = steps @ (w / w.mean() - 1.0)
        return np.asarray(softmax(np.exp(a) * rows + np.array([0.0, *b]), axis=1))

    return draw


class Sweep(NamedTuple):
    """What is varied: the unlabelled rows at every delta, beside the labelled ones."""

    log_proba: Array  # (D, n, K), log class probabilities of the unlabelled rows
    given: Array  # (K,), total weight of the labelled rows of each class
    k: int  # the class that is varied
    delta: Array  # (D,), ascending, with 0 among them
    classes: AnyArray
    weight: Array  # (n,), of the unlabelled rows
    imputed: Ints  # (n,), codes of the labels imputed at delta = 0

    @property
    def zero(self) -> int:
        """The position of delta = 0."""
        return int(np.abs(self.delta).argmin())

    def quantities(self, proba: Array) -> tuple[Array, float, float]:
        """Shares of the classes, share of wrong labels, and weight of changed ones, for probabilities (n, K)."""
        likely, unlabelled = self.log_proba[self.zero].argmax(axis=1), self.weight.sum()
        wrong = self.weight @ (1.0 - proba[np.arange(len(proba)), self.imputed]) / max(unlabelled, TINY)
        shares = (self.given + self.weight @ proba) / (self.given.sum() + unlabelled)
        return shares, float(wrong), float(self.weight @ (proba.argmax(axis=1) != likely))

    def at(self, value: float) -> tuple[Array, float, float]:
        """The quantities between the swept values, at linearly interpolated log probabilities: exact for a tilt."""
        i = int(np.clip(np.searchsorted(self.delta, value) - 1, 0, max(len(self.delta) - 2, 0)))
        j = min(i + 1, len(self.delta) - 1)
        step = (value - self.delta[i]) / (self.delta[j] - self.delta[i]) if j > i else 0.0
        log_p = (1.0 - step) * self.log_proba[i] + step * self.log_proba[j]
        return self.quantities(np.asarray(softmax(log_p, axis=1)))

    def intervals(self, draw: Draw | None, draws: Sequence[Draw] | None, seeds: Sequence[Any]) -> list[Array]:
        """95 % intervals of the quantities at every delta, wide enough to include the estimates."""
        n, K = self.log_proba.shape[1:]
        w, total = self.weight, self.given.sum() + self.weight.sum()
        drawn: list[tuple[Array, Array, Array]] = []
        first = np.concatenate(
            [[self.k], np.delete(np.arange(K), self.k)]
        )  # so that the draws of class k rise with delta
        for seed in seeds:
            rng = np.random.default_rng(seed)
            shift = 0.0 if draw is None else np.log(np.maximum(draw(rng), TINY)) - self.log_proba[self.zero]
            u = rng.uniform(size=(n, 1))
            shifted = np.array([softmax(p + shift, axis=1) for p in self.log_proba])
            best = shifted.argmax(axis=2)
            probas = shifted if draws is None else np.array([at(np.random.default_rng(seed)) for at in draws])
            labels = first[(u > np.cumsum(probas[:, :, first[:-1]], axis=2)).sum(axis=2)]
            counts = np.array([np.bincount(label, weights=w, minlength=K) for label in labels])
            wrong = (labels != self.imputed) @ w / max(w.sum(), TINY)
            drawn.append(((self.given + counts) / total, wrong, (best != best[self.zero]) @ w))
        estimates = zip(*(self.quantities(np.exp(p)) for p in self.log_proba), strict=True)
        out = []
        for values, estimate in zip(zip(*drawn, strict=True), map(np.array, estimates), strict=True):
            low, high = np.quantile(values, [0.025, 0.975], axis=0)
            out.append(np.stack([np.minimum(low, estimate), np.maximum(high, estimate)], axis=-1))
        return out


def sensitivity(
    sweep: Sweep,
    *,
    draw: Draw | None = None,
    draws: Sequence[Draw] | None = None,
    n_draws: int = 200,
    random_state: int = 0,
) -> Sensitivity:
    """The analysis of a sweep.

    Parameters
    ----------
    sweep : Sweep
    draw : callable or None
        Draws the probabilities (n, K) at delta = 0 with the uncertainty of the fit. Those of another delta are shifted by as much
        in their logarithms. None if only the labels are drawn.
    draws : list of callables or None
        The same at every delta, for the intervals of shares and errors. Changed labels are counted between shifted draws.
    n_draws, random_state : int
    """
    k, zero, classes = sweep.k, sweep.zero, sweep.classes
    if n_draws < 1:
        raise ValueError(f"n_draws={n_draws!r} must be at least 1.")
    shares, error, flips = map(np.array, zip(*(sweep.quantities(np.exp(p)) for p in sweep.log_proba), strict=True))
    intervals = sweep.intervals(draw, draws, np.random.SeedSequence(random_state).spawn(n_draws))
    unlabelled, largest, (low, high) = float(sweep.weight.sum()), int(shares[zero].argmax()), intervals[0][zero, k]
    crossed: dict[str, Callable[[tuple[Array, float, float]], bool]] = {
        "share": lambda q: not low <= q[0][k] <= high,
        "flips": lambda q: q[2] > _FLIPPED * unlabelled,
        "largest": lambda q: int(q[0].argmax()) != largest,
    }
    return Sensitivity(
        classes=classes,
        varied=classes.tolist()[k],
        delta=sweep.delta,
        method="pattern-mixture",
        shares=shares,
        shares_interval=intervals[0],
        error=error,
        error_interval=intervals[1],
        flips=flips,
        flips_interval=intervals[2],
        n_rows=float(sweep.given.sum()) + unlabelled,
        n_unlabelled=unlabelled,
        tipping=_tipping(sweep.at, crossed, float(sweep.delta[0]), float(sweep.delta[-1])),
    )


def _tipping(
    at: Callable[[float], Any], crossed: Mapping[str, Callable[[Any], bool]], low: float, high: float
) -> dict[str, tuple[float | None, float | None]]:
    """For each conclusion, the delta nearest to 0 below and above it at which it has changed."""
    points: dict[str, list[float | None]] = {key: [None, None] for key in crossed}
    for side, end in enumerate((low, high)):
        near, grid = 0.0, np.linspace(0.0, end, _FINE + 1)[1:] if end else ()
        for far in grid:
            q = at(float(far))
            for key, changed in crossed.items():
                if points[key][side] is None and changed(q):
                    points[key][side] = _bisected(lambda value, changed=changed: changed(at(value)), near, float(far))  # type: ignore[misc]
            if all(sides[side] is not None for sides in points.values()):
                break
            near = float(far)
    return {key: (sides[0], sides[1]) for key, sides in points.items()}


def _bisected(changed: Callable[[float], bool], near: float, far: float) -> float:
    for _ in range(_HALVINGS):
        middle = 0.5 * (near + far)
        near, far = (near, middle) if changed(middle) else (middle, far)
    return far
