"""Partially labelled targets: which labels are missing, the classes, and the code of each row's class.

Labels may also be votes: an array (n, K) of counts or probabilities, zero or NaN in all columns where the label is missing. A row
counts once, with the shares ``r_jk = v_jk / sum_l v_jl`` of its votes: its likelihood is that of K copies with these weights.
"""

import numbers
import re
import unicodedata
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.multiclass import check_classification_targets

from marmix.core.arrays import Array, namespace, on_device, to_host
from marmix.core.files import release
from marmix.core.notes import Note, sentence

MISSING = -1  # code of a missing label; users may write it too

# Texts that mean a missing value. Surrounding blanks do not matter; upper and lower case do.
MISSING_CELLS = ("", "NA", "N/A", "#N/A", "null", "NULL", "?", "NaN", "nan", "None", "<NA>", "NaT")  # features of files
MISSING_FIELDS = (
    *("n/a", "#NA", "#N/A N/A", "-NaN", "-nan", "1.#IND", "1.#QNAN", "-1.#IND", "-1.#QNAN"),
    *MISSING_CELLS,
)  # features of the CSV files of to_memmap
MISSING_LABELS = (
    *MISSING_FIELDS,
    "-1",
    "-1.0",
)  # labels, in files and in arrays, unless named as a class; see means_missing
SPREADSHEET_ERROR = (
    r"^(#(DIV/0|REF|VALUE|NUM|NULL|SPILL|CALC|FIELD|BLOCKED|CONNECT|BUSY|UNKNOWN)!|#NAME\?|Err:[0-9]{3})$"
)
_MINUS_ONE = re.compile(r"-0*1([.,]0*)?")
_UNKNOWN = """
    nil, nd, tbd, tba, unk, missing, pending, unknown, not known, undefined, no data, don't know, cannot say,
    unsure, unclear, uncertain, undetermined, indeterminate, to be determined, unlabelled, unlabeled,
    no label, not labelled, not labeled, not available, not applicable, not done, not determined,
    not assessed, not classified, not specified, unspecified, unclassified, inconnu, inconnue, manquant,
    non disponible, non renseigné, non déterminé, indéterminé, nsp, ne sait pas, à déterminer, en attente,
    unbekannt, nicht bekannt, fehlt, fehlend, keine Angabe, k.A., k. A., unklar, unbestimmt, nicht bestimmt,
    ausstehend, desconocido, desconocida, desconhecido, desconhecida, sin dato, sin datos, no disponible,
    não disponível, indeterminado, indeterminada, pendiente, pendente, sconosciuto, sconosciuta, ignoto,
    mancante, indeterminato, in attesa, onbekend, ontbrekend, onduidelijk, okänd, okänt, saknas, ukendt,
    ukjent, mangler, tuntematon, nieznany, nieznana, brak danych, neznámý, neznámé, ismeretlen, necunoscut,
    bilinmiyor, неизвестно, нет данных, невідомо, άγνωστο, 不明, 未知
"""
_POINTS = "./'\u2019"
# Beside these, "NA" may be North America, or Namibia if there are countries (ISO 3166) only.
_REGIONS = "EU SA AS AF OC AN EMEA APAC APJ APJC AMER AMERICAS LATAM LAC MENA ANZ ASIA ROW"
_COUNTRIES = """
    AD AE AF AG AI AL AM AO AQ AR AS AT AU AW AX AZ BA BB BD BE BF BG BH BI BJ BL BM BN BO BQ BR BS BT BV BW BY BZ
    CA CC CD CF CG CH CI CK CL CM CN CO CR CU CV CW CX CY CZ DE DJ DK DM DO DZ EC EE EG EH ER ES ET FI FJ FK FM FO
    FR GA GB GD GE GF GG GH GI GL GM GN GP GQ GR GS GT GU GW GY HK HM HN HR HT HU ID IE IL IM IN IO IQ IR IS IT JE
    JM JO JP KE KG KH KI KM KN KP KR KW KY KZ LA LB LC LI LK LR LS LT LU LV LY MA MC MD ME MF MG MH MK ML MM MN MO
    MP MQ MR MS MT MU MV MW MX MY MZ NA NC NE NF NG NI NL NO NP NR NU NZ OM PA PE PF PG PH PK PL PM PN PR PS PT PW
    PY QA RE RO RS RU RW SA SB SC SD SE SG SH SI SJ SK SL SM SN SO SR SS ST SV SX SY SZ TC TD TF TG TH TJ TK TL TM
    TN TO TR TT TV TW TZ UA UG UM US UY UZ VA VC VE VG VI VN VU WF WS YE YT ZA ZM ZW
"""
_PLACES = {*_REGIONS.split(), *_COUNTRIES.split()}
_FEW_PLACES = 3  # fewer codes of countries may be other abbreviations
_FEW_LABELS = 100  # up to which each label is compared with all others
_CODES = {"9": 4, "99": 20, "999": 99, "9999": 99}  # doubtful if all other labels are whole numbers up to this


