"""The survey of a file before the work: doubtful columns, labels and rows, and the options that settle them.

It takes the first reading of the file, which also finds the kinds of the columns, so that no further reading is needed.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from marmix.app.findings import Caution
from marmix.journey.progress import Step
from marmix.journey.rows import range_problem
from marmix.tables.cells import Numbers, arrow, can_be_typed, counted, shown, trimmed
from marmix.tables.labels import LabelColumn, label_columns, named_classes
from marmix.tables.preparation import ColumnSurvey, Preparation, Problem, Reading, blank_rows
from marmix.tables.reading import DataFile
from marmix.terminal import command_line

if TYPE_CHECKING:
    from marmix.journey.fit import FitOptions

_KEPT = 2**22  # whole numbers kept of all columns together, to see whether they repeat
_LEAST, _MANY = 10, 20  # fewest cells that can look like row numbers, and like identifiers or a constant
_OFTEN = 0.1  # different numbers per row, from which a column named like an identifier may be one although they repeat
_DIGITS = 6  # of numbers that may be identifiers although nothing but their length says so
_PAIRS = 5.0  # expected number of equal pairs among measurements, from which none at all means identifiers
_RARE = 0.002  # share of other values up to which a column has nearly one value
_TOGETHER = 0.95  # share of rows in which a column is filled as the label is, from which it knows the label
_CLASSES = 5  # named in a question
_PROSE = 4  # mean number of words in free text
_ID_WORD = re.compile(
    "ids?|[pu]id|uuid|guid|mrn|ssn|nr|no|num|number|nummer|numero|numéro|identifier|identifiant|index|idx|key|barcode|serial|"
    "patients?|subjects?|participants?|proband|person|case|record|row|rownames|sample|specimen|unnamed|observation|obs|"
    ".*(patient|subject|sample|record|case|row|person|user|customer|client|participant|item|cell|pat)id"
)  # the last word of the name of a column of identifiers


@dataclass(frozen=True)
class Doubt:
    """Something doubtful in a file.

    Attributes
    ----------
    what : str
        "label", "row numbers", "identifier", "dates", "free text", "many values", "odd cells", "infinite", "range", "type",
        "one value", "leak", "comma", "sign", "header", "keep", "features", "no missing label", "single label",
        "similar labels" or "blank rows".
    column : str or None
    text : str
        A sentence.
    remedy : (str, str) or None
        The option that settles it, and its value.
    fatal : bool
        Whether there can be no fit. Without a remedy, and not fatal, it is only said.
    keep : str or None
        The value of --keep by which the user says that nothing is wrong.
    """

    what: str
    column: str | None
    text: str
    remedy: tuple[str, str] | None = None
    fatal: bool = False
    keep: str | None = None


class Doubtful(ValueError):  # noqa: N818 - a question rather than an error
    """There are doubts about a file, and nobody agreed to the remedies; holds the `Survey`."""

    def __init__(self, survey: "Survey"):
        super().__init__(survey.text())
        self.survey = survey


class Survey:
    """The doubts about a file, and the options that settle them; see `survey`.

    Attributes
    ----------
    doubts : list of Doubt
    """

    def __init__(
        self, source: DataFile, options: "FitOptions", doubts: list[Doubt], reading: Reading, labels: LabelColumn
    ):
        self.doubts = doubts
        self._source, self._options, self._reading, self._labels = source, options, reading, labels

    @property
    def questions(self) -> list[Doubt]:
        """The doubts that must be settled before the fit."""
        return list(filter(_asks, self.doubts))

    @property
    def fatal(self) -> bool:
        """Whether no options settle the doubts."""
        return any(doubt.fatal for doubt in self.doubts)

    def _values(self, option: str) -> list[str]:
        """Values of an option in the remedies, those that start with a dash first."""
        values = [doubt.remedy[1] for doubt in self.doubts if doubt.remedy and doubt.remedy[0] == option]
        return sorted(values, key=lambda value: not value.startswith("-"))

    def _command(self, options: Sequence[str]) -> list[str]:
        """The words of the command line with further options."""
        words = list(self._options.command)
        end = words.index("--") if "--" in words else len(words)
        first = [word for word in words[:end] if word not in ("--yes", "--ye", "--y")]
        return [*first, *options, *words[end:]]

    @property
    def command(self) -> str:
        """The command line with the options that settle the doubts."""
        return command_line(self._command(self._remedies()))

    def _remedies(self) -> list[str]:
        first: list[str] = []
        for option in ("--missing", "--keep", "--id"):
            for value in self._values(option):
                first += [f"{option}={value}"] if value.startswith("-") else [option, value]
        excluded = self._values("--exclude")
        plain = [value for value in excluded if not value.startswith("-")]
        first += [f"--exclude={value}" for value in excluded if value.startswith("-")]
        return [*first, "--exclude", *plain] if plain else first

    def remedied(self) -> "FitOptions":
        """The options with the remedies."""
        options = self._options
        ids = self._values("--id")
        return replace(
            options,
            exclude=[*options.exclude, *self._values("--exclude")],
            missing=[*options.missing, *self._values("--missing")],
            keep=[*options.keep, *self._values("--keep")],
            id=ids[0] if ids else options.id,
            command=self._command(self._remedies()) if self.questions else options.command,
        )

    def prepared(self, batches: Callable[[Sequence[str]], Iterable[Any]]) -> tuple[Preparation, LabelColumn]:
        """The fitted preparation and the labels with the remedies; the columns are read again only for exact medians."""
        options = self.remedied()
        features = options.columns(self._source.names, self._source.index)
        preparation = Preparation(features, options.impute_features, missing_cells=options.missing_cells or None)
        self._labels.discard(options.missing)
        return preparation.fit_reading(self._reading, lambda: batches(features)), self._labels

    def cautions(self) -> list[Caution]:
        """What was changed and why, for each remedy; a column lost to a few cells is more than a note."""
        lost = ("caution", "Correct or empty these cells to use the column.")
        return [
            Caution(level, f"{_sentence(doubt.text)} Therefore: {_option(doubt)}.", advice)
            for doubt in self.doubts
            if doubt.remedy and doubt.what != "no missing label"  # which the findings say
            for level, advice in [lost if doubt.what in ("odd cells", "infinite", "comma", "sign") else ("note", "")]
        ]

    def text(self) -> str:
        """All doubts as text, with the command line that settles them."""
        questions, asides = self.questions, [doubt for doubt in self.doubts if doubt not in self.questions]
        if len(questions) == 1 and self.fatal:
            return _sentence(questions[0].text)
        lines = [f"{self._source.path.name} raises {counted(len(questions), 'question')} before the fit."]
        for i, doubt in enumerate(questions, 1):
            lines.append(_wrapped(f"{i:>2}. ", _sentence(doubt.text)))
            if doubt.remedy:
                keep = f"   (or {command_line(_words('--keep', doubt.keep))} if it is a feature)" if doubt.keep else ""
                lines.append(f"      {_option(doubt)}{keep}")
        lines += [_wrapped("  - ", _sentence(doubt.text)) for doubt in asides]
        end = "This command makes these changes, and so does --yes:"
        if self.fatal:
            end = "Correct the file where no option is named; nothing was written."
            end += " This command makes the other changes:" if self._remedies() else ""
        lines += [end, *([f"  {self.command}"] if end.endswith(":") else [])]
        return "\n".join(lines)


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + ("" if text.endswith(".") else ".")


def _wrapped(head: str, text: str) -> str:
    return fill(text, 110, initial_indent=head, subsequent_indent=" " * len(head), break_on_hyphens=False)


def _words(option: str, value: str) -> list[str]:
    return [f"{option}={value}"] if value.startswith("-") else [option, value]


def _asks(doubt: Doubt) -> bool:
    return bool(doubt.remedy or doubt.fatal)


def _option(doubt: Doubt) -> str:
    return "" if doubt.remedy is None else command_line(_words(*doubt.remedy))


def survey(source: DataFile, options: "FitOptions", step: Step) -> Survey:
    """Read a file once, and list everything that is doubtful about the columns and rows that a fit would use."""
    features = options.columns(source.names, source.index)
    classes = named_classes(options.classes, options.missing)
    labels = label_columns(options.label, options.votes, options.shares, options.missing, classes)
    reading = Preparation(features, options.impute_features, missing_cells=options.missing_cells or None).reading(
        features
    )
    signs = {name: Signs(max(1000, _KEPT // len(features))) for name in features}
    totals = np.zeros(2, dtype=np.int64)  # rows without a label, and with one
    copies = set(features) if options.label else set()
    refusal = ""
    for batch in source.batches([*features, *labels.columns], step):
        codes = None
        if not refusal:
            try:
                codes = labels.add_batch(batch)
                totals += np.bincount(codes >= 0, minlength=2)
            except ValueError as error:
                refusal = str(error)
        for name, numbers in reading.add(batch).items():
            signs[name].add(numbers, codes, batch.column(name))
        if codes is not None and copies:
            copies = _copies(batch, copies, str(options.label), codes >= 0)
    if not reading.rows:
        raise ValueError("the table has no rows.")
    reading.leave_out_strays()
    copies = copies if not refusal and totals[1] >= _LEAST else set()
    about_columns = _columns(reading, signs, None if refusal else totals, copies, options)
    about_columns += _kept(options, source)
    left_out = {doubt.column for doubt in about_columns if doubt.remedy}
    left_out |= {name for name in features if reading.columns[name].nothing}
    blank = [row.place for row in reading.sparse or () if set(row.cells) <= left_out]
    about_labels = _classes(labels, refusal, blank, options.keep)
    if left_out >= set(features):
        text = "no column would be left as a feature: name some with --features, or keep some with --keep"
        about_columns.append(Doubt("features", None, text, fatal=True))
    doubts = [*about_labels, *about_columns]
    if blank:
        doubts.append(Doubt("blank rows", None, blank_rows([place + 1 for place in blank])))
    return Survey(source, options, doubts, reading, labels)


def _copies(batch: Any, names: set[str], label: str, labelled: NDArray[np.bool_]) -> set[str]:
    """The columns, of these, that hold the text of the label in all labelled rows."""
    rows = arrow().array(labelled)
    texts = trimmed(batch.column(label).filter(rows))
    return {name for name in names if trimmed(batch.column(name).filter(rows)).equals(texts)}


def _classes(labels: LabelColumn, refusal: str, blank: list[int], keep: Sequence[str]) -> list[Doubt]:
    """Doubts about the classes and their numbers of labels; `blank` are rows without a feature, such as a footer."""
    try:
        if not refusal:
            labels.check()
            codes = np.delete(labels.codes, blank)
    except ValueError as error:
        refusal = str(error)
    if refusal:
        return [Doubt("label", labels.name, refusal, fatal=True)]
    classes = labels.classes.astype(str).tolist()
    counts = dict(zip(classes, np.bincount(codes[codes >= 0], minlength=len(classes)).tolist(), strict=True))
    doubts = []
    if labels.known is None and labels.columns == [labels.name]:
        doubts = [*_similar(labels, counts), *_single(labels, counts)]
    if not (
        (codes < 0).any() or labels.known is not None or any(map(_asks, doubts)) or set(labels.columns) & set(keep)
    ):
        some = ", ".join(f"{shown(text)} ({count:,})" for text, count in list(counts.items())[:_CLASSES])
        text = (
            f"no label is missing in {labels.where}, so nothing would be imputed: if one of the classes, "
            f"{some}{', ...' if len(counts) > _CLASSES else ''}, means that there is no label, name it with --missing"
        )
        doubts.append(Doubt("no missing label", labels.name, text, ("--keep", labels.columns[0])))
    return doubts


def _similar(labels: LabelColumn, counts: dict[str, int]) -> Iterator[Doubt]:
    """Classes of several labels whose names differ only in case or whitespace."""
    alike: dict[str, list[str]] = {}
    for text in sorted(text for text, count in counts.items() if count > 1):
        alike.setdefault(" ".join(text.split()).casefold(), []).append(text)
    for texts in alike.values():
        if len(texts) > 1:
            some = ", ".join(f"{shown(text)} ({counts[text]:,})" for text in texts)
            sentence = (
                f"the labels {some} of {labels.where} differ in case or blanks only: correct the file if they are one class, or "
                "name all classes with --classes"
            )
            yield Doubt("similar labels", labels.name, sentence, fatal=True)


def _single(labels: LabelColumn, counts: dict[str, int]) -> Iterator[Doubt]:
    """Classes with a single label, or with none but in rows without a feature."""
    enough = sum(count > 1 for count in counts.values()) >= 2  # classes without those
    for text, count in counts.items():
        if count <= 1:
            few = "a single label" if count else "no label but in blank rows"
            sentence = (
                f"the class {shown(text)} of {labels.where} has {few}, so models cannot be compared or checked; --classes with "
                "the names of all classes keeps it"
            )
            yield Doubt("single label", labels.name, sentence, ("--missing", text) if enough else None)


def _kept(options: "FitOptions", source: DataFile) -> list[Doubt]:
    strange = [value for value in options.keep if value not in source.names]
    text = "--keep names {}, which is no column of the file"
    return [Doubt("keep", None, text.format(shown(value)), fatal=True) for value in strange]


# Columns


class Signs:
    """Signs, from the cells of a column that comes in batches, that it should not be a feature.

    Attributes
    ----------
    mode, mode_count : float or str or None, int
        The most frequent number or text of the first batch, and the cells that hold it.
    empty, at_mode : array of int
        Empty cells, and cells with the most frequent value, in rows without and with a label.
    whole : array or None
        The first numbers, in order; None if some number is not whole.
    """

    def __init__(self, most: int):
        self.mode: float | str | None = None
        self.mode_count = 0
        self.empty, self.at_mode = np.zeros((2, 2), dtype=np.int64)
        self._most, self._kept = most, 0
        self._whole: list[NDArray[np.float64]] | None = []

    def add(self, numbers: Numbers, codes: NDArray[np.integer] | None, column: Any) -> None:
        """Add the cells of the next rows, as numbers and as they are; their labels have these codes."""
        values = numbers.values[np.isfinite(numbers.values)]
        same = np.zeros(len(numbers.values), dtype=bool)
        if numbers.odd.any() and not isinstance(self.mode, float):
            texts = trimmed(column)
            if self.mode is None:
                self.mode = Counter(texts.filter(arrow().array(numbers.odd)).to_pylist()).most_common(1)[0][0]
            same = arrow(".compute").equal(texts, self.mode).to_numpy(zero_copy_only=False)
        elif len(values):
            if self.mode is None:
                distinct, counts = np.unique(values, return_counts=True)
                self.mode = float(distinct[counts.argmax()])
            same = numbers.values == self.mode
        self.mode_count += int(same.sum())
        if codes is not None:
            self.empty += np.bincount(codes[numbers.missing] >= 0, minlength=2)
            self.at_mode += np.bincount(codes[same] >= 0, minlength=2)
        if len(values) and self._whole is not None and self._kept < self._most:
            values = values[: self._most - self._kept]
            self._kept += len(values)
            self._whole = (
                [*self._whole, values] if ((values == np.floor(values)) & (np.abs(values) < 2.0**63)).all() else None
            )

    @property
    def whole(self) -> NDArray[np.float64] | None:
        return np.concatenate(self._whole) if self._whole else None


def _columns(
    reading: Reading,
    signs: dict[str, Signs],
    totals: NDArray[np.int64] | None,
    copies: set[str],
    options: "FitOptions",
) -> list[Doubt]:
    """Doubts about the columns; `totals` rows are without and with a label, and `copies` are columns that repeat the label."""
    meant = {*(options.features or ()), *options.keep}
    doubts, second_header = [], _second_header(reading)
    for name, column in reading.columns.items():
        identity = None if name in meant else _identity(name, column, signs[name])
        problem = column.problem()
        if identity:
            doubts.append(Doubt(identity[0], name, identity[1], ("--exclude", name), keep=None if problem else name))
        elif problem and problem.kind == "odd" and second_header and column.odd[0][1] == second_header[0]:
            continue
        elif problem:
            doubts.append(_problem(name, column, problem))
        elif column.low < column.high and (text := range_problem(name, column.low, column.high)):
            doubts.append(Doubt("range", name, text, ("--exclude", name)))
        elif name not in meant:
            text = _nearly_one_value(name, column, signs[name])
            leak = "" if totals is None or text else _leak(name, signs[name], totals)
            leak = f"column {shown(name)} repeats the label: it knows the answer" if name in copies else leak
            if text:
                doubts.append(Doubt("one value", name, text))
            elif leak:
                doubts.append(Doubt("leak", name, leak, ("--exclude", name), keep=name))
    if second_header:
        doubts.append(Doubt("header", None, second_header[1], fatal=True))
    return _with_id(doubts, options)


def _with_id(doubts: list[Doubt], options: "FitOptions") -> list[Doubt]:
    """The doubts, with --id as the remedy of one identifier: the first, rather than row numbers."""
    ids = [doubt for what in ("identifier", "row numbers") for doubt in doubts if doubt.what == what]
    if options.id is not None or not ids or ids[0].column in (options.features or ()):
        return doubts
    return [replace(doubt, remedy=("--id", str(doubt.column))) if doubt is ids[0] else doubt for doubt in doubts]


def _problem(name: str, column: ColumnSurvey, problem: Problem) -> Doubt:
    """A column that cannot be a feature."""
    what = {"odd": "odd cells"}.get(problem.kind, problem.kind)
    advice = problem.advice.split(", or leave the column out")[0]
    text = f"{problem.text}: {advice}"
    if problem.kind == "many":
        words = sum(len(level.split()) for level in column.some_levels) / len(column.some_levels)
        what, text = "many values", problem.text
        if words >= _PROSE:
            what, text = "free text", f"column {shown(name)} holds free text, such as {shown(column.some_levels[0])}"
    return Doubt(what, name, text, ("--exclude", name))


def _second_header(reading: Reading) -> tuple[int, str] | None:
    """The row that alone keeps two or more columns from being numbers, such as a row of units, and a sentence about it."""
    cells = [
        column.odd[0]
        for column in reading.columns.values()
        if (problem := column.problem()) and problem.kind == "odd" and column.n_odd == 1
    ]
    row, count = Counter(row for _, row in cells).most_common(1)[0] if cells else (0, 0)
    if count < 2:
        return None
    texts = [cell for cell, at in cells if at == row]
    names = ", ".join(map(shown, texts))
    option = command_line(["--missing-cells", *dict.fromkeys(texts)])
    units = f"delete it, or give {option} if these are units" if all(map(can_be_typed, texts)) else "or delete it"
    return row, (f"data row {row} holds text in {count} columns of numbers ({names}): correct the row, {units}")


def _identity(name: str, column: ColumnSurvey, signs: Signs) -> tuple[str, str] | None:
    """Whether a column numbers or names the rows, and a sentence."""
    words = re.findall(r"[^\W\d_]+", re.sub(r"([a-z])([A-Z])", r"\1 \2", name).casefold())
    named = bool(words and _ID_WORD.fullmatch(words[-1]) and not {"of", "per"} & set(words))
    if not column.mostly_numbers:
        many = column.filled >= _LEAST and column.distinct_share >= (0.8 if named else 0.9)
        prose = many and sum(len(level.split()) for level in column.some_levels) >= _PROSE * len(column.some_levels)
        problem = column.problem()
        if not many or prose or (problem and problem.kind in ("dates", "type", "comma", "sign")):
            return None
        text = f"column {shown(name)} names the rows: almost all of its values are different ({column.examples})"
        return "identifier", text
    x = signs.whole
    if x is None or len(x) < _LEAST:
        return None
    if (np.diff(x) == 1).all() and x[0] in (0, 1):
        return "row numbers", f"column {shown(name)} numbers the rows ({x[0]:.0f}, {x[1]:.0f}, {x[2]:.0f}, ...)"
    if len(x) >= _MANY and _calendar(x):
        return "dates", f"column {shown(name)} holds dates written as numbers ({x[0]:.0f})"
    some, distinct = ", ".join(f"{value:.0f}" for value in x[:3]), len(np.unique(x))
    if distinct < len(x):
        many = distinct > len(x) / 2 or (distinct > _MANY and distinct >= _OFTEN * len(x))
        text = f"column {shown(name)} looks like an identifier: so its name says, and it has {distinct:,} different numbers"
        return ("identifier", f"{text} in {len(x):,} rows ({some}, ...)") if named and many else None
    spread = x.max() - x.min() + 1.0
    repeats = len(x) * (len(x) - 1) / 2.0 / spread  # expected of measurements
    digits = len(f"{x.min():.0f}") >= _DIGITS and x.min() > 0 and len(f"{x.min():.0f}") == len(f"{x.max():.0f}")
    rounded = np.mean(x % 10 == 0) > 0.3
    ordered = len(x) >= _MANY and bool((np.diff(x) > 0).all() or (np.diff(x) < 0).all())
    if named or (len(x) >= _MANY and (ordered or repeats >= _PAIRS or (digits and not rounded))):
        return (
            "identifier",
            f"column {shown(name)} looks like an identifier: its numbers are all different ({some}, ...)",
        )
    return None


def _calendar(x: NDArray[np.float64]) -> bool:
    """Whether all numbers are dates such as 20240131."""
    year, month, day = x // 10_000, x // 100 % 100, x % 100
    return bool(
        ((year >= 1900) & (year < 2100) & (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)).all()
        and len(np.unique(x)) > 1
    )


def _nearly_one_value(name: str, column: ColumnSurvey, signs: Signs) -> str:
    most = max(column.levels.values(), default=signs.mode_count)
    others = column.filled - most
    if column.filled < _MANY or not 0 < others <= max(1.0, _RARE * column.filled):
        return ""
    return f"column {shown(name)} has the same value in all but {counted(others, 'cell')} of {column.filled:,}"


def _leak(name: str, signs: Signs, totals: NDArray[np.int64]) -> str:
    """A sentence if a column tells whether the label is missing: by being filled, or by one of its values."""
    if totals.min() < _LEAST / 2:
        return ""
    with_none, with_label = signs.empty / totals
    if with_none >= _TOGETHER and with_label <= 1.0 - _TOGETHER:
        return f"column {shown(name)} is empty where the label is missing, and filled where it is given: it knows the answer"
    if with_label >= _TOGETHER and with_none <= 1.0 - _TOGETHER:
        return f"column {shown(name)} is filled only where the label is missing: it can tell nothing about the classes"
    shares = dict(zip(("missing", "given"), signs.at_mode / totals, strict=True))
    most, least = max(shares, key=shares.__getitem__), min(shares, key=shares.__getitem__)
    if shares[most] >= _TOGETHER and shares[least] <= 1.0 - _TOGETHER:
        value = shown(f"{signs.mode:g}" if isinstance(signs.mode, float) else str(signs.mode))
        return (
            f"column {shown(name)} is {value} where the label is {most}, and not where it is {least}: it tells whether there is "
            "a label, not which"
        )
    return ""
