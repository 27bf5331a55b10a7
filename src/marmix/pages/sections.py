"""The sections of a report."""

import base64
import re
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

from marmix.inference.sensitivity import times
from marmix.inference.tables import number
from marmix.pages import wording
from marmix.pages.contents import (
    Caution,
    Contents,
    Estimate,
    Figure,
    Findings,
    Interval,
    RowTable,
    ScoreFacts,
    Thresholds,
    finite,
)
from marmix.pages.figures import TITLES
from marmix.pages.markup import NAME, name, plain, quoted, readable, table
from marmix.pages.wording import count, counted, figure, percent, share_of
from marmix.plotting.predictions import CURVES_TOGETHER

PAGE = 25  # rows shown at a time
WIDE = 900  # pixels of a picture that spans the page
EXACT = 2**53  # larger integers are not exact in JavaScript
_LONG_DECIMAL = re.compile(r"[-+]?(?=.{9})\d*\.\d*(e[-+]?\d{1,2})?", re.ASCII | re.IGNORECASE)
Cell = str | int | float | None

SCORES = {"log_loss": "Log-loss", "independent_log_loss": "Independent log-loss"}  # of candidates
SHOWN = 8  # candidates shown unfolded
SHORT_NAME = 16  # characters of the names of classes whose tables stand side by side
MANY_CLASSES = 30  # classes listed unfolded, and with a confusion matrix
MATRIX = 12  # classes whose confusion matrix is unfolded
CONFUSIONS = 12  # most frequent confusions listed
SHADES = 5  # of the cells of the matrix


class Section(NamedTuple):
    """A part of the page; `lead` and `body` are HTML, `link` is its short title."""

    key: str
    link: str
    title: str
    lead: str
    body: str

    def html(self) -> str:
        lead = f'<p class="lead">{self.lead}</p>' if self.lead else ""
        return (
            f'<section id="{self.key}" aria-labelledby="{self.key}-title"><h2 id="{self.key}-title">{self.title}</h2>'
            f"{lead}{self.body}</section>"
        )


def _side_by_side(*parts: str, kind: str = "pair") -> str:
    return f'<div class="{kind}">{"".join(f"<div>{part}</div>" for part in parts if part)}</div>'


def _folded(title: str, body: str, kind: str = "") -> str:
    attribute = f' class="{kind}"' if kind else ""
    return f"<details{attribute}><summary>{title}</summary>{body}</details>"


def verdict(findings: Findings) -> Section:
    """Whether to use the labels and why, the numbers of labels, and the scoreboard."""
    answer = findings.verdict
    advice = {one.text: one.advice for one in findings.cautions}
    reasons = "".join(f"<li>{_advised(text, advice.get(text, ''))}</li>" for text in answer.reasons) if answer else ""
    use = answer.use if answer else "none"
    title = f'<span class="answer {use}">{wording.verdict_title(answer, findings.labels)}</span>'
    body = f'<ul class="reasons {use}">{reasons}</ul>' if reasons else ""
    return Section("verdict", "Verdict", title, "", body + _numbers(findings) + _scoreboard(findings))


def _numbers(findings: Findings) -> str:
    """How many labels were missing and imputed."""
    labels, rows = findings.labels, findings.data.rows
    facts = [
        ("Rows", count(rows)),
        ("Labels given", f"{count(labels.given)} <small>{share_of(labels.given, rows)}</small>"),
        ("Labels imputed", f"{count(labels.imputed)} <small>{share_of(labels.imputed, rows)}</small>"),
    ]
    if labels.unfilled:
        facts.append(("Not imputed, features missing", count(labels.unfilled)))
    if labels.imputed:
        sure = labels.certainty.at_least_90
        words = f"{wording.DASH} <small>too few labels to say</small>"
        if sure is not None:
            words = f"{count(sure)} <small>{share_of(sure, labels.imputed)} of them</small>"
        facts.append((f"At least 90{wording.SPACE}% sure", words))
    said = f'<p class="note">{plain(labels.missing_in_words())}</p>' if labels.missing_texts else ""
    return '<dl class="numbers">' + "".join(f"<div><dt>{k}</dt><dd>{v}</dd></div>" for k, v in facts) + f"</dl>{said}"