def _folded(text: str) -> str:
    """A text without case, accents and punctuation."""
    letters = (c for c in unicodedata.normalize("NFKD", text.casefold()) if not unicodedata.combining(c))
    return " ".join("".join(c if c.isalnum() or c in _POINTS else " " for c in letters).split()).translate(
        str.maketrans("", "", _POINTS)
    )


DOUBTFUL_TEXTS = {_folded(text) for text in (*MISSING_CELLS, *_UNKNOWN.split(","))} - {
    ""
}  # data files: labels that `marmix fit` asks about


def is_minus_one(text: str) -> bool:
    """Whether a text is the number -1, however it is written ("-1.00")."""
    return bool(_MINUS_ONE.fullmatch(text))


def means_missing(text: str) -> bool:
    """Whether a text without surrounding blanks means a missing label, unless it is named as a class."""
    return text in MISSING_LABELS or is_minus_one(text)


def looks_missing(text: str, others: Iterable[str] = ()) -> bool:
    """Whether a label probably means that the label is missing, given the other labels of the column."""
    others = [other for other in others if other != text]
    number = text.removesuffix(".0")
    if re.search(SPREADSHEET_ERROR, text):
        return True
    if number in _CODES:
        numbers = [other.removesuffix(".0") for other in others]
        return all(other.isascii() and other.isdecimal() and int(other) <= _CODES[number] for other in numbers)
    if not any(map(str.isalnum, text)):  # "-", "--", ".", "??"; but "+" and "-" are results of a test
        return not any("+" in label for label in (text, *others))
    return number in ("-8", "-9", "-88", "-99", "-999", "-9999") or _folded(text) in DOUBTFUL_TEXTS


def looks_like_class(text: str, others: Iterable[str], alone: bool = True) -> bool:
    """Whether a text that usually means a missing label may be a class, given the other labels of the column.

    "None" may be one beside words ("Mild", "Severe"), -1 beside numbers, "NA" beside regions ("EU", "SA") or countries, and
    "null" beside words in the same case if `alone`, that is, if no other text means a missing label there.
    """
    labels = {label for label in map(str.strip, others) if label != text and not means_missing(label)}
    numeric = all(map(_is_number, labels))
    if not labels or is_minus_one(text):
        return bool(labels) and numeric
    if numeric or {label.casefold() for label in labels} <= {"true", "false"}:
        return False
    if text == "NA":
        return labels <= {*_REGIONS.split()} or (len(labels) >= _FEW_PLACES and labels <= _PLACES)
    if text.casefold() == "null":
        return alone and all(_case(label) == _case(text) for label in labels)
    return text.casefold() == "none"


def _is_number(text: str) -> bool:
    try:
        return bool(np.isfinite(float(text)))
    except ValueError:
        return False


def _case(text: str) -> str:
    return "lower" if text.islower() else "upper" if text.isupper() else "capital" if text[:1].isupper() else ""


def doubtful_labels(labels: Iterable[Any]) -> list[str]:
    """The labels that probably mean a missing label, as texts; none if there are very many labels."""
    names = [str(label) for label in labels]
    return [name for name in names if looks_missing(name, names)] if len(names) <= _FEW_LABELS else []


def class_like(marks: Iterable[str], labels: Iterable[Any]) -> list[str]:
    """The texts, of those that counted as missing labels, that may be classes beside these labels."""
    texts, names = [text for text in marks if text], [str(label) for label in labels]
    doubtful = doubtful_labels(names)
    others = [name for name in names if name not in doubtful]
    return [text for text in texts if looks_like_class(text, others, alone=len(texts) == 1)]


def missing_in_words(marks: Mapping[str, int], unit: str = "row") -> str:
    """Which texts counted as missing labels, and how often: "Missing labels: 'NA' in 400 rows, empty in 3."; or nothing."""
    parts = [
        f"{repr(text) if text else 'empty'} in {count:,}"
        for text, count in sorted(marks.items(), key=lambda item: (item[0] == "", item))
    ]
    if not parts:
        return ""
    parts[0] += f" {unit}" if parts[0].endswith(" in 1") else f" {unit}s"
    return f"Missing labels: {', '.join(parts)}."


