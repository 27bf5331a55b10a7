"""Tables of any kind as Arrow record batches, one pass in little memory."""

import mmap
import os
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

_BLOCK = 2**23  # bytes of features that are converted together
READ = 2**20  # bytes of a file that are read together
NUMBER = re.compile(r"\s*[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?\s*")
WHOLE = re.compile(r"\s*([+-]?[0-9]+)(\.0*)?\s*")
_PARQUET = (".parquet", ".pq")
ADVICE = "One-hot encode what is not numeric, or leave it out: columns= names the features."
_NOT_PARSED = re.compile(r"In CSV column #(\d+): Row #(\d+): CSV conversion error to \w+: invalid value '(.*)'", re.S)


class Table(NamedTuple):
    """A table that is read once."""

    name: str
    schema: Any
    batches: Callable[[list[str]], Generator[Any, None, None]]  # record batches, with these columns at least
    total: int | None = None  # its rows; or the size of its file, if there is a position
    position: Callable[[], int] | None = None  # up to which the file was read
    text: bool = False  # labels are strings, whatever they look like


def arrow(module: str = "") -> Any:
    """A module of pyarrow, or how to have it."""
    try:
        return import_module(f"pyarrow{module}")
    except ModuleNotFoundError:
        raise ImportError(
            "marmix reads tables with pyarrow: pip install 'marmix[io]', or 'marmix[cli]' with the program"
        ) from None


def rows_of(columns: int) -> int:
    """Rows of a block."""
    return _BLOCK // (8 * max(columns, 1)) or 1


@contextmanager
def naming(name: str, columns: Sequence[str] = ()) -> Iterator[None]:
    """Errors of pyarrow, with the table, and with the place in a CSV file of these columns."""
    pa = arrow()
    try:
        yield
    except pa.ArrowException as error:
        found = _NOT_PARSED.search(str(error))
        if found is None or not columns:
            raise ValueError(f"{name}: {error}") from error
        column, row = columns[int(found[1])], int(found[2]) - 2  # rows of a CSV file count from 1, with the names
        raise ValueError(f"{name}: column {column!r} holds {found[3]!r} in row {row}, not a number. {ADVICE}") from None
    except OSError as error:
        if type(error) is OSError and error.errno is None:  # pyarrow's own, which do not name the file
            raise OSError(f"{name}: {error}") from error
        raise


def as_table(source: Any, label: str | None) -> Table:
    """The table of a path, of a table in memory, or of an iterable of these."""
    if isinstance(source, str | os.PathLike):
        with naming(str(source)):
            return _of_path(Path(source), label)
    name = type(source).__name__
    with naming(name):
        if isinstance(source, arrow(".dataset").Dataset):
            return _of_dataset(source, name)
        if hasattr(source, "ndim") or hasattr(source, "__arrow_c_array__") or hasattr(source, "__arrow_c_stream__"):
            return _of_pieces(iter([source]), name)
        if isinstance(source, Iterable):
            return _of_pieces(iter(source), name)
    raise TypeError(f"cannot read {name} as a table: give a path, a table, or an iterable of tables.")


def _of_path(path: Path, label: str | None) -> Table:
    """A file by the ending of its name; a folder of Parquet files."""
    if not path.exists():
        raise FileNotFoundError(f"{path} is not there.")
    if path.is_file() and not path.stat().st_size:
        raise ValueError(f"{path} is empty.")
    ending = Path(path.name.lower().removesuffix(".gz")).suffix
    if ending in (".csv", ".tsv"):
        return _of_csv(path, "\t" if ending == ".tsv" else ",", label)
    if path.suffix.lower() in (".arrow", ".feather", ".ipc"):
        return _of_arrow(path)
    if path.suffix.lower() in _PARQUET and path.is_file():
        return _of_parquet(arrow(".dataset").dataset(str(path), format="parquet"), str(path))
    if not path.is_dir():
        raise ValueError(f"{path}: the name should end in .parquet, .csv, .csv.gz, .tsv, .tsv.gz, .arrow or .feather.")
    inside = (file.relative_to(path) for file in sorted(path.rglob("*")) if file.suffix.lower() in _PARQUET)
    files = [str(path / file) for file in inside if not any(part[0] in "._" for part in file.parts)]
    if not files:
        raise ValueError(f"{path} has no file that ends in .parquet.")
    hive = {"partitioning": "hive", "partition_base_dir": str(path)}
    return _of_parquet(arrow(".dataset").dataset(files, format="parquet", **hive), str(path))


