"""The survey of a file before the work: what its columns and labels are, what is doubtful, and the rows of the fit."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marmix.app.labels import Labels, labels_of, named_classes
from marmix.app.reading import Table
from marmix.core.arrays import Array
from marmix.evaluation.verdict import ACCEPT
from marmix.tables.cells import arrow, counted, listed, shown, trimmed
from marmix.tables.preparation import Column, Counts, Preparation, check_columns
from marmix.terminal import command_line

PREFIX = "marmix_"  # of the columns that are added
GIVEN, AUDITED, ASKED, IMPUTED = "given", "audited", "asked", "imputed"  # where a label is from
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
_MEDIAN = "--impute-features median keeps such rows; --exclude drops a column that is often empty."


@dataclass(frozen=True)
class Options:
    """The arguments of `marmix fit`; see `marmix fit --help`."""

    data: Path
    label: str | None = None
    out: Path = Path()
    features: Sequence[str] | None = None
    exclude: Sequence[str] = ()
    id: str | None = None
    model: str = "auto"
    missing: Sequence[str] = ()
    impute_features: str = "median"
    missing_cells: Sequence[str] = ()  # texts that mean a missing feature
    seed: int = 0
    force: bool = False
    escape_formulas: bool = False
    reading: Mapping[str, Any] = field(default_factory=dict)
    command: Sequence[str] = ("marmix", "fit")
    votes: Sequence[str] = ()
    shares: Sequence[str] = ()
    sets: float | None = None  # coverage of the conformal sets, if any
    keep: Sequence[str] = ()  # columns that the survey should not doubt
    prevalence: Mapping[str, float] = field(default_factory=dict)  # known shares of classes
    classes: Sequence[str] = ()  # all classes, if they are named
    time_limit: float | None = None  # seconds for the comparison of the candidates
    accept: float = ACCEPT  # share of wrong labels

    @property
    def label_columns(self) -> list[str]:
        """The columns of the labels."""
        return list(self.votes or self.shares or ([] if self.label is None else [self.label]))

    def columns(self, table: Table) -> list[str]:
        """The features: those asked for, or all columns but the labels, the id, a pandas index and the excluded ones."""
        names, requested = table.names, list(dict.fromkeys(self.features or ()))
        labels, option_name = self.label_columns, "--votes" if self.votes else "--shares" if self.shares else "--label"
        for option, columns in (
            (option_name, labels),
            ("--id", [self.id] if self.id else []),
            ("--features", requested),
            ("--exclude", self.exclude),
        ):
            check_columns(columns, names, f"{option}: {self.data}")
        for label in labels:
            if label in requested:
                raise ValueError(f"--features includes the label column {label!r}: remove it there.")
            if labels.count(label) > 1:
                raise ValueError(f"{option_name} names the column {label!r} twice.")
        if self.id in requested:
            raise ValueError(f"--features includes the --id column {self.id!r}: remove it from one of them.")
        if self.id in labels:
            raise ValueError(f"--id and {option_name} name the same column, {self.id!r}: name two different columns.")
        features = requested or [name for name in names if name not in (*labels, self.id, *table.index)]
        features = [name for name in features if name not in self.exclude]
        if not features:
            raise ValueError("no feature column is left: name some with --features, or exclude fewer.")
        return features


@dataclass(frozen=True)
class Doubt:
    """Something doubtful in a file.

    Attributes
    ----------
    what : str
        "label", "row numbers", "identifier", "one value", "leak", "keep", "features", "no missing label", "single label" or
        "similar labels".
    column : str or None
    text : str
        A sentence.
    remedy : (str, str) or None
        The option that settles it, and its value.
    asks : bool
        Whether the user has to agree to the remedy; otherwise it is applied, and said.
    fatal : bool
        Whether there can be no fit.
    keep : str or None
        The value of --keep by which the user says that nothing is wrong.
    """

    what: str
    column: str | None
    text: str
    remedy: tuple[str, str] | None = None
    asks: bool = False
    fatal: bool = False
    keep: str | None = None

    @property
    def option(self) -> str:
        """The remedy as it is typed."""
        return "" if self.remedy is None else command_line(_words(*self.remedy))


class Doubtful(ValueError):  # noqa: N818 - a question rather than an error
    """There are doubts about a file, and nobody agreed to the remedies."""

    def __init__(self, doubts: "Doubts"):
        super().__init__(doubts.text())
        self.doubts = doubts


@dataclass(frozen=True)
class Doubts:
    """What is doubtful about a file, and the options that settle it."""

    options: Options
    doubts: list[Doubt]

    @property
    def questions(self) -> list[Doubt]:
        """The doubts that must be settled before the fit."""
        return [doubt for doubt in self.doubts if doubt.asks or doubt.fatal]

    @property
    def fatal(self) -> bool:
        """Whether no options settle the doubts."""
        return any(doubt.fatal for doubt in self.doubts)

    def _values(self, option: str) -> list[str]:
        """Values of an option in the remedies."""
        return [doubt.remedy[1] for doubt in self.doubts if doubt.remedy and doubt.remedy[0] == option]

    def _command(self) -> list[str]:
        """The words of the command line with the options that settle the doubts."""
        words = list(self.options.command)
        end = words.index("--") if "--" in words else len(words)
        first = [word for word in words[:end] if word not in ("--yes", "--ye", "--y")]
        remedies = [word for doubt in self.doubts if doubt.remedy for word in _words(*doubt.remedy)]
        return [*first, *remedies, *words[end:]]

    @property
    def command(self) -> str:
        """The command line with the options that settle the doubts."""
        return command_line(self._command())

    def remedied(self) -> Options:
        """The options with the remedies."""
        options, ids = self.options, self._values("--id")
        return replace(
            options,
            exclude=[*options.exclude, *self._values("--exclude")],
            missing=[*options.missing, *self._values("--missing")],
            keep=[*options.keep, *self._values("--keep")],
            id=ids[0] if ids else options.id,
            command=self._command() if self.questions else options.command,
        )

    def notes(self) -> list[str]:
        """What was changed and why, and other doubts, in sentences."""
        return [
            f"{_sentence(doubt.text)} Therefore: {doubt.option}." if doubt.remedy else _sentence(doubt.text)
            for doubt in self.doubts
            if doubt.what != "no missing label"  # which the findings say
        ]

    def text(self) -> str:
        """The questions as text, with the command line that settles them."""
        questions = self.questions
        if len(questions) == 1 and self.fatal:
            return _sentence(questions[0].text)
        lines = [f"{Path(self.options.data).name} raises {counted(len(questions), 'question')} before the fit."]
        for i, doubt in enumerate(questions, 1):
            lines.append(_wrapped(f"{i:>2}. ", _sentence(doubt.text)))
            if doubt.remedy:
                keep = f"   (or {command_line(_words('--keep', doubt.keep))} if it is a feature)" if doubt.keep else ""
                lines.append(f"      {doubt.option}{keep}")
        end = "This command makes these changes, and so does --yes:"
        if self.fatal:
            end = "Correct the file where no option is named; nothing was written."
            end += " This command makes the other changes:" if any(doubt.remedy for doubt in self.doubts) else ""
        return "\n".join([*lines, end, *([f"  {self.command}"] if end.endswith(":") else [])])


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + ("" if text.endswith(".") else ".")


def _wrapped(head: str, text: str) -> str:
    return fill(text, 110, initial_indent=head, subsequent_indent=" " * len(head), break_on_hyphens=False)


def _words(option: str, value: str) -> list[str]:
    return [f"{option}={value}"] if value.startswith("-") else [option, value]


# The plan


@dataclass(frozen=True)
class Rows:
    """Features of the complete rows, labels of all rows, and which rows are complete."""

    X: Array  # (m, d)
    complete: NDArray[np.bool_]  # (n,)
    codes: NDArray[np.int32]  # (n,), -1 where a label is missing
    classes: NDArray[Any]
    counts: Counts
    marks: Mapping[str, int]  # texts that counted as missing labels, and how many rows have each
    shares: Array | None = None  # (n, K), of the votes of all rows; None if each has one label
    source: NDArray[Any] | None = None  # (n,), where the labels are from; None if all are given

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Which complete rows had no label when the data came."""
        return np.asarray(self.codes < 0 if self.source is None else self.source != GIVEN)[self.complete]

    @property
    def z(self) -> NDArray[np.int32]:
        """Labels of the complete rows."""
        return self.codes[self.complete]

    @property
    def labels(self) -> NDArray[Any]:
        """Labels of the complete rows as estimators take them: codes, or shares of votes."""
        return self.z if self.shares is None else self.shares[self.complete]