def check_marks(marks: Mapping[str, int], labels: Iterable[Any], where: str = "y") -> None:
    """Raise ValueError if a text that counted as missing may be a class."""
    labels = sorted(labels, key=str)
    for text in class_like(marks, labels):
        whole = is_minus_one(text) and all(isinstance(label, int) for label in labels)
        classes = [MISSING if whole else text, *labels] if len(labels) < 10 else [text, "..."]
        raise ValueError(
            f"{where} holds the text {text!r} ({marks[text]:,} times), which may be a class or mean a missing label: name all "
            f"classes in classes=, with it (classes={classes}) if it is one, without it if these labels are missing."
        )


_PART = 2**20  # labels read at a time from a long array


class Labels:
    """Encoder of labels that come in batches. Sources of labels differ only in `read`.

    Parameters
    ----------
    where : str, default="y"
        Name of the labels in messages.
    classes : array-like or None, default=None
        The allowed classes, in the order of their codes; other labels are an error. By default the sorted labels.
    most : int or None, default=None
        Maximum number of classes.

    Attributes
    ----------
    known : array or None
        The allowed classes.
    rows : int
        Rows so far.
    marks : Counter
        Texts that counted as missing labels, and how many rows have each.
    """

    def __init__(self, where: str = "y", classes: Any = None, *, most: int | None = None):
        self.where, self.most = where, most
        self.known = None if classes is None else as_classes(classes)
        self.rows, self.marks = 0, Counter[str]()
        self._numbers = {} if self.known is None else {label: k for k, label in enumerate(self.known.tolist())}
        self._present: set[int] = set()  # codes that occur
        self._kind: Any = None
        self._dtype: np.dtype[Any] | None = None

    def add(self, y: Any) -> NDArray[np.integer]:
        """Encode the labels of the next rows, an array, in order of first appearance; -1 if missing."""
        labelled, labels, marks = _read(y, np.empty(0) if self.known is None else self.known)
        self.marks.update(marks)
        types = {type(label) for label in labels.tolist()} if labels.dtype == object else set()
        if len({_kind(type_) for type_ in types}) > 1:
            raise ValueError(self._mixed(types))
        distinct = np.unique(labels)
        if len(labels):
            check_classification_targets(labels)
        places = np.full(len(labelled), MISSING, dtype=np.intp)
        places[labelled] = np.searchsorted(distinct, labels)
        return self.add_distinct(distinct, places)

    def add_distinct(self, distinct: NDArray[Any] | Sequence[Any], places: NDArray[np.integer]) -> NDArray[np.integer]:
        """Encode rows whose label is ``distinct[place]``, or missing if the place is -1."""
        if isinstance(distinct, np.ndarray):
            if len(distinct):
                self._dtype = distinct.dtype if self._dtype is None else np.result_type(self._dtype, distinct.dtype)
            distinct = distinct.tolist()
        counts = np.bincount(places + 1, minlength=len(distinct) + 1).tolist()
        code_of = [MISSING] * (len(distinct) + 1)
        strange: dict[Any, int] = {}
        for i, (value, count) in enumerate(zip(distinct, counts[1:], strict=True)):
            if count:
                label = self.read(value, count, lambda i=i: self.rows + int(np.argmax(places == i)))  # type: ignore[misc]
                code = MISSING if label is None else self._number(label)
                if code is None:
                    strange[label] = i
                else:
                    code_of[i] = code
        if strange:
            rows = {label: self.rows + int(np.argmax(places == i)) for label, i in strange.items()}
            raise ValueError(self.stranger(sorted(rows, key=lambda label: rows[label]), min(rows.values())))
        self._present.update(code for code in code_of if code != MISSING)
        codes: NDArray[np.integer] = np.array(code_of, np.int8 if len(self._numbers) < 2**7 else np.int32)[places]
        self.rows += len(codes)
        return codes

    def read(self, value: Any, count: int, first: Callable[[], int]) -> Any:
        """The label of a value, None if it is missing; `count` rows have this value, of which `first()` is the first."""
        if _is_missing(value) or (_is_minus_one(value) and value not in self._numbers):
            return None
        text = value.strip() if isinstance(value, str) else None
        if text is not None and means_missing(text) and not {text, value} & self._numbers.keys():
            self.marks[text] += count
            return None
        return value

    def _number(self, label: Any) -> int | None:
        """The code of a label; None if it is not among the allowed classes."""
        number: int | None = self._numbers.get(label)
        if self.known is not None:
            return number
        kind = _kind(type(label))
        self._kind = self._kind or (kind, type(label))
        if kind is not self._kind[0]:
            raise ValueError(self._mixed({self._kind[1], type(label)}))
        if number is None:
            number = self._numbers[label] = len(self._numbers)
            if number == self.most:
                raise ValueError(self.too_many())
        return number

    def stranger(self, labels: Sequence[Any], row: int) -> str:
        """Message for labels that are not among the allowed classes, the first of them in this row."""
        classes, names = [] if self.known is None else self.known.tolist(), ", ".join(map(repr, labels[:5]))
        what = f"the label {names}, which is" if len(labels) == 1 else f"the labels {names}, which are"
        return f"{self.where} holds {what} not among the classes {classes}."

    def too_many(self) -> str:
        """Message for more than `most` classes."""
        return f"{self.where} has more than {self.most:,} classes: is it an identifier of the rows?"

    def _mixed(self, kinds: set[type]) -> str:
        names = ", ".join(sorted(kind.__name__ for kind in kinds))
        return f"{self.where} mixes labels of types {names}: use one type for all classes."

    def names(self) -> list[Any]:
        """The labels in order of first appearance; None for one that turns out to be missing."""
        return list(self._numbers)

    def sorted_names(self) -> list[Any]:
        """The sorted labels."""
        try:
            return sorted({name for name in self.names() if name is not None})
        except TypeError:
            raise ValueError(self._mixed({type(name) for name in self.names()})) from None

    @property
    def classes(self) -> NDArray[Any]:
        """The classes, in the order of their codes."""
        return np.array(self.sorted_names(), dtype=self._dtype) if self.known is None else self.known

    def numbered(self, codes: NDArray[np.integer], kind: Any = None) -> NDArray[np.integer]:
        """Final class codes for the codes that `add` returned, once all labels are added."""
        if self.known is None:
            places = {name: k for k, name in enumerate(self.sorted_names())}
            order = [places.get(name, MISSING) for name in self.names()]
        else:
            order = list(range(len(self.known)))
        kind = kind or (np.int8 if len(set(order) - {MISSING}) < 2**7 else np.int64)
        return np.array([*order, MISSING], kind)[codes]

    def check_classes(self) -> None:
        """Raise ValueError if there are fewer than two classes, an allowed class has no row, or a text may be a class.

        Warns of texts that counted as missing labels, and of labels that probably mean a missing label.
        """
        if self.known is None:
            check_marks(self.marks, self._numbers, self.where)
        if not self._present:
            raise ValueError(
                f"{self.where} has no label at all: label rows of at least two classes. {missing_in_words(self.marks)} (To find "
                "groups without labels, see sklearn.mixture.GaussianMixture.)"
            )
        for label, number in self._numbers.items():
            if number not in self._present:
                raise ValueError(
                    f"class {label!r} is in classes= but no row of {self.where} has that label: label a row of it, or remove it "
                    "from classes=."
                )
        if len(self._present) < 2:
            texts = ", ".join(map(repr, self.marks)) or "-1"
            raise ValueError(
                f"{self.where} has one class only, {next(iter(self._numbers))!r}: label rows of at least two classes. "
                f"({texts} means a missing label; if it is a class, name all classes in classes=.)"
            )
        for note in missing_texts_notes(self.marks, self._numbers if self.known is None else ()):
            warnings.warn(sentence(note, np.empty(0), ()), UserWarning, stacklevel=4)


