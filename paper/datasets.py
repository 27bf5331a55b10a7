"""The paper's data: its 200 simulated rows, samples like them, MAGIC, and labels that endoscopists could not agree on."""

import csv
import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.datasets import fetch_file
from sklearn.utils import Bunch

from marmix.datasets import make_mar_mixture

MAX_MARGIN = 0.6  # rows with a larger true margin are dropped, which the paper does not say
SLOPE = -6.0  # alpha_1 of the mechanism that hides labels
RATE = 0.7  # share of labels missing
FRESH = 5000  # rows for scoring that no model was fitted to
DISTRIBUTIONS = ("gaussian", "gamma", "beta", "laplace")
CUTS = {True: "truncated", False: "not truncated"}

MAGIC_PAGE = "https://archive.ics.uci.edu/dataset/159/magic+gamma+telescope"
MAGIC_FILE = "https://archive.ics.uci.edu/ml/machine-learning-databases/magic/magic04.data"
MAGIC_SHA256 = "e9314b7ebd4b4b59a3b3d65f7316663963777b16a46786877651dbbaa640b36a"
MAGIC_FEATURES = (
    "fLength", "fWidth", "fSize", "fConc", "fConc1", "fAsym", "fM3Long", "fM3Trans", "fAlpha", "fDist",
)  # fmt: skip
GASTRO_PAGE = "https://archive.ics.uci.edu/dataset/408/gastrointestinal+lesions+in+regular+colonoscopy"
GASTRO_SHA256 = "79290e12c8a6a26ddb5f3b071be54e5b5e029d029609c63207f0cad99152ec4f"
GASTRO_FEATURES = ("feature_294", "feature_441", "feature_472", "feature_486")


def draw(
    seeds: ArrayLike, distribution: str, truncated: bool, rows: int, rate: float, shape: float
) -> tuple[Bunch, Bunch]:
    """A sample with labels hidden by the paper's mechanism, and fresh rows from the same distribution.

    The same two seeds give the same rows at every rate; a higher rate hides the same labels and more. Every class keeps three
    labels, so that every method can be fitted.
    """
    first, second = (int(seed) for seed in np.asarray(seeds))
    common: dict[str, Any] = {"distribution": distribution, "max_margin": MAX_MARGIN if truncated else None}
    hiding: dict[str, Any] = {"link": shape, "slope": SLOPE, "rate": rate, "at_least": 3}
    train = make_mar_mixture(rows, random_state=first, **hiding, **common)
    return train, make_mar_mixture(FRESH, rate=None, random_state=second, **common)


def load_table_1() -> Bunch:
    """The 200 rows that the paper's script draws for Table I: data, target (-1 where hidden) and target_true.

    Class 0 is the paper's class 1.
    """
    with Path(__file__).with_name("table_1.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return Bunch(
        data=np.array([[float(row["x1"]), float(row["x2"])] for row in rows]),
        target=np.array([int(row["label"] or 0) - 1 for row in rows]),
        target_true=np.array([int(row["label_true"]) - 1 for row in rows]),
    )


def load_magic(
    *,
    columns: Sequence[str] | None = None,
    data_home: str | os.PathLike[str] | None = None,
    download_if_missing: bool = True,
    return_X_y: bool = False,
) -> Any:
    """Load the MAGIC gamma telescope data: 19,020 rows, ten features, gamma rays (0) against hadrons (1).

    The file ``magic04.data`` is read from a folder, and downloaded into it if it is not there.

    Parameters
    ----------
    columns : list of str or None, default=None
        Features to return, in this order; all ten by default.
    data_home : path or None, default=None
        The folder. By default the environment variable ``MARMIX_DATA``; if it is not set, ``marmix`` in the user's
        cache (``$XDG_CACHE_HOME`` or ``~/.cache``).
    download_if_missing : bool, default=True
        Whether to download the file from UCI, about 1.5 MB.
    return_X_y : bool, default=False
        Return ``(data, target)`` alone.

    Returns
    -------
    Bunch
        `data` (19020, d), `target`, `feature_names` and `target_names`.

    Raises
    ------
    OSError
        If the file is not there and cannot be downloaded.
    ValueError
        If the file is not the expected one, or a column does not exist.
    """
    names = list(MAGIC_FEATURES if columns is None else columns)
    path = _file("magic04.data", MAGIC_SHA256, MAGIC_PAGE, data_home, MAGIC_FILE if download_if_missing else None)
    table = np.array([line.split(",") for line in path.read_text(encoding="ascii").split()])
    data, target = (
        table[:, [MAGIC_FEATURES.index(name) for name in names]].astype(float),
        (table[:, -1] == "h").astype(np.int64),
    )
    if return_X_y:
        return data, target
    return Bunch(data=data, target=target, feature_names=names, target_names=["gamma", "hadron"])


def load_gastro(*, data_home: str | os.PathLike[str] | None = None, return_X_y: bool = False) -> Any:
    """Load lesions in colonoscopy videos: 76 rows, four features, labels missing where endoscopists disagreed.

    The classes are 0, no resection, and 1, resection. The features 294, 441, 472 and 486 of the UCI set are centred and scaled
    to a sum of squares of 1. This table has no public address, so it is never downloaded.

    Parameters
    ----------
    data_home : path or None, default=None
        The folder of ``gastro.csv``, as in `load_magic`.
    return_X_y : bool, default=False
        Return ``(data, target)`` alone.

    Returns
    -------
    Bunch
        `data` (76, 4), `target` (-1 where missing), `target_true` (histology) and `feature_names`.

    Raises
    ------
    OSError
        If the file is not there.
    ValueError
        If it is not the expected one.
    """
    path = _file("gastro.csv", GASTRO_SHA256, f"a table prepared from {GASTRO_PAGE}", data_home)
    with path.open(encoding="ascii") as file:
        rows = list(csv.DictReader(file))
    code = {"": -1, "no-resection": 0, "resection": 1}
    data = np.array([[float(row[name]) for name in GASTRO_FEATURES] for row in rows])
    target, truth = (np.array([code[row[name]] for row in rows]) for name in ("label", "truth"))
    if return_X_y:
        return data, target
    return Bunch(data=data, target=target, target_true=truth, feature_names=list(GASTRO_FEATURES))


def _file(
    name: str, sha256: str, origin: str, data_home: str | os.PathLike[str] | None, address: str | None = None
) -> Path:
    """The path of a file of known content, downloaded if it is not there and has an address."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "marmix")
    path = Path(data_home or os.environ.get("MARMIX_DATA") or cache).expanduser() / name
    if not path.exists():
        reason: object = "not downloaded"
        if address is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                return Path(fetch_file(address, path.parent, name, sha256))
            except OSError as error:
                reason = error
        raise OSError(f"{path} is missing ({reason}). Put {name} there, or set MARMIX_DATA to its folder: {origin}")
    if hashlib.sha256(path.read_bytes()).hexdigest() != sha256:
        raise ValueError(f"{path} is not the expected file: delete it or replace it. Its SHA-256 should be {sha256}.")
    return path