@dataclass(frozen=True)
class Plan:
    """What a fit needs of a file: the options with the remedies of all doubts, the fitted preparation, and the rows."""

    options: Options
    preparation: Preparation
    rows: Rows
    doubts: Doubts
    table: Table  # without the columns that marmix added earlier


def own_columns(
    table: Table, label: str | None, votes: Sequence[str] = (), shares: Sequence[str] = ()
) -> tuple[Table, NDArray[Any] | None]:
    """A table without the columns that marmix adds, and where its labels are from.

    Labels that were audited or asked for are in the label column then, or the first column of votes, or as 1 and 0 in the columns
    of shares; imputed ones are not.
    """
    label_column, source_column = f"{PREFIX}label", f"{PREFIX}source"
    ours, source = [name for name in table.names if name.startswith(PREFIX)], None
    if not ours:
        return table, None
    data, verbatim = table.data.drop_columns(ours), table.verbatim
    names = list(shares or [name for name in (label, *votes) if name is not None][:1])
    if names and set(names) <= set(data.column_names) and {label_column, source_column} <= set(ours):
        pa, source = arrow(), np.array(table.text(source_column).to_pylist(), dtype=object)
        added = np.isin(source, [AUDITED, ASKED])
        now = np.array(table.text(label_column).to_pylist(), dtype=object)
        for name in names:
            if shares:
                either = pa.chunked_array([*data[name].chunks, pa.array([0, 1]).cast(data[name].type)])
                cells = either.take(pa.array(np.where(added, len(now) + (now == name.strip()), np.arange(len(now)))))
            else:
                before = np.array(table.text(name).to_pylist(), dtype=object)
                cells = pa.array(np.where(added, now, before), pa.string())
            data = data.set_column(data.column_names.index(name), name, cells)
        verbatim = {name: entry for name, entry in verbatim.items() if name not in names}
        source = source if added.any() else None
    note = f"the columns of an earlier fit are left out: {listed(ours, 3)}."
    return replace(table, data=data, verbatim=verbatim, notes=[*table.notes, note]), source


