"""Rows on a Dask cluster: each worker holds its partitions, parameters go to it and sums come back.

On every worker lives a `Holder`, a Dask actor, with the rows of some partitions in the axes of the fit. A pass is one small
message to each holder and one back, whatever the graph behind the rows, and sums are added in the order of the partitions: the
result does not depend on which worker has which. A worker that is lost takes no result with it; its partitions are computed again
from the graph, elsewhere.

Without a `distributed.Client` Dask's own scheduler computes the partitions into this process, and one holder has them all.
"""

from collections.abc import Callable, Sequence
from copy import copy
from functools import cached_property, reduce
from itertools import count
from operator import add
from typing import Any
from uuid import uuid4

import dask.array as da
import numpy as np
from dask.delayed import delayed
from dask.highlevelgraph import HighLevelGraph
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from marmix.arrays import Array, on_cluster
from marmix.labels import choose_classes, number_labels
from marmix.likelihood import Block, ScoreModel
from marmix.mechanism.measures import entropy, posterior
from marmix.moments import GroupMoments, merged
from marmix.rows import NO_COVARIATES, Covariates, Engine, Frame, NumpyEngine
from marmix.rows.checks import check_lengths, check_table, check_weighted_classes
from marmix.rows.holders import Crew, Shared
from marmix.rows.host import MANY_ROWS
from marmix.workers import available

# Partitions are joined up to so many rows, times the square of the features: as much work as a block costs anyway.
_JOINED = 2**16


class ClusterEngine(Engine):
    """Rows that the workers of a cluster hold, numbered by a `Crew`."""

    def __init__(self, crew: Crew, frame: Frame, covariates: Covariates):
        super().__init__(frame, covariates)
        self._crew, self._keys = crew, count()
        entered = crew.call("enter", frame, covariates, step=True)
        self._runs = list(entered)
        self._counts, weights = (list(values) for values in zip(*entered.values(), strict=True))
        self.counts, self.group_weight = np.sum(self._counts, axis=0), np.sum(weights, axis=0)

    def shared(self, value: Any) -> Shared:
        key = Shared(next(self._keys))
        self._crew.call("share", key.key, value, step=True)
        return key

    def map(self, function: Callable[..., Any], *args: Any, width: int) -> list[Any]:
        return [part for parts in self._crew.call("map", function, width, *args).values() for part in parts]

    def total(self, function: Callable[..., Any], *args: Any, width: int) -> Any:
        return reduce(add, self._crew.call("total", function, width, *args).values())

    def select(self, places: list[NDArray[np.integer]]) -> tuple[Array, Array | None, Array | None]:
        """Rows by their places, which ascend."""
        ends = np.cumsum(self._counts, axis=0)
        first = ends - self._counts
        split = [np.split(group, np.searchsorted(group, ends[:-1, k])) for k, group in enumerate(places)]
        by_run = {i: [split[k][j] - first[j, k] for k in range(len(places))] for j, i in enumerate(self._runs)}
        parts = list(self._crew.call("select", own=by_run).values())
        at = [np.cumsum([0, *map(len, by_run[i])]) for i in self._runs]
        runs = [(j, slice(*at[j][k : k + 2])) for k in range(len(places)) for j in range(len(parts))]

        def sorted_rows(item: int) -> Any:
            if parts[0][item] is None:
                return None
            return np.concatenate([parts[j][item][..., run] for j, run in runs], axis=-1)

        return sorted_rows(0), sorted_rows(1), sorted_rows(2)

    def holding(self, block: Block) -> NumpyEngine:
        workers = available() if block.x.shape[1] >= MANY_ROWS else 1
        return NumpyEngine.of_block(block, self.frame, self.covariates, workers)

    def release(self) -> None:
        """Let the rows go, before nothing refers to them."""
        self._crew.release()


