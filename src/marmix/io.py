"""Conversion of tables larger than memory to `.npy` files, which the estimators read as memory maps."""

import json
import os
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from marmix.app.reading import text_batches
from marmix.app.survey import Coder
from marmix.core.labels import missing_in_words
from marmix.outputs import new_files
from marmix.tables.cells import arrow, as_numbers, as_table, trimmed, truths
from marmix.tables.preparation import check_columns

_BLOCK = 2**23  # bytes of features converted at a time
_MOST_CLASSES = 100_000
_FORMATS = {".parquet": "parquet", ".pq": "parquet", ".arrow": "ipc", ".feather": "ipc", ".ipc": "ipc"}
_ADVICE = "One-hot encode what is not numeric, or leave it out: columns= names the features."


class Converted(NamedTuple):
    """A converted table, as returned by `to_memmap` and `open_memmap`.

    Attributes
    ----------
    X : memmap of shape (rows, d)
        Features, read-only.
    y : memmap of shape (rows,) or None
        Indices of the labels in `classes`, -1 if missing. None without a label column.
    columns : list of str
        Names of the features.
    classes : array of shape (K,) or None
        The sorted classes.
    rows : int
        Number of rows.
    dropped : int
        Number of rows left out because of a missing feature.

    See Also
    --------
    to_memmap : Convert a table.
    open_memmap : Open a table that was converted before.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> from marmix.io import to_memmap
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = to_memmap(np.array([[0.5, 1.0], [0.7, -1.0]]), f"{folder}/rows.npy", label="x1")
    ...     print(table.X.shape, table.y, table.classes, table.dropped)
    ...     del table
    (2, 1) [ 0 -1] [1] 0
    """

    X: NDArray[np.floating]
    y: NDArray[np.integer] | None
    columns: list[str]
    classes: NDArray[Any] | None
    rows: int
    dropped: int


def to_memmap(
    source: Any,
    target: str | os.PathLike[str],
    *,
    columns: Sequence[str] | None = None,
    label: str | None = None,
    classes: Sequence[Any] | None = None,
    dtype: str = "float64",
    missing: str = "raise",
    overwrite: bool = False,
) -> Converted:
    """Convert a table of any size to a `.npy` file of its features, for estimators to read as a memory map.

    The table is read once, in batches; only the labels are held in memory. A file with the additional ending ``.json``
    holds the names of columns and classes, and one that ends in ``.labels.npy`` the labels. The files appear when all are
    complete: a conversion that fails leaves no files, and existing ones unchanged.

    Parameters
    ----------
    source : path, table, or iterable of tables
        Path of a Parquet or Arrow file, of a folder of Parquet files (read in the order of their names, with Hive
        partitions as columns), or of a CSV or TSV file in UTF-8 with column names (also ``.gz``; delimiter and decimal
        mark are found in its first rows). Or a pyarrow Dataset, Table or RecordBatchReader, a DataFrame, a NumPy array
        (with columns x0, x1, ...), or an iterable of these. In CSV files, empty fields, NA, NaN, null, None, ? and
        similar are missing.
    target : path
        The ``.npy`` file to write.
    columns : list of str or None, default=None
        Features, in this order. By default all columns except the label and an index stored by pandas.
    label : str or None, default=None
        Label column, read as text: classes are integers if all labels are written as such. Null, NaN, -1 and texts such
        as "NA" or "" are missing; a warning says which texts.
    classes : list or None, default=None
        All classes, in the order of their codes; other labels are an error. By default the sorted labels. A class such
        as "None", which otherwise means a missing label, must be named here.
    dtype : {"float64", "float32"}, default="float64"
        Type of the features.
    missing : {"raise", "nan", "drop"}, default="raise"
        If a feature is missing: raise ValueError, write NaN (which estimators reject), or leave out the row.
    overwrite : bool, default=False
        Whether to replace existing files.

    Returns
    -------
    Converted
        `X`, `y`, `columns`, `classes`, `rows`, `dropped`.

    Raises
    ------
    ImportError
        Without pyarrow: ``pip install 'marmix[io]'``.
    FileExistsError
        If one of the files exists, unless `overwrite`.
    ValueError
        If a feature is not a number, missing or infinite (with its column and row, from 0), or the table or an option
        cannot be used.

    See Also
    --------
    open_memmap : Open the files again.
    marmix.MARClassifierCV : Like all estimators, fits to memory maps without loading them.

    Examples
    --------
    The table may come in parts, none of which needs to fit in memory with the others. The last column holds the labels
    here:

    >>> import numpy as np, tempfile
    >>> from marmix.io import to_memmap
    >>> parts = (np.array([[i, i / 2, i % 3 - 1]]) for i in range(4))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = to_memmap(parts, f"{folder}/rows.npy", label="x2")
    ...     print(table.columns, table.X[3], table.y, table.classes)
    ...     del table
    ['x0', 'x1'] [3.  1.5] [-1  0  1 -1] [0 1]

    Pass `X` and `y` of the result to any estimator: ``clf.fit(table.X, table.y)``.
    """
    if dtype not in ("float64", "float32") or missing not in ("raise", "nan", "drop"):
        raise ValueError(
            f"dtype={dtype!r}, missing={missing!r}: see the documentation of to_memmap for what is allowed."
        )
    files = _files(target)
    batches = _batches(source)
    first = next(batches, None)
    if first is None:
        raise ValueError("the table has no row.")
    features = _features(first, columns, label)
    coder = Coder(f"label column {label!r}", classes=classes, most=_MOST_CLASSES)
    codes, rows, seen = [], 0, 0
    sources = [file for file in (source, getattr(source, "filename", None)) if isinstance(file, str | os.PathLike)]
    advice = "give another target, or overwrite=True to replace {}"
    names = [file.name for file in files]
    with new_files(files[0].parent, names, force=overwrite, sources=sources, advice=advice) as part:
        with open(part / names[0], "wb") as file:
            _write_header(file, (0, len(features)), dtype)
            for batch in chain([first], batches):
                check_columns([*features, *([label] if label else [])], batch.schema.names, "a part of the table")
                block = np.empty((batch.num_rows, len(features)), dtype)
                with np.errstate(over="ignore"):  # numbers too large for float32 are rejected below, as infinity
                    for j, name in enumerate(features):
                        block[:, j] = _numbers(batch.column(name), name, seen)
                kept = _kept(block, missing, features, seen)
                file.write(np.ascontiguousarray(block[kept]).data)
                if label is not None:
                    codes.append(coder.add(batch.column(label).filter(arrow().array(kept)), rows))
                rows, seen = rows + int(kept.sum()), seen + len(kept)
            _write_header(file, (rows, len(features)), dtype)
        if not rows:
            raise ValueError(f"the table has no row{' without a missing feature' if seen else ''}.")
        facts = {"columns": features, "label": label, "classes": None, "rows": rows, "dropped": seen - rows}
        if label is not None:
            facts["classes"] = coder.classes.tolist()
            np.save(part / names[1], coder.numbered(np.concatenate(codes)).astype(_code_type(coder.classes)))
            marks = {text: count for text, count in coder.marks.items() if text not in ("", "-1", "nan")}
            if marks:
                warnings.warn(f"label column {label!r}: {missing_in_words(marks)}", UserWarning, stacklevel=2)
        (part / names[2]).write_text(json.dumps(facts, indent=1), encoding="utf-8")
    if label is None:
        files[1].unlink(missing_ok=True)  # of an earlier conversion
    return open_memmap(target)