def encode_labels(y: Any, classes: Any = None) -> tuple[Any, NDArray[Any]]:
    """Return the class codes ``z`` of the labels, -1 if missing, and the classes.

    Parameters
    ----------
    y : array-like of shape (n,)
        Labels: integers, floats, strings, booleans or categories. ``None``, ``NaN``, ``pandas.NA``, an Arrow or polars null and
        masked values are missing; so are -1 and the texts of `MISSING_LABELS`, unless they are in `classes`. If numbers are on a
        device, so is `z`.
    classes : array-like or None
        The allowed classes, in the order of their codes. By default the sorted labels in `y`.

    Returns
    -------
    z : integer array of shape (n,)
    classes : array of shape (K,)
    """
    labels = Labels("y", classes)
    finish = _added(y, labels)
    labels.check_classes()
    if classes is None:
        _check_categories(_declared_categories(y), labels.classes)
    return finish(), labels.classes


def number_labels(y: Any, classes: NDArray[Any]) -> Any:
    """Return the class codes of labels among given classes, -1 if missing."""
    return _added(y, Labels("y", classes))()


def found_labels(y: Any, classes: Any = None) -> tuple[NDArray[Any], Counter[str]]:
    """Return the distinct labels of some rows, possibly none, and the texts that counted as missing."""
    labels = Labels("y", classes)
    labels.add(y)
    return labels.classes[sorted(labels._present)], labels.marks


