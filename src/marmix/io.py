"""Tables larger than memory, converted once to `.npy` files that the estimators read as memory maps."""

import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from marmix.labels import MISSING_FIELDS
from marmix.outputs import Output
from marmix.tables.cells import arrow, as_numbers, trimmed, truths
from marmix.tables.labels import ConvertedLabels
from marmix.tables.reading import READ, Source, as_source, naming, rows_of

_ADVICE = "One-hot encode what is not numeric, or leave it out: columns= names the features."


class Converted(NamedTuple):
    """A table as `to_memmap` leaves it and `open_memmap` finds it.

    Attributes
    ----------
    X : memmap of shape (rows, d)
        Features, read only.
    y : memmap of shape (rows,) or None
        Places of the labels in `classes`, -1 where missing. None if no label was asked for.
    columns : list of str
        Names of the features.
    classes : array of shape (K,) or None
        Names of the classes, sorted.
    rows : int
    dropped : int
        Rows of the source left out for a missing feature.
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
    dtype: str = "float64",
    missing: str = "raise",
    overwrite: bool = False,
    progress: bool = True,
) -> Converted:
    """Convert a table of any size to a `.npy` file of its features, for estimators to read as a memory map.

    The table is read once, in batches, in about 100 MB of memory. Beside `target` a file of that name and ``.json`` is
    written, with the names of columns and classes, and for labels one that ends in ``.labels.npy``. They appear when all is
    written: a conversion that fails or is stopped leaves nothing, and files that were there as they were.

    Parameters
    ----------
    source : path, table, or iterable of tables
        Path of a Parquet file, of a folder of such (read in the order of their names, with the columns of Hive partitions), of
        a CSV or TSV file with a line of names (``.gz`` too), or of an Arrow file (``.arrow``, ``.feather``). Or a
        pyarrow Dataset, Table or RecordBatchReader, a DataFrame, a NumPy array (with columns x0, x1, ...), or an iterable of
        these. In CSV files, empty fields, NA, NaN, null, None, ? and the like are missing.
    target : path
        The ``.npy`` file to write.
    columns : list of str or None, default=None
        Features, in this order. By default all columns but the label, and but an index that pandas stored.
    label : str or None, default=None
        Column of labels: integers, strings or booleans. Null, NaN and -1 are missing; whole floats are integers.
    dtype : {"float64", "float32"}, default="float64"
    missing : {"raise", "nan", "drop"}, default="raise"
        Where a feature is missing: refuse, write NaN (which estimators refuse), or leave the row out.
    overwrite : bool, default=False
        Whether to replace files that exist.
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
        If one of the files is there, unless `overwrite`.
    ValueError
        If a feature is no number, missing or infinite, with its column and row (from 0 on), or the table or an option
        cannot be used.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> from marmix.io import to_memmap
    >>> parts = (np.array([[i, i / 2, i % 3 - 1]]) for i in range(4))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = to_memmap(parts, f"{folder}/rows.npy", label="x2", progress=False)
    ...     print(table.columns, table.X[3], table.y, table.classes)
    ['x0', 'x1'] [3.  1.5] [-1  0  1 -1] [0 1]
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
    labels = None if label is None else ConvertedLabels(label, table.name, table.text)
    blocks = _blocks(table, features, labels, np.dtype(dtype), missing, progress)
    written = [path.name for path in files if labels is not None or path is not files[1]]
    rows = dropped = 0
    with Output(
        files[0].parent,
        written,
        force=overwrite,
        obsolete=[path.name for path in files if path.name not in written],
        advice="give another target, or overwrite=True to replace {}",
    ) as output:
        numbers_path = output.scratch / "numbers"
        with (
            open(output.path(files[0].name), "wb") as x_file,
            open(numbers_path, "wb") as numbers_file,
            closing(blocks),
        ):
            _write_header(x_file, (0, len(features)), dtype)
            for block, numbers, lost in blocks:
                x_file.write(block.data)
                numbers_file.write(numbers.data)
                rows += len(block)
                dropped += lost
            _write_header(x_file, (rows, len(features)), dtype)
        if not rows:
            raise ValueError(f"{table.name} has no row{' without a missing feature' if dropped else ''}.")
        facts = {"columns": features, "label": label, "classes": None, "rows": rows, "dropped": dropped, "dtype": dtype}
        if labels is not None:
            facts["classes"] = _write_labels(labels, numbers_path, output.path(files[1].name), rows)
        text = json.dumps(facts | {"source": table.name}, indent=1)
        output.path(files[2].name).write_text(text, encoding="utf-8")
    return open_memmap(target)


def open_memmap(target: str | os.PathLike[str]) -> Converted:
    """Open what `to_memmap` wrote, by the same `target`.

    Raises
    ------
    FileNotFoundError
        If a file is not there.
    ValueError
        If the files do not belong together.
    """
    files = _files(target)
    try:
        facts = json.loads(files[2].read_text(encoding="utf-8"))
        columns, classes, rows, dropped = (facts[key] for key in ("columns", "classes", "rows", "dropped"))
        shape, dtype = (rows, len(columns)), np.dtype(facts["dtype"])
    except FileNotFoundError:
        raise FileNotFoundError(f"{files[2]} is not there: convert the table with to_memmap.") from None
    except (KeyError, TypeError, ValueError):
        raise ValueError(f"{files[2]} is not what to_memmap writes: convert the table again.") from None
    X = _mapped(files[0], shape, dtype)
    y = None if classes is None else _mapped(files[1], (rows,), _code_type(classes))
    if classes is not None:
        names = np.array(classes)
        classes = names if names.dtype.kind in "biU" else np.array(classes, dtype=object)  # beyond int64
    return Converted(X, y, columns, classes, rows, dropped)


