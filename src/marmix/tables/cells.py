"""Cells of a table as text, numbers and days."""

import json
import re
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from marmix.core.labels import MISSING_TEXTS

NUMBER = re.compile(r"\s*[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?\s*")
WHOLE = re.compile(r"\s*([+-]?[0-9]+)(\.0*)?\s*")
TRUTHS = ("false", "true")
_SHOWN = 40  # characters of a value shown in messages
_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_SIGNS = r"^\p{Sc}\s*|\s*[%\x{2030}\p{Sc}]$"  # money, and 25 %
_SPACES = "[ \u00a0\u202f'\u2019]"
# Patterns of numbers, what is removed from them, and whether a comma then is the decimal mark.
_GROUPED = (
    (r"^[+-]?[0-9]{1,3}(,[0-9]{2,3})*,[0-9]{3}(\.[0-9]*)?$", ",", False),  # 1,234.5, and 1,23,456 in India
    (r"^[+-]?[0-9]{1,3}((\.[0-9]{3})+,[0-9]*|(\.[0-9]{3}){2,})$", r"\.", True),  # 1.234,5 and 1.234.567
    (rf"^[+-]?[0-9]{{1,3}}({_SPACES}[0-9]{{3}})+([.,][0-9]*)?$", _SPACES, True),  # 1 234,5 and 1'234.5
)
_COMMA = r"^[+-]?([0-9]+,[0-9]*|,[0-9]+)([eE][+-]?[0-9]+)?$"
_DOUBTFUL = r"^[+-]?[1-9][0-9]{0,2},[0-9]{3}$"
_MOMENT = (  # a day, a time or both
    r"^(?P<day>|.*?[0-9]{2})(?:(?:^|[T ]+)(?P<hour>[01]?[0-9]|2[0-3]):(?P<minute>[0-5][0-9])(?::(?P<second>[0-5][0-9])"
    r"(?P<fraction>[.,][0-9]+)?)? ?(?P<half>[aApP][mM])?(?:Z|[+-][0-9]{2}:?[0-9]{2})?)?$"
)
_TIME = r"^(([01][0-9]|2[0-3]):[0-5][0-9]|[0-9]{1,2}:[0-5][0-9]:[0-5][0-9]([.,][0-9]+)?)( ?[aApP][mM])?$"
_YEAR, _TWO, _WORD = "[0-9]{4}", "[0-9]{1,2}", r"\p{L}{3,9}"
# How dates are written, and what they look like; of 3/4/2020, which two of these can mean, the first is taken.
_DAYS = {
    **{f"%Y{mark}%m{mark}%d": f"{_YEAR}[{mark}]{_TWO}[{mark}]{_TWO}" for mark in "-/."},
    **{f"%Y{mark}%m": f"(19|20)[0-9]{{2}}{mark}{_TWO}" for mark in "-/"},
    **{f"%d{mark}%m{mark}%Y": f"{_TWO}[{mark}]{_TWO}[{mark}]{_YEAR}" for mark in ".-/"},
    **{f"%m{mark}%d{mark}%Y": f"{_TWO}[{mark}]{_TWO}[{mark}]{_YEAR}" for mark in "-/"},
    **{f"%d{mark}%m{mark}%y": f"{_TWO}[{mark}]{_TWO}[{mark}][0-9]{{2}}" for mark in ".-/"},
    **{f"%m{mark}%d{mark}%y": f"{_TWO}[{mark}]{_TWO}[{mark}][0-9]{{2}}" for mark in "-/"},
    **{f"%d{mark}%b{mark}%Y": f"{_TWO}{mark}{_WORD}{mark}{_YEAR}" for mark in " -"},
    "%d. %b %Y": rf"{_TWO}\. {_WORD} {_YEAR}",
    "%b %d, %Y": f"{_WORD} {_TWO}, {_YEAR}",
    "%Y%m%d": "(19|20)[0-9]{6}",
}
SECONDS = 86400.0  # in a day


