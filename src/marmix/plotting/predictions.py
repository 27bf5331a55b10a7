"""Predicted probabilities of partially labelled rows, and displays of one class against the rest.

A row counts ``r_k`` times as class k and ``r - r_k`` times as the rest, where r_k are the pseudo-labels of
`marmix.evaluation` and r is their sum over the classes:

    plain          r_k = 1{y = k}, labelled rows only
    weighted       r_k = w 1{y = k}, labelled rows only,                   w = 1 / (1 - q)
    doubly robust  r_k = tau_k + (1 - m) w (1{y = k} - tau_k), all rows,   r = 1

The doubly robust version uses a model's posteriors tau, with m = 1 where the label is missing. Its r_k can be negative or
larger than one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from marmix.core.arrays import AnyArray, Array, Bools, to_host_or_refuse, unmasked
from marmix.core.labels import as_classes, has_votes, known_labels, label_shares, vote_shares
from marmix.evaluation.pseudo_labels import checked_proba, largest_weight, pseudo_labels
from marmix.evaluation.scorer import missing_proba
from marmix.plotting.drawing import (
    BLUE,
    MOST_PANELS,
    Display,
    class_colours,
    class_label,
    legend_below,
    panel_size,
    panels,
    paper_colour,
)
from marmix.plotting.fits import last_step, numbered, transformed

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CURVES_TOGETHER = 3  # classes in one panel; the curves of more classes have a panel each
PLAIN = "labelled rows only, uncorrected"  # in legends
UNCORRECTED = (
    "No P(label missing) was given, so the curves show the labelled rows only. These are not a fair sample if hard rows "
    "lose their labels more often."
)


class AgainstRest(NamedTuple):
    """How often rows count as a class and as the rest."""

    p: Array  # probability of the class
    positive: Array  # r_k
    negative: Array  # r - r_k
    square: Array  # expected square of the label's weight; (sum r)^2 / sum of these is the effective number of rows


class Predictions(NamedTuple):
    """Labels, class probabilities (n, K), probabilities q of a missing label, and posteriors."""

    classes: AnyArray
    labels: Array  # (n, K), one at the label or the shares of the votes; zero where missing
    proba: Array
    q: Array | None
    posterior: Array | None = None  # for doubly robust curves

    @classmethod
    def of(
        cls,
        y: Any,
        proba: ArrayLike,
        q: ArrayLike | None,
        classes: ArrayLike | None,
        posterior: ArrayLike | None = None,
    ) -> "Predictions":
        """Check arrays given by the user."""
        y, proba, q, posterior = to_host_or_refuse("a display", y, proba, q, posterior)
        if classes is None:
            classes = vote_shares(y)[1] if has_votes(y) else np.unique(known_labels(y, np.empty(0))[1])
        names, labels = as_classes(classes), label_shares(y, classes)
        p = checked_proba(proba, labels.shape)
        if not labels.any():
            raise ValueError("every label in y is missing: these curves need labelled rows.")
        if q is None:
            if posterior is not None:
                raise ValueError("posterior= corrects curves together with missing_proba=: give that too, or neither.")
            return cls(names, labels, p, None)
        rate = np.asarray(unmasked(q), dtype=float)
        if rate.shape != p.shape[:1] or not ((rate >= 0.0) & (rate <= 1.0)).all():
            raise ValueError(f"missing_proba must be {len(p)} numbers between 0 and 1; its shape is {rate.shape}.")
        return cls(
            names, labels, p, rate, None if posterior is None else checked_proba(posterior, p.shape, "posterior")
        )

    @classmethod
    def by(cls, estimator: Any, X: Any, y: Any) -> "Predictions":
        """Predict with a fitted estimator; if it has a mechanism, its probabilities also serve as the posteriors.

        Nothing is corrected if every row has a label.
        """
        last, rows = last_step(estimator), transformed(estimator, X)
        proba, q = last.predict_proba(rows), missing_proba(last, rows)
        if q is not None and (numbered(y, last.classes_) >= 0).all():
            q = np.zeros(len(proba))
        return cls.of(y, proba, q, last.classes_, None if q is None else proba)

    @property
    def labelled(self) -> Bools:
        """Whether each row has a label."""
        return np.asarray(self.labels.any(axis=1))

    @property
    def plain(self) -> "Predictions":
        """The same predictions, uncorrected."""
        return self._replace(q=None, posterior=None)

    @property
    def note(self) -> str:
        """A warning if the curves are not corrected."""
        return UNCORRECTED if self.q is None else ""

    def columns(self, positive: Any) -> list[int]:
        """Column of the positive class; by default the second of two classes, otherwise each in turn."""
        if positive is None:
            return [1] if len(self.classes) == 2 else list(range(len(self.classes)))
        names = self.classes.tolist()
        if positive not in names:
            raise ValueError(f"positive={positive!r} is not among the classes {names}.")
        return [names.index(positive)]

    def binary(self, k: int) -> "Predictions":
        """The same for two classes, the rest (0) and class k (1)."""

        def pair(values: Array) -> Array:
            return np.column_stack([values.sum(axis=1) - values[:, k], values[:, k]])

        tau = None if self.posterior is None else pair(self.posterior)
        return Predictions(np.arange(2), pair(self.labels), pair(self.proba), self.q, tau)

    def against_rest(self, k: int) -> AgainstRest:
        """Pseudo-labels of class k against the rest."""
        rows, labelled = self.binary(k), self.labelled
        q = np.zeros(len(labelled)) if self.q is None else self.q
        r, weight, _ = pseudo_labels(rows.labels, q, rows.posterior)
        p, (negative, positive) = self.proba[:, k], r.T
        if self.posterior is None:
            return AgainstRest(p[labelled], positive[labelled], negative[labelled], weight**2)
        with np.errstate(divide="ignore"):
            square = np.minimum(1.0 / (1.0 - q), largest_weight(int(labelled.sum()), len(labelled)))
        return AgainstRest(p, positive, negative, square)  # E[w^2 1{labelled}] = w


class PredictionDisplay(Display):
    """Base of the displays of predicted probabilities. Not for direct use."""

    @classmethod
    def of(cls, *args: Any, **options: Any) -> Self:
        """Compute the display without drawing it."""
        raise NotImplementedError

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, positive: Any = None, ax: "Axes | None" = None, **options: Any
    ) -> Self:
        """Predict rows with a fitted classifier, and draw the display.

        Use rows that the classifier was not fitted to: those of the fit give slightly optimistic curves. The curves are
        doubly robust if the classifier has a mechanism; its probabilities then serve as the posteriors.

        Parameters
        ----------
        estimator : fitted classifier, or a pipeline that ends in one
            With `predict_proba`.
        X : array-like or table of shape (n, d)
            Rows.
        y : array-like of shape (n,) or (n, K)
            Labels, missing where -1, NaN, None or pandas.NA; or votes.
        positive : object, default=None
            The class drawn against the rest. By default the second class if there are two, otherwise each class in
            turn; `ThresholdDisplay` shows a single class, which must be named if there are more than two.
        ax : matplotlib Axes or None, default=None
            Axes to draw in; by default those of a new figure.
        **options
            `n_bins` (default 10) of `CalibrationDisplay`.

        Returns
        -------
        display
            Of the class that the method was called on.
        """
        return cls.of(Predictions.by(estimator, X, y), positive, **options).plot(ax)

    @classmethod
    def from_predictions(
        cls,
        y: Any,
        proba: ArrayLike,
        missing_proba: ArrayLike | None = None,
        *,
        positive: Any = None,
        classes: ArrayLike | None = None,
        posterior: ArrayLike | None = None,
        ax: "Axes | None" = None,
        **options: Any,
    ) -> Self:
        """Draw the display from the probabilities of any classifier.

        Parameters
        ----------
        y : array-like of shape (n,) or (n, K)
            Labels, missing where -1, NaN, None or pandas.NA; or votes.
        proba : array-like of shape (n, K)
            Probabilities of the classes.
        missing_proba : array-like of shape (n,) or None, default=None
            Probability q of a missing label. Without it the labelled rows are drawn uncorrected, and `note_` says so.
        positive : object, default=None
            As in `from_estimator`.
        classes : array-like of shape (K,) or None, default=None
            Classes of the columns of `proba`; by default the sorted labels in y.
        posterior : array-like of shape (n, K) or None, default=None
            A model's posteriors of all rows, for the doubly robust estimate; needs `missing_proba`.
        ax : matplotlib Axes or None, default=None
            Axes to draw in; by default those of a new figure.
        **options
            As in `from_estimator`.

        Returns
        -------
        display
            Of the class that the method was called on.

        Raises
        ------
        ValueError
            If every label is missing, or arrays do not fit together.
        """
        predictions = Predictions.of(y, proba, missing_proba, classes, posterior)
        return cls.of(predictions, positive, **options).plot(ax)


@dataclass(kw_only=True, eq=False, repr=False)
class ClassCurvesDisplay(PredictionDisplay):
    """Base of the displays with one curve for each class against the rest. Not for direct use.

    Up to three curves are drawn together; more classes have a small panel each.
    """

    axes: ClassVar[tuple[str, str]]

    curves: dict[Any, Any]
    corrected: bool
    note_: str = ""

    @classmethod
    def _of(cls, predictions: Predictions, positive: Any, curve: Callable[[int], Any]) -> Self:
        """The curves of the classes drawn: at most 30, without those whose curve cannot be computed if others can."""
        names, curves, refusals = predictions.classes.tolist(), {}, []
        columns = predictions.columns(positive)
        for k in columns[:MOST_PANELS]:
            try:
                curves[names[k]] = curve(k)
            except ValueError as refusal:
                refusals.append(refusal)
        if not curves:
            raise refusals[0]
        left_out = f"{len(curves)} of {len(columns)} classes are shown." if len(curves) < len(columns) else ""
        return cls(
            curves=curves,
            corrected=predictions.q is not None,
            note_=f"{predictions.note} {left_out}".strip(),
        )

    @property
    def _size(self) -> tuple[float, float]:  # type: ignore[override]
        return panel_size(len(self.curves)) if len(self.curves) > CURVES_TOGETHER else (4.4, 4.4)

    def _draw(self, ax: "Axes") -> None:
        across, up = self.axes
        corrected = "corrected for missing labels" if self.corrected else PLAIN
        if len(self.curves) > CURVES_TOGETHER:
            small = panels(ax, list(self.curves), *(words.partition(":")[0].format("the class") for words in self.axes))
            for panel, curve in zip(small, self.curves.values(), strict=True):
                self._draw_curve(panel, curve, paper_colour(BLUE), corrected)
            legend_below(ax, handles=small[0].get_legend_handles_labels()[0])
            return
        single, which = len(self.curves) == 1, "the class"
        if single:
            which = class_label(next(iter(self.curves)))
        for (name, curve), colour in zip(self.curves.items(), class_colours(len(self.curves)), strict=True):
            self._draw_curve(ax, curve, colour, corrected if single else class_label(name))
        ax.set(xlabel=across.format(which), ylabel=up.format(which))
        legend_below(ax, columns=1 if single else 2)

    def _draw_curve(self, ax: "Axes", curve: Any, colour: str, label: str) -> None:
        """Draw the diagonal, a curve and, unless several curves share the axes, its uncorrected one."""
        raise NotImplementedError
