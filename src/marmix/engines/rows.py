"""`Rows`, the user's rows wherever they are, and `Engine`, the rows of a fit in its axes, over which functions are mapped."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Self

import numpy as np

from marmix.core.arrays import LARGEST, AnyArray, Array, Ints, namespace, on_cluster, on_device, to_host, unmasked
from marmix.core.files import open_array
from marmix.core.frames import NO_COVARIATES, Covariates, Frame
from marmix.core.labels import encode_labels, has_votes, missing_texts, most_voted, number_labels, vote_shares
from marmix.core.likelihood import Block
from marmix.core.moments import GroupMoments

# Size of blocks on the host: a NumPy call takes longer than a switch of threads, and arrays fit in a shared cache
# (docs/evidence.md, Speed).
_BLOCK_BYTES, _FEWEST_ROWS, _MOST_ROWS = 2**24, 1024, 32768


def block_rows(width: int) -> int:
    """Rows of a block on the host, given the number of values per row in the largest array."""
    return int(min(max(_BLOCK_BYTES // (8 * width), _FEWEST_ROWS), _MOST_ROWS))


def slices(n: int, size: int) -> list[slice]:
    """Cut n rows into slices of `size`."""
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


class Engine(ABC):
    """The rows of a fit, in its axes.

    Functions are called as ``function(block, *args)``; `width` is the number of values per row in their largest array. Results
    are NumPy arrays, in the order of the rows.

    Attributes
    ----------
    frame : Frame
    covariates : Covariates
    counts : array of shape (K + 1,) or (2 K + 1,)
        Number of rows of each class, then of rows of each class whose label was asked for, if there are any, then of unlabelled
        rows.
    group_weight : array
        Their total weights.
    place : array
        An empty array of the type and on the device of the blocks.
    """

    counts: Ints
    group_weight: Array
    place: Any = np.empty(0)

    def __init__(self, frame: Frame, covariates: Covariates):
        self.frame, self.covariates = frame, covariates

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.counts.sum())

    @property
    def labelled(self) -> int:
        """Number of labelled rows."""
        return int(self.counts[:-1].sum())

    @property
    def total_weight(self) -> float:
        """Total weight of all rows."""
        return float(self.group_weight.sum())

    @abstractmethod
    def map(self, function: Callable[..., Any], *args: Any, width: int) -> list[Any]:
        """Results of the function for all blocks."""

    @abstractmethod
    def total(self, function: Callable[..., Any], *args: Any, width: int) -> Any:
        """Sum of the function over all blocks."""

    @abstractmethod
    def select(self, places: list[Ints]) -> tuple[Array, Array | None, Array | None]:
        """Features (d, m), weights and covariates of selected rows, given by their ascending positions in each group."""

    @abstractmethod
    def engine_of(self, block: Block) -> "Engine":
        """An engine for the rows of a block of NumPy arrays in the same axes."""

    def blocks(self, width: int) -> Iterator[Block]:
        """Iterate over blocks of NumPy arrays; for rows on the host only."""
        raise TypeError(f"{type(self).__name__} does not copy all rows to the host.")

    def shared(self, value: Any) -> Any:
        """A stand-in for a value passed to many calls, which a cluster sends only once."""
        return value

    def thinned(self, rows: int) -> "Engine":
        """An engine for a sample of about that many rows, weighted to represent all of them."""
        return self.engine_of(self.sample(rows))

    def places(self, rows: int) -> list[Ints]:
        """Positions in each group of the rows of `sample`."""
        places = []
        for count in self.counts.tolist():
            size = max(-(-count * rows // self.n_rows), min(count, 50))
            places.append(np.arange(size) * count // max(size, 1))
        return places

    def sample(self, rows: int) -> Block:
        """About that many rows, evenly spread over each class and the unlabelled rows, weighted to represent all of them.

        At least 50 rows of each group are kept, or all of them.
        """
        places = self.places(rows)
        x, weight, covariates = self.select(places)
        weight = np.ones(x.shape[1]) if weight is None else weight
        ends = np.cumsum([len(group) for group in places])
        for k, (a, b) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
            if b > a:
                weight[a:b] *= self.group_weight[k] / weight[a:b].sum()
        return Block(x, [0, *ends[:-1].tolist()], weight, covariates)


def group_sizes(x: Any, cuts: Ints, weight: Any) -> tuple[Ints, Array]:
    """Number and weight of the sorted rows of each group."""
    ends = [*cuts.tolist(), x.shape[1]]
    counts = np.diff(ends)
    if weight is None:
        return counts, counts.astype(float)
    xp = namespace(x)
    weights = [xp.sum(weight[a:b], dtype=xp.float64) for a, b in pairwise(ends)]
    return counts, to_host(xp.stack(weights)).astype(float)


def sorted_slice(x: Any, cuts: Ints, weight: Any, v: Any, rows: slice) -> Block:
    """A slice of sorted rows as a block."""
    inside = [min(max(cut - rows.start, 0), rows.stop - rows.start) for cut in cuts.tolist()]
    return Block(x[:, rows], inside, None if weight is None else weight[rows], None if v is None else v[:, rows])


class Rows(ABC):
    """The user's rows, with labels and weights if they are to be fitted.

    Parameters
    ----------
    X : array of shape (n, d)
        Shape and dtype are checked, values are not.

    Attributes
    ----------
    classes : array
        Available after `with_labels`.
    codes : array
        Indices of the classes, -1 where a label is missing, in the form that `map` takes; the most voted class of votes.
    shares : array of shape (n, K) or None
        Shares of the classes in the votes of each row, in the form that `map` takes; None if each row has one label.
    asked : array of bool, shape (n,), or None
        Whether the label of each row was missing and then asked for; None if none was.
    missing_texts : mapping
        Texts that counted as missing labels, and how many rows have each.
    labels_in_file : bool
        Whether the labels are in a file; imputed labels are then not kept in memory.
    """

    classes: AnyArray
    codes: Any
    shares: Any = None
    asked: Any = None
    missing_texts: Mapping[str, int] = MappingProxyType({})
    moments: GroupMoments  # of each class, and of the unlabelled rows
    labels_in_file = False
    takes_out = False  # whether `map` can write to `out`
    allow_nan = False  # whether `map` takes rows with missing values
    only_squares = (
        False  # whether moments on the host are without products of features, of which wide data have too many
    )

    def __init__(self, X: Any):
        self.X = X

    def with_labels(
        self,
        y: Any,
        sample_weight: Any = None,
        missing: Any = None,
        *,
        named: Any = None,
        classes: Any = None,
    ) -> Self:
        """Add labels and weights, and return self.

        Parameters
        ----------
        missing : array-like of bool or None
            Whether the label of each row was missing when the data came; by default where y is missing.
        named : array-like or None
            The classes that the user has named; None to find them among the labels.
        classes : array or None
            The classes of an existing fit.
        """
        y, weight = open_array(y, "y"), unmasked(open_array(sample_weight, "sample_weight"))
        self._add_labels(y, weight, unmasked(missing), named, classes)
        if not (on_cluster(y) or on_device(y) or has_votes(y)):
            self.missing_texts = missing_texts(y, named if classes is None else classes)
        return self

    @abstractmethod
    def _add_labels(self, y: Any, sample_weight: Any, missing: Any, named: Any, classes: Any) -> None:
        pass

    @abstractmethod
    def numbered(self, y: Any, classes: AnyArray) -> Any:
        """Labels as `codes` of the given classes, or votes as `shares`."""

    def map(
        self,
        function: Callable[..., Any],
        *beside: Any,
        names: list[str],
        width: int,
        shape: tuple[int, ...] = (),
        dtype: Any = float,
        out: Any = None,
    ) -> Any:
        """Results of ``function(x, *parts)`` for slices x (m, d) of all rows, as one array (n, *shape) where the rows are.

        Parameters
        ----------
        function : callable
            Rows on a cluster send it to the workers.
        beside : arrays
            Values of all rows; `parts` are their slices.
        names : list of str
            Names of the features, for error messages.
        width : int
            Number of values per row in the function's largest array.
        out : array or path or None
            Where to write the results, for rows on the host.
        """
        if out is not None and not self.takes_out:
            raise ValueError("out= is for rows on the host: what is computed on a device or a cluster stays there.")
        return self._map(function, beside, names, width, shape, dtype, out)

    @abstractmethod
    def _map(self, function: Any, beside: Any, names: list[str], width: int, shape: Any, dtype: Any, out: Any) -> Any:
        pass

    def check_moments(self, mean: Array, variance: Array, names: list[str]) -> None:
        """Raise an error that names a feature that is not finite or too large, given mean and variance of the rows.

        Values are looked at only if the moments give reason to.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            squares = (variance + mean**2) * float(self.moments.weight.sum())
        if not (squares <= LARGEST).all():
            self.check_values(names)
            if not np.isfinite(squares).all():
                raise ValueError(
                    "Input X has numbers so large that sums of their squares overflow: rescale the features."
                )

    @abstractmethod
    def check_values(self, names: list[str]) -> None:
        pass

    @abstractmethod
    def engine(self, frame: Frame, covariates: Covariates = NO_COVARIATES) -> Engine:
        """The rows in the axes of a fit."""

    @property
    def any_missing(self) -> bool:
        """Whether the label of some row was missing."""
        return self.asked is not None or bool(self.moments.weight[-1] > 0.0)


def encoded(y: Any, named: Any, classes: Any) -> tuple[Any, AnyArray, Array | None]:
    """Codes of the labels, the classes (those given, or those found among the labels), and shares of votes."""
    if has_votes(y):
        shares, names = vote_shares(y, named if classes is None else classes, fitted=classes is not None)
        return most_voted(shares), names, shares
    if classes is None:
        return *encode_labels(y, named), None
    return number_labels(y, classes), classes, None
