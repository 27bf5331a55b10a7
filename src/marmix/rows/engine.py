"""Rows where the user has them, and the rows of a fit in its axes.

`Rows` answers everything that depends on where rows are; an `Engine` maps functions over blocks, and knows nothing of models.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from marmix.arrays import Array, like, namespace, on_host
from marmix.labels import encode_labels, number_labels
from marmix.likelihood import Block
from marmix.moments import GroupMoments

# Enough rows that a call of NumPy takes longer than threads need to take turns, in arrays that a shared cache still holds
# (benchmarks/cores.py).
_BLOCK_BYTES, _FEWEST_ROWS, _MOST_ROWS = 2**24, 1024, 32768


def block_rows(width: int) -> int:
    """Rows of a block on the host; `width` is how many values of a row are held together."""
    return int(min(max(_BLOCK_BYTES // (8 * width), _FEWEST_ROWS), _MOST_ROWS))


class Frame:
    """The axes of the fit: centred and, as far as the covariance structure allows, whitened.

    Quadratic features are formed in these axes only, so neither the units of the features nor their correlations cost
    digits.
    """

    def __init__(self, centre: Array, whitener: Array):
        self.centre, self.whitener = centre, whitener
        scale = np.diag(whitener)
        if (
            np.count_nonzero(whitener) == np.count_nonzero(scale) == len(scale)
        ):  # a regular diagonal matrix, which may be large
            self.unwhitener: Array = np.diag(1.0 / scale)
            self.log_det = float(np.log(np.abs(scale)).sum())
        else:
            self.unwhitener = np.asarray(np.linalg.inv(whitener), dtype=float)
            self.log_det = float(np.linalg.slogdet(whitener)[1])

    def enter(self, X: NDArray[np.floating]) -> Array:
        """Rows (n, d) of the user as columns (d, n) of the fit."""
        if on_host(X):
            return np.asarray(self.whitener @ (X - self.centre).T)
        return like(self.whitener, X) @ (X - like(self.centre, X)).T


class Covariates(NamedTuple):
    """The columns of X that drive the mechanism beside the uncertainty, and the axes in which they do; often none."""

    columns: list[int]
    frame: Frame

    @classmethod
    def standardised(cls, columns: list[int], mean: Array, covariance: Array) -> "Covariates":
        """These columns of rows with this mean and covariance, each with mean 0 and variance 1."""
        sd = np.sqrt(np.diag(covariance))[columns]
        return cls(columns, Frame(mean[columns], np.diag(1.0 / np.where(sd > 0.0, sd, 1.0))))

    def enter(self, X: Any) -> Any:
        """The covariates (L, n) of rows (n, d) of the user, None where there are none."""
        if not self.columns:
            return None
        if on_host(X):
            return self.frame.enter(X[:, self.columns])
        xp = namespace(X)
        return self.frame.enter(xp.take(X, xp.asarray(np.array(self.columns), device=X.device), axis=1))

    def alpha_to_user(self, alpha: Any) -> Array:
        """alpha of the user's columns from that of the covariates."""
        alpha = np.array(alpha, dtype=float)
        alpha[2:] = alpha[2:] @ self.frame.whitener
        alpha[0] -= alpha[2:] @ self.frame.centre
        return alpha

    def alpha_from_user(self, alpha: Any) -> Array:
        """alpha of the covariates from that of the user's columns."""
        alpha = np.array(alpha, dtype=float)
        alpha[0] += alpha[2:] @ self.frame.centre
        alpha[2:] = alpha[2:] @ self.frame.unwhitener
        return alpha


NO_COVARIATES = Covariates([], Frame(np.empty(0), np.empty((0, 0))))