def _files(target: str | os.PathLike[str]) -> tuple[Path, Path, Path]:
    """The features, the labels, and the names of both."""
    path = Path(target)
    if path.suffix != ".npy":
        raise ValueError(f"target={str(target)!r} must be a file name that ends in .npy.")
    return path, path.with_suffix(".labels.npy"), path.with_name(f"{path.name}.json")


def _write_header(file: BinaryIO, shape: tuple[int, ...], dtype: Any) -> None:
    """Write the header of an array whose number of rows may grow: NumPy leaves room in it for their digits."""
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
            f"{path} holds {array.dtype} of shape {array.shape}, where its .json file has {dtype} of shape {shape}: they were "
            "not written together. Convert the table again."
        )
    return array


# Rows and labels.


def _blocks(
    table: Source,
    features: list[str],
    labels: ConvertedLabels | None,
    dtype: np.dtype[Any],
    missing: str,
    progress: bool,
) -> Generator[tuple[NDArray[np.floating], NDArray[np.int32], int], None, None]:
    """Features and labels of the rows that are kept, a block at a time, and the number of rows that are not."""
    seen, booleans = 0, dict[str, bool]()
    size = rows_of(len(features))
    columns = features if labels is None else [*features, labels.name]
    with naming(table.name), _bar(table, progress) as (step, advance):
        for batch in table.read(columns, step):
            for part in (batch.slice(a, size) for a in range(0, batch.num_rows, size)):
                block = np.empty((part.num_rows, len(features)), dtype)
                for j, feature in enumerate(features):
                    column = part.column(feature)
                    with np.errstate(over="ignore"):  # what is too large for float32 is refused below, as infinity
                        if table.text:
                            block[:, j] = _text_numbers(column, feature, table.name, seen, booleans)
                        else:
                            block[:, j] = _numbers(column, feature, table.name)
                kept = _kept(block, missing, features, seen, table.name)
                whole = bool(kept.all())
                numbers = np.empty(0, np.int32)
                if labels is not None:
                    column = part.column(labels.name)
                    numbers = labels.add(column if whole else column.filter(arrow().array(kept))).astype(np.int32)
                yield (block if whole else block[kept]), numbers, int((~kept).sum())
                seen += part.num_rows
                advance(part.num_rows)


def _numbers(column: Any, feature: str, name: str) -> NDArray[Any]:
    """A column as NumPy numbers, NaN where missing."""
    pa, kind = arrow(), column.type
    if pa.types.is_boolean(kind) or pa.types.is_null(kind) or pa.types.is_decimal(kind):
        column = column.cast(pa.float64())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise ValueError(f"{name}: column {feature!r} holds {kind}, not numbers. {_ADVICE}")
    return column.to_numpy(zero_copy_only=False)


def _text_numbers(column: Any, feature: str, name: str, seen: int, booleans: dict[str, bool]) -> NDArray[np.float64]:
    """A column of a text file as numbers, NaN where missing; true and false, if the first cells are such, as 1 and 0."""
    cells = as_numbers(column, MISSING_FIELDS)
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
    """Rows to write; refuse infinity, and missing features unless the user says what to do with them."""
    refused = np.isinf(block) if missing != "raise" else ~np.isfinite(block)
    if refused.any():
        i, j = (int(place[0]) for place in np.nonzero(refused))
        where = f"in column {features[j]!r}, first in row {seen + i}"
        if np.isinf(block[i, j]):
            raise ValueError(f"{name} has infinity, or a number too large for {block.dtype}, {where}: replace it.")
        raise ValueError(
            f"{name} misses a feature {where}: impute it, or give missing='drop' to leave such rows out or missing='nan'."
        )
    return ~np.isnan(block).any(axis=1) if missing == "drop" else np.ones(len(block), dtype=bool)


def _write_labels(labels: ConvertedLabels, numbers: Path, target: Path, rows: int) -> list[Any]:
    """Turn the file of the numbers in which labels came into one of the numbers of classes; return the classes."""
    classes = labels.sorted_names()
    kind = _code_type(classes)
    with open(numbers, "rb") as old, open(target, "wb") as new:
        _write_header(new, (rows,), kind)
        while len(codes := np.fromfile(old, np.int32, READ)):
            new.write(labels.numbered(codes, kind).data)
    return classes


def _code_type(classes: list[Any]) -> np.dtype[Any]:
    return next(np.dtype(kind) for kind in (np.int8, np.int16, np.int32) if len(classes) <= np.iinfo(kind).max)


def _features(table: Source, columns: Sequence[str] | None, label: str | None) -> list[str]:
    """Names of the features, all of them there."""
    names, counts = table.names, Counter(table.names)
    if isinstance(columns, str):
        raise ValueError(f"columns={columns!r} must be a list of names.")
    chosen = [name for name in names if name != label and name not in table.index] if columns is None else list(columns)
    for name in chosen if label is None else [*chosen, label]:
        if counts[name] != 1:
            there = f"{', '.join(map(repr, names[:20]))}{', ...' if len(names) > 20 else ''}"
            raise ValueError(f"{table.name} has {counts[name] or 'no'} columns {name!r}; its columns are {there}.")
    if not chosen or len(set(chosen)) < len(chosen) or label in chosen:
        raise ValueError(f"columns={columns!r}: name each feature once, one at least, and not the label.")
    if columns is None and "" in chosen:
        raise ValueError(f"{table.name} has a column without a name, perhaps an index: name the features in columns=.")
    return chosen


@contextmanager
def _bar(table: Source, progress: bool) -> Iterator[tuple[Callable[[float], object], Callable[[int], object]]]:
    """Yield two functions that move a progress bar: by the share of a text file that was read, or by rows that are done."""

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
