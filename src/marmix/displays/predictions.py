"""Probabilities of rows, some of them labelled: what curves of one class against the rest are drawn from."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from marmix.displays.fits import last_step, missing_proba, numbered, transformed
from marmix.evaluation import inverse_weights
from marmix.labels import known_labels
from marmix.places import brought_here

Array = NDArray[np.float64]

PLAIN = "plain, labelled rows as they are"  # in legends
UNCORRECTED = (
    "No P(label missing) was given: the curves are those of the labelled rows as they are, which are not a fair sample where "
    "hard rows lose their labels."
)


class Rest(NamedTuple):
    """The labelled rows, one class against the rest."""

    is_positive: NDArray[np.bool_]
    p: Array  # probability of the class
    weight: Array  # 1 / (1 - q), cut as in `marmix.evaluation`; ones where q is not known


class Predictions(NamedTuple):
    """Probabilities (n, K) of rows with labels z (-1 where missing), and q, their probability to be without one."""

    classes: NDArray[Any]
    z: NDArray[np.integer]
    proba: Array
    q: Array | None

    @classmethod
    def of(cls, y: Any, proba: ArrayLike, q: ArrayLike | None, classes: ArrayLike | None) -> "Predictions":
        """Arrays of the user's, checked."""
        y, proba, q = brought_here("a display", y, proba, q)
        p = np.asarray(proba, dtype=float)
        names = np.unique(known_labels(y, np.empty(0))[1]) if classes is None else np.asarray(classes)
        z = numbered(y, names)
        if p.shape != (len(z), len(names)):
            advice = ": name the classes of the columns in classes=" if classes is None else ""
            raise ValueError(f"proba must have shape {(len(z), len(names))}; got {p.shape}{advice}.")
        if not ((p >= 0.0) & (p <= 1.0)).all():
            raise ValueError("proba must lie between 0 and 1.")
        rate = None if q is None else np.asarray(q, dtype=float)
        if rate is not None and rate.shape != z.shape:
            raise ValueError(f"missing_proba must have shape {z.shape}; got {rate.shape}.")
        if rate is not None and not ((rate >= 0.0) & (rate <= 1.0)).all():
            raise ValueError("missing_proba must lie between 0 and 1.")
        if not (z >= 0).any():
            raise ValueError("every label in y is missing: these curves need labelled rows.")
        return cls(names, z, p, rate)

    @classmethod
    def by(cls, estimator: Any, X: Any, y: Any) -> "Predictions":
        """What a fitted estimator says of rows."""
        model = last_step(estimator)
        proba = model.predict_proba(transformed(estimator, X))
        return cls.of(y, proba, missing_proba(estimator, X), model.classes_)

    @property
    def note(self) -> str:
        """What to know of curves that are not corrected."""
        return UNCORRECTED if self.q is None else ""

    def columns(self, positive: Any) -> list[int]:
        """The class asked for; of two classes the second, of more every one."""
        if positive is None:
            return [1] if len(self.classes) == 2 else list(range(len(self.classes)))
        found = [k for k, name in enumerate(self.classes.tolist()) if name == positive]
        if not found:
            raise ValueError(f"positive={positive!r} is not among the classes {self.classes.tolist()}.")
        return found

    def against_rest(self, k: int) -> Rest:
        """The labelled rows, class k against the rest."""
        known = self.z >= 0
        weight = np.ones(int(known.sum())) if self.q is None else inverse_weights(self.q[known], len(known))[0]
        return Rest(self.z[known] == k, self.proba[known, k], weight)