def choose_classes(
    parts: Sequence[tuple[NDArray[Any], Counter[str]]], classes: Any, declared: list[Any] | None = None
) -> tuple[NDArray[Any], Counter[str]]:
    """Return the classes as `encode_labels` does, and the texts for missing labels, from the `found_labels` of parts."""
    labels = Labels("y", classes)
    for part, marks in parts:
        labels.add_distinct(part, np.arange(len(part)))
        labels.marks.update(marks)
    labels.check_classes()
    if classes is None:
        _check_categories(declared, labels.classes)
    return labels.classes, labels.marks


def known_labels(y: Any, classes: NDArray[Any]) -> tuple[NDArray[np.bool_], NDArray[Any]]:
    """Return a mask of the labelled rows, and their labels; no `classes` means that they are not named."""
    labelled, labels, marks = _read(y, classes)
    if not len(classes) and marks:
        check_marks(marks, set(labels.tolist()))
    return labelled, labels


def missing_texts(y: Any, classes: Any = None) -> Counter[str]:
    """Return the texts of y that count as missing labels, and how many rows have each."""
    return _read(y, np.empty(0) if classes is None else as_classes(classes))[2]


def missing_texts_notes(marks: Mapping[str, int], labels: Iterable[Any] = ()) -> list[Note]:
    """Notes on texts that counted as missing labels, and on those of the labels that probably mean a missing label."""
    notes = [Note("missing-texts", {"text": missing_in_words(marks)})] if marks else []
    texts = ", ".join(map(repr, doubtful_labels(labels)))
    return [*notes, Note("doubtful-labels", {"text": texts})] if texts else notes


def _read(y: Any, classes: NDArray[Any]) -> tuple[NDArray[np.bool_], NDArray[Any], Counter[str]]:
    """Return a mask of the labelled rows, their labels, and the texts that count as missing."""
    values, missing = _values_and_missing(y)
    names = classes.tolist()
    if MISSING not in names:
        if values.dtype.kind in "iuf":
            missing = missing | (values == MISSING)
        elif values.dtype == object:
            missing = missing | np.fromiter(map(_is_minus_one, values), bool, len(values))
    marks = Counter[str]()
    if values.dtype.kind in "OU":
        texts = [value.strip() if isinstance(value, str) else None for value in values.tolist()]
        markers = {text for text in set(texts) if text is not None and means_missing(text)}
        markers -= {name.strip() for name in names if isinstance(name, str)}
        marked = np.fromiter((text in markers for text in texts), bool, len(values)) & ~missing
        marks.update(text.strip() for text in values[marked].tolist())
        missing = missing | marked
    return ~missing, _plain(values[~missing]), marks


class Copies(NamedTuple):
    """Rows repeated once for each class that they have votes for; unlabelled rows once."""

    rows: NDArray[np.intp]  # ascending
    z: NDArray[np.integer]  # code of the class, -1 if missing
    share: Array


def has_votes(y: Any) -> bool:
    """Whether y has two or more columns, that is, holds votes; one column is taken as labels."""
    if isinstance(y, list | tuple):
        return bool(y) and isinstance(y[0], list | tuple | np.ndarray) and len(y[0]) > 1
    shape: Any = getattr(y, "shape", ())
    return len(shape) == 2 and shape[1] > 1


