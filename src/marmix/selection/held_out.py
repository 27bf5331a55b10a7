"""Choice of settings by rows that are held out whole, that is, with their label or the fact that it is missing."""

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from marmix.core.arrays import Array
from marmix.core.frames import Covariates, Frame
from marmix.core.notes import BoundaryWarning
from marmix.engines import HostRows, Rows, row_order
from marmix.selection.evidence import Evidence, linear_predictor

# Weights of the mechanism among which "auto" chooses.
WEIGHTS = (0.0, 0.1, 0.3, 1.0)
# Most rows on which settings are chosen.
MOST_ROWS = 5000
# Folds on which all settings are tried, and the share of the settings that the other folds try, at least so many.
_FIRST_FOLDS, _KEPT, _FEWEST = 2, 0.25, 2


def whole_row_folds(z: NDArray[np.integer], cv: Any, random_state: Any = 0) -> list[NDArray[np.intp]]:
    """Test rows of each fold, labelled and unlabelled ones, ascending; no folds if nothing can be held out.

    Parameters
    ----------
    z : array of shape (n,)
        Codes of the classes, -1 where the label is missing.
    cv : int, iterable of test-row index arrays or of (train, test) pairs, or a scikit-learn splitter
        A number of folds deals the rows of each class, and the unlabelled ones as one more class, to the folds in turn.
        A group with a single row is never held out, so that every training part has labels of every class.
    random_state : int, RandomState instance or None
        For the order in which the rows are dealt.
    """
    if isinstance(cv, Integral) and not isinstance(cv, bool):
        if cv < 2:
            raise ValueError(f"cv={cv} must be at least 2.")
        return _dealt(z, int(cv), check_random_state(random_state))
    splits = cv.split(z, z) if hasattr(cv, "get_n_splits") else cv
    if isinstance(splits, str) or not isinstance(splits, Iterable):
        raise ValueError(f"cv={cv!r} must be a number of folds, a list of arrays of test rows, or a splitter.")
    folds = [np.asarray(split[1] if isinstance(split, tuple) else split) for split in splits]
    for test in folds:
        if test.ndim != 1 or test.dtype.kind not in "iu" or not ((test >= 0) & (test < len(z))).all():
            raise ValueError(f"cv must have arrays of row numbers from 0 to {len(z) - 1}.")
    if len(np.unique(tested := np.concatenate([*folds, np.empty(0, dtype=int)]))) < len(tested):
        raise ValueError("cv tests a row twice: use splits whose test sets do not overlap.")
    for test in folds:
        if len(np.unique(np.delete(z, test)[np.delete(z, test) >= 0])) < len(np.unique(z[z >= 0])):
            raise ValueError("cv has a fold that leaves no labelled row of some class to train on: use fewer folds.")
    return [np.sort(test).astype(np.intp) for test in folds]


def folds_of_copies(
    z: NDArray[np.integer],
    weight: Array | None,
    rows: NDArray[np.integer],
    cv: int,
    random_state: Any = 0,
    most: int | None = None,
) -> list[NDArray[np.intp]]:
    """Test copies of each fold, ascending, the copies of a row together.

    Distinct rows are dealt as in `whole_row_folds` by the codes of their heaviest copies. If all votes for a class are in one
    fold, one row with such votes is not held out.

    Parameters
    ----------
    z, weight, rows : arrays of shape (n,)
        Code and weight of each copy, and the row that it is a copy of. All weights are one if there are no copies.
    most : int or None
        Number of distinct rows above which only a sample of that size is dealt.
    """
    rng = check_random_state(random_state)

    def dealt(z: NDArray[np.integer]) -> list[NDArray[np.intp]]:
        if most is None or len(z) <= most:
            return whole_row_folds(z, cv, rng)
        sample = np.sort(rng.choice(len(z), most, replace=False))
        return [sample[test] for test in whole_row_folds(z[sample], cv, rng)]

    if weight is None or len(np.unique(rows)) == len(rows):
        return dealt(z)
    _, first, row = np.unique(rows, return_index=True, return_inverse=True)
    row = np.argsort(np.argsort(first))[row]  # numbered by their first copies
    order = np.lexsort((-weight, row))
    heaviest = order[np.append(True, np.diff(row[order]) > 0)]
    fold = fold_of_each(dealt(z[heaviest]), len(heaviest))
    for code in np.unique(z):
        voted = row[z == code]
        if (fold[voted] == fold[voted[0]]).all():
            fold[voted[0]] = -1
    return [np.flatnonzero(fold[row] == k) for k in range(fold.max(initial=-1) + 1)]


