"""The report as one HTML page, without other files, scripts or network access, and its figures."""

import base64
import io
import re
import struct
import warnings
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from marmix.app import wording
from marmix.app.findings import Contents, Figure, Findings
from marmix.evaluation.verdict import NOT_VERIFIED, VERIFIED, Verdict
from marmix.plotting import CalibrationDisplay, MissingnessDisplay
from marmix.plotting.drawing import canvas, styled
from marmix.plotting.predictions import Predictions
from marmix.plotting.uncertainty import UNCERTAINTY
from marmix.tables.cells import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SECTIONS = {  # a template each, and its short title
    "verdict": "Verdict",
    "warnings": "Warnings",
    "classes": "Classes",
    "rivals": "Other classifiers",
    "missingness": "Missing labels",
    "models": "Models",
    "reproduce": "Reproduce",
}
COLOURS = {VERIFIED: "use", NOT_VERIFIED: "care"}  # classes of the style sheet; "no" otherwise
NAME, SENTENCE = 60, 1200  # characters shown of a name or a cell, and of other text
MANY_CLASSES = 30  # classes listed unfolded
CONFUSIONS = 12  # most frequent confusions listed
MODELS, LIGHT = 8, 0.01  # candidates listed, and the weight from which they are
INTERPRETED = 0.1  # weight from which the parameters of a candidate are shown

# Not allowed in HTML: control characters, lone surrogates, non-characters.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")


def report_html(contents: Contents) -> str:
    """A report as one HTML file.

    It opens offline, in light and dark mode, on a phone and on paper. Its Content-Security-Policy allows embedded pictures and,
    by its hash, one style sheet. Every value from the data is escaped, and shortened if long.
    """
    findings, model = contents.findings, contents.findings.model
    classes, sections = findings.labels.classes, dict(SECTIONS)
    warned = [one for one in findings.cautions if one.level != "note"]
    if not warned:
        del sections["warnings"]
        sections |= {"warnings": "Notes"} if findings.cautions else {}  # the last ones
    if not findings.scoreboard:
        del sections["rivals"]
    order = sorted(classes, key=lambda one: -(one.given + one.imputed)) if len(classes) > MANY_CLASSES else classes
    shown = findings.statistical if findings.statistical and findings.statistical.weight >= INTERPRETED else None
    return str(
        environment()
        .get_template("page.html")
        .render(
            contents=contents,
            findings=findings,
            labels=findings.labels,
            sections=sections,
            title=wording.verdict_title(findings),
            verdict=findings.verdict,
            bars=bars(findings.verdict),
            warned=warned,
            notes=[one for one in findings.cautions if one.level == "note"],
            classes=(order[:MANY_CLASSES], order[MANY_CLASSES:]),
            confusions=_confusions(findings),
            figures={drawing.key: _picture(drawing) for drawing in contents.figures},
            candidates=[one for one in model.candidates if one.get("weight", 0.0) >= LIGHT][:MODELS],
            statistical=shown,
            mechanism=[one for one in findings.estimates if one.mechanism],
            parameters=[one for one in findings.estimates if not one.mechanism],
        )
    )


