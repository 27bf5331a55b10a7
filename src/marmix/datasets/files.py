"""Two real data sets, read from a local file or downloaded, with their checksums verified."""

import csv
import hashlib
import io
import os
import urllib.request
import zipfile
import zlib
from collections.abc import Sequence
from http.client import HTTPException
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import Bunch

from marmix.datasets.bunches import delivered
from marmix.outputs import write_whole

TIMEOUT = 30.0  # seconds without a response
LARGEST = 50_000_000  # bytes of a download


class KnownFile(NamedTuple):
    """A file with its checksum and its source."""

    name: str
    sha256: str
    origin: str  # in words, for messages
    addresses: tuple[str, ...] = ()  # of the file, or of a zip archive that contains it


MAGIC_PAGE = "https://archive.ics.uci.edu/dataset/159/magic+gamma+telescope"
MAGIC = KnownFile(
    "magic04.data",
    "e9314b7ebd4b4b59a3b3d65f7316663963777b16a46786877651dbbaa640b36a",
    f"It comes with {MAGIC_PAGE}",
    (
        "https://archive.ics.uci.edu/static/public/159/magic+gamma+telescope.zip",
        "https://archive.ics.uci.edu/ml/machine-learning-databases/magic/magic04.data",
    ),
)
MAGIC_FEATURES = (
    "fLength", "fWidth", "fSize", "fConc", "fConc1", "fAsym", "fM3Long", "fM3Trans", "fAlpha", "fDist",
)  # fmt: skip
MAGIC_DESCRIPTION = f"""MAGIC gamma telescope: particle showers simulated for a Cherenkov telescope, 19,020 rows.

The class is the particle that started the shower: a gamma ray (0, "gamma", 12,332 rows) or a background hadron (1, "hadron",
6,688 rows). The features describe the image of the shower, an ellipse: fLength and fWidth, its major and minor axes (mm);
fSize, the logarithm to base 10 of its content (photons); fConc and fConc1, the shares of the two brightest pixels and of the
brightest one; fAsym, the distance from the brightest pixel to the centre along the major axis (mm); fM3Long and fM3Trans, the
cubic roots of the third moments along the major and the minor axis (mm); fAlpha, the angle between the major axis and the
line to the origin (degrees); fDist, the distance from the origin to the centre (mm).
Source: R. Bock, UCI, {MAGIC_PAGE}
"""

GASTRO_PAGE = "https://archive.ics.uci.edu/dataset/408/gastrointestinal+lesions+in+regular+colonoscopy"
GASTRO_FEATURES = ("feature_294", "feature_441", "feature_472", "feature_486")
GASTRO_CLASSES = ("no-resection", "resection")
GASTRO = KnownFile(
    "gastro.csv",
    "79290e12c8a6a26ddb5f3b071be54e5b5e029d029609c63207f0cad99152ec4f",
    f"It is a table prepared from {GASTRO_PAGE}, with the columns {', '.join(GASTRO_FEATURES)}, label and truth: the four are "
    "features 294, 441, 472 and 486 of that set, each centred, scaled to unit sum of squares and written with 15 digits",
)
GASTRO_DESCRIPTION = f"""Gastrointestinal lesions in colonoscopy videos: 76 lesions, labelled by endoscopists.

The class is whether the lesion should be resected (1, "resection") or not (0, "no-resection"). `target` is the label given by
the endoscopists, -1 where they disagreed (41 lesions); `target_true` is histology. Four features of the video: feature_294,
feature_441, feature_472 and feature_486 are features 294, 441, 472 and 486 of the UCI set, each centred and scaled to mean 0
and sum of squares 1.
Source: UCI, {GASTRO_PAGE}
"""


def load_magic(
    *,
    columns: Sequence[str] | None = None,
    data_home: str | os.PathLike[str] | None = None,
    download_if_missing: bool = True,
    as_frame: bool = False,
    return_X_y: bool = False,
) -> Any:
    """Load the MAGIC gamma telescope data: 19,020 rows, ten features, gamma rays against hadrons.

    The data are fully labelled; use `hide_labels` to hide some of the labels. The file ``magic04.data`` is read from a
    folder, and downloaded into it if it is not there; its SHA-256 checksum is verified either way.

    Parameters
    ----------
    columns : list of str or None, default=None
        Features to return, in this order; all ten by default.
    data_home : path or None, default=None
        The folder. By default the environment variable ``MARMIX_DATA``; if it is not set, ``marmix`` in the user's
        cache (``$XDG_CACHE_HOME`` or ``~/.cache``).
    download_if_missing : bool, default=True
        Whether to download the file from UCI, about 0.5 MB.
    as_frame : bool, default=False
        Return a DataFrame and a Series (needs pandas).
    return_X_y : bool, default=False
        Return ``(data, target)`` alone.

    Returns
    -------
    Bunch
        `data` (19020, d), `target` (0 gamma, 1 hadron), `feature_names`, `target_names`, `frame` (None unless
        `as_frame`), `DESCR` (with the units).

    Raises
    ------
    OSError
        If the file is not there and cannot be downloaded.
    ValueError
        If the file is not the expected one, or a column does not exist.

    See Also
    --------
    load_gastro : Labels that real annotators could not agree on.
    load_tumours : A smaller data set, which needs no file.
    hide_labels : Hide labels by a known mechanism.

    Examples
    --------
    The first call needs the network, so this example is not run with the tests:

    >>> from marmix.datasets import load_magic
    >>> showers = load_magic(columns=["fLength", "fWidth", "fAlpha"])  # doctest: +SKIP
    >>> showers.data.shape, showers.target_names  # doctest: +SKIP
    ((19020, 3), ['gamma', 'hadron'])
    """
    chosen = _columns(columns)
    lines = _content(MAGIC, data_home, download_if_missing).decode("ascii").split()
    table = np.array([line.split(",") for line in lines])
    bunch = Bunch(
        data=table[:, chosen].astype(float),
        target=(table[:, -1] == "h").astype(np.int64),
        feature_names=[MAGIC_FEATURES[j] for j in chosen],
        target_names=["gamma", "hadron"],
        DESCR=MAGIC_DESCRIPTION,
    )
    return delivered(bunch, as_frame, return_X_y)