def vote_shares(y: Any, classes: Any = None, *, fitted: bool = False) -> tuple[Array, NDArray[Any]]:
    """Return the shares (n, K) of the classes in each row's votes, zero if the label is missing, and the classes.

    Parameters
    ----------
    y : array-like of shape (n, K)
        Counts of votes, or probabilities; a row of zeros or of NaN is missing.
    classes : array-like or None
        The classes. Columns of a table are found by name, those of an array are in this order. By default the names of the
        columns of a table, otherwise 0, 1, ...
    fitted : bool
        Whether these are the classes of a fit, so that some may have no votes here.
    """
    values, names = _vote_table(y)
    if classes is None:
        known = as_classes(np.arange(values.shape[1]) if names is None else names)
    else:
        known = as_classes(classes)
        if names is not None:
            if len(names) != len(known) or set(names) != set(known.tolist()):
                raise ValueError(
                    f"y has the columns {names}, but the classes are {known.tolist()}: y needs one column of votes for each "
                    "class."
                )
            values = values[:, [names.index(name) for name in known.tolist()]]
    if values.shape[1] != len(known):
        raise ValueError(
            f"y has {values.shape[1]} columns of votes, but there are {len(known)} classes, {known.tolist()}: y needs one column "
            "for each class."
        )
    _check_votes(values)
    values = np.nan_to_num(values)
    largest = values.max(axis=1, initial=0.0, keepdims=True)
    shares = values / np.where(largest > 0.0, largest, 1.0)  # exactly one if there is a single class
    shares /= np.maximum(shares.sum(axis=1, keepdims=True), 1.0)
    if not fitted:
        voted = shares.any(axis=0)
        if not voted.any():
            raise ValueError("y has no vote at all: label rows of at least two classes.")
        if not voted.all():
            raise ValueError(
                f"class {known[~voted].tolist()[0]!r} has no vote in any row of y: remove its column, or label a row of it."
            )
    return shares, known