def survey(table: Table, options: Options, agree: Callable[[Doubts], bool] = lambda doubts: False) -> Plan:
    """Find out what the columns of a table are, and prepare its rows.

    If questions are left, `agree` says whether to go on with the remedies; if not, `Doubtful` is raised.
    """
    table, source = own_columns(table, options.label, options.votes, options.shares)
    preparation = _preparation(options, options.columns(table))
    columns = preparation.examine(table.data)
    doubts = Doubts(options, list(_doubts(table, options, columns)))
    if doubts.fatal or (doubts.questions and not agree(doubts)):
        raise Doubtful(doubts)
    remedied = doubts.remedied()
    features = remedied.columns(table)
    preparation = _preparation(remedied, features).fit_columns({name: columns[name] for name in features})
    del columns
    labels = _labels(table, remedied)
    labels.check()
    rows = rows_of(table, preparation, labels)
    if not rows.complete.any():
        raise ValueError(f"every row has a missing feature, so none is left. {_MEDIAN}")
    numbers = np.arange(len(rows.classes))
    labelled = np.isin(numbers, rows.z) if rows.shares is None else rows.labels.any(axis=0)
    if not labelled.all():
        name = shown(rows.classes[~labelled][0])
        raise ValueError(f"every labelled row of class {name} has a missing feature, so none is left. {_MEDIAN}")
    gaps = Counter(rows.counts.missing) + Counter(rows.counts.unseen)  # which the notes of the preparation are about
    counts = replace(rows.counts, missing=dict(gaps), unseen={}, examples={})
    return Plan(remedied, preparation, replace(rows, counts=counts, source=source), doubts, table)


def _preparation(options: Options, features: list[str]) -> Preparation:
    return Preparation(features, options.impute_features, missing_cells=list(options.missing_cells) or None)


def _labels(table: Table, options: Options) -> Labels:
    classes = named_classes(options.classes, options.missing)
    return labels_of(table, options.label, options.votes, options.shares, options.missing, classes)


def rows_of(table: Table, preparation: Preparation, labels: Labels) -> Rows:
    """The rows of a table as features of a fitted preparation, and their labels."""
    X, counts = preparation.transform_counted(table.data)
    complete = complete_rows(X, counts)
    if not complete.all():
        X = X[complete]
    return Rows(X, complete, labels.codes, labels.classes, counts, labels.marks, labels.shares)


def complete_rows(X: Array, counts: Counts) -> NDArray[np.bool_]:
    """Which rows have all features, of which at least one is in the table."""
    complete = np.asarray(~np.isnan(X).any(axis=1))
    complete[list(counts.blank)] = False
    return complete


# Doubts