def _refuse_other_columns(names: Sequence[str], first: Sequence[str], where: str) -> None:
    if set(names) != set(first):
        odd = sorted(set(names) ^ set(first))[0]
        raise ValueError(
            f"{where}: column {odd!r} is in some parts of the table only. Give all parts the same columns."
        )


def _of_dataset(dataset: Any, name: str) -> Table:
    """Plain Parquet files are read as such; others, or some rows of files, by pyarrow's scanner, which holds row groups whole."""
    ds = arrow(".dataset")

    def plain(fragment: Any) -> bool:
        keys = ds.get_partition_keys(fragment.partition_expression)
        known = {field for field in dataset.schema if field.name in keys}
        return isinstance(fragment, ds.ParquetFileFragment) and known | set(fragment.physical_schema) == {
            *dataset.schema
        }

    def read(wanted: list[str]) -> Generator[Any, None, None]:
        few = {"batch_readahead": 1, "fragment_readahead": 1}
        yield from dataset.scanner(columns=wanted, batch_size=rows_of(len(wanted)), **few).to_batches()

    try:
        fragments = list(dataset.get_fragments())
    except ValueError:  # there is a filter
        return Table(name, dataset.schema, read)
    return _of_parquet(dataset, name) if all(map(plain, fragments)) else Table(name, dataset.schema, read)


