"""Conversion of tables larger than memory to `.npy` files, which the estimators read as memory maps."""

import json
import os
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from marmix.core.labels import missing_in_words
from marmix.outputs import Output
from marmix.tables.cells import arrow, as_numbers, trimmed, truths
from marmix.tables.labels import LabelColumn
from marmix.tables.reading import READ, Source, as_source, naming, rows_of

_MOST_CLASSES = 100_000
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
    ...     table = to_memmap(np.array([[0.5, 1.0], [0.7, -1.0]]), f"{folder}/rows.npy", label="x1", progress=False)
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
    progress: bool = True,
) -> Converted:
    """Convert a table of any size to a `.npy` file of its features, for estimators to read as a memory map.

    The table is read once, in batches, using about 100 MB of memory. A file with the additional ending ``.json`` holds
    the names of columns and classes, and one that ends in ``.labels.npy`` the labels. The files appear when all are
    complete: a conversion that fails leaves no files, and existing ones unchanged.

    Parameters
    ----------
    source : path, table, or iterable of tables
        Path of a Parquet file, a folder of Parquet files (read in the order of their names, with Hive partitions as
        columns), a CSV or TSV file with column names (also ``.gz``; delimiter and decimal mark are found as by
        `marmix.tables.open_table`), or an Arrow file (``.arrow``, ``.feather``). Or a pyarrow Dataset, Table or
        RecordBatchReader, a DataFrame, a NumPy array (with columns x0, x1, ...), or an iterable of these. In CSV files,
        empty fields, NA, NaN, null, None, ? and similar are missing.
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
    progress : bool, default=True
        Whether to show a progress bar on standard error, if tqdm is installed.

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
    marmix.tables.open_table : Read a file in batches, without converting it.
    marmix.MARClassifierCV : Like all estimators, fits to memory maps without loading them.

    Examples
    --------
    The table may come in parts, none of which needs to fit in memory with the others. The last column holds the labels
    here:

    >>> import numpy as np, tempfile
    >>> from marmix.io import to_memmap
    >>> parts = (np.array([[i, i / 2, i % 3 - 1]]) for i in range(4))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = to_memmap(parts, f"{folder}/rows.npy", label="x2", progress=False)
    ...     print(table.columns, table.X[3], table.y, table.classes)
    ...     del table
    ['x0', 'x1'] [3.  1.5] [-1  0  1 -1] [0 1]

    Pass `X` and `y` of the result to any estimator: ``clf.fit(table.X, table.y)``.
    """
    for option, value, allowed in (
        ("dtype", dtype, ["float64", "float32"]),
        ("missing", missing, ["raise", "nan", "drop"]),
    ):
        if value not in allowed:
            raise ValueError(f"{option}={value!r} is not one of {', '.join(map(repr, allowed))}.")
    files = _files(target)
    if not files[0].parent.is_dir():
        raise FileNotFoundError(f"there is no folder {files[0].parent}: make it first.")
    table = as_source(source)
    features = _features(table, columns, label)
    labels = None if label is None else LabelColumn(label, classes=classes, most=_MOST_CLASSES)
    blocks = _blocks(table, features, labels, np.dtype(dtype), missing, progress)
    written = [path.name for path in files if labels is not None or path is not files[1]]
    rows = dropped = 0
    with Output(
        files[0].parent,
        written,
        force=overwrite,
        obsolete=[path.name for path in files if path.name not in written],
        sources=_sources(source),
        advice="give another target, or overwrite=True to replace {}",
    ) as output:
        numbers_path = output.scratch / "numbers"
        with (
            open(output.path(files[0].name), "wb") as x_file,
            open(numbers_path, "wb") as numbers_file,
            closing(blocks),
        ):
            _write_header(x_file, (0, len(features)), dtype)
            for block, numbers, n_dropped in blocks:
                x_file.write(block.data)
                numbers_file.write(numbers.data)
                rows += len(block)
                dropped += n_dropped
            _write_header(x_file, (rows, len(features)), dtype)
        if not rows:
            raise ValueError(f"{table.name} has no row{' without a missing feature' if dropped else ''}.")
        facts = {"columns": features, "label": label, "classes": None, "rows": rows, "dropped": dropped, "dtype": dtype}
        if labels is not None:
            facts["classes"] = _write_labels(labels, numbers_path, output.path(files[1].name), rows)
        text = json.dumps(facts | {"source": table.name}, indent=1)
        output.path(files[2].name).write_bytes(text.encode())
    return open_memmap(target)