def load_gastro(
    *, data_home: str | os.PathLike[str] | None = None, as_frame: bool = False, return_X_y: bool = False
) -> Any:
    """Load lesions in colonoscopy videos: 76 rows, four features, labels missing where endoscopists disagreed.

    The file ``gastro.csv`` is a prepared table without a public address, so it is never downloaded.

    Parameters
    ----------
    data_home : path or None, default=None
        The folder of the file, as in `load_magic`.
    as_frame : bool, default=False
        Return a DataFrame and Series (needs pandas).
    return_X_y : bool, default=False
        Return ``(data, target)`` alone.

    Returns
    -------
    Bunch
        `data` (76, 4), `target` (0 no resection, 1 resection, -1 missing), `target_true` (histology), `feature_names`,
        `target_names`, `frame` (None unless `as_frame`), `DESCR`.

    Raises
    ------
    OSError
        If the file is not there.
    ValueError
        If it is not the expected one.

    See Also
    --------
    load_tumours : Medical data that need no file.
    load_magic : A larger data set, with all labels.

    Examples
    --------
    The example needs the file, and is not run with the tests:

    >>> from marmix.datasets import load_gastro
    >>> lesions = load_gastro(data_home="data")  # doctest: +SKIP
    >>> lesions.data.shape, int((lesions.target == -1).sum())  # doctest: +SKIP
    ((76, 4), 41)
    """
    rows = list(csv.DictReader(io.StringIO(_content(GASTRO, data_home, False).decode("ascii"))))
    code = {"": -1} | {name: k for k, name in enumerate(GASTRO_CLASSES)}
    bunch = Bunch(
        data=np.array([[float(row[name]) for name in GASTRO_FEATURES] for row in rows]),
        target=np.array([code[row["label"]] for row in rows]),
        target_true=np.array([code[row["truth"]] for row in rows]),
        feature_names=list(GASTRO_FEATURES),
        target_names=list(GASTRO_CLASSES),
        DESCR=GASTRO_DESCRIPTION,
    )
    return delivered(bunch, as_frame, return_X_y)


def _columns(columns: Sequence[str] | None) -> list[int]:
    if columns is None:
        return list(range(len(MAGIC_FEATURES)))
    names = [columns] if isinstance(columns, str) else list(columns)
    unknown = [name for name in names if name not in MAGIC_FEATURES]
    if unknown:
        raise ValueError(f"columns: no column {unknown[0]!r}; there are {', '.join(MAGIC_FEATURES)}.")
    if not names or len(set(names)) < len(names):
        raise ValueError(f"columns={columns!r}: name each feature once, one at least.")
    return [MAGIC_FEATURES.index(name) for name in names]


# Reading and downloading.


def _content(file: KnownFile, data_home: str | os.PathLike[str] | None, download: bool) -> bytes:
    """Content of the file, read from the folder or else downloaded into it."""
    folder = data_home or os.environ.get("MARMIX_DATA")
    path = (Path(folder) if folder else Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "marmix").expanduser()
    path /= file.name
    if path.is_file():
        content = path.read_bytes()
        if _sha256(content) != file.sha256:
            raise ValueError(
                f"{path} is not the expected file: its SHA-256 is {_sha256(content)}, expected {file.sha256}. "
                "Delete it or replace it."
            )
        return content
    reason = "download_if_missing=False" if file.addresses else "it has no public address"
    if file.addresses and download:
        content, reason = _downloaded(file)
        if content:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, content)
            return content
    raise OSError(
        f"{path} is missing and was not downloaded ({reason}). {file.origin} (SHA-256 {file.sha256}): put it there, or into "
        "the folder given by data_home= or the environment variable MARMIX_DATA."
    )


def _downloaded(file: KnownFile) -> tuple[bytes, str]:
    """The file from the first address that has it, or nothing and the reason."""
    reasons = []
    for address in file.addresses:
        try:
            content = _download(address, file.name)
        except (OSError, HTTPException, zipfile.BadZipFile, zlib.error, EOFError, LookupError, RuntimeError) as error:
            reasons.append(f"{address}: {error or type(error).__name__}")
            continue
        if _sha256(content) == file.sha256:
            return content, ""
        reasons.append(f"{address}: wrong SHA-256")
    return b"", "; ".join(reasons)


def _download(address: str, name: str) -> bytes:
    """The file at an address, or its member of that name if it is a zip archive, which is read without unpacking it."""
    with urllib.request.urlopen(address, timeout=TIMEOUT) as response:
        content = _limited(response)
    if not zipfile.is_zipfile(io.BytesIO(content)):
        return content
    with zipfile.ZipFile(io.BytesIO(content)) as archive, archive.open(name) as member:
        return _limited(member)


def _limited(stream: Any) -> bytes:
    content: bytes = stream.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise OSError(f"more than {LARGEST:,} bytes")
    return content


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
