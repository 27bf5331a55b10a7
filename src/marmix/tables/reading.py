"""Tables as Arrow record batches: data files, and other sources that can be read once only."""

import mmap
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import partial
from hashlib import file_digest
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from marmix.tables.cells import arrow, checksum, listed, shown
from marmix.tables.delimited import BLOCK, delimited_batches
from marmix.tables.dialect import Dialect, sniff
from marmix.tables.excel import read_sheet

_BLOCK = 2**23  # bytes of features converted at a time
READ = 2**20  # bytes read from a file at a time
_READ_WHOLE = 2**24  # bytes up to which an Arrow file is read whole; the end of a map is lost with that of its file
# Bytes of each column that are parsed at a time, as each column of a batch takes some time, and of all columns.
_OF_COLUMN, _LARGEST = 2**11, 2**25
_PARQUET = (".parquet", ".pq")
_KINDS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".txt": "text",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".feather": "arrow",
    ".arrow": "arrow",
    ".ipc": "arrow",
    ".xlsx": "excel",
    ".xlsm": "excel",
}
_DELIMITERS = {"csv": ",", "tsv": "\t", "text": None}
_FIRST_BYTES = {
    b"PAR1": ("parquet", "a Parquet file", ".parquet"),
    b"ARROW1": ("arrow", "an Arrow file", ".arrow"),
    b"PK\x03\x04": ("excel", "an Excel workbook or a zip archive", ".xlsx"),
    b"\x1f\x8b": ("gzip", "compressed by gzip", ".csv.gz"),
}
_OLD_EXCEL = b"\xd0\xcf\x11\xe0"

Step = Callable[[float], object]