def _scoreboard(findings: Findings) -> str:
    """Our scores beside those of the usual classifiers, and what the labelled rows alone would have claimed."""
    board = findings.scoreboard
    if not board:
        why = plain(findings.scored_on) or "There were too few labels to score the model."
        return f'<p class="note">{why}</p>'
    decimals = wording.decimals_of(board)
    rows = [
        [
            f"{plain(line.name, NAME)}{' <small>this report</small>' if line.ours else ''}",
            wording.share_interval(line.accuracy, decimals),
            wording.count_interval(line.wrong, "too few labels" if findings.labels.imputed else "none imputed"),
            wording.loss_interval(line.log_loss),
            percent(line.claimed_accuracy, decimals),
            wording.loss(line.claimed_log_loss),
        ]
        for line in board
    ]
    wrong = f"Wrong of {count(findings.labels.imputed)} imputed" if findings.labels.imputed else "Wrong labels"
    head = ["Classifier", "Accuracy", wrong, "Log-loss", "Accuracy", "Log-loss"]
    groups = [("", 1), (f"Estimated, with 95{wording.SPACE}% intervals", 3), ("Claimed by the labelled rows", 2)]
    board_table = table(head, rows, caption="Scores of the classifiers", kind="figures board", groups=groups)
    rival = f"<p><strong>Better than the others?</strong> {plain(wording.rival_words(findings.rival))}</p>"
    scored = f" Rows scored: {plain(findings.scored_on)}." if findings.scored_on else ""
    return f"{board_table}{rival}<p class='quiet'>{wording.CLAIMS}{scored}</p>"


def warnings(findings: Findings) -> Section | None:
    """The warnings that are not reasons of the verdict, the most serious first, each with what to do; notes are folded."""
    reasons = findings.verdict.reasons if findings.verdict else []
    others = [one for one in findings.cautions if one.text not in reasons]
    if not others:
        return None
    warned, notes = ([one for one in others if (one.level == "note") == folded] for folded in (False, True))
    body = f'<ul class="warnings">{"".join(map(_caution, warned))}</ul>' if warned else ""
    if notes:
        items = "".join(map(_caution, notes))
        body += _folded(counted(len(notes), "note"), f'<ul class="warnings">{items}</ul>', "on-paper")
    title = "Warnings, and what to do" if warned else "Notes"
    return Section("warnings", title.split(",")[0], title, "", body)


def _caution(one: Caution) -> str:
    tag = {"serious": '<span class="tag">Serious</span> ', "caution": '<span class="tag">Caution</span> '}.get(
        one.level
    )
    return f'<li class="{one.level if tag else "remark"}">{_advised(one.text, one.advice, tag or "")}</li>'


def _advised(text: str, advice: str, tag: str = "") -> str:
    """A sentence, and what to do about it."""
    return f"<p>{tag}{plain(text)}</p>" + (f'<p class="advice">{plain(advice)}</p>' if advice else "")