def _doubts(table: Table, options: Options, columns: Mapping[str, Column]) -> Iterator[Doubt]:
    """All doubts: about the labels, the columns, and what --keep names."""
    meant = {*(options.features or ()), *options.keep}
    labels, refusal = None, ""
    try:
        labels = _labels(table, options)
    except ValueError as error:
        refusal = str(error)
    about_columns = list(_about_ids(columns, meant, options))
    left_out = {doubt.column for doubt in about_columns}
    for name, column in columns.items():
        if name not in meant | left_out and column.entry is not None:
            about_columns += _about_column(table, column, labels, options)
    left_out |= {doubt.column for doubt in about_columns if doubt.remedy}
    used = [column for name, column in columns.items() if column.entry is not None and name not in left_out]
    if labels is not None and not refusal:
        blank = (
            ~np.any([column.filled for column in used], axis=0) if used else np.zeros(table.data.num_rows, dtype=bool)
        )
        try:
            labels.check()
            yield from _about_classes(labels, labels.codes[~blank], options.keep)
        except ValueError as error:
            refusal = str(error)
    if refusal:
        yield Doubt("label", ", ".join(options.label_columns), refusal, fatal=True)
    yield from about_columns
    if not used:
        why = " ".join(note for column in columns.values() for note in column.notes[-1:])
        text = (
            f"no column would be left as a feature: name some with --features, or keep some with --keep. {why}".rstrip()
        )
        yield Doubt("features", None, text, fatal=True)
    for value in options.keep:
        if value not in table.names:
            yield Doubt("keep", None, f"--keep names {shown(value)}, which is no column of the file", fatal=True)


def _about_classes(labels: Labels, codes: NDArray[np.int32], keep: Sequence[str]) -> Iterator[Doubt]:
    """Doubts about the classes and their numbers of labels in the rows with a feature."""
    names = labels.classes.astype(str).tolist()
    counts = dict(zip(names, np.bincount(codes[codes >= 0], minlength=len(names)).tolist(), strict=True))
    asked = False
    if not labels.named and labels.shares is None:
        for doubt in (*_similar(labels, counts), *_single(labels, counts)):
            asked = asked or doubt.asks or doubt.fatal
            yield doubt
    if not ((codes < 0).any() or labels.named or asked or set(labels.columns) & set(keep)):
        some = ", ".join(f"{shown(text)} ({count:,})" for text, count in list(counts.items())[:_CLASSES])
        text = (
            f"no label is missing in {labels.where}, so nothing would be imputed: if one of the classes, "
            f"{some}{', ...' if len(counts) > _CLASSES else ''}, means that there is no label, name it with --missing"
        )
        yield Doubt("no missing label", labels.name, text, ("--keep", labels.columns[0]), asks=True)


def _similar(labels: Labels, counts: Mapping[str, int]) -> Iterator[Doubt]:
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


def _single(labels: Labels, counts: Mapping[str, int]) -> Iterator[Doubt]:
    """Classes with a single label, or with none but in rows without a feature."""
    enough = sum(count > 1 for count in counts.values()) >= 2  # classes without those
    for text, count in counts.items():
        if count <= 1:
            few = "a single label" if count else "no label but in blank rows"
            sentence = (
                f"the class {shown(text)} of {labels.where} has {few}, so models cannot be compared or checked; --classes with "
                "the names of all classes keeps it"
            )
            # a footer below the labels is no class, and nobody is asked about it
            yield Doubt(
                "single label",
                labels.name,
                sentence,
                ("--missing", text) if enough else None,
                asks=enough and count > 0,
            )


def _about_ids(columns: Mapping[str, Column], meant: set[str], options: Options) -> list[Doubt]:
    """Columns that number or name the rows; one of them, rather not of row numbers, becomes the identifier."""
    found = [
        Doubt(*identity, remedy=("--exclude", column.name), keep=column.name)
        for column in columns.values()
        if column.name not in meant and (identity := _identity(column))
    ]
    ids = sorted(found, key=lambda doubt: doubt.what == "row numbers")
    if options.id is None and ids:
        found[found.index(ids[0])] = replace(ids[0], remedy=("--id", str(ids[0].column)))
    return found