def _sources(source: Any) -> list[Any]:
    """Files that hold the rows of a source."""
    if isinstance(source, str | os.PathLike):
        return [source]
    files = [getattr(source, "filename", None)] if isinstance(source, np.memmap) else getattr(source, "files", [])
    return [file for file in files if file is not None]


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
    ...     table = to_memmap(np.arange(6.0).reshape(3, 2), target, progress=False)
    ...     table = open_memmap(target)
    ...     print(table.rows, table.columns, table.y)
    ...     del table
    3 ['x0', 'x1'] None
    """
    files = _files(target)
    try:
        facts = json.loads(files[2].read_text(encoding="utf-8"))
        columns, classes, rows, dropped = (facts[key] for key in ("columns", "classes", "rows", "dropped"))
        shape, dtype = (rows, len(columns)), np.dtype(facts["dtype"])
    except FileNotFoundError:
        raise FileNotFoundError(f"{files[2]} is not there: convert the table with to_memmap.") from None
    except (KeyError, TypeError, ValueError):
        raise ValueError(f"{files[2]} was not written by to_memmap: convert the table again.") from None
    X = _mapped(files[0], shape, dtype)
    y = None if classes is None else _mapped(files[1], (rows,), _code_type(classes))
    if classes is not None:
        names = np.array(classes)
        classes = names if names.dtype.kind in "biU" else np.array(classes, dtype=object)  # beyond int64
    return Converted(X, y, columns, classes, rows, dropped)


def _files(target: str | os.PathLike[str]) -> tuple[Path, Path, Path]:
    """Paths of the features, the labels, and the names of columns and classes."""
    path = Path(target)
    if path.suffix != ".npy":
        raise ValueError(f"target={str(target)!r} must be a file name that ends in .npy.")
    return path, path.with_suffix(".labels.npy"), path.with_name(f"{path.name}.json")


def _write_header(file: BinaryIO, shape: tuple[int, ...], dtype: Any) -> None:
    """Write the header of an array, which NumPy pads so that the number of rows can be changed later."""
    file.seek(0)
    header = {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)


def _mapped(path: Path, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    try:
        array: NDArray[Any] = np.load(path, mmap_mode="r")
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} is not there: convert the table again.") from None
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path} is damaged ({error}): convert the table again.") from None
    if array.shape != shape or array.dtype != dtype:
        raise ValueError(
            f"{path} holds {array.dtype} of shape {array.shape}, but its .json file says {dtype} of shape {shape}. Convert the "
            "table again."
        )
    return array


def _blocks(
    table: Source,
    features: list[str],
    labels: LabelColumn | None,
    dtype: np.dtype[Any],
    missing: str,
    progress: bool,
) -> Generator[tuple[NDArray[np.floating], NDArray[np.int32], int], None, None]:
    """Yield features and label codes of the rows to keep, a block at a time, and the number of other rows."""
    seen, booleans = 0, dict[str, bool]()
    size = rows_of(len(features))
    columns = features if labels is None else [*features, labels.name]
    with naming(table.name), _bar(table, progress) as (step, advance):
        for batch in table.read(columns, step):
            for part in (batch.slice(a, size) for a in range(0, batch.num_rows, size)):
                block = np.empty((part.num_rows, len(features)), dtype)
                for j, feature in enumerate(features):
                    column = part.column(feature)
                    with np.errstate(over="ignore"):  # numbers too large for float32 are rejected below, as infinity
                        if table.text:
                            block[:, j] = _text_numbers(column, feature, table.name, seen, booleans)
                        else:
                            block[:, j] = _numbers(column, feature, table.name)
                kept = _kept(block, missing, features, seen, table.name)
                complete = bool(kept.all())
                numbers = np.empty(0, np.int32)
                if labels is not None:
                    column = part.column(labels.name)
                    numbers = labels.encode(column if complete else column.filter(arrow().array(kept)))
                yield (block if complete else block[kept]), numbers, int((~kept).sum())
                seen += part.num_rows
                advance(part.num_rows)


def _numbers(column: Any, feature: str, name: str) -> NDArray[Any]:
    """A typed column as NumPy numbers, NaN if missing."""
    pa, kind = arrow(), column.type
    if pa.types.is_boolean(kind) or pa.types.is_null(kind) or pa.types.is_decimal(kind):
        column = column.cast(pa.float64())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise ValueError(f"{name}: column {feature!r} holds {kind}, not numbers. {_ADVICE}")
    return column.to_numpy(zero_copy_only=False)


def _text_numbers(column: Any, feature: str, name: str, seen: int, booleans: dict[str, bool]) -> NDArray[np.float64]:
    """A text column as numbers, NaN if missing; true and false become 1 and 0 if its first cells are such."""
    cells = as_numbers(column)
    values, odd = cells.values, cells.odd
    if booleans.get(feature, bool(odd.any())):
        truth = truths(trimmed(column))
        if booleans.get(feature, not (odd & (truth < 0)).any()):
            values, odd = np.where(truth < 0, np.nan, truth), ~cells.missing & (truth < 0)
            booleans[feature] = True
    if not cells.missing.all():
        booleans.setdefault(feature, False)
    if odd.any():
        i = int(np.argmax(odd))
        raise ValueError(
            f"{name}: column {feature!r} holds {column[i].as_py()!r} in row {seen + i}, not a number. {_ADVICE}"
        )
    return values


def _kept(block: NDArray[np.floating], missing: str, features: list[str], seen: int, name: str) -> NDArray[np.bool_]:
    """Mask of the rows to write; ValueError for infinity, and for missing features if `missing` is "raise"."""
    refused = np.isinf(block) if missing != "raise" else ~np.isfinite(block)
    if refused.any():
        i, j = (int(place[0]) for place in np.nonzero(refused))
        where = f"in column {features[j]!r}, first in row {seen + i}"
        if np.isinf(block[i, j]):
            raise ValueError(f"{name} has infinity, or a number too large for {block.dtype}, {where}: replace it.")
        raise ValueError(
            f"{name} misses a feature {where}: impute it, or use missing='drop' to leave out such rows or missing='nan'."
        )
    return ~np.isnan(block).any(axis=1) if missing == "drop" else np.ones(len(block), dtype=bool)


def _write_labels(labels: LabelColumn, numbers: Path, target: Path, rows: int) -> list[Any]:
    """Convert the file of codes in order of first appearance to one of class codes; return the classes."""
    texts = {text: count for text, count in labels.marks.items() if text not in ("", "-1", "nan")}
    if texts:
        warnings.warn(f"{labels.where}: {missing_in_words(texts)}", UserWarning, stacklevel=3)
    classes = labels.classes.tolist()
    kind = _code_type(classes)
    with open(numbers, "rb") as old, open(target, "wb") as new:
        _write_header(new, (rows,), kind)
        while len(codes := np.fromfile(old, np.int32, READ)):
            new.write(labels.numbered(codes, kind).data)
    return classes


def _code_type(classes: list[Any]) -> np.dtype[Any]:
    return next(np.dtype(kind) for kind in (np.int8, np.int16, np.int32) if len(classes) <= np.iinfo(kind).max)


def _features(table: Source, columns: Sequence[str] | None, label: str | None) -> list[str]:
    """Names of the features, checked."""
    names, counts = table.names, Counter(table.names)
    if isinstance(columns, str):
        raise ValueError(f"columns={columns!r} must be a list of names.")
    chosen = [name for name in names if name != label and name not in table.index] if columns is None else list(columns)
    for name in chosen if label is None else [*chosen, label]:
        if counts[name] != 1:
            available = f"{', '.join(map(repr, names[:20]))}{', ...' if len(names) > 20 else ''}"
            raise ValueError(f"{table.name} has {counts[name] or 'no'} columns {name!r}; its columns are {available}.")
    if not chosen or len(set(chosen)) < len(chosen) or label in chosen:
        raise ValueError(f"columns={columns!r}: name at least one feature, each once, and not the label.")
    if columns is None and "" in chosen:
        raise ValueError(f"{table.name} has a column without a name, perhaps an index: name the features in columns=.")
    return chosen


@contextmanager
def _bar(table: Source, progress: bool) -> Iterator[tuple[Callable[[float], object], Callable[[int], object]]]:
    """Yield two functions that advance a progress bar: by the share of a text file read, and by rows done."""

    def nothing(_: float) -> None:
        pass

    try:
        from tqdm import tqdm
    except ModuleNotFoundError:
        yield nothing, nothing
        return
    unit: dict[str, Any] = {"total": table.rows, "unit": "row", "unit_scale": True}
    with tqdm(**({"total": 100, "unit": "%"} if table.text else unit), disable=not progress, file=sys.stderr) as bar:
        yield (lambda share: bar.update(round(100 * share) - bar.n), nothing) if table.text else (nothing, bar.update)