def _of_parquet(dataset: Any, name: str) -> Table:
    """Parquet files in batches that are smaller than their row groups."""
    pa, ds, pq = arrow(), arrow(".dataset"), arrow(".parquet")
    fragments = list(dataset.get_fragments())

    def read(wanted: list[str]) -> Generator[Any, None, None]:
        buffer = max(2**12, min(READ, 2**25 // len(wanted)))
        for fragment in fragments:
            keys = ds.get_partition_keys(fragment.partition_expression)
            groups = [group.id for group in fragment.row_groups]
            with naming(fragment.path), pq.ParquetFile(fragment.open(), buffer_size=buffer, pre_buffer=False) as file:
                _refuse_other_columns([*file.schema_arrow.names, *keys], dataset.schema.names, fragment.path)
                stored = [column for column in wanted if column not in keys]
                for batch in file.iter_batches(rows_of(len(wanted)), groups, stored):
                    constant = {key: pa.repeat(pa.scalar(value), len(batch)) for key, value in keys.items()}
                    yield pa.RecordBatch.from_pydict(dict(zip(stored, batch.columns, strict=True)) | constant)

    return Table(name, dataset.schema, read, sum(fragment.count_rows() for fragment in fragments))


def _of_csv(path: Path, delimiter: str, label: str | None) -> Table:
    pa, csv = arrow(), arrow(".csv")
    position = 0

    def opened(file: Any, **types: Any) -> Any:
        return csv.open_csv(
            pa.input_stream(file, compression="gzip" if path.suffix.lower() == ".gz" else None),
            csv.ReadOptions(use_threads=False, block_size=READ),  # with threads, errors do not tell the row
            csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            csv.ConvertOptions(strings_can_be_null=True, **types),
        )

    def read(wanted: list[str]) -> Generator[Any, None, None]:
        nonlocal position
        boolean = {column for column in wanted if schema.field(column).type == pa.bool_()}
        types = {column: pa.bool_() if column in boolean else pa.float64() for column in wanted}
        if label is not None:
            types[label] = pa.string()
        with open(path, "rb", buffering=0) as file:
            for batch in opened(file, column_types=types, include_columns=wanted):
                position = file.tell()
                yield batch

    schema = opened(str(path)).schema
    other = (
        "Pass pandas.read_csv(path, chunksize=100_000, ...) instead of the path, with header=None or sep= as it needs."
    )
    if headless(schema.names):
        raise ValueError(f"{path} has numbers in its first line, where names should be. {other}")
    if len(schema.names) == 1 and re.search(r"[;\t|]", schema.names[0]):
        raise ValueError(
            f"{path} has one column only, {schema.names[0]!r}: {delimiter!r} does not separate it. {other}"
        )
    return Table(str(path), schema, read, path.stat().st_size, lambda: position, text=True)


def headless(names: Sequence[str]) -> bool:
    """Whether the first line of a file is a row rather than names: whole numbers can be names beside others, or if they count."""
    numbers = [name for name in names if NUMBER.fullmatch(name)]
    counting = [str(j) for j in range(len(numbers))]
    return not all(map(WHOLE.fullmatch, numbers)) or list(names) == numbers != counting


def _of_arrow(path: Path) -> Table:
    """An Arrow IPC file, or stream in a file, through a map whose pages are given back as they are read."""
    pa, ipc = arrow(), arrow(".ipc")
    with open(path, "rb") as file:
        stream = file.read(6) != b"ARROW1"
        pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def opened() -> Any:
        return (ipc.open_stream if stream else ipc.open_file)(pa.BufferReader(pa.py_buffer(pages)))

    def read(wanted: list[str]) -> Generator[Any, None, None]:
        reader, step = opened(), rows_of(len(wanted))
        for batch in reader if stream else map(reader.get_batch, range(reader.num_record_batches)):
            for a in range(0, batch.num_rows, step):
                yield batch.slice(a, step)
                if hasattr(mmap, "MADV_DONTNEED"):
                    pages.madvise(mmap.MADV_DONTNEED)

    return Table(str(path), opened().schema, read)


def _of_pieces(pieces: Iterator[Any], name: str) -> Table:
    """Tables in memory, or streams of record batches, one after the other."""
    batches = chain.from_iterable(map(record_batches, pieces))
    first = next(batches, None)
    if first is None:
        raise ValueError(f"{name} has no row.")

    def read(wanted: list[str]) -> Generator[Any, None, None]:
        for batch in chain([first], batches):
            _refuse_other_columns(batch.schema.names, first.schema.names, name)
            yield batch

    return Table(name, first.schema, read)


def record_batches(piece: Any) -> Iterator[Any]:
    """Record batches of one table; those of pandas and NumPy are copies, of a block at most."""
    pa = arrow()
    if getattr(piece, "ndim", 2) != 2:
        raise TypeError(f"cannot read {type(piece).__name__} of {piece.ndim} dimensions as a table, which has 2.")
    if isinstance(piece, np.ndarray):
        names = [f"x{j}" for j in range(piece.shape[1])]
        step = rows_of(len(names))
        for block in (piece[a : a + step] for a in range(0, len(piece), step)):
            yield pa.RecordBatch.from_arrays([pa.array(block[:, j]) for j in range(len(names))], names)
    elif hasattr(piece, "iloc"):
        step = rows_of(len(piece.columns))
        for block in (piece.iloc[a : a + step] for a in range(0, len(piece), step)):
            yield from pa.Table.from_pandas(block, preserve_index=False).to_batches()
    elif isinstance(piece, pa.RecordBatch):
        yield piece
    elif hasattr(piece, "__arrow_c_stream__"):
        yield from pa.RecordBatchReader.from_stream(piece)
    else:
        raise TypeError(f"cannot read {type(piece).__name__} as a table: give DataFrames, arrays or Arrow tables.")