def open_memmap(target: str | os.PathLike[str]) -> Converted:
    """Open a table that `to_memmap` converted.

    Parameters
    ----------
    target : path
        The ``.npy`` file that was given to `to_memmap`.

    Returns
    -------
    Converted
        `X`, `y`, `columns`, `classes`, `rows`, `dropped`.

    Raises
    ------
    FileNotFoundError
        If a file does not exist.
    ValueError
        If the files do not belong together.

    See Also
    --------
    to_memmap : Convert a table.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> from marmix.io import open_memmap, to_memmap
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     target = f"{folder}/rows.npy"
    ...     table = to_memmap(np.arange(6.0).reshape(3, 2), target)
    ...     table = open_memmap(target)
    ...     print(table.rows, table.columns, table.y)
    ...     del table
    3 ['x0', 'x1'] None
    """
    files = _files(target)
    try:
        facts = json.loads(files[2].read_text(encoding="utf-8"))
        columns, classes, rows, dropped = (facts[key] for key in ("columns", "classes", "rows", "dropped"))
        X = np.load(files[0], mmap_mode="r")
        y = None if classes is None else np.load(files[1], mmap_mode="r")
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{error.filename} is not there: convert the table with to_memmap.") from None
    except (KeyError, TypeError, ValueError, EOFError) as error:
        raise ValueError(f"{target} or a file beside it is damaged ({error}): convert the table again.") from None
    if X.shape != (rows, len(columns)) or (y is not None and len(y) != rows):
        raise ValueError(f"{files[0]} and the files beside it do not belong together: convert the table again.")
    return Converted(X, y, columns, None if classes is None else np.array(classes), rows, dropped)


def _files(target: str | os.PathLike[str]) -> tuple[Path, Path, Path]:
    """Paths of the features, the labels, and the names of columns and classes."""
    path = Path(target)
    if path.suffix != ".npy":
        raise ValueError(f"target={str(target)!r} must be a file name that ends in .npy.")
    return path, path.with_suffix(".labels.npy"), path.with_name(f"{path.name}.json")


