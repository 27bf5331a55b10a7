"""Pieces of the study: independent computations, run by any number of jobs and kept, so that a stopped run resumes."""

import hashlib
import json
import sqlite3
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import scipy
import sklearn
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

import marmix
from marmix.terminal import raw

Values = Mapping[str, Any]  # of pieces, by key
T = TypeVar("T")

SIZES = ("small", "full")
REPLICATES = {
    "comparison": {"small": 8, "full": 200},  # samples of 200 rows, every distribution, truncated or not
    "solvers": {"small": 3, "full": 20},  # truncated samples that are also fitted by ECM
    "proportion": {"small": 5, "full": 100},  # samples of 500 rows, each at ten missing proportions
    "magic": {"small": 3, "full": 20},  # random splits of MAGIC, two thirds for training, at each missing proportion
    "magic-average": {"small": 0, "full": 5},  # splits that `MARClassifierCV` is fitted to: it takes longest
    "measures": {"small": 10, "full": 200},  # samples of 200 rows fitted with every measure
    "measures-truncated": {"small": 10, "full": 200},  # the same, truncated
    "four-classes": {"small": 5, "full": 200},  # samples of 400 rows, four classes, five features
    "shape": {"small": 10, "full": 200},  # samples of each size for the Aranda-Ordaz shape
}


@dataclass(frozen=True)
class Plan:
    """Size and seed of a run.

    The random numbers of a replicate depend on the seed, its name and its number only: the replicates of the small size are
    the first ones of the full size, and results do not depend on the number of jobs.
    """

    size: str = "small"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.size not in SIZES:
            raise ValueError(f"size={self.size!r} is not one of {', '.join(SIZES)}.")
        if not 0 <= self.seed < 2**63:
            raise ValueError(f"seed={self.seed!r} must be a whole number from 0 to 2^63 - 1.")

    def replicates(self, kind: str) -> int:
        """Number of replicates of a kind."""
        return REPLICATES[kind][self.size]


@dataclass(frozen=True)
class Piece:
    """A computation that depends on no other piece.

    Attributes
    ----------
    key : str
        Its name.
    function : callable
        Takes a `numpy.random.Generator` and the arguments; returns something that JSON can hold. Defined at module level.
    arguments : dict
    source : str
        Name that seeds the random numbers: the key by default; pieces with the same source see the same rows.
    alone : bool
        Whether to run after all others, by itself, because it measures time.
    """

    key: str
    function: Callable[..., Any]
    arguments: Mapping[str, Any] = field(default_factory=dict)
    source: str = ""
    alone: bool = False

    def compute(self, seed: int) -> Any:
        """Compute the value, on one thread so that sums do not depend on the number of cores."""
        name = int.from_bytes(hashlib.sha256((self.source or self.key).encode()).digest()[:8], "big")
        rng = np.random.default_rng(np.random.SeedSequence([seed, name]))
        with warnings.catch_warnings(), threadpool_limits(1):
            warnings.simplefilter("ignore")  # the functions count fits that did not converge
            return self.function(rng, **self.arguments)


class Store:
    """Values of finished pieces in one SQLite file, by key, seed and library versions."""

    def __init__(self, path: Path):
        self.path = path
        libraries = {"marmix": marmix, "numpy": np, "scipy": scipy, "scikit-learn": sklearn}
        self.made_with = ", ".join(f"{name} {library.__version__}" for name, library in libraries.items())
        self._database = self._or_os_error(lambda: sqlite3.connect(path, timeout=60.0))
        self._change(
            "create table if not exists pieces (key text, seed integer, made_with text, value text, primary key "
            "(key, seed, made_with))"
        )
        self._change(
            "create table if not exists items (name text, size text, seed integer, primary key (name, size, seed))"
        )

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()

    def keys(self, seed: int) -> set[str]:
        """Keys of the stored pieces."""
        rows = self._rows("select key from pieces where seed = ? and made_with = ?", seed, self.made_with)
        return {key for (key,) in rows}

    def get(self, key: str, seed: int) -> Any:
        """Value of a stored piece."""
        query = "select value from pieces where key = ? and seed = ? and made_with = ?"
        return json.loads(self._rows(query, key, seed, self.made_with)[0][0])

    def put(self, key: str, seed: int, value: Any) -> None:
        """Store a value."""
        self._change("insert or replace into pieces values (?, ?, ?, ?)", key, seed, self.made_with, json.dumps(value))

    def remember(self, item: str, size: str, seed: int) -> None:
        """Record that an item was requested, so that later pages include it."""
        self._change("insert or ignore into items values (?, ?, ?)", item, size, seed)

    def items(self, size: str, seed: int) -> set[str]:
        """Names of the items requested so far."""
        return {name for (name,) in self._rows("select name from items where size = ? and seed = ?", size, seed)}

    def _rows(self, query: str, *values: object) -> list[Any]:
        return self._or_os_error(lambda: self._database.execute(query, values).fetchall())

    def _change(self, statement: str, *values: object) -> None:
        def change() -> None:
            with self._database as database:
                database.execute(statement, values)

        self._or_os_error(change)

    def _or_os_error(self, action: Callable[[], T]) -> T:
        try:
            return action()
        except sqlite3.Error as error:
            raise OSError(f"{self.path} cannot be used ({error}): delete it, or give another --out.") from None


def compute(pieces: Iterable[Piece], store: Store, seed: int, jobs: int, quiet: bool) -> None:
    """Compute the pieces that the store lacks, with a progress bar on standard error."""
    from tqdm import tqdm

    stored = store.keys(seed)
    wanted = {piece.key: piece for piece in pieces}
    todo = [piece for key, piece in wanted.items() if key not in stored]
    with tqdm(
        total=len(wanted), initial=len(wanted) - len(todo), unit="piece", disable=quiet, file=raw(sys.stderr)
    ) as bar:
        parallel = Parallel(n_jobs=jobs, return_as="generator_unordered")(
            delayed(_keyed)(piece, seed) for piece in todo if not piece.alone
        )
        for key, value in chain(parallel, (_keyed(piece, seed) for piece in todo if piece.alone)):
            store.put(key, seed, value)
            bar.set_postfix_str(key.split("/")[0])
            bar.update()


def _keyed(piece: Piece, seed: int) -> tuple[str, Any]:
    try:
        return piece.key, piece.compute(seed)
    except Exception as error:
        error.add_note(f"in the study's piece {piece.key!r} with seed {seed}")
        raise