def classes(findings: Findings) -> Section:
    """Given and imputed labels, precision and recall of each class, and which classes are confused."""
    facts, sets = findings.labels.classes, findings.labels.certainty.sets
    order = sorted(facts, key=lambda one: -(one.given + one.imputed)) if len(facts) > MANY_CLASSES else facts
    head = ["Class", "Given", "Imputed", "Precision", "Recall", "Share of all rows"]
    rows = [
        [
            name(one.name),
            count(one.given),
            count(one.imputed),
            wording.share_interval(one.precision, otherwise="too few labels" if one.imputed else "none imputed"),
            wording.share_interval(
                one.recall, otherwise="too few labels" if findings.labels.imputed else "none imputed"
            ),
            wording.share_interval(one.share),
        ]
        for one in order
    ]
    first = table(head, rows[:MANY_CLASSES], caption="Labels by class", kind="figures classes")
    if rest := rows[MANY_CLASSES:]:
        others = table(head, rest, caption="Labels of the other classes", kind="figures classes")
        first += _folded(f"The other {count(len(rest))} classes", others)
    kind = "pair uneven" if max((len(one.name) for one in facts), default=0) <= SHORT_NAME else "stack"
    body = _side_by_side(f"<h3>Labels</h3>{first}", *_confusion(findings), kind=kind)
    if len(facts) > MATRIX and findings.confusion is not None and len(facts) <= MANY_CLASSES:
        body += _folded("The whole confusion matrix", _matrix(findings))
    if sets is not None:
        body += f"<p class='quiet'>{wording.sets(sets)}</p>"
    return Section("classes", "Classes", "Class by class", wording.CLASSES, body)


def _confusion(findings: Findings) -> list[str]:
    """The confusion matrix or, of many classes, the most frequent confusions."""
    counts = _stated(findings)
    if not counts or not findings.labels.imputed:
        return []
    if len(counts) <= MATRIX:
        return [f"<h3>True classes (rows) of the imputed labels (columns)</h3>{_matrix(findings)}"]
    names, imputed = ([getattr(one, key) for one in findings.labels.classes] for key in ("name", "imputed"))
    pairs = [(value or 0.0, i, j) for i, row in enumerate(counts) for j, value in enumerate(row) if i != j]
    largest = [pair for pair in sorted(pairs, key=lambda pair: -pair[0])[:CONFUSIONS] if pair[0] >= 0.5]
    if not largest:
        return ["<h3>Largest confusions</h3><p>None: fewer than one row is expected for every pair of classes.</p>"]
    rows = [
        [name(names[i]), name(names[j]), _expected(value), percent(min(value / max(imputed[j], 1), 1.0))]
        for value, i, j in largest
    ]
    head = ["True class", "Imputed as", "Rows", "Share of those imputed so"]
    return [f"<h3>Largest confusions</h3>{table(head, rows, caption='The largest expected confusions', words=2)}"]


def _stated(findings: Findings) -> list[list[float | None]]:
    """The confusion matrix, with None where precision or recall cannot be stated."""
    facts = findings.labels.classes
    return [
        [
            None if true.recall.value is None or called.precision.value is None else value
            for called, value in zip(facts, row, strict=True)
        ]
        for true, row in zip(facts, findings.confusion or [], strict=False)
    ]


def _matrix(findings: Findings) -> str:
    """Expected numbers of imputed labels by true and imputed class, coloured by their share of the imputed class."""
    facts = findings.labels.classes
    tall = ' class="tall"' if len(facts) > 4 else ""
    head = "".join(f'<th scope="col"{tall}><span>{name(one.name)}</span></th>' for one in facts)
    body = "".join(
        f'<tr><th scope="row" class="text">{name(facts[i].name)}</th>'
        + "".join(_heat(value, facts[j].imputed, i == j) for j, value in enumerate(row))
        + "</tr>"
        for i, row in enumerate(_stated(findings))
    )
    caption = "Expected numbers of imputed labels: true classes in rows, imputed classes in columns"
    return (
        f'<div class="scroll" role="region" aria-label="{caption}" tabindex="0"><table class="matrix">'
        f'<caption class="unseen">{caption}</caption><thead><tr><td></td>{head}</tr>'
        f"</thead><tbody>{body}</tbody></table></div>"
        "<p class='quiet'>Expected numbers of rows. Blue is right, orange wrong; the deeper, the larger the share of the labels "
        "imputed so. A dash: too few labels.</p>"
    )


def _heat(value: float | None, imputed: int, right: bool) -> str:
    if value is None:
        return f"<td>{wording.DASH}</td>"
    shade = min(SHADES, int(value / max(imputed, 1) * SHADES) + 1) if value >= 0.5 else 0
    kind = f' class="{"right" if right else "wrong"}-{shade}"' if shade else ""
    return f"<td{kind}>{_expected(value)}</td>"