def _dealt(z: NDArray[np.integer], cv: int, rng: np.random.RandomState) -> list[NDArray[np.intp]]:
    order = rng.permutation(len(z))
    _, first, group, size = np.unique(z[order], return_index=True, return_inverse=True, return_counts=True)
    by_group = np.argsort(first[group], kind="stable")  # groups as they come, whatever their names
    rows = order[by_group[size[group[by_group]] > 1]]
    return [np.sort(rows[k::cv]) for k in range(min(cv, len(rows)))]


def sample_places(z: NDArray[np.integer], seed: int, size: int) -> NDArray[np.intp]:
    """Positions of about `size` rows, or of all if there are fewer, stratified by class with the unlabelled as one more."""
    if len(z) <= size:
        return np.arange(len(z))
    rng = np.random.default_rng(seed)
    parts = []
    for code in np.unique(z):
        members = np.flatnonzero(z == code)
        parts.append(rng.choice(members, min(len(members), max(2, round(size * len(members) / len(z)))), replace=False))
    return np.sort(np.concatenate(parts))


class Sample(NamedTuple):
    """Training rows on the host, sorted by class with unlabelled rows last, on which settings are chosen."""

    x: Array  # (d, m), standardised
    groups: NDArray[np.integer]  # (m,), -1 where the label is missing, larger by `n_classes` where it was asked for
    n_classes: int
    weight: Array | None  # (m,)
    covariates: Array | None  # (L, m)
    numbers: NDArray[np.intp] | None  # (m,), their numbers among the user's rows; None if these are not in memory

    @property
    def z(self) -> NDArray[np.integer]:
        """Codes of the classes, -1 where the label is missing."""
        return np.where(self.groups < 0, -1, self.groups % self.n_classes)

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Whether the label was missing when the data came."""
        return (self.groups < 0) | (self.groups >= self.n_classes)

    def dealt(self, cv: int, random_state: Any) -> list[NDArray[np.intp]]:
        """Folds of the sample; copies of a row are in the same fold."""
        order = row_order(
            self.x.T, self.groups, self.weight
        )  # which depends neither on where the rows are nor on names of classes
        rows = order if self.numbers is None else self.numbers[order]
        weight = None if self.weight is None else self.weight[order]
        tests = folds_of_copies(self.z[order], weight, rows, cv, random_state)
        return [np.sort(order[test]) for test in tests]

    def folds(self, rows: Rows, cv: Any, random_state: Any) -> "Folds":
        """Folds of the sample; `cv` as in `whole_row_folds`, for the user's rows."""
        if self.numbers is None:
            if not isinstance(cv, Integral):
                raise ValueError("cv must be a number of folds for rows in a file, on a device or on a cluster.")
            return Folds(self.dealt(int(cv), random_state), None)
        n = len(rows.codes)
        if isinstance(cv, Integral):
            tests = self.dealt(int(cv), random_state)
            by_row = np.arange(n) % len(tests) if tests else np.full(n, -1)  # rows outside the sample train no fold
            if tests and isinstance(rows, HostRows) and rows.kept is not None:
                by_row[rows.kept] = np.arange(len(rows.kept)) % len(tests)
            by_row[self.numbers] = fold_of_each(tests, len(self.z))
            return Folds(tests, by_row)
        by_row = fold_of_each(whole_row_folds(rows.codes, cv, random_state), n)
        tests = [np.flatnonzero(by_row[self.numbers] == k) for k in range(by_row.max() + 1)]
        return Folds(whole_row_folds(self.z, tests), by_row)


class Folds(NamedTuple):
    """Test rows of folds: positions in a sample, and the fold of each of the user's rows, -1 if none tests it."""

    tests: list[NDArray[np.intp]]
    by_row: NDArray[np.intp] | None  # None if the rows are not in memory


def fold_of_each(tests: list[NDArray[np.intp]], n: int) -> NDArray[np.intp]:
    """The fold that tests each of n rows, -1 if none does."""
    fold = np.full(n, -1)
    for k, test in enumerate(tests):
        fold[test] = k
    return fold