class ClusterRows:
    """Validated training data of a Dask collection; `of` makes one for a classifier.

    The rows are on the workers until `imputed`, the end of a fit, or until nothing refers to them any more.
    """

    def __init__(self, x: list[Any], y: list[Any], weight: list[Any], coded: bool, n_features: int):
        self._x, self._y, self._coded, self._most = x, y, coded, max(1, _JOINED // n_features**2)
        self._parts = [delayed(_loaded)(*each) for each in zip(x, y, weight, strict=True)]
        self._crew: Crew | None = None
        self._engine: ClusterEngine | None = None

    @classmethod
    def of(cls, classifier: Any, X: Any, y: Any, sample_weight: Any, reset: bool) -> "ClusterRows":
        """The rows of a fit, checked; sets the classes, and what the classifier knows of the features."""
        check_table(X)
        validate_data(classifier, described(X), skip_check_array=True, reset=reset)
        (x, lengths), coded = _partitions(X), not on_cluster(y)
        labels = _beside(X, lengths, classifier._numbers(y, reset) if coded else y, "y")
        weight = [None] * len(x) if sample_weight is None else _beside(X, lengths, sample_weight, "sample_weight")
        rows = cls(x, labels, weight, coded, classifier.n_features_in_)
        crew = Crew(rows._parts, rows._most)
        if reset and not coded:
            found = [one for own in crew.call("labels", classifier.classes).values() for one in own]
            classifier.classes_ = choose_classes(found, classifier.classes, _declared_categories(y))
        rows._number(crew, classifier.classes_)
        if reset:
            check_weighted_classes(classifier.classes_, rows.moments.weight[:-1] > 0.0)
        return rows

    def _number(self, crew: Crew, classes: NDArray[Any]) -> None:
        """Have the labels numbered."""
        self._crew, self._classes, self._lengths = crew, classes, list(crew.lengths.values())
        self._counted = crew.call("number", self._coded, classes, step=True)
        if not any(self._counted.values()):
            raise ValueError("X has no row of positive weight: there is nothing to fit.")

    def _loaded_crew(self) -> Crew:
        """Holders of numbered rows, which are computed anew where an engine has taken them."""
        if self._crew is None:
            self._number(Crew(self._parts, self._most), self._classes)
        assert self._crew is not None
        return self._crew

    @cached_property
    def moments(self) -> GroupMoments:
        """Moments of each class and of the unlabelled."""
        return merged(self._loaded_crew().call("moments").values())

    @property
    def any_missing(self) -> bool:
        """Whether some row has no label."""
        return bool(self.moments.weight[-1] > 0.0)

    def check_finite(self, names: list[str]) -> None:
        """Refuse features that are not finite, by name."""
        first = np.cumsum([0, *self._counted.values()]).tolist()
        for wrong in self._loaded_crew().call("wrong", names, own=dict(enumerate(first))).values():
            raise ValueError(wrong)
        raise ValueError("Input X has values so large that their squares overflow: rescale the features.")

    def engine(self, frame: Frame, covariates: Covariates = NO_COVARIATES) -> ClusterEngine:
        """The rows in the axes of a fit."""
        crew, self._crew = self._loaded_crew(), None
        self._engine = ClusterEngine(crew, frame, covariates)
        return self._engine

    def imputed(self, classifier: Any) -> tuple[Any, float]:
        """Labels of all rows, a lazy Dask array, and the entropy of those that are imputed; the rows are then let go."""
        engine = self._engine
        if engine is None or engine.frame is not classifier._frame:
            engine = self.engine(classifier._frame)
        width = classifier._model.values_per_row()
        uncertain = engine.map(_entropy, classifier._model, classifier._theta, width=width)
        engine.release()
        self._engine = None
        return _labels(classifier, self._x, self._y, self._coded, self._lengths), float(np.sum(uncertain))


def _entropy(block: Block, model: ScoreModel, theta: Any) -> float:
    """The entropy of the labels that are missing."""
    labelled = block.cuts[-1]
    h = entropy(posterior(model.scores(theta, block.x[:, labelled:]))).value
    return float(h.sum() if block.weight is None else h @ block.weight[labelled:])


# From collections to partitions, and back.


def described(X: Any) -> Any:
    """An empty table on the host with the features of a collection, for checks of their number and names."""
    if issparse(X._meta):
        raise TypeError(
            "Sparse data was passed, in the blocks of a Dask array, but marmix needs dense rows: covariances are dense. "
            "Reduce the columns first, or use X.map_blocks(lambda block: block.toarray())."
        )
    return np.empty((0, X.shape[1])) if isinstance(X, da.Array) else X._meta


def _partitions(collection: Any) -> tuple[list[Any], list[float]]:
    """Partitions of whole rows, delayed, and their lengths, NaN where these are unknown."""
    if not isinstance(collection, da.Array):
        parts = list(collection.to_delayed())
        return parts, [np.nan] * len(parts)
    if collection.ndim > 1 and collection.numblocks[1] > 1:
        collection = collection.rechunk({1: -1})  # type: ignore[no-untyped-call]
    return list(collection.to_delayed().ravel()), list(collection.chunks[0])


def _beside(X: Any, lengths: list[float], values: Any, name: str) -> list[Any]:
    """Labels or weights of each partition of X: delayed, or as they are if they are local."""
    known = not np.isnan(lengths).any()
    values = values if on_cluster(values) else np.asarray(values)
    if values.ndim != 1:
        raise ValueError(f"{name} should be a 1d array, got {values.ndim} dimensions instead: choose one column.")
    if not on_cluster(values):
        if not known:
            raise ValueError(
                f"{name} is a local array, but the lengths of X's partitions are unknown: give {name} as a Dask array or series "
                "with the same partitions, or call X.compute_chunk_sizes() first (X.to_dask_array(lengths=True) of a dataframe)."
            )
        check_lengths(X, values, name)
        return np.split(values, np.cumsum(lengths[:-1], dtype=int))
    parts, own = _partitions(values)
    if known and not np.isnan(own).any() and own != lengths:
        check_lengths(X, values, name)
        parts = _partitions(values.rechunk((tuple(lengths),)))[0]
    if len(parts) != len(lengths):
        raise ValueError(
            f"X has {len(lengths)} partitions and {name} has {len(parts)}, so that rows do not align: take both from the same "
            "dataframe, or call compute_chunk_sizes() of both arrays."
        )
    return parts


def _declared_categories(y: Any) -> list[Any] | None:
    """The categories of a series, where they are known before its rows are."""
    categories = getattr(getattr(y._meta, "dtype", None), "categories", None)
    return None if categories is None or not y.cat.known else list(categories)


def _check_aligned(X: Any, **beside: Any) -> None:
    for name, values in beside.items():
        if values is not None and len(values) != len(X):
            raise ValueError(
                f"a partition of X has {len(X)} rows and that of {name} has {len(values)}, so that rows do not align: take both "
                "from the same dataframe, or repartition them alike."
            )


def _loaded(X: Any, y: Any, weight: Any) -> tuple[Any, Any, Any]:
    """A partition in memory."""
    _check_aligned(X, y=y, sample_weight=weight)
    numbers = [np.float64, np.float32]
    return check_array(X, dtype=numbers, ensure_all_finite=False, ensure_min_samples=0, input_name="X"), y, weight


def predicted(X: Any, function: Callable[[Any], Any], shape: tuple[int, ...], dtype: Any) -> Any:
    """A function of blocks of rows, (n, *shape), as a lazy Dask array."""
    (x, lengths), shared = _partitions(X), delayed(function, pure=False, traverse=False)
    return _stacked([delayed(_block)(shared, shape, dtype, part) for part in x], lengths, shape, dtype)


def _block(function: Callable[[Any], Any], shape: tuple[int, ...], dtype: Any, X: Any) -> Any:
    return function(X) if len(X) else np.empty((0, *shape), dtype=dtype)


def imputed(classifier: Any, X: Any, y: Any) -> Any:
    """A label for every row, the given one or the most probable, as a lazy Dask array."""
    (x, lengths), coded = _partitions(X), not on_cluster(y)
    labels = _beside(X, lengths, classifier._numbers(y, False) if coded else y, "y")
    return _labels(classifier, x, labels, coded, lengths)


def _labels(classifier: Any, x: list[Any], y: list[Any], coded: bool, lengths: Sequence[float]) -> Any:
    bare = copy(classifier)  # without labels of its own, which would bring their graph along
    vars(bare).pop("transduction_", None)
    shared = delayed(bare, pure=False, traverse=False)
    blocks = [delayed(_imputed_block)(shared, coded, *each) for each in zip(x, y, strict=True)]
    return _stacked(blocks, lengths, (), classifier.classes_.dtype)


def _imputed_block(classifier: Any, coded: bool, X: Any, y: Any) -> Any:
    _check_aligned(X, y=y)
    if not len(X):
        return np.empty(0, dtype=classifier.classes_.dtype)
    return classifier._imputed(np.asarray(X), y if coded else number_labels(y, classifier.classes_), None)[0]


def _stacked(blocks: list[Any], lengths: Sequence[float], shape: tuple[int, ...], dtype: Any) -> Any:
    """Delayed blocks as one Dask array."""
    name, rest = f"marmix-{uuid4().hex}", (0,) * len(shape)
    graph: Any = {(name, i, *rest): block.key for i, block in enumerate(blocks)}
    layers = HighLevelGraph.from_collections(name, graph, dependencies=blocks)
    chunks = tuple(lengths), *((n,) for n in shape)
    return da.Array(layers, name, chunks, dtype=dtype)  # type: ignore[no-untyped-call]
