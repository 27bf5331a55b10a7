"""Pieces of the study: computed in any order by any number of jobs, and kept.

A run that was stopped goes on where it was.
"""

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

Found = Mapping[str, Any]
T = TypeVar("T")


@dataclass(frozen=True)
class Piece:
    """One computation that needs no other.

    Attributes
    ----------
    key : str
        Its name.
    function : callable
        Takes a `numpy.random.Generator` and the arguments; returns what JSON can hold. Of a module, not local.
    arguments : dict
    source : str
        Where its random numbers come from: the key, unless pieces are to see the same rows.
    alone : bool
        Computed after the others, with no other beside it: it measures time.
    """

    key: str
    function: Callable[..., Any]
    arguments: Mapping[str, Any] = field(default_factory=dict)
    source: str = ""
    alone: bool = False

    def compute(self, seed: int) -> Any:
        """Its value, on one thread: sums do not depend on the machine's number of cores."""
        name = int.from_bytes(hashlib.sha256((self.source or self.key).encode()).digest()[:8], "big")
        rng = np.random.default_rng(np.random.SeedSequence([seed, name]))
        with warnings.catch_warnings(), threadpool_limits(1):
            warnings.simplefilter("ignore")  # fits that did not converge are counted by the functions
            return self.function(rng, **self.arguments)


class Store:
    """Finished pieces in one SQLite file, by key, seed and the versions that made them."""

    def __init__(self, path: Path):
        self.path = path
        libraries = {"marmix": marmix, "numpy": np, "scipy": scipy, "scikit-learn": sklearn}
        self.made_with = ", ".join(f"{name} {library.__version__}" for name, library in libraries.items())
        self._database = self._asked(lambda: sqlite3.connect(path, timeout=60.0))
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
        """Which pieces are here."""
        rows = self._rows("select key from pieces where seed = ? and made_with = ?", seed, self.made_with)
        return {key for (key,) in rows}

    def get(self, key: str, seed: int) -> Any:
        """The value of a piece that is here."""
        question = "select value from pieces where key = ? and seed = ? and made_with = ?"
        return json.loads(self._rows(question, key, seed, self.made_with)[0][0])

    def put(self, key: str, seed: int, value: Any) -> None:
        """Keep a value."""
        self._change("insert or replace into pieces values (?, ?, ?, ?)", key, seed, self.made_with, json.dumps(value))

    def remember(self, item: str, size: str, seed: int) -> None:
        """Note that an item was asked for, so that later pages show it too."""
        self._change("insert or ignore into items values (?, ?, ?)", item, size, seed)

    def items(self, size: str, seed: int) -> set[str]:
        """Items asked for before."""
        return {name for (name,) in self._rows("select name from items where size = ? and seed = ?", size, seed)}

    def _rows(self, question: str, *values: object) -> list[Any]:
        return self._asked(lambda: self._database.execute(question, values).fetchall())

    def _change(self, statement: str, *values: object) -> None:
        def change() -> None:
            with self._database as database:
                database.execute(statement, values)

        self._asked(change)

    def _asked(self, act: Callable[[], T]) -> T:
        try:
            return act()
        except sqlite3.Error as error:
            raise OSError(f"{self.path} cannot be used ({error}): delete it, or give another --out.") from None


def compute(pieces: Iterable[Piece], store: Store, seed: int, jobs: int, quiet: bool) -> None:
    """Compute what the store has not, with a progress bar on standard error."""
    from tqdm import tqdm

    here = store.keys(seed)
    wanted = {piece.key: piece for piece in pieces}
    todo = [piece for key, piece in wanted.items() if key not in here]
    with tqdm(total=len(wanted), initial=len(wanted) - len(todo), unit="piece", disable=quiet, file=sys.stderr) as bar:
        together = Parallel(n_jobs=jobs, return_as="generator_unordered")(
            delayed(_keyed)(piece, seed) for piece in todo if not piece.alone
        )
        for key, value in chain(together, (_keyed(piece, seed) for piece in todo if piece.alone)):
            store.put(key, seed, value)
            bar.set_postfix_str(key.split("/")[0])
            bar.update()


def _keyed(piece: Piece, seed: int) -> tuple[str, Any]:
    try:
        return piece.key, piece.compute(seed)
    except Exception as error:
        error.add_note(f"in the study's piece {piece.key!r} with seed {seed}")
        raise