def _vote_table(y: Any) -> tuple[Array, list[Any] | None]:
    """Votes as an array of numbers, and the names of the columns; None if they have none, or only their numbers."""
    names = None
    if hasattr(y, "columns"):
        names = list(y.columns)
        if names == list(range(len(names))):
            names = None
        y = y.to_numpy(dtype=float, na_value=np.nan) if hasattr(y, "iloc") else y.to_numpy()
    elif isinstance(y, np.ma.MaskedArray):
        y = np.ma.filled(y.astype(float), np.nan)
    elif on_device(y):
        y = to_host(y)
    try:
        values = np.asarray(y, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(
            "y has several columns that are not all numbers: votes are counts or probabilities, one column for each class. "
            "If each column has the labels of one annotator, use marmix.votes(y)."
        ) from None
    if values.ndim != 2:
        raise ValueError(
            f"y should be a 1d array of labels or a 2d array of votes, got an array of shape {values.shape}."
        )
    return values, names


def _check_votes(values: Array) -> None:
    """Raise an error that names the first row whose votes are infinite, negative or partly NaN."""
    gaps = np.isnan(values)
    for bad, what in (
        (np.isinf(values).any(axis=1), "an infinite number of votes"),
        ((values < 0.0).any(axis=1), "a negative number of votes"),
        (gaps.any(axis=1) & ~gaps.all(axis=1), "NaN in some columns of votes but not in all"),
    ):
        if bad.any():
            raise ValueError(
                f"row {int(np.argmax(bad))} of y has {what}: write counts or probabilities >= 0, and zeros or NaN in all columns "
                "if the label is missing. If each column has the labels of one annotator, use marmix.votes(y)."
            )


def most_voted(shares: Array, proba: Array | None = None) -> NDArray[np.integer]:
    """Code of the class with the most votes in each row, -1 if there are none.

    Ties go to the class with the larger probability (n, K), or to the first.
    """
    if proba is None:
        codes = shares.argmax(axis=1)
    else:
        tied = shares == shares.max(axis=1, keepdims=True)
        codes = np.where(tied, np.nan_to_num(proba, nan=0.0), -1.0).argmax(axis=1)
    return np.where(shares.any(axis=1), codes, MISSING)


def copies_of(shares: Array) -> Copies:
    """Rows repeated once for each class with a positive share."""
    missing = np.asarray(~shares.any(axis=1))
    rows, z = np.nonzero(np.column_stack([shares, missing]))
    share = np.where(missing[rows], 1.0, shares[rows, np.minimum(z, shares.shape[1] - 1)])
    return Copies(rows, np.where(missing[rows], MISSING, z), share)


def label_shares(y: Any, classes: Any) -> Array:
    """Shares (n, K) of the classes in each row's label: those of its votes, or one at its label; zero if it is missing."""
    names = as_classes(classes)
    if has_votes(y):
        return vote_shares(y, names, fitted=True)[0]
    labelled, labels = known_labels(y, names)
    position = {name: k for k, name in enumerate(names.tolist())}
    unknown = set(labels.tolist()) - set(position)
    if unknown:
        raise ValueError(f"y holds the label {sorted(unknown, key=str)[0]!r}, which is not among the classes.")
    shares = np.zeros((len(labelled), len(names)))
    shares[np.flatnonzero(labelled), [position[label] for label in labels.tolist()]] = 1.0
    return shares


def votes(labels: Any, classes: ArrayLike | None = None) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Count the votes of annotators: from a column of labels for each annotator to a column of counts for each class.

    Parameters
    ----------
    labels : table or array-like of shape (n, annotators)
        The label that each annotator gave each row; missing where -1, NaN, None, pandas.NA or a text such as "NA" or "".
    classes : array-like of shape (K,) or None
        The classes, in the order of the columns of the result; by default the sorted labels.

    Returns
    -------
    counts : integer array of shape (n, K)
        Number of votes for each class; pass it as `y`. A row without votes has no label.
    classes : array of shape (K,)
        Pass it to an estimator as `classes`.

    See Also
    --------
    MARClassifierCV : takes the counts as `y`, as all estimators do.

    Examples
    --------
    >>> import marmix
    >>> counts, classes = marmix.votes([["cat", "dog", "cat"], ["dog", None, None], [None, None, None]])
    >>> counts
    array([[2, 1],
           [0, 1],
           [0, 0]])
    >>> print(classes)
    ['cat' 'dog']
    """
    encoder = Labels("labels", classes)
    if hasattr(labels, "columns"):
        columns = [labels[name] for name in labels.columns]
    else:
        table = np.asarray(labels, dtype=object if isinstance(labels, list | tuple) else None)
        if table.ndim != 2:
            raise ValueError(f"labels must have shape (rows, annotators), got {table.shape}.")
        columns = [_plain(column) for column in table.T]
    codes = [encoder.add(column) for column in columns]
    encoder.check_classes()
    counts = np.zeros((encoder.rows // len(columns), len(encoder.classes)), dtype=np.int64)
    for column in codes:
        z = encoder.numbered(column)
        counts[np.flatnonzero(z >= 0), z[z >= 0]] += 1
    return counts, encoder.classes


def _added(y: Any, labels: Labels) -> Callable[[], Any]:
    """Add all labels; return a function that returns their class codes."""
    if on_device(y):
        return _added_device(y, labels)
    plain = isinstance(y, np.ndarray) and not isinstance(y, np.ma.MaskedArray)
    if not (plain and y.ndim == 1 and y.dtype.kind in "iuf" and len(y) > _PART):
        codes = labels.add(y)
        return lambda: labels.numbered(codes)
    parts = []
    for start in range(0, len(y), _PART):
        parts.append(labels.add(y[start : start + _PART]))
        release(y[start : start + _PART])  # pages of an array in a file

    def finish() -> NDArray[np.integer]:
        z = np.empty(len(y), dtype=labels.numbered(parts[0][:0]).dtype)
        for i, part in enumerate(parts):
            z[i * _PART : i * _PART + len(part)] = labels.numbered(part)
        return z

    return finish


def _added_device(y: Any, labels: Labels) -> Callable[[], Any]:
    """Add labels on a device; only their distinct values are copied to the host."""
    xp = namespace(y)
    if y.ndim != 1:
        raise ValueError(f"y should be a 1d array, got an array of shape {tuple(y.shape)} instead.")
    distinct = to_host(xp.unique_values(y[~xp.isnan(y)] if xp.isdtype(y.dtype, "real floating") else y))
    codes = labels.add(distinct)

    def finish() -> Any:
        numbers = labels.numbered(codes)
        z = xp.full_like(y, MISSING, dtype=getattr(xp, numbers.dtype.name))
        for value, number in zip(distinct.tolist(), numbers.tolist(), strict=True):
            z = xp.where(y == value, xp.asarray(number, dtype=z.dtype, device=y.device), z)
        return z

    return finish


def _values_and_missing(y: Any) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return the labels as a one-dimensional array, and a mask of None, NaN and null."""
    if y is None:
        raise ValueError("fit requires y to be passed, but the target y is None: pass the labels, -1 if missing.")
    missing = None
    if isinstance(y, np.ma.MaskedArray):
        missing = np.ma.getmaskarray(y)
        y = y.data
    elif hasattr(y, "isna"):  # pandas
        missing = np.asarray(y.isna())
    elif hasattr(y, "is_null"):  # polars, Arrow
        missing = np.asarray(y.is_null())
    values = _as_array(y)
    if values.ndim == 2 and values.shape[1] == 1:
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected. Please change the shape of y to (n_samples,).",
            DataConversionWarning,
            stacklevel=6,
        )
        values = values.ravel()
        missing = None if missing is None else missing.ravel()
    if values.ndim != 1:
        raise ValueError(f"y should be a 1d array, got an array of shape {values.shape} instead.")
    if values.dtype.kind == "f" and np.isinf(values).any():
        raise ValueError("Input y contains infinity or a value too large for dtype('float64').")
    if missing is None:
        missing = np.zeros(len(values), dtype=bool)
    if values.dtype.kind == "f":
        missing = missing | np.isnan(values)
    elif values.dtype == object:
        missing = missing | np.fromiter(map(_is_missing, values), bool, len(values))
    return values, missing


