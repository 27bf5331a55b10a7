"""Checks of the mechanism: signs that labels are missing on one side, or because of the label.

The mechanism says that labels are missing where rows are hard. Two likelihood-ratio tests look for what would mislead it:

- `one_sided`: do the class probabilities tell more about the missing indicators than the uncertainty does? Then labels are lost
  on one side of the boundary, by the features or by the label.
- `label_term`: do Gaussian classes with a common covariance fit the features, labels and missing indicators better with a label
  term, ``eta = alpha_0 + alpha_1 u + delta_k``? It sees labels that are missing because of the label also where the rates of
  missing labels look right, because the fit has moved its classes to explain them.

Both need a p-value below 0.001 and an odds ratio of at least 2. The second relies on the shape of the classes;
benchmarks/doubts.py counts how often they are right, and how often they are wrong where classes are not Gaussian.
"""

import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr
from scipy.stats import chi2

from marmix.core.arrays import Array
from marmix.core.covariance import structure
from marmix.core.gaussian import GaussianScores
from marmix.core.mechanism import Mechanism
from marmix.core.notes import Note
from marmix.engines import HostRows
from marmix.fitting import Fit, Objective, starts
from marmix.fitting.restarts import Search, fit_mixture

CODES = ("one-sided", "label-term")  # of the notes
_LEVEL, _LEAST_ODDS = 1e-3, 2.0
_MOST_ROWS = 5000  # for the fits of `label_term`
_FEWEST = 5  # labelled rows of a class
_ROWS_PER_FEATURE = 10
_TOL, _FLOOR = 1e-6, 1e-6


def doubts(
    X: NDArray[Any],
    z: NDArray[np.integer[Any]],
    proba: Array,
    weight: Array | None = None,
    missing: NDArray[np.bool_] | None = None,
) -> list[Note]:
    """Notes on signs that the mechanism is wrong.

    Labels z are -1 where missing, `proba` (n, K) class probabilities, and `missing` says whose label was missing at first.
    """
    missing = z < 0 if missing is None else missing
    counts = np.bincount(z[z >= 0], minlength=proba.shape[1])
    if counts.min() < _FEWEST or not missing.any() or missing.all():
        return []
    notes = (one_sided(missing, proba, weight), label_term(X, z, weight, missing))
    return [note for note in notes if note is not None]


def doubtful(notes: Iterable[Note]) -> bool:
    """Whether a check of the mechanism is among the notes."""
    return any(note.code in CODES for note in notes)


def one_sided(missing: NDArray[np.bool_], proba: Array, weight: Array | None = None) -> Note | None:
    """A note if missing labels depend on which class is probable, given how uncertain it is."""
    order = np.argsort(missing, kind="stable")
    labelled, w = int(np.sum(~missing)), np.ones(len(missing)) if weight is None else weight[order]
    drivers = np.vstack([entr(proba).sum(axis=1), proba[:, 1:].T])[:, order]
    drivers = (drivers - drivers.mean(axis=1, keepdims=True)) / np.maximum(drivers.std(axis=1, keepdims=True), 1e-12)
    rate = float(w[labelled:].sum() / w.sum())
    fits = [
        Mechanism(alpha=(0.0,) * (1 + len(part))).starting(rate).profile_of(part, labelled, w)
        for part in (drivers[:1], drivers)
    ]
    gain = fits[1].loglik_of(drivers, labelled, w) - fits[0].loglik_of(drivers[:1], labelled, w)
    p_value = float(chi2.sf(2.0 * max(gain, 0.0), len(drivers) - 1))
    effect = np.array(fits[1].alpha[2:]) @ drivers[1:]  # log-odds of a missing label, beyond the uncertainty
    low, high = np.quantile(effect, [0.05, 0.95])
    if p_value >= _LEVEL or high - low < np.log(_LEAST_ODDS):
        return None
    side = int(np.argmax((effect - effect.mean()) @ proba[order]))
    return Note("one-sided", {"classes": [side]})


def label_term(
    X: NDArray[Any], z: NDArray[np.integer[Any]], weight: Array | None = None, missing: NDArray[np.bool_] | None = None
) -> Note | None:
    """A note if Gaussian classes fit better with a label term in the mechanism."""
    if len(z) < _ROWS_PER_FEATURE * X.shape[1] or not np.isfinite(X).all():
        return None
    if len(z) > _MOST_ROWS:
        places = np.sort(np.random.default_rng(0).choice(len(z), _MOST_ROWS, replace=False))
        X, z, weight = X[places], z[places], None if weight is None else weight[places]
        missing = None if missing is None else missing[places]
        if np.bincount(z[z >= 0]).min() < _FEWEST:
            return None

    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            fit = _fitter(X, z, weight, missing)
            null, free = fit(False, None), fit(True, None)
            if _p_value(free, null) < _LEVEL:  # the hypothesis may have a higher maximum near the other fit
                null = max(null, fit(False, free), key=lambda fit: fit.objective)
    except ValueError:  # too few labels, or covariances that collapse
        return None
    assert free.mechanism is not None
    delta = np.array(free.mechanism.label)
    if _p_value(free, null) >= _LEVEL or np.ptp(delta) < np.log(_LEAST_ODDS):
        return None
    odds = float(np.exp(min(np.ptp(delta), 10.0)))
    return Note("label-term", {"classes": [int(delta.argmax())], "odds": odds})


def _fitter(
    X: NDArray[Any], z: NDArray[np.integer[Any]], weight: Array | None, missing: Any
) -> Callable[[bool, Fit | None], Fit]:
    """A function that fits Gaussian classes with a common covariance, with or without a label term, from a fit or the labels."""
    rows = HostRows(X).with_labels(z, weight, missing)
    (mean, covariance), labelled = rows.moments.overall(), rows.moments.labelled
    starts.check_columns(mean, covariance, [f"x{i}" for i in range(len(mean))])
    model = GaussianScores(structure("tied", len(mean)), [1] * len(rows.classes), _FLOOR)
    dependent = bool(starts.dependent_columns(covariance))
    frame = starts.frame_of(model, mean, covariance, labelled, dependent)
    objective = Objective(rows.engine(frame), model, 1.0)
    empty = starts.empty_axes(frame, covariance) if dependent else None

    def fit(free: bool, start: Fit | None) -> Fit:
        label = (0.0,) * len(rows.classes) if free else ()
        mechanism, values = Mechanism.from_link("logit", measure="entropy", label=label, free_label=free), {}
        if start is not None and start.mechanism is not None:
            values = model.user_values(start.theta, frame) | {"alpha": np.array(start.mechanism.alpha)}
        search = Search(np.random.RandomState(0), values, tol=_TOL, empty=empty)
        return fit_mixture(objective, labelled, mechanism, search)

    return fit


def _p_value(free: Fit, null: Fit) -> float:
    """Of no label term, which has one parameter less for each class but one."""
    assert free.mechanism is not None
    return float(chi2.sf(2.0 * max(free.objective - null.objective, 0.0), len(free.mechanism.label) - 1))