def arrow(module: str = "") -> Any:
    """Import a module of pyarrow, with advice if it is not installed."""
    try:
        return import_module(f"pyarrow{module}")
    except ModuleNotFoundError:
        raise ImportError(
            "marmix reads tables with pyarrow: pip install 'marmix[io]', or 'marmix[cli]' with the program"
        ) from None


def shown(value: object) -> str:
    """A value in quotes, shortened, for a message."""
    text = str(value)
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")


def listed(values: Any, most: int = 10) -> str:
    """The first values of a list, for a message."""
    values = list(values)
    return ", ".join(map(shown, values[:most])) + (", ..." if len(values) > most else "")


def counted(number: int, thing: str) -> str:
    """A number and a noun in singular or plural, for a message."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def as_table(X: Any) -> Any:
    """A pandas, polars or Arrow table, a dict of columns or a NumPy array as an Arrow table."""
    pa = arrow()
    if isinstance(X, Mapping):
        table = pa.table({name: pa.array(values, from_pandas=True) for name, values in X.items()})
    elif hasattr(X, "iloc") and getattr(X, "ndim", 2) == 2:
        table = pa.Table.from_pandas(X, preserve_index=False)
    elif isinstance(X, np.ndarray) and X.ndim == 2:
        table = pa.table({f"x{j}": X[:, j] for j in range(X.shape[1])})
    elif isinstance(X, pa.RecordBatch):
        table = pa.Table.from_batches([X])
    elif hasattr(X, "__arrow_c_stream__") and not hasattr(X, "iloc"):
        table = pa.table(X)
    else:
        raise TypeError(f"cannot read {type(X).__name__} as a table: give a data frame, an Arrow table or a 2-d array.")
    views = {"string_view": pa.string(), "binary_view": pa.binary()}
    for j, column in enumerate(table.schema):
        if str(column.type) in views:  # polars writes them, and some functions of pyarrow do not know them
            table = table.set_column(j, column.name, table.column(j).cast(views[str(column.type)]))
    return table


def plain(array: Any) -> Any:
    """An Arrow array without chunks, dictionaries, runs or extensions, and with all text as `string`."""
    pa, pc = arrow(), arrow(".compute")
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0) if array.num_chunks == 1 else array.combine_chunks()
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    kind = array.type
    if pa.types.is_dictionary(kind):
        return plain(array.dictionary).take(array.indices)
    if pa.types.is_run_end_encoded(kind):
        return plain(pc.run_end_decode(array))
    if pa.types.is_large_string(kind) or str(kind) == "string_view":
        return array.cast(pa.string())
    return array


def as_text(array: Any) -> Any:
    """Return a column as text, as it is written to a CSV file.

    Floats have the fewest digits that give the same number again (no point if whole), dates and times follow ISO 8601
    with a space between them, booleans are true and false. Nested values are written as JSON, bytes that are not text
    as hexadecimal.

    Parameters
    ----------
    array : pyarrow.Array or ChunkedArray
        The column, of any type.

    Returns
    -------
    pyarrow.Array
        Strings; empty for null.
    """
    pa, pc = arrow(), arrow(".compute")
    array = plain(array)
    types, kind = pa.types, array.type
    if types.is_string(kind):
        return array.fill_null("") if array.null_count else array
    if types.is_nested(kind) or "binary" in str(kind) or types.is_duration(kind) or types.is_interval(kind):
        values = array.to_pylist()
        return pa.array(["" if value is None else _one_text(value) for value in values], pa.string())
    text = array.cast(pa.string())
    if types.is_timestamp(kind) or types.is_time(kind):
        text = pc.replace_substring_regex(text, r"\.0+([^0-9]|$)", r"\1")
    return text.fill_null("")


def _one_text(value: Any) -> str:
    if isinstance(value, list | dict):
        return json.dumps(value, default=str)
    if not isinstance(value, bytes):
        return str(value)
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.hex()


def trimmed(column: Any) -> Any:
    """Cells as text without surrounding whitespace."""
    return arrow(".compute").utf8_trim_whitespace(as_text(column))


def is_numeric(kind: Any) -> bool:
    """Whether an Arrow type is integer or floating; decimals are converted through text, which is more exact."""
    types = arrow().types
    return bool(types.is_integer(kind) or types.is_floating(kind))


def mask(array: Any) -> NDArray[np.bool_]:
    """An Arrow array of truth values, where null is false, as a NumPy mask."""
    return np.asarray(plain(array).fill_null(False).to_numpy(zero_copy_only=False), dtype=bool)


def matching(text: Any, pattern: str) -> NDArray[np.bool_]:
    """Mask of the cells that match a regular expression."""
    return mask(arrow(".compute").match_substring_regex(text, pattern))


def missing_cells(text: Any, markers: Sequence[str] = MISSING_TEXTS) -> NDArray[np.bool_]:
    """Mask of the trimmed cells that mean a missing value."""
    return mask(arrow(".compute").is_in(text, value_set=arrow().array(markers)))


class Numbers(NamedTuple):
    """A column as numbers: NaN in cells that are missing, and in odd ones, which hold something else.

    `formatted` cells are numbers with a percent or currency sign, thousands separators or a decimal comma; `comma` says
    whether 1,234 among them is a fraction.
    """

    values: NDArray[np.float64]
    missing: NDArray[np.bool_]
    odd: NDArray[np.bool_]
    formatted: NDArray[np.bool_]
    comma: bool = False


def as_numbers(column: Any, markers: Sequence[str] = MISSING_TEXTS, comma: bool = False) -> Numbers:
    """A column as numbers; text is parsed like Python's `float`, without underscores and non-ASCII digits.

    With `comma`, or where other cells show that commas are decimal marks, 1,234 is a fraction.
    """
    pa = arrow()
    column = plain(column)
    none = np.zeros(len(column), dtype=bool)
    codes = [float(text) for text in markers if NUMBER.fullmatch(text)]
    if is_numeric(column.type):
        values = np.asarray(column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))
        if codes and np.isin(values, codes).any():
            values = np.where(np.isin(values, codes), np.nan, values)
        odd = np.isinf(values)
        return Numbers(np.where(odd, np.nan, values) if odd.any() else values, np.isnan(values), odd, none)
    text = trimmed(column)
    missing = missing_cells(text, markers)
    values = np.full(len(text), np.nan)
    try:
        values[~missing] = text.filter(pa.array(~missing)).cast(pa.float64()).to_numpy(zero_copy_only=False)
        number = np.isfinite(values)
    except pa.ArrowInvalid:
        number = none
    if not (number | missing).all():  # pyarrow would also accept words such as -NAN
        number = matching(text, _NUMBER) & ~missing
        values = np.full(len(text), np.nan)
        values[number] = [float(cell) for cell in text.filter(pa.array(number)).to_pylist()]
    formatted, comma = _read_formatted(text, ~number & ~missing, values, comma)
    odd = ~(number | missing | formatted) | np.isinf(values)
    values[odd] = np.nan
    coded = np.isin(values, codes)
    values[coded] = np.nan
    return Numbers(values, missing | coded, odd, formatted, comma)


def _read_formatted(
    text: Any, rest: NDArray[np.bool_], values: NDArray[np.float64], comma: bool
) -> tuple[NDArray[np.bool_], bool]:
    """Write numbers with signs and separators among the cells of the `rest` into `values`; returns where, and the mark."""
    pa, pc = arrow(), arrow(".compute")
    formatted = np.zeros(len(rest), dtype=bool)
    if not rest.any():
        return formatted, comma
    cells = pc.replace_substring_regex(text.filter(pa.array(rest)), _SIGNS, "")
    fractions = matching(cells, _COMMA)
    comma = comma or bool((fractions & ~matching(cells, _DOUBTFUL)).any())
    patterns = [*((_COMMA, " ", True),) * comma, *_GROUPED]
    number = matching(cells, _NUMBER)
    pointed = cells
    for pattern, removed, mark in patterns:
        which = matching(cells, pattern) & ~number
        if which.any():
            number |= which
            bare = pc.replace_substring_regex(cells, removed, "")
            pointed = pc.if_else(pa.array(which), pc.replace_substring(bare, ",", ".") if mark else bare, pointed)
    places = np.flatnonzero(rest)[number]
    values[places] = [float(cell) for cell in pointed.filter(pa.array(number)).to_pylist()]
    formatted[places] = True
    return formatted, comma


def truths(text: Any) -> NDArray[np.integer]:
    """1 for trimmed cells that are true (in any case, or 1), 0 for false, -1 for others."""
    pa, pc = arrow(), arrow(".compute")
    places = pc.index_in(pc.utf8_lower(text), value_set=pa.array([*TRUTHS, "0", "1", "0.0", "1.0"]))
    places = places.fill_null(-1).to_numpy(zero_copy_only=False)
    return np.where(places < 0, -1, places % 2)


class Days(NamedTuple):
    """A column as days since 1970-01-01, NaN where a cell is no date or time; and how dates are written in it."""

    values: NDArray[np.float64]
    format: str
    others: list[str]  # formats in which as many cells are dates


def as_days(column: Any, usual: str = "") -> Days:
    """A column of dates, times (on 1970-01-01) or text as days, by the `usual` format if that fits as well as any."""
    pa, pc = arrow(), arrow(".compute")
    column = plain(column)
    if pa.types.is_temporal(column.type):
        return Days(_typed_days(column), "", [])
    text = trimmed(column)
    unique = text.dictionary_encode()
    cells, places = unique.dictionary, np.asarray(unique.indices.to_numpy(zero_copy_only=False))
    parts = pc.extract_regex(cells, _MOMENT)
    day, timed = parts.field("day"), matching(cells, _TIME)
    results = {}
    for form, pattern in _DAYS.items():
        fits = matching(day, f"^{pattern}$")
        if fits.any():
            texts = pc.replace_substring_regex(day, r"(\p{L}{3})\p{L}*", r"\1") if "%b" in form else day
            texts = pc.if_else(
                pa.array(fits), texts if "%d" in form else pc.binary_join_element_wise(texts, "01", form[2]), None
            )
            moments = pc.strptime(texts, form if "%d" in form else f"{form}{form[2]}%d", "s", error_is_null=True)
            results[form] = _numbers(moments.cast(pa.int64())) / SECONDS
    counts = np.bincount(places, minlength=len(cells))
    ranks = {form: float(counts[np.isfinite(days)].sum()) for form, days in results.items()}
    best = max(results, key=lambda form: (ranks[form], form == usual), default="")
    days = results.get(best, np.full(len(cells), np.nan))
    days = np.where(timed, 0.0, days) + _day_shares(parts)
    tied = [form for form in results if form != best and ranks[form] == ranks[best] > 0]
    return Days(days[places] if len(cells) else np.full(len(text), np.nan), best, tied)


def _numbers(array: Any) -> NDArray[np.float64]:
    return np.asarray(array.cast(arrow().float64(), safe=False).to_numpy(zero_copy_only=False))


def _typed_days(column: Any) -> NDArray[np.float64]:
    pa = arrow()
    kind = column.type
    if pa.types.is_time(kind):
        column = column.cast(pa.time64("us")).cast(pa.int64())
    elif pa.types.is_duration(kind):
        column = column.cast(pa.duration("us")).cast(pa.int64())
    else:
        column = column.cast(pa.timestamp("us", getattr(kind, "tz", None)), safe=False).cast(pa.int64())
    return _numbers(column) / (1e6 * SECONDS)


def _day_shares(parts: Any) -> NDArray[np.float64]:
    """The times of day as shares of a day, 0 where there is none."""
    pc = arrow(".compute")

    def number(name: str) -> NDArray[np.float64]:
        text = pc.replace_substring(parts.field(name).fill_null(""), ",", ".")
        return _numbers(pc.if_else(pc.equal(text, ""), "0", text))

    half = parts.field("half").fill_null("")
    hour = number("hour")
    hour = np.where(mask(pc.not_equal(half, "")), hour % 12, hour) + 12 * matching(half, "^[pP]")
    return (3600.0 * hour + 60.0 * number("minute") + number("second") + number("fraction")) / SECONDS