def _as_array(y: Any) -> NDArray[Any]:
    """Return y as an array, of objects if NumPy would make floats of integers beside nulls, or join types that differ."""
    if isinstance(y, list | tuple):
        return np.asarray(y, dtype=object if _mixes(y) else None)
    if hasattr(y, "to_pylist"):  # Arrow
        return np.array(y.to_pylist(), dtype=object)
    dtype = getattr(y, "dtype", None)
    values = np.asarray(y)
    if hasattr(dtype, "categories") or (values.dtype.kind == "f" and "int" in str(dtype).lower()):
        return np.array(list(y), dtype=object)
    return values.astype(object) if values.dtype.kind == "T" else values


def _is_missing(value: Any) -> bool:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, numbers.Number) and value != value


def _is_minus_one(value: Any) -> bool:
    number = isinstance(value, numbers.Real | Decimal) and not isinstance(value, bool | np.bool_)
    return number and float(value) == MISSING


def _kind(type_: type) -> type:
    """The type that labels must have in common: bool, str, Real or their own."""
    kinds = ((bool, bool), (np.bool_, bool), (str, str), (numbers.Real, numbers.Real))
    return next((kind for base, kind in kinds if issubclass(type_, base)), type_)


def _mixes(values: Iterable[Any]) -> bool:
    """Whether values are of several kinds, one of them text or bool, which NumPy would turn into one."""
    types = set(map(type, values))
    return bool({bool, np.bool_, str, np.str_} & types) and len({_kind(type_) for type_ in types}) > 1


def _plain(values: NDArray[Any]) -> NDArray[Any]:
    """Return objects that are all numbers or all booleans (beside None before) as an array of that type."""
    types = {type(value) for value in values.tolist()} if values.dtype == object else set()
    kinds = {_kind(type_) for type_ in types}
    if (
        len(kinds) == 1
        and kinds <= {bool, numbers.Real}
        and all(issubclass(t, bool | int | float | np.generic) for t in types)
    ):
        return np.array(values.tolist())
    return values


def as_classes(classes: Any) -> NDArray[Any]:
    """Classes named by the user, as an array."""
    if isinstance(classes, np.ndarray) and not classes.ndim:
        classes = classes.item()
    if isinstance(classes, set | frozenset | Mapping):
        what = "is not a list" if isinstance(classes, Mapping) else "has no order"
        raise ValueError(
            f"classes={classes!r} {what}: give the classes in a list, in the order of their probabilities."
        )
    if isinstance(classes, list | tuple) and _mixes(classes):
        raise ValueError(f"classes={classes!r} mixes types: use one type for all classes, that of the labels.")
    named = _plain(_as_array(classes))
    if named.ndim != 1 or len(set(named.tolist())) != len(named):
        raise ValueError(f"classes={classes!r}: name each class once, in a list.")
    if any(map(_is_missing, named.tolist())):
        raise ValueError(f"classes={classes!r} names a missing value: leave it out.")
    return named


def _declared_categories(y: Any) -> list[Any] | None:
    dtype = getattr(y, "dtype", None)
    categories = getattr(dtype, "categories", None)
    return None if categories is None or not hasattr(y, "isna") else list(categories)


def _check_categories(declared: list[Any] | None, classes: NDArray[Any]) -> None:
    """Raise ValueError if a declared category has no row."""
    unused = [name for name in declared or () if name not in set(classes.tolist()) and not means_missing(str(name))]
    if unused:
        raise ValueError(
            f"y declares the category {unused[0]!r}, but no row has that label. Remove it "
            "(pandas: y.cat.remove_unused_categories()) or name the classes to fit in classes=."
        )