def _expected(value: float) -> str:
    """An expected number of rows, empty if it rounds to none."""
    return count(int(value + 0.5)) if value >= 0.5 else ""


def _data(findings: Findings) -> str:
    data, votes = findings.data, findings.labels.votes
    facts = [
        ("File", name(data.file)),
        ("Label column" if votes is None else "Vote columns", name(data.label)),
        ("Id column", name(data.id) if data.id is not None else "none"),
        (f"{counted(len(data.features), 'feature')}", wording.features_words(data.features)),
    ]
    if votes is not None:
        facts.insert(2, ("Votes", plain(votes.sentence())))
    if len(data.columns) != len(data.features):
        facts.append(("Columns of the model", f"{count(len(data.columns))}, with categories as columns of 0 and 1"))
    incomplete = f"{count(data.incomplete_rows)} ({share_of(data.incomplete_rows, data.rows)}). {plain(data.rule)}"
    facts.append(("Rows with missing features", incomplete if data.incomplete_rows else "none"))
    notes = "".join(f"<p>{plain(note)}</p>" for note in data.notes)
    return _folded("The data", _facts(facts) + notes, "on-paper")


def _facts(facts: Sequence[tuple[str, str]]) -> str:
    return (
        '<dl class="plain">' + "".join(f"<div><dt>{term}</dt><dd>{value}</dd></div>" for term, value in facts) + "</dl>"
    )


def missingness(contents: Contents) -> Section:
    """When labels are missing: two figures, the test, and whether modelling it helped."""
    findings = contents.findings
    facts = [
        (
            "Does it depend on how hard the row is?",
            f"{wording.informative_verdict(findings.missingness)}. {plain(findings.missingness.sentence)} "
            f"{wording.chance(findings.missingness)}",
        ),
        ("Did modelling it help?", plain(wording.help_words(findings.comparison))),
    ]
    figures = _side_by_side(*(_figure(contents, key, titled=True) for key in ("missingness", "uncertainty")))
    body = _facts(facts) + figures
    return Section(
        "missingness",
        "Missing labels",
        "When are labels missing?",
        wording.missingness_lead(findings.missingness),
        body,
    )


def trust(contents: Contents) -> Section:
    """Calibration and ROC curves."""
    wide = len(contents.findings.labels.classes) > CURVES_TOGETHER
    parts = [_figure(contents, "calibration", titled=True), _figure(contents, "roc", titled=True)]
    body = f'<div class="beside">{parts[0]}</div>{parts[1]}' if wide else _side_by_side(*parts)
    return Section("trust", "Trust", "Can the probabilities be trusted?", "", body)


def shapes(contents: Contents) -> Section:
    """The classes and the rows in two coordinates."""
    title = next((one.title for one in contents.figures if one.key == "classes"), TITLES["classes"])
    return Section("shapes", "Shapes", plain(title), "", f'<div class="beside">{_figure(contents, "classes")}</div>')


def sensitivity(contents: Contents) -> Section:
    """What follows if labels are missing because of the label: a figure, and a table of a few odds ratios."""
    facts, title, link = contents.findings.sensitivity, TITLES["sensitivity"], "What if"
    lead = wording.sensitivity_lead(facts)
    if facts is None:
        return Section("sensitivity", link, title, lead, "")
    columns = (
        (facts.share, facts.share_interval),
        (facts.wrong, facts.wrong_interval),
        (facts.changed, facts.changed_interval),
    )
    rows = [
        [
            f"{plain(times(facts.odds_ratio[i]))} as likely",
            *(wording.share_interval(Interval(values[i], *ends[i])) for values, ends in columns),
        ]
        for i in sorted({wording.nearest(facts.odds_ratio, odds) for odds in (0.25, 0.5, 2.0, 4.0)})
        if facts.odds_ratio[i] != 1.0
    ]
    head = [
        f"{quoted(facts.label)} loses its label",
        f"Rows that are {quoted(facts.label)}",
        "Imputed labels wrong",
        "Imputed labels changed",
    ]
    tipping = "".join(f"<li>{plain(sentence)}</li>" for sentence in facts.tipping)
    notes = "".join(f"<p class='quiet'>{plain(note)}</p>" for note in facts.notes)
    body = _side_by_side(
        _figure(contents, "sensitivity"),
        f"{table(head, rows, caption='Results at a few odds ratios, with 95 % intervals')}"
        f"<h3>Where conclusions change</h3><ul>{tipping}</ul><p class='quiet'>{wording.ODDS}</p>{notes}",
    )
    return Section("sensitivity", link, title, lead, body)