class Watch:
    """Files that may be read several times and must not change meanwhile.

    A change shows in the size, the time of the last change or the identity of a file, in the number of rows, or in a checksum of
    the file or of a column that was read before.
    """

    def __init__(self, name: str, files: Iterable[str | os.PathLike[str]]):
        self.name = name
        self._states = {os.fspath(file): _state(file) for file in files}
        self._rows: int | None = None
        self._checksums: dict[str, Any] = {}

    def check(self) -> None:
        """Raise ValueError if a file is not as it was."""
        for file, before in self._states.items():
            if _state(file) != before:
                raise self._changed()

    def _changed(self) -> ValueError:
        return ValueError(
            f"{self.name} changed while it was read, so rows and results would not belong together: start again when no other "
            "program writes to it."
        )

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Raise ValueError if a file is not as it was at the end, or after an error, which the change then explains."""
        try:
            yield
        except (ValueError, OSError, arrow().ArrowException):
            self.check()
            raise
        self.check()

    def watched(self, read: Callable[[list[str], Step], Iterator[Any]], wanted: list[str], step: Step) -> Iterator[Any]:
        """The record batches of one pass; a single file is looked at after every batch."""
        with self.unchanged():
            for batch in read(wanted, step):
                if len(self._states) == 1:
                    self.check()
                yield batch

    def compared(self, batches: Iterable[Any], *, text: bool) -> Iterator[Any]:
        """The record batches of one pass, compared with those of earlier passes; of text the whole file is compared."""
        rows, checksums = 0, dict[str, tuple[int, ...]]()
        for batch in batches:
            for name, column in () if text else zip(batch.schema.names, batch.columns, strict=True):
                checksums[name] = checksum(column, rows, checksums.get(name, (0, 0, 0)))
            rows += batch.num_rows
            if self._rows is not None and rows > self._rows:
                raise self._changed()
            yield batch
        if self._rows not in (None, rows):
            raise self._changed()
        self._rows = rows
        self.same(checksums)

    def same(self, checksums: Mapping[str, Any]) -> None:
        """Raise ValueError if checksums of the same parts of the table were others before."""
        if any(self._checksums.get(name, value) != value for name, value in checksums.items()):
            raise self._changed()
        self._checksums |= checksums


def _state(file: str | os.PathLike[str]) -> tuple[int, ...] | None:
    """What changes with a file; None if it is not there."""
    try:
        facts = os.stat(file)
    except FileNotFoundError:
        return None
    return facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns


@dataclass(frozen=True)
class Source:
    """A table of any kind; some can be read once only."""

    name: str
    names: list[str]  # of the columns
    read: Callable[[list[str], Step], Iterator[Any]]  # yields record batches with at least these columns
    rows: int | None = None  # if known before reading
    index: list[str] = field(default_factory=list)  # columns that pandas stored as an index
    text: bool = False  # all columns are strings
    dialect: Dialect | None = None  # of a text file
    assumed: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class DataFile:
    r"""A table in a file, which can be read repeatedly; returned by `open_table`.

    Attributes
    ----------
    path : Path
        The file.
    kind : {"csv", "tsv", "text", "parquet", "arrow", "excel"}
        Its format.
    names : list of str
        Column names, in the order of the file.
    size : int
        Size of the file in bytes.
    rows : int or None
        Number of rows, if known before reading.
    index : list of str
        Columns that pandas stored as an index, or a first column without a name, which are not features.
    dialect : Dialect or None
        How a text file is written: `encoding`, `delimiter`, `decimal`, `header_row`, `bom`, `newline`.
    assumed : list of str
        What was assumed about the file and is unusual, in sentences; empty for a CSV file in UTF-8 with commas.

    See Also
    --------
    open_table : Open a file.
    Preparation : Turn its columns into features.
    LabelColumn : Encode its label column.

    Examples
    --------
    Features and labels of a file, read once and in batches:

    >>> import tempfile
    >>> from pathlib import Path
    >>> from marmix.tables import LabelColumn, Preparation, open_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "rows.csv")
    ...     _ = path.write_text("age,group,class\n41,a,x\n35,b,\n28,a,y\n", encoding="utf-8")
    ...     table, labels = open_table(path), LabelColumn("class")
    ...     preparation = Preparation().fit_batches(table.batches, labels)
    >>> print(table.kind, table.names, labels.codes, preparation.get_feature_names_out())
    csv ['age', 'group', 'class'] [ 0 -1  1] ['age' 'group=b']
    """

    path: Path
    kind: str
    names: list[str]
    size: int
    rows: int | None
    index: list[str]
    dialect: Dialect | None
    assumed: list[str]
    _read: Callable[[list[str], Step], Iterator[Any]]
    _watch: Watch

    def batches(self, columns: Sequence[str] | None = None, step: Step | None = None) -> Iterator[Any]:
        """Return an iterator over the rows, in order, as record batches of a few megabytes.

        Parameters
        ----------
        columns : list of str or None, default=None
            Columns to read, in this order; all by default.
        step : callable or None, default=None
            Called after each batch with the share of the file that was read, from 0 to 1.

        Returns
        -------
        iterator of pyarrow.RecordBatch
            Columns of text files are strings without nulls, cell by cell as in the file, in a type that says so if
            numbers have a decimal comma; other files have types.

        Raises
        ------
        ValueError
            If a column does not exist, or if the file is not what it was when it was opened or in an earlier reading.
        """
        wanted = self.names if columns is None else list(columns)
        check_columns(wanted, self.names, str(self.path))
        return self._batches(wanted, step or (lambda share: None))

    def _batches(self, wanted: list[str], step: Step) -> Iterator[Any]:
        with naming(str(self.path), ". Is the file complete?"):
            batches = self._watch.watched(self._read, wanted, step)
            text = self.kind in _DELIMITERS
            parts = (without_views(batch.select(wanted)) for batch in batches if batch.num_rows)
            yield from self._watch.compared(parts, text=text)
        step(1.0)

    def digest(self) -> str:
        """Return the SHA-256 of the file that was read, in hexadecimal.

        Returns
        -------
        str
            64 digits.

        Raises
        ------
        ValueError
            If the file has changed since it was opened.
        """
        self._watch.check()
        with open(self.path, "rb") as file:
            digest = file_digest(file, "sha256").hexdigest()
        self._watch.check()
        return digest


def open_table(
    path: str | os.PathLike[str],
    *,
    encoding: str | None = None,
    delimiter: str | None = None,
    decimal: str | None = None,
    header_row: int | None = None,
    sheet: str | int | None = None,
) -> DataFile:
    r"""Open a data file, whose format follows from the ending of its name.

    In text files (``.csv``, ``.tsv``, ``.txt``, also with ``.gz``) all cells are read as text, and empty lines are
    skipped. Encoding, delimiter and decimal mark are found in the file, unless given, and `DataFile.assumed` says what
    was assumed. Parquet (``.parquet``, ``.pq``) and Arrow files (``.feather``, ``.arrow``, ``.ipc``) have types. So do
    Excel sheets (``.xlsx``), which are read into memory.

    Parameters
    ----------
    path : path
        The file.
    encoding : str or None, default=None
        Encoding of a text file. By default UTF-16 if a byte order mark says so, otherwise UTF-8, or if the bytes are
        not UTF-8 cp1252 or latin-1.
    delimiter : str or None, default=None
        Delimiter of a text file. By default the one among comma, semicolon, tab and ``|`` that gives all rows the same
        number of cells.
    decimal : {".", ","} or None, default=None
        Decimal mark of numbers in a text file, or in the text of an Excel sheet. By default the one that the numbers
        show.
    header_row : int or None, default=None
        Line of the column names in a text file or row in a sheet, from 1. By default the first one below blank lines
        and titles.
    sheet : str or int or None, default=None
        Sheet of an Excel file: its name or its number from 1, by default the first.

    Returns
    -------
    DataFile
        The open table; no row has been read yet.

    Raises
    ------
    OSError
        If the file does not exist or cannot be opened.
    ValueError
        If the file is not a table: empty, without column names or with repeated ones, of another format than its name
        says, in another encoding, or if the decimal mark is in doubt. Errors in later rows are raised when they are
        read.

    See Also
    --------
    Preparation : Turn the columns into features.
    LabelColumn : Encode the label column.
    marmix.io.to_memmap : Convert a table that is larger than memory.

    Examples
    --------
    A file from a spreadsheet with semicolons and decimal commas:

    >>> import tempfile
    >>> from pathlib import Path
    >>> from marmix.tables import open_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "rows.csv")
    ...     _ = path.write_text("age;dose;group\n41;0,5;a\nNA;1,25;\n", encoding="utf-8")
    ...     table = open_table(path)
    ...     print(table.names, *table.assumed, sep="\n")
    ...     print([batch.to_pydict() for batch in table.batches(["age", "group"])])
    ['age', 'dose', 'group']
    Columns are separated by semicolons; --delimiter names another mark.
    Numbers have a decimal comma; --decimal . says otherwise.
    [{'age': ['41', 'NA'], 'group': ['a', '']}]
    """
    path = Path(path)
    kind = _kind(path)
    for option, value, kinds in (
        ("--encoding", encoding, _DELIMITERS),
        ("--delimiter", delimiter, _DELIMITERS),
        ("--decimal", decimal, (*_DELIMITERS, "excel")),
        ("--header-row", header_row, (*_DELIMITERS, "excel")),
        ("--sheet", sheet, ("excel",)),
    ):
        if value is not None and kind not in kinds:
            raise ValueError(f"{option} has no meaning for {path}, which ends in {path.suffix}: leave it out.")
    watch = Watch(str(path), [path])
    with naming(str(path), ". Is the file complete?"), watch.unchanged():
        _check_first_bytes(path, kind)
        if kind in _DELIMITERS:
            given = {"encoding": encoding, "delimiter": delimiter, "decimal": decimal, "header_row": header_row}
            source = _of_text(path, _DELIMITERS[kind], watch, given)
        else:
            source = _of_sheet(path, sheet, header_row, decimal) if kind == "excel" else _of_typed_file(path, kind)
    if source.names and not source.names[0].strip() and all(map(str.strip, source.names[1:])):
        index = "The first column has no name: it was taken for names of the rows, not for a feature."
        source = replace(source, index=source.names[:1], assumed=[*source.assumed, index])
    _check_names(source)
    facts = source.rows, source.index, source.dialect, source.assumed
    return DataFile(path, kind, source.names, path.stat().st_size, *facts, source.read, watch)


def check_columns(wanted: Sequence[str], names: Sequence[str], where: str) -> None:
    """Raise ValueError for columns that do not exist, with the closest names."""
    present = set(names)
    missing = [name for name in wanted if name not in present]
    if missing:
        near = [match for name in missing for match in get_close_matches(name, names, 1)]
        hint = f"Did you mean {listed(near)}?" if near else f"Its columns are {listed(names, 20)}."
        raise ValueError(f"{where} has no column {listed(missing)}. {hint}")


def _kind(path: Path) -> str:
    """The format of an existing file."""
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder: name a file in it.")
    if str(path) == "-" or (path.exists() and not path.is_file()):
        name = "standard input" if str(path) == "-" else path
        raise ValueError(f"{name} is not a file, and data are read several times: save them in a file, and name that.")
    if not path.exists():
        siblings = [file.name for file in path.parent.iterdir()] if path.parent.is_dir() else []
        near = get_close_matches(path.name, siblings, 1)
        hint = f"Did you mean {path.parent / near[0]}?" if near else "Check the name and the folder."
        raise FileNotFoundError(f"{path} is not there. {hint}")
    name = path.name.lower()
    ending = Path(name).suffix
    inner = Path(name.removesuffix(".gz")).suffix
    if ending == ".gz" and _KINDS.get(inner) in _DELIMITERS:
        ending = inner
    if ending == ".xls":
        raise ValueError(f"{path} is in the old Excel format: save it as .xlsx or .csv.")
    if ending not in _KINDS:
        raise ValueError(f"{path}: the name should end in {', '.join(_KINDS)}, or .csv.gz: rename or convert the file.")
    return _KINDS[ending]


def _check_first_bytes(path: Path, kind: str) -> None:
    """Raise ValueError for an empty file, or one of another format than its name says."""
    with open(path, "rb") as file:
        first = file.read(8)
    if not first:
        raise ValueError(f"{path} is empty.")
    packed = path.suffix.lower() == ".gz"
    for signature, (signed, words, ending) in _FIRST_BYTES.items():
        if first.startswith(signature) and (signed != "gzip" if packed else signed != kind):
            raise ValueError(f"{path} is {words}: if its name should end in {ending}, rename it.")
        if not first.startswith(signature) and signed == ("gzip" if packed else kind) and signed != "arrow":
            old = first.startswith(_OLD_EXCEL)
            advice = "save it without a password as .xlsx" if old else "check what it is, and rename or convert it"
            raise ValueError(f"{path} is not {words}, although its name says so: {advice}.")


def _check_names(table: Source) -> None:
    """Raise ValueError for a table without rows, and for missing or repeated column names."""
    if table.rows == 0:
        raise ValueError(f"{table.name} has column names but no rows.")
    unnamed = [j for j, name in enumerate(table.names, 1) if not name.strip() and name not in table.index]
    if unnamed:
        raise ValueError(
            f"{table.name}: column {unnamed[0]} has no name: name every column in the line of column names."
        )
    twice = [name for name, count in Counter(table.names).items() if count > 1]
    if twice:
        first, second = [j for j, name in enumerate(table.names, 1) if name == twice[0]][:2]
        raise ValueError(
            f"{table.name}: columns {first} and {second} are both called {shown(twice[0])}: rename one, or delete it if they are "
            "equal."
        )
    if not table.names:
        raise ValueError(f"{table.name} has no columns.")


# Sources of any kind


def _index(schema: Any) -> list[str]:
    stored = (schema.pandas_metadata or {}).get("index_columns", [])
    return [name for name in stored if isinstance(name, str)]


def rows_of(columns: int) -> int:
    """Number of rows converted at a time."""
    return _BLOCK // (8 * max(columns, 1)) or 1


@contextmanager
def naming(name: str, advice: str = "") -> Iterator[None]:
    """Turn errors of pyarrow into ValueErrors of one line that name the table."""
    pa = arrow()
    try:
        yield
    except (pa.ArrowException, UnicodeError, OSError) as error:
        if isinstance(error, OSError) and (type(error) is not OSError or error.errno is not None):
            raise
        raise ValueError(f"{name} cannot be read: {' '.join(str(error).split())[:200]}{advice}") from None


def as_source(source: Any) -> Source:
    """Return the table at a path, a table in memory, or an iterable of tables as a `Source`."""
    if isinstance(source, str | os.PathLike):
        with naming(str(source)):
            return _of_path(Path(source))
    name = type(source).__name__
    with naming(name):
        if isinstance(source, arrow(".dataset").Dataset):
            return _of_dataset(source, name)
        if hasattr(source, "ndim") or hasattr(source, "__arrow_c_array__") or hasattr(source, "__arrow_c_stream__"):
            return _of_pieces(iter([source]), name)
        if isinstance(source, Iterable):
            return _of_pieces(iter(source), name)
    raise TypeError(f"cannot read {name} as a table: give a path, a table, or an iterable of tables.")


def _of_path(path: Path) -> Source:
    """A file, or a folder of Parquet files."""
    if not path.is_dir():
        kind = _kind(path)
        _check_first_bytes(path, kind)
        if kind not in ("csv", "tsv", "parquet", "arrow"):
            raise ValueError(
                f"{path}: the name should end in .parquet, .csv, .csv.gz, .tsv, .tsv.gz, .arrow or .feather."
            )
        watch = Watch(str(path), [path])
        source = _of_text(path, _DELIMITERS[kind], watch) if kind in _DELIMITERS else _of_typed_file(path, kind)
        return replace(source, read=partial(watch.watched, source.read))
    inside = (
        file.relative_to(path) for file in sorted(path.rglob("*")) if file.suffix.lower() in _PARQUET and file.is_file()
    )
    files = [str(path / file) for file in inside if not any(part[0] in "._" for part in file.parts)]
    if not files:
        raise ValueError(f"{path} has no file that ends in .parquet.")
    watch, hive = Watch(str(path), files), {"partitioning": "hive", "partition_base_dir": str(path)}
    source = _of_parquet(_dataset(path, files, **hive), str(path))
    return replace(source, read=partial(watch.watched, source.read))


def _of_typed_file(path: Path, kind: str) -> Source:
    if kind == "parquet":
        return _of_parquet(_dataset(path, [str(path)]), str(path))
    return _of_arrow(path)


def _dataset(path: Path, files: list[str], **partitions: str) -> Any:
    """A pyarrow dataset of Parquet files, which opens them by names in UTF-8 only."""
    if any(map(_undecoded, files)):
        raise ValueError(f"{path}: the name of a Parquet file and its folder must be text in UTF-8: rename it.")
    return arrow(".dataset").dataset(files, format="parquet", **partitions)


def _undecoded(text: str) -> bool:
    """Whether a text has bytes that were not decoded."""
    return any("\ud800" <= letter <= "\udfff" for letter in text)


def _refuse_other_columns(names: Sequence[str], first: Sequence[str], where: str) -> None:
    if set(names) != set(first):
        odd = sorted(set(names) ^ set(first))[0]
        raise ValueError(
            f"{where}: column {odd!r} is in some parts of the table only. Give all parts the same columns."
        )


def _of_dataset(dataset: Any, name: str) -> Source:
    """A pyarrow dataset; unless it is plain Parquet files, pyarrow's scanner reads it, a row group at a time."""
    ds = arrow(".dataset")

    def plain(fragment: Any) -> bool:
        keys = ds.get_partition_keys(fragment.partition_expression)
        columns = {field for field in dataset.schema if field.name in keys} | set(fragment.physical_schema)
        return isinstance(fragment, ds.ParquetFileFragment) and columns == {*dataset.schema}

    def read(wanted: list[str], step: Step) -> Iterator[Any]:
        few = {"batch_readahead": 1, "fragment_readahead": 1}
        yield from dataset.scanner(columns=wanted, batch_size=rows_of(len(wanted)), **few).to_batches()

    try:
        fragments = list(dataset.get_fragments())
    except ValueError:  # a filtered dataset
        fragments = []
    if fragments and all(map(plain, fragments)):
        return _of_parquet(dataset, name)
    return Source(name, dataset.schema.names, read, index=_index(dataset.schema))