def _write_header(file: Any, shape: tuple[int, ...], dtype: str) -> None:
    """Write the header of an array, which NumPy pads so that the number of rows can be changed later."""
    file.seek(0)
    header = {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)


def _batches(source: Any) -> Iterator[Any]:
    """Record batches of a table of any kind, of a few megabytes."""
    pa = arrow()
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        if not path.is_dir() and path.suffix.lower() not in _FORMATS:
            yield from _small(text_batches(path))
            return
        if not path.exists():
            raise FileNotFoundError(f"{path} is not there.")
        kind = _FORMATS.get(path.suffix.lower(), "parquet")
        source = arrow(".dataset").dataset(str(path), format=kind, partitioning="hive")
    if isinstance(source, arrow(".dataset").Dataset):
        few = {"batch_readahead": 1, "fragment_readahead": 1, "use_threads": False}
        yield from _small(source.scanner(**few).to_batches())
    elif isinstance(source, pa.RecordBatchReader):
        yield from _small(source)
    elif hasattr(source, "ndim") or hasattr(source, "__arrow_c_stream__") or isinstance(source, pa.RecordBatch):
        yield from _small(as_table(source).combine_chunks().to_batches())
    elif isinstance(source, Iterable):
        yield from chain.from_iterable(map(_batches, source))
    else:
        raise TypeError(
            f"cannot read {type(source).__name__} as a table: give a path, a table, or an iterable of tables."
        )


def _small(batches: Iterable[Any]) -> Iterator[Any]:
    for batch in batches:
        size = _BLOCK // (8 * max(batch.num_columns, 1)) or 1
        yield from (batch.slice(a, size) for a in range(0, batch.num_rows, size))


def _features(batch: Any, columns: Sequence[str] | None, label: str | None) -> list[str]:
    """Names of the features, checked."""
    names, counts = batch.schema.names, Counter(batch.schema.names)
    if isinstance(columns, str):
        raise ValueError(f"columns={columns!r} must be a list of names.")
    index = (batch.schema.pandas_metadata or {}).get("index_columns", [])
    chosen = [name for name in names if name != label and name not in index] if columns is None else list(columns)
    check_columns(chosen if label is None else [*chosen, label], names, "the table")
    if not chosen or any(counts[name] > 1 or chosen.count(name) > 1 or name in (label, "") for name in chosen):
        raise ValueError(f"columns={columns!r}: name at least one feature of {names}, each once, and not the label.")
    return chosen


def _numbers(column: Any, name: str, seen: int) -> NDArray[Any]:
    """A column as numbers, NaN if missing; true and false are 1 and 0."""
    pa, kind = arrow(), column.type
    if pa.types.is_boolean(kind) or pa.types.is_null(kind) or pa.types.is_decimal(kind):
        column = column.cast(pa.float64())
    if pa.types.is_floating(column.type) or pa.types.is_integer(kind):
        return np.asarray(column.to_numpy(zero_copy_only=False))
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        raise ValueError(f"column {name!r} holds {kind}, not numbers. {_ADVICE}")
    cells = as_numbers(column)
    truth = truths(trimmed(column)) if cells.odd.any() else None
    values = cells.values if truth is None else np.where(cells.odd & (truth >= 0), truth, cells.values)
    odd = np.isnan(values) & ~cells.missing
    if odd.any():
        i = int(np.argmax(odd))
        raise ValueError(
            f"column {name!r} holds {column[i].as_py()!r} in row {seen + i}, not a finite number. {_ADVICE}"
        )
    return values


def _kept(block: NDArray[np.floating], missing: str, features: list[str], seen: int) -> NDArray[np.bool_]:
    """Mask of the rows to write; ValueError for infinity, and for missing features if `missing` is "raise"."""
    refused = np.isinf(block) if missing != "raise" else ~np.isfinite(block)
    if refused.any():
        i, j = (int(place[0]) for place in np.nonzero(refused))
        where = f"in column {features[j]!r}, first in row {seen + i}"
        if np.isinf(block[i, j]):
            raise ValueError(f"the table has infinity, or a number too large for {block.dtype}, {where}: replace it.")
        raise ValueError(
            f"the table misses a feature {where}: impute it, or use missing='drop' to leave out such rows or missing='nan'."
        )
    return ~np.isnan(block).any(axis=1) if missing == "drop" else np.ones(len(block), dtype=bool)


def _code_type(classes: Any) -> np.dtype[Any]:
    return next(np.dtype(kind) for kind in (np.int8, np.int16, np.int32) if len(classes) <= np.iinfo(kind).max)