def _figure(contents: Contents, key: str, titled: bool = False) -> str:
    """A figure, or why there is none."""
    drawing = next((one for one in contents.figures if one.key == key), None)
    title = f"<h3>{plain(drawing.title if drawing else TITLES[key])}</h3>" if titled else ""
    return f'<div class="figure">{title}{_picture(drawing) if drawing else _absent(contents, key)}</div>'


def _picture(drawing: Figure) -> str:
    caption = plain(drawing.caption).replace(" %", f"{wording.SPACE}%")
    width, height = _size(drawing.light)
    kind = ' class="panels"' if width > WIDE else ""
    return (
        f'<figure{kind}><div class="scroll" tabindex="0" role="region" aria-label="{plain(drawing.title)}"><picture>'
        f'<source media="screen and (prefers-color-scheme: dark)" srcset="{_image(drawing.dark)}" '
        f'width="{width}" height="{height}">'
        f'<img src="{_image(drawing.light)}" alt="{caption}" width="{width}" height="{height}">'
        f"</picture></div><figcaption>{caption}</figcaption></figure>"
    )


def _absent(contents: Contents, key: str) -> str:
    why = contents.notes.get(key, "This figure could not be drawn for these data.")
    return f'<p class="note">{plain(why)}</p>'


def _image(png: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"


def _size(png: bytes) -> tuple[int, int]:
    """Width and height from the PNG header, so that the page does not move while it loads."""
    width, height = struct.unpack(">II", png[16:24])
    return width, height


def threshold(contents: Contents) -> Section:
    """A slider for the threshold, and a small table for paper and browsers without JavaScript."""
    entries = contents.thresholds
    title, link = "Choose a threshold", "Threshold"
    if not entries:
        why = contents.notes.get("threshold", "There were too few labels to compute the effect of a threshold.")
        return Section("threshold", link, title, "", f'<p class="note">{plain(why)}</p>')
    which = "the rows without a label" if entries[0].unlabelled else "all rows"
    lead = f"A higher threshold gives fewer false alarms but misses more cases. The shares are estimates for {which}."
    options = "".join(f'<option value="{i}">{plain(entry.positive, NAME)}</option>' for i, entry in enumerate(entries))
    select = f'<label class="field">Class<select id="positive">{options}</select></label>' if len(entries) > 1 else ""
    tiles = "".join(
        f'<div class="tile {key}"><dt>{title}</dt><dd id="{key}">{wording.DASH}</dd><dd class="quiet">{words}</dd></div>'
        for key, title, words in (
            ("precision", "Precision", "of the rows at or above the threshold belong to the class"),
            ("recall", "Recall", "of the rows of the class are at or above the threshold"),
            ("accuracy", "Accuracy", "of the rows are on the correct side of the threshold"),
        )
    )
    sides = "".join(
        f'<div class="side"><p>{title}</p><div class="bar" aria-hidden="true"><span id="{key}-bar"></span></div>'
        f'<p><span><b id="{key}-above"></b> at or above</span> <span><b id="{key}-below"></b> below</span></p></div>'
        for key, title in (("unlabelled", "Rows without a label"), ("all", "All rows"))
    )
    body = (
        f'<div id="slider" class="panel" hidden>{select}'
        '<div class="plot"><svg id="curves" viewBox="0 0 100 100" preserveAspectRatio="none" aria-hidden="true"></svg></div>'
        '<label for="cut" class="cut"><span>Threshold for \u2018<bdi id="cut-class"></bdi>\u2019</span>'
        '<output id="cut-value" for="cut"></output></label>'
        f'<input type="range" id="cut" min="0" max="{len(entries[0].at) - 1}" step="1" value="{len(entries[0].at) // 2}">'
        f'<dl class="tiles">{tiles}</dl>{sides}<p id="cut-words" class="unseen" role="status" aria-live="polite"></p></div>'
        f'<div class="static">{_few(entries)}</div>'
        "<noscript><p class='note'>The slider needs JavaScript; the table shows a few thresholds instead.</p></noscript>"
    )
    return Section("threshold", link, title, lead, body)


def _few(entries: list[Thresholds]) -> str:
    """A table of a few thresholds for each class."""
    cuts = (0.1, 0.25, 0.5, 0.75, 0.9) if len(entries) <= 4 else (0.5,)
    rows = []
    for entry in entries:
        for i in sorted({wording.nearest(entry.at, cut) for cut in cuts}):
            scores = [percent(values[i], 1) for values in (entry.precision, entry.recall, entry.accuracy)]
            unlabelled = f"{count(entry.unlabelled_above[i])} of {count(entry.unlabelled)}"
            together = f"{count(entry.all_above[i])} of {count(entry.all)}"
            rows.append([name(entry.positive), percent(entry.at[i]), *scores, unlabelled, together])
    head = [
        "Class",
        "Threshold",
        "Precision",
        "Recall",
        "Accuracy",
        "Unlabelled rows at or above",
        "All rows at or above",
    ]
    return table(head, rows, caption="Effects of a few thresholds")


def next_rows(contents: Contents) -> Section:
    """The rows most worth labelling next; without JavaScript, the first of them."""
    rows = contents.next_rows
    lead = wording.rows_lead(len(rows.rows), rows.of)
    needed = wording.labels_needed(contents.findings.labels_needed)
    uncertainty = f'<p class="quiet">{wording.UNCERTAINTY}</p>' if rows.uncertainty is not None else ""
    body = (f"<p>{needed}</p>" if needed else "") + uncertainty + _row_table(rows) if rows.rows else ""
    return Section("rows", "Rows to label", "Rows most worth labelling next", lead, body)


def _row_table(rows: RowTable) -> str:
    head = "".join(
        f'<th scope="col"{_numeric(is_number)} aria-sort="none"><button type="button" data-column="{i}">'
        f"<bdi>{plain(title, NAME) or '(no name)'}</bdi></button></th>"
        for i, (title, is_number) in enumerate(zip(rows.columns, rows.numeric, strict=True))
    )
    body = "".join(
        "<tr>"
        + "".join(
            f"<td{_numeric(is_number)}>{plain(cell_text(_exact(cell), is_number), NAME)}</td>"
            for cell, is_number in zip(row, rows.numeric, strict=True)
        )
        + "</tr>"
        for row in rows.rows[:PAGE]
    )
    by_class = '<label class="field">Imputed label<select id="by-class"><option value="">all</option></select></label>'
    by_doubt = (
        '<label class="field"><span>Uncertainty at least <output id="doubt-value" for="doubt"></output></span>'
        '<input type="range" id="doubt" min="0" max="100" step="1" value="0"></label>'
    )
    return (
        '<div id="tools" class="panel tools" hidden>'
        '<label class="field">Search<input type="search" id="search" autocomplete="off" spellcheck="false"></label>'
        f"{by_class if rows.label is not None else ''}{by_doubt if rows.uncertainty is not None else ''}"
        '<button type="button" id="download">Download as CSV</button></div>'
        '<p id="shown" class="quiet" role="status" aria-live="polite"></p>'
        '<div class="scroll" role="region" aria-label="Rows most worth labelling next" tabindex="0">'
        '<table class="rows" id="row-table"><caption class="unseen">Rows most worth labelling next; the buttons in the '
        f"header sort</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
        f'<button type="button" id="more" hidden>Show {PAGE} more</button>'
        f"<noscript><p class='note'>These are the first {PAGE}; sorting, search and download need JavaScript.</p></noscript>"
    )


def _numeric(is_number: bool) -> str:
    return ' class="number"' if is_number else ' class="text"'


def cell_text(cell: Cell, is_number: bool = False) -> str:
    """A cell as text; decimals, and long decimals written as text, are rounded to about four digits."""
    if cell is None:
        return ""
    if is_number and isinstance(cell, str) and _LONG_DECIMAL.fullmatch(cell.strip()):
        cell = float(cell)
    if isinstance(cell, float):
        return str(int(cell)) if cell.is_integer() and abs(cell) < EXACT else number(cell)
    return str(cell)


def script_data(contents: Contents) -> dict[str, Any]:
    """The data for the script: thresholds, and rows with their texts."""
    rows = contents.next_rows
    exact = [[_exact(cell) for cell in row] for row in rows.rows]
    return {
        "thresholds": finite(
            [
                {
                    "positive": readable(entry.positive, NAME),
                    "at": entry.at,
                    "precision": entry.precision,
                    "recall": entry.recall,
                    "accuracy": entry.accuracy,
                    "unlabelled": {"above": entry.unlabelled_above, "of": entry.unlabelled},
                    "all": {"above": entry.all_above, "of": entry.all},
                }
                for entry in contents.thresholds
            ]
        ),
        "table": {
            "columns": rows.columns,
            "numeric": rows.numeric,
            "label": rows.label,
            "uncertainty": rows.uncertainty,
            "rows": exact,
            "shown": [
                [readable(cell_text(*cell), NAME) for cell in zip(row, rows.numeric, strict=True)] for row in exact
            ],
            "page": PAGE,
        },
    }


def _exact(cell: Cell) -> Cell:
    """A cell that JSON and JavaScript represent exactly."""
    if isinstance(cell, float) and not abs(cell) < float("inf"):
        return None
    return str(cell) if isinstance(cell, int) and abs(cell) >= EXACT else cell


def models(findings: Findings) -> Section:
    """The classifier: the average, its candidates and the usual classifiers; parameters and data, folded."""
    model = findings.model
    lead = f"Labels were imputed by {name_of(model.name)}."
    body = "".join(
        [
            _candidates(findings) if model.candidates else "",
            f"<p class='quiet'>{wording.independent(model.independent)}</p>" if model.independent else "",
            f"<p class='quiet'>{plain(model.rule)}</p>" if model.rule else "",
            _other_scores(findings.scores),
            parameters(findings),
            _data(findings),
        ]
    )
    return Section("models", "Models", "How were the labels made?", lead, body)


def _other_scores(scores: Sequence[ScoreFacts]) -> str:
    """The scores that are not on the scoreboard, folded."""
    rows = [
        [
            plain(score.name, NAME),
            f"{wording.loss(score.value)} ({wording.loss(score.low)} to {wording.loss(score.high)})",
            wording.loss(score.plain),
            plain(score.better, NAME),
        ]
        for score in scores
        if score.name not in ("log-loss", "accuracy")
    ]
    head = ["Score", "Estimated", "Claimed by the labelled rows", "Better"]
    return _folded("Other scores", table(head, rows, caption="Other scores")) if rows else ""


def name_of(words: str) -> str:
    """The name of a model with its article, for a sentence."""
    return f"{'an' if words[:1].lower() in tuple('aeiou') else 'a'} {plain(words)}"


def _averages(findings: Findings) -> bool:
    return findings.model.kind == "MARClassifierCV"


def _candidates(findings: Findings) -> str:
    """A table of the candidates by weight; the lightest ones are folded."""
    candidates = findings.model.candidates
    keys = [key for key in SCORES if any(key in row for row in candidates)]
    sizes = len({row.get("rows") for row in candidates}) > 1
    head = ["Model", "Missingness", "Weight", *(SCORES[key] for key in keys), *(["Rows of its fit"] if sizes else [])]
    rows = [
        [
            _model(row),
            plain(str(row.get("missingness", "")), NAME),
            _value(row["weight"]) if "weight" in row else "",
            *(_score_of(row, key) for key in keys),
            *([_value(row["rows"]) if "rows" in row else ""] if sizes else []),
        ]
        for row in candidates
    ]
    first = table(head, rows[:SHOWN], caption="Candidates with weights and scores", words=2)
    if not rows[SHOWN:]:
        return first
    others = table(head, rows[SHOWN:], caption="The other candidates", words=2)
    return first + _folded(f"The other candidates ({count(len(rows) - SHOWN)})", others)


def _score_of(row: dict[str, Any], key: str) -> str:
    error = row.get(f"{key}_stderr")
    return _value(row.get(key)) + ("" if error is None else f" ± {_value(error)}")


def _model(row: dict[str, Any]) -> str:
    return plain(str(row.get("candidate", "")))


def parameters(findings: Findings) -> str:
    """The model whose parameters are reported, and its parameters, folded."""
    model, estimates = findings.statistical, findings.estimates
    if model is None:
        return ""
    name_of_model = model.name[:1].upper() + model.name[1:]
    mechanism = [estimate for estimate in estimates if wording.is_mechanism(estimate)]
    others = [estimate for estimate in estimates if estimate not in mechanism]
    settings = [(plain(key, NAME), plain(str(value), NAME)) for key, value in model.parameters.items()]
    which = f"<p>{wording.statistical_words(model)}</p>" if _averages(findings) else ""
    body = [
        f"<p>{plain(name_of_model)} (<code>{plain(model.kind, NAME)}</code>). {wording.convergence(model)}</p>{which}",
        f"<p>{wording.estimates_lead(estimates)}</p>",
        _facts(settings) if settings else "",
        _estimates(mechanism, "Parameters of the missingness curve") if mechanism else "",
        f"<p class='quiet'>{wording.SLOPE}</p>" if any(estimate.name == "alpha_1" for estimate in mechanism) else "",
        _estimates(others, "Parameters of the classes") if others else "",
        f"<p class='quiet'>{plain(model.units)}</p>" if model.units else "",
    ]
    return _folded(f"Parameters of a model ({count(len(estimates))})", "".join(body))


def _estimates(estimates: Sequence[Estimate], caption: str) -> str:
    rows = [[name(e.name), *(figure(value) for value in (e.value, e.stderr, e.low, e.high))] for e in estimates]
    head = ["Parameter", "Estimate", "Standard error", f"95{wording.SPACE}% interval from", "to"]
    return table(head, rows, caption=caption)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return count(value)
    if value is None or isinstance(value, float):
        return wording.loss(value)
    return plain(str(value), NAME)


def reproduction(findings: Findings) -> Section:
    """The command, the data and the versions."""
    record = findings.reproduction
    facts = [
        ("Data", f"{name(findings.data.file)}, sha256 <code>{plain(record.sha256, NAME + 10)}</code>"),
        ("Seed", str(record.seed)),
        ("Versions", ", ".join(f"{plain(key, NAME)} {plain(value, NAME)}" for key, value in record.versions.items())),
    ]
    body = (
        '<div class="command"><pre tabindex="0" role="region" aria-label="Command">'
        f'<code id="command">{plain(record.command, None)}</code></pre>'
        '<button type="button" id="copy" hidden>Copy</button><span class="unseen" role="status" id="copied"></span></div>'
    )
    lead = "The same command gives the same report with the same file and the same versions."
    return Section("reproduce", "Reproduce", "How to reproduce this report", lead, body + _facts(facts))