@cache
def environment() -> Any:
    """The templates, with the filters that they use; every value is made readable and escaped."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup, escape

    def shown(value: Any, limit: int | None = SENTENCE) -> Any:
        return readable(value, limit) if isinstance(value, str) and not isinstance(value, Markup) else value

    def named(text: str) -> Any:
        return Markup(f"<bdi>{escape(readable(text, NAME)) or '(empty)'}</bdi>")

    environment = Environment(
        loader=PackageLoader("marmix.app"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    environment.filters |= {
        "short": lambda value: readable(str(value), NAME),
        "whole": lambda text: Markup(escape(readable(text, None))),
        "name": named,
        "count": "{:,}".format,
        "counted": counted,
        **{name: getattr(wording, name) for name in ("percent", "share_of", "loss", "figure", "estimate")},
    }
    css = files("marmix.app").joinpath("templates", "page.css").read_text(encoding="utf-8")
    environment.globals |= {
        "css": Markup(css),
        "policy": policy(css),
        "words": wording,
        "titles": TITLES,
        "colours": COLOURS,
    }
    return environment


def policy(css: str, js: str | None = None, images: str = "data:") -> str:
    """The Content-Security-Policy that allows only this style sheet and this script."""

    def allowed(text: str) -> str:
        return f"'sha256-{base64.b64encode(sha256(text.encode()).digest()).decode()}'"

    script = "" if js is None else f"script-src {allowed(js)}; "
    return (
        f"default-src 'none'; img-src {images}; style-src {allowed(css)}; {script}base-uri 'none'; form-action 'none'"
    )


def readable(text: str, limit: int | None = SENTENCE) -> str:
    """Text from the data, with invalid characters replaced, shortened to `limit` characters."""
    printable = _UNPRINTABLE.sub("\ufffd", text.replace("\r\n", "\n").replace("\r", "\n"))
    return printable if limit is None or len(printable) <= limit else printable[: limit - 1].rstrip() + "…"


class Bar(NamedTuple):
    """A range of wrong labels: what it assumes, the numbers as text, and its places in percent of all imputed labels."""

    label: str
    text: str
    low: float
    width: float
    value: float | None


def bars(verdict: Verdict | None) -> list[Bar]:
    """The ranges of the verdict, to be drawn one below the other."""
    if verdict is None or not verdict.of:
        return []
    whatever = verdict.hidden.low is None
    labels = {
        "whatever hid the labels" if whatever else "if only hard rows lose their labels": verdict.wrong,
        "if some class also has up to three times the odds of losing them": verdict.hidden,
    }
    drawn = list[Bar]()
    for label, (value, low, high) in labels.items():
        if value is not None and low is not None and high is not None:
            text = " ".join(wording.estimate(verdict.wrong, "count")) if not drawn else f"{low:,.0f} to {high:,.0f}"
            scale = 100.0 / verdict.of
            drawn.append(Bar(label, text, scale * low, scale * (high - low), None if drawn else scale * value))
    return drawn


def _confusions(findings: Findings) -> list[tuple[str, str, str]]:
    """The most frequent confusions of more than two classes: true class, imputed class, expected rows."""
    classes = findings.labels.classes
    pairs = [
        (value, true.name, called.name)
        for true, row in zip(classes, findings.confusion or [], strict=False)
        for called, value in zip(classes, row, strict=True)
        if true is not called and value >= 0.5 and None not in (true.recall.value, called.precision.value)
    ]
    largest = sorted(pairs, key=lambda pair: -pair[0])[: CONFUSIONS if len(classes) > 2 else 0]
    return [(true, called, f"{int(value + 0.5):,}") for value, true, called in largest]


def _picture(drawing: Figure) -> dict[str, Any]:
    """A figure with its size from the PNG header, so that the page does not move while it loads."""
    width, height = struct.unpack(">II", drawing.light[16:24])
    light, dark = (f"data:image/png;base64,{base64.b64encode(png).decode()}" for png in (drawing.light, drawing.dark))
    caption = drawing.caption.replace(" %", f"{wording.SPACE}%")
    picture = {"title": drawing.title, "caption": caption, "light": light, "dark": dark}
    return picture | {"width": width, "height": height}


# Figures

TITLES = {"missingness": "How often labels are missing", "calibration": "Are labels as often right as they claim?"}
CAPTIONS = {
    "missingness": "Points show the share of missing labels in groups of rows that are about equally hard to classify, the line "
    "the share that the model expects. If the model fits, the line passes near the points.",
    "calibration": "Of the labels with a probability of 80 %, about 80 % should be right: the points should lie near the "
    "diagonal.",
}
CORRECTED = (
    " The uncorrected points are those of the labelled rows. The corrected ones count all rows, and are right if labels are "
    "missing only because rows are hard."
)
UNTESTED = "There were too few labels to test the model on rows it was not fitted to."
RIGHT = np.array([False, True])  # whether the most probable class is the true one


class Subject(NamedTuple):
    """The model and rows behind the figures."""

    classifier: Any  # with numbered classes
    X: Any
    z: NDArray[np.integer[Any]]
    tested: Predictions | None  # held-out predictions


def figures(subject: Subject) -> tuple[list[Figure], dict[str, str]]:
    """The figures, and by key the reasons why others cannot be drawn."""
    classifier, X, z, tested = subject
    displays: dict[str, Callable[[Axes], Any]] = {
        "missingness": lambda ax: MissingnessDisplay.from_estimator(classifier, X, z, measure=UNCERTAINTY, ax=ax)
    }
    drawn, left_out = list[Figure](), dict[str, str]()
    if tested is None:
        left_out["calibration"] = UNTESTED
    else:
        displays["calibration"] = lambda ax: CalibrationDisplay.from_predictions(**_most_probable(tested), ax=ax)
    for key, display in displays.items():
        try:
            drawn.append(_drawn(key, display))
        except ValueError as error:
            left_out[key] = str(error)
    return drawn, left_out


def _most_probable(tested: Predictions) -> dict[str, Any]:
    """Arguments of a display of whether the most probable class is the true one."""
    rows, best = np.arange(len(tested.proba)), tested.proba.argmax(axis=1)
    top = tested.proba[rows, best]
    share = tested.labels[rows, best]
    posterior = None if tested.posterior is None else tested.posterior[rows, best]
    return {
        "y": np.column_stack([tested.labelled - share, share]),
        "proba": np.column_stack([1.0 - top, top]),
        "missing_proba": tested.q,
        "classes": RIGHT,
        "posterior": None if posterior is None else np.column_stack([1.0 - posterior, posterior]),
    }


def _drawn(key: str, display: Callable[["Axes"], Any]) -> Figure:
    drawing: Any = None
    pictures = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # arrays have no column names
        for dark in (False, True):
            with styled(dark=dark):
                figure, ax = canvas(5.2, 4.0)
                drawing = display(ax) if drawing is None else drawing.plot(ax=ax)
                if key == "calibration":
                    ax.set(
                        xlabel="probability of the most probable class", ylabel="share in which it is the true class"
                    )
                buffer = io.BytesIO()
                figure.savefig(buffer, format="png", dpi=144)
                pictures.append(buffer.getvalue())
    added = CORRECTED if key == "calibration" and drawing.corrected else ""
    return Figure(key, TITLES[key], f"{CAPTIONS[key]}{added} {drawing.note_}".strip(), *pictures)