def _of_parquet(dataset: Any, name: str) -> Source:
    """Parquet files, read in batches smaller than their row groups."""
    pa, ds, pq = arrow(), arrow(".dataset"), arrow(".parquet")
    fragments = list(dataset.get_fragments())
    rows = sum(fragment.count_rows() for fragment in fragments)

    def read(wanted: list[str], step: Step) -> Iterator[Any]:
        seen, buffer = 0, max(2**12, min(READ, 2**25 // len(wanted)))
        for fragment in fragments:
            keys = ds.get_partition_keys(fragment.partition_expression)
            groups = [group.id for group in fragment.row_groups]
            with naming(fragment.path), pq.ParquetFile(fragment.open(), buffer_size=buffer, pre_buffer=False) as file:
                _refuse_other_columns([*file.schema_arrow.names, *keys], dataset.schema.names, fragment.path)
                stored = [column for column in wanted if column not in keys]
                for batch in file.iter_batches(rows_of(len(wanted)), groups, stored):
                    batch.validate(full=True)
                    constant = {key: pa.repeat(pa.scalar(value), len(batch)) for key, value in keys.items()}
                    yield pa.RecordBatch.from_pydict(dict(zip(stored, batch.columns, strict=True)) | constant)
                    seen += len(batch)
                    step(seen / rows)

    return Source(name, dataset.schema.names, read, rows, _index(dataset.schema))


def _of_text(path: Path, usual: str | None, watch: Watch, given: Mapping[str, Any] | None = None) -> Source:
    """A text file, with cells as text; not decoded for `to_memmap`, which gives no options and reads numbers only."""
    advice = (
        "pass pandas.read_csv(path, chunksize=100_000, ...) instead of the path, with header=None, sep=, decimal= or encoding= "
        "there."
    )
    decoded = given is not None
    dialect, names, assumed, start, blank = sniff(
        path, usual, **(given or {}), decoded=decoded, advice="" if decoded else advice
    )
    if any(map(_undecoded, names)):
        raise ValueError(f"{path}: the column names are not text in UTF-8: {advice}")
    encoding = dialect.encoding if decoded or dialect.encoding.startswith("utf-16") else None
    block = max(BLOCK if decoded else READ, min(_OF_COLUMN * len(names), _LARGEST))

    def read(wanted: list[str], step: Step) -> Iterator[Any]:
        how = (encoding, dialect.delimiter, dialect.decimal, start)
        watch.same({"file": (yield from delimited_batches(path, *how, names, blank, wanted, step, block))})

    return Source(str(path), names, read, text=True, dialect=dialect, assumed=assumed)


def _of_sheet(path: Path, sheet: str | int | None, header_row: int | None, decimal: str | None) -> Source:
    """A sheet of an Excel workbook, in memory."""
    table, assumed = read_sheet(path, sheet, header_row, decimal)

    def read(wanted: list[str], step: Step) -> Iterator[Any]:
        rows = 0
        for batch in table.select(wanted).to_batches(rows_of(len(wanted))):
            rows += batch.num_rows
            yield batch
            step(rows / table.num_rows)

    return Source(str(path), table.schema.names, read, table.num_rows, assumed=assumed)


def _of_arrow(path: Path) -> Source:
    """An Arrow IPC file or stream, in memory if small, or else read through a memory map whose pages are released."""
    pa, ipc = arrow(), arrow(".ipc")
    with open(path, "rb") as file:
        stream = file.read(6) != b"ARROW1"
        file.seek(0)
        small = os.fstat(file.fileno()).st_size <= _READ_WHOLE
        pages = file.read() if small else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def open_array() -> Any:
        return (ipc.open_stream if stream else ipc.open_file)(pa.BufferReader(pa.py_buffer(pages)))

    def read(wanted: list[str], step: Step) -> Iterator[Any]:
        reader, rows = open_array(), rows_of(len(wanted))
        for batch in reader if stream else map(reader.get_batch, range(reader.num_record_batches)):
            for a in range(0, batch.num_rows, rows):
                part = batch.slice(a, rows)
                part.validate(full=True)
                yield part
                if isinstance(pages, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
                    pages.madvise(mmap.MADV_DONTNEED)

    schema = open_array().schema
    return Source(str(path), schema.names, read, index=_index(schema))


def _of_pieces(pieces: Iterator[Any], name: str) -> Source:
    """A sequence of tables in memory or streams of record batches."""
    batches = chain.from_iterable(map(record_batches, pieces))
    first = next(batches, None)
    if first is None:
        raise ValueError(f"{name} has no row.")

    def read(wanted: list[str], step: Step) -> Iterator[Any]:
        for batch in chain([first], batches):
            _refuse_other_columns(batch.schema.names, first.schema.names, name)
            yield batch

    return Source(name, first.schema.names, read, index=_index(first.schema))


def without_views(batch: Any) -> Any:
    """The same cells, with text and bytes in types that all functions of pyarrow know; polars writes views of them."""
    pa = arrow()
    types = {"string_view": pa.string(), "binary_view": pa.binary()}
    if not any(str(column.type) in types for column in batch.columns):
        return batch
    columns = [
        column.cast(types[str(column.type)]) if str(column.type) in types else column for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, batch.schema.names)


def record_batches(piece: Any) -> Iterator[Any]:
    """Record batches of a table; pandas and NumPy tables are copied a block at a time."""
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
        yield without_views(piece)
    elif hasattr(piece, "__arrow_c_stream__"):
        yield from map(without_views, pa.RecordBatchReader.from_stream(piece))
    else:
        raise TypeError(f"cannot read {type(piece).__name__} as a table: give DataFrames, arrays or Arrow tables.")