def sample_of(rows: Rows, frame: Frame, covariates: Covariates) -> Sample:
    """All rows in the axes of a standardising frame, or a few thousand of them, evenly spread over each class."""
    engine = rows.engine(frame, covariates)
    places = engine.places(min(MOST_ROWS, engine.n_rows))
    x, weight, v = engine.select(places)
    groups = [*range(len(places) - 1), -1]
    z = np.repeat(groups, [len(group) for group in places])
    if len(z) < engine.n_rows:  # shares as among all rows, mean weight too
        weight = np.ones(len(z)) if weight is None else weight
        for group, total in zip(groups, engine.group_weight, strict=True):
            if total > 0.0:
                weight[z == group] *= total * len(z) / engine.n_rows / weight[z == group].sum()
    numbers = None
    if isinstance(rows, HostRows) and not rows.in_file:
        order = np.argsort(np.where(rows.groups < 0, len(groups), rows.groups), kind="stable")
        first = np.concatenate([[0], np.cumsum(engine.counts[:-1])])
        order = order[np.concatenate([a + group for a, group in zip(first, places, strict=True)])]
        numbers = order if rows.kept is None else rows.kept[order]
    return Sample(x, z, len(rows.classes), weight, v, numbers)


class Trials:
    """Settings tried on the folds of a sample.

    Parameters
    ----------
    sample : Sample
    folds : list of arrays
        Test rows of each fold, positions in the sample.
    predict : callable
        ``predict(settings, fold)`` fits settings to the rows outside a fold, and yields each whose fit settled, with its
        log-probabilities (m, K) of the test rows.
    """

    def __init__(
        self,
        sample: Sample,
        folds: list[NDArray[np.intp]],
        predict: Callable[[list[Any], int], Iterator[tuple[Any, Array]]],
    ):
        self.sample, self.folds, self.predict = sample, folds, predict
        self._log_proba: dict[Any, Array] = {}
        self._v = linear_predictor(sample.x.T, sample.missing, sample.weight, folds)

    def best(self, settings: list[Any], more: Callable[[Any], list[Any]] = lambda best: []) -> tuple[Any, float]:
        """The setting with the least evidence against it, and that.

        All are tried on the first folds, and then what `more` adds, given the best. The better ones are tried on the other folds.
        """
        first = min(_FIRST_FOLDS, len(self.folds))
        losses = self._losses(settings, range(first))
        losses |= self._losses(more(min(losses, key=losses.__getitem__)), range(first))
        kept = sorted(losses, key=losses.__getitem__)[: max(_FEWEST, int(_KEPT * len(losses)))]
        losses = self._losses([setting for setting in losses if setting in kept], range(first, len(self.folds)))
        best = min(losses, key=losses.__getitem__)
        return best, losses[best]

    def _losses(self, settings: list[Any], folds: range) -> dict[Any, float]:
        """The evidence against settings in all folds up to these, on which they are tried now; infinite if a fit failed."""
        z, weight = self.sample.z, self.sample.weight
        for fold in folds:
            for setting, log_proba in self.predict(settings, fold):
                everywhere = np.full((len(z), log_proba.shape[1]), np.nan)
                self._log_proba.setdefault(setting, everywhere)[self.folds[fold]] = log_proba
        tested = np.concatenate(self.folds[: folds.stop])
        evidence, losses = Evidence(z, weight, self._v, tested, self.sample.missing), dict.fromkeys(settings, np.inf)
        for setting in settings:
            log_proba = self._log_proba.get(setting, np.array([[np.nan]]))
            if len(log_proba) > 1 and np.isfinite(log_proba[tested]).all():
                losses[setting] = evidence.loss(np.exp(log_proba))
        return losses


def choose_weight(estimator: Any, X: NDArray[Any], sample: Sample, random_state: Any, cv: int = 5) -> float:
    """The `mechanism_weight` with which an estimator for classes 0, 1, ... predicts held-out rows best.

    `X` are the rows of the sample in the user's axes.
    """

    def predict(weights: list[float], fold: int) -> Iterator[tuple[float, Array]]:
        test = folds[fold]
        train = np.delete(np.arange(len(X)), test)
        weight = None if sample.weight is None else sample.weight[train]
        for value in weights:
            trial = clone(estimator).set_params(mechanism_weight=value)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", BoundaryWarning)
                warnings.simplefilter("ignore", ConvergenceWarning)
                with suppress(ValueError, np.linalg.LinAlgError):
                    trial.fit(X[train], sample.z[train], weight, missing=sample.missing[train])
                    yield value, trial.predict_log_proba(X[test])

    folds = sample.dealt(cv, random_state)
    return Trials(sample, folds, predict).best([*WEIGHTS])[0] if folds else WEIGHTS[1]
