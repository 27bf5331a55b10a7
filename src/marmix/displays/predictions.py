"""Probabilities of rows, some of them labelled: what curves of one class against the rest are drawn from.

A row counts ``r_k`` times as one of class k and ``r - r_k`` times as one of the rest, where r_k are the pseudo-labels of
`marmix.evaluation` and r their sum over the classes:

    plain          r_k = 1{y = k}, labelled rows alone
    weighted       r_k = w 1{y = k}, labelled rows alone,                  w = 1 / (1 - q)
    doubly robust  r_k = tau_k + (1 - m) w (1{y = k} - tau_k), all rows,   r = 1

The last, of a model's posteriors tau, needs no labelled row near each hard one. Its r_k can be negative, and above one.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from marmix.arrays import Array, to_host_or_refuse
from marmix.displays.fits import last_step, missing_proba, numbered, transformed
from marmix.labels import known_labels
from marmix.pseudo_labels import checked_posterior, largest_weight, pseudo_labels

PLAIN = "plain, labelled rows as they are"  # in legends
UNCORRECTED = (
    "No P(label missing) was given: the curves are those of the labelled rows as they are, which are not a fair sample where "
    "hard rows lose their labels."
)


class Rest(NamedTuple):
    """How often rows count as one of a class, and as one of the rest."""

    p: Array  # probability of the class
    positive: Array  # r_k
    negative: Array  # r - r_k
    square: Array  # expected square of the weight of the label: (sum r)^2 / sum of these is what the labels are worth


class Predictions(NamedTuple):
    """Probabilities (n, K) of rows with labels z (-1 where missing), q, their probability to be without one, and posteriors."""

    classes: NDArray[Any]
    z: NDArray[np.integer]
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
        """Arrays of the user's, checked."""
        y, proba, q, posterior = to_host_or_refuse("a display", y, proba, q, posterior)
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
        if posterior is None:
            return cls(names, z, p, rate)
        if rate is None:
            raise ValueError("posterior= corrects curves together with missing_proba=: give that too, or neither.")
        return cls(names, z, p, rate, checked_posterior(posterior, p.shape))

    @classmethod
    def by(cls, estimator: Any, X: Any, y: Any) -> "Predictions":
        """What a fitted estimator says of rows; its probabilities are the posteriors too, where it has a mechanism.

        Where every row has a label there is nothing to correct.
        """
        model = last_step(estimator)
        proba = model.predict_proba(transformed(estimator, X))
        q = missing_proba(estimator, X)
        if q is not None and (numbered(y, model.classes_) >= 0).all():
            q = np.zeros(len(proba))
        return cls.of(y, proba, q, model.classes_, None if q is None else proba)

    @property
    def plain(self) -> "Predictions":
        """The same without correction."""
        return self._replace(q=None, posterior=None)

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

    def posterior_against_rest(self, k: int) -> Array | None:
        """Posteriors (n, 2) of the rest and of class k."""
        if self.posterior is None:
            return None
        own = self.posterior[:, k]
        return np.column_stack([self.posterior.sum(axis=1) - own, own])

    def against_rest(self, k: int) -> Rest:
        """The rows that count, class k against the rest."""
        known = self.z >= 0
        q = np.zeros(len(known)) if self.q is None else self.q
        indicator = np.column_stack([known & (self.z != k), self.z == k]).astype(float)
        if self.posterior is None:
            r, weight, _ = pseudo_labels(indicator, q, None)
            return Rest(self.proba[known, k], r[known, 1], r[known, 0], weight**2)
        r, _, _ = pseudo_labels(indicator, q, self.posterior_against_rest(k))
        with np.errstate(divide="ignore"):
            weight = np.minimum(1.0 / (1.0 - q), largest_weight(int(known.sum()), len(known)))
        return Rest(self.proba[:, k], r[:, 1], r[:, 0], weight)  # of w^2, present with probability 1 / w