def _identity(column: Column) -> tuple[str, str, str] | None:
    """Whether a column numbers or names the rows: what it is, its name, and a sentence."""
    name = column.name
    words = re.findall(r"[^\W\d_]+", re.sub(r"([a-z])([A-Z])", r"\1 \2", name).casefold())
    named = bool(words and _ID_WORD.fullmatch(words[-1]) and not {"of", "per"} & set(words))
    x = column.values[column.filled]
    if column.levels:
        many = len(x) >= _LEAST and len(column.levels) >= (0.8 if named else 0.9) * len(x)
        if not many or sum(len(level.split()) for level in column.levels) >= _PROSE * len(column.levels):
            return None
        some = listed(column.levels, 3)
        return (
            "identifier",
            name,
            f"column {shown(name)} names the rows: almost all of its values are different ({some})",
        )
    if column.kind != "number" or len(x) < _LEAST or (x % 1 != 0).any() or np.abs(x).max() >= 2.0**63:
        return None
    if (np.diff(x) == 1).all() and x[0] in (0, 1):
        return "row numbers", name, f"column {shown(name)} numbers the rows ({x[0]:.0f}, {x[1]:.0f}, {x[2]:.0f}, ...)"
    some, distinct = ", ".join(f"{value:.0f}" for value in x[:3]), len(np.unique(x))
    if distinct < len(x):
        many = distinct > len(x) / 2 or (distinct > _MANY and distinct >= _OFTEN * len(x))
        text = f"column {shown(name)} looks like an identifier: so its name says, and it has {distinct:,} different numbers"
        return ("identifier", name, f"{text} in {len(x):,} rows ({some}, ...)") if named and many else None
    spread = x.max() - x.min() + 1.0
    repeats = len(x) * (len(x) - 1) / 2.0 / spread  # expected of measurements
    digits = len(f"{x.min():.0f}") >= _DIGITS and x.min() > 0 and len(f"{x.min():.0f}") == len(f"{x.max():.0f}")
    rounded = np.mean(x % 10 == 0) > 0.3
    ordered = len(x) >= _MANY and bool((np.diff(x) > 0).all() or (np.diff(x) < 0).all())
    if named or (len(x) >= _MANY and (ordered or repeats >= _PAIRS or (digits and not rounded))):
        text = f"column {shown(name)} looks like an identifier: its numbers are all different ({some}, ...)"
        return "identifier", name, text
    return None


def _about_column(table: Table, column: Column, labels: Labels | None, options: Options) -> Iterator[Doubt]:
    """A column of nearly one value, or one that knows the label."""
    name, filled = column.name, column.filled
    values, counts = np.unique(column.values[filled], return_counts=True)
    mode = values[counts.argmax()]
    others = int(filled.sum() - counts.max())
    if filled.sum() >= _MANY and 0 < others <= max(1.0, _RARE * filled.sum()):
        text = f"column {shown(name)} has the same value in all but {counted(others, 'cell')} of {int(filled.sum()):,}"
        yield Doubt("one value", name, text)
        return
    if labels is None:
        return
    labelled = labels.codes >= 0
    if labelled.sum() >= _LEAST and options.label is not None and _is_copy(table, name, options.label, labelled):
        text = f"column {shown(name)} repeats the label: it knows the answer"
    else:
        shown_mode = column.levels[int(mode)] if column.levels else f"{mode:g}"
        text = _leak(name, column.missing, column.values == mode, shown(shown_mode), labelled)
    if text:
        yield Doubt("leak", name, text, ("--exclude", name), asks=True, keep=name)


def _is_copy(table: Table, name: str, label: str, labelled: NDArray[np.bool_]) -> bool:
    """Whether a column holds the text of the label in all labelled rows."""
    places = np.flatnonzero(labelled)
    return all(
        trimmed(table.text(name, 0, some[-1] + 1).take(some)).equals(
            trimmed(table.text(label, 0, some[-1] + 1).take(some))
        )
        for some in (places[:_MANY], places)  # a few first, as all take long
    )


def _leak(
    name: str, empty: NDArray[np.bool_], at_mode: NDArray[np.bool_], mode: str, labelled: NDArray[np.bool_]
) -> str:
    """A sentence if a column tells whether the label is missing: by being filled, or by its most frequent value."""
    totals = np.bincount(labelled, minlength=2)
    if totals.min() < _LEAST / 2:
        return ""
    with_none, with_label = np.bincount(labelled[empty], minlength=2) / totals
    if with_none >= _TOGETHER and with_label <= 1.0 - _TOGETHER:
        return f"column {shown(name)} is empty where the label is missing, and filled where it is given: it knows the answer"
    if with_label >= _TOGETHER and with_none <= 1.0 - _TOGETHER:
        return f"column {shown(name)} is filled only where the label is missing: it can tell nothing about the classes"
    shares = dict(zip(("missing", "given"), np.bincount(labelled[at_mode], minlength=2) / totals, strict=True))
    most, least = max(shares, key=shares.__getitem__), min(shares, key=shares.__getitem__)
    if shares[most] >= _TOGETHER and shares[least] <= 1.0 - _TOGETHER:
        return (
            f"column {shown(name)} is {mode} where the label is {most}, and not where it is {least}: it tells whether there is a "
            "label, not which"
        )
    return ""