class Engine(ABC):
    """The rows of a fit, in its axes.

    A function of blocks is called as ``function(block, *args)``; `width` says how many values of a row it holds together. Results
    come in the order of the rows, whoever computed them, with NumPy arrays for arrays.

    Attributes
    ----------
    frame : Frame
    covariates : Covariates
    counts : array of shape (K + 1,)
        Rows of each class, then rows without label.
    group_weight : array of shape (K + 1,)
        Their weights.
    place : array
        An empty array of the kind that blocks hold, on the device that they are on.
    resolution : float
        The smallest rise of the log-likelihood per row that rounding leaves visible, where that is not far below any tolerance.
    """

    counts: NDArray[np.integer]
    group_weight: Array
    place: Any = np.empty(0)
    resolution = 0.0

    def __init__(self, frame: Frame, covariates: Covariates):
        self.frame, self.covariates = frame, covariates

    @property
    def n_rows(self) -> int:
        """How many rows."""
        return int(self.counts.sum())

    @property
    def labelled(self) -> int:
        """How many of them have a label."""
        return int(self.counts[:-1].sum())

    @property
    def total_weight(self) -> float:
        """The weight of all rows."""
        return float(self.group_weight.sum())

    @abstractmethod
    def map(self, function: Callable[..., Any], *args: Any, width: int) -> list[Any]:
        """The function of every block."""

    @abstractmethod
    def total(self, function: Callable[..., Any], *args: Any, width: int) -> Any:
        """The sum of the function over all blocks."""

    @abstractmethod
    def select(self, places: list[NDArray[np.integer]]) -> tuple[Array, Array | None, Array | None]:
        """Features (d, m), weights and covariates of some rows of every group, by their place in it, as NumPy arrays."""

    @abstractmethod
    def holding(self, block: Block) -> "Engine":
        """An engine of these few rows, NumPy arrays in the axes of this one."""

    def blocks(self, width: int) -> Iterator[Block]:
        """The blocks as NumPy arrays, for what needs every row on the host."""
        raise TypeError(f"{type(self).__name__} does not bring all rows to one place.")

    def shared(self, value: Any) -> Any:
        """What stands for a value among the arguments of many calls; a cluster sends such a value only once."""
        return value

    def thinned(self, rows: int) -> "Engine":
        """An engine of about that many rows, which stand for all of them."""
        return self.holding(self.sample(rows))

    def sample(self, rows: int) -> Block:
        """About that many rows, evenly spread over every class and the unlabelled, weighted to stand for all of them.

        A class keeps up to 50 of its labelled rows however few they are.
        """
        n, places = self.n_rows, []
        for count in self.counts.tolist():
            size = max(-(-count * rows // n), min(count, 50))
            places.append(np.arange(size) * count // max(size, 1))
        x, weight, covariates = self.select(places)
        weight = np.ones(x.shape[1]) if weight is None else weight
        ends = np.cumsum([len(group) for group in places])
        for k, (a, b) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
            if b > a:
                weight[a:b] *= self.group_weight[k] / weight[a:b].sum()
        return Block(x, [0, *ends[:-1].tolist()], weight, covariates)


class Rows(ABC):
    """Rows where the user has them; with labels and weights they are the rows of a fit.

    Parameters
    ----------
    X : array of shape (n, d)
        Checked, but for its values.

    Attributes
    ----------
    classes : array
        Known after `with_labels`.
    codes : array
        Numbers of the classes beside the rows, -1 where a label is missing, as `map` takes them.
    labels_in_file : bool
        Whether the labels came from a file: those imputed then go to a file too, when the user asks for them.
    """

    classes: NDArray[Any]
    codes: Any
    moments: GroupMoments  # of each class, and of the unlabelled
    labels_in_file = False

    def __init__(self, X: Any):
        self.X = X

    @abstractmethod
    def with_labels(
        self, y: Any, sample_weight: Any = None, *, named: Any = None, classes: Any = None, single: bool = False
    ) -> "Rows":
        """The same rows with labels and weights, checked.

        Parameters
        ----------
        named : array-like or None
            The classes that the user has named; None to find them among the labels.
        classes : array or None
            The classes of a fit, where there is one already: labels are then only numbered.
        single : bool
            Whether to compute in single precision, where rows are on a device.
        """

    @abstractmethod
    def numbered(self, y: Any, classes: NDArray[Any]) -> Any:
        """The numbers of these classes beside the rows, -1 where a label is missing, as `map` takes them."""

    @abstractmethod
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
        """``function(x, *parts)`` of runs x (m, d) of all rows, as one array (n, *shape) where the rows are.

        Parameters
        ----------
        function : callable
            Rows on a cluster send it to the workers.
        beside : arrays
            Values of all rows, of which the function gets those of the run.
        names : list of str
            Names of the features, for messages.
        width : int
            How many values of a row the function holds together.
        out : array or path or None
            Where to write, for rows on the host.
        """

    @abstractmethod
    def check_finite(self, names: list[str]) -> None:
        """Say by name which feature is not finite; called where the moments are not."""

    @abstractmethod
    def engine(self, frame: Frame, covariates: Covariates = NO_COVARIATES) -> Engine:
        """The rows in the axes of a fit."""

    @property
    def any_missing(self) -> bool:
        """Whether some row has no label."""
        return bool(self.moments.weight[-1] > 0.0)

    def release(self) -> None:
        """Let go of what a fit has put beside the rows, when it is over."""
        return


def encoded(y: Any, named: Any, classes: Any) -> tuple[Any, NDArray[Any]]:
    """The numbers of the classes, and the classes: those of a fit, or those that are found among the labels."""
    if classes is None:
        return encode_labels(y, named)
    return number_labels(y, classes), classes


def refuse_out(out: Any) -> None:
    """Refuse to write to the host what is computed elsewhere."""
    if out is not None:
        raise ValueError("out= is for rows on the host: what is computed on a device or a cluster stays there.")
