"""The sections of a report."""

import base64
import re
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

from marmix.inference.tables import number
from marmix.pages import wording
from marmix.pages.contents import Contents, Estimate, Figure, Findings, RowTable, ScoreFacts, Thresholds, finite
from marmix.pages.markup import NAME, name, plain, readable, table
from marmix.pages.wording import count, counted, figure, percent, share_of
from marmix.sensitivity import times

PAGE = 25  # rows shown at a time
EXACT = 2**53  # larger integers are not exact in JavaScript
_LONG_DECIMAL = re.compile(r"[-+]?(?=.{9})\d*\.\d*(e[-+]?\d{1,2})?", re.ASCII | re.IGNORECASE)
Cell = str | int | float | None

SCORES = {
    "log_loss": "Log-loss",
    "independent_log_loss": "Independent log-loss",
    "plain_log_loss": "Labelled rows only",
    "accuracy": "Accuracy",
    "roc_auc": "AUC",
}
SHOWN = 8  # candidates shown unfolded


class Section(NamedTuple):
    """A part of the page; `lead` and `body` are HTML."""

    key: str
    title: str
    lead: str
    body: str

    def html(self) -> str:
        return (
            f'<section id="{self.key}" aria-labelledby="{self.key}-title"><h2 id="{self.key}-title">{self.title}</h2>'
            f'<p class="lead">{self.lead}</p>{self.body}</section>'
        )


def overview(findings: Findings) -> Section:
    """Cards, labels by class, scores, and the data."""
    body = f'<div class="cards">{_cards(findings)}</div>{_classes(findings)}'
    body += _scores(findings.scores, findings.scored_on) + _data(findings)
    return Section("found", "Results", wording.overview_lead(findings.labels, findings.data.rows), body)


def _cards(findings: Findings) -> str:
    labels, certainty = findings.labels, findings.labels.certainty
    unfilled = f"; {counted(labels.unfilled, 'row')} not, because features are missing" if labels.unfilled else ""
    imputed = f"{share_of(labels.imputed, labels.missing)} of the missing labels{unfilled}"
    cards = [
        _card(
            "Labels missing",
            count(labels.missing),
            f"{share_of(labels.missing, findings.data.rows)} of {counted(findings.data.rows, 'row')}",
        ),
        _card("Labels imputed", count(labels.imputed), imputed if labels.missing else "no label was missing"),
    ]
    if certainty.mean_probability is not None:
        words = (
            f"mean probability of the imputed labels; {count(certainty.at_least_90)} have at least 90{wording.SPACE}%, "
            f"{count(certainty.at_least_99)} at least 99{wording.SPACE}%"
        )
        if certainty.sets is not None:
            words += f". {wording.sets(certainty.sets)}"
        cards.append(_card("Certainty", percent(certainty.mean_probability, 1), words))
    test = f" {wording.chance(findings.missingness)}"
    cards += [
        _card(
            "Do missing labels depend on difficulty?",
            wording.informative_verdict(findings.missingness),
            plain(findings.missingness.sentence) + test,
            wide=True,
        ),
        _card(
            "Did modelling the missingness help?",
            wording.help_verdict(findings.comparison),
            plain(findings.comparison.sentence),
            wide=True,
        ),
        _card(
            "Better than a classifier of the labelled rows?",
            wording.rival_verdict(findings.rival),
            plain(findings.rival.sentence),
            wide=True,
        ),
    ]
    return "".join(cards)


def _card(title: str, value: str, words: str, wide: bool = False) -> str:
    kind = "card words" if wide else "card"
    return f'<div class="{kind}"><h3>{title}</h3><p class="value">{value}</p><p>{words}</p></div>'


def _classes(findings: Findings) -> str:
    labels = findings.labels
    rows = [
        [
            name(facts.name),
            count(facts.given),
            share_of(facts.given, labels.given),
            count(facts.imputed),
            share_of(facts.imputed, labels.imputed),
            count(facts.given + facts.imputed),
        ]
        for facts in labels.classes
    ]
    head = ["Class", "Given", "Share", "Imputed", "Share", "Total"]
    return f"<h3>Labels by class</h3>{table(head, rows, caption='Labels given and imputed by class')}"


def _scores(scores: Sequence[ScoreFacts], scored_on: str) -> str:
    if not scores:
        return f"<h3>Scores</h3><p>{plain(scored_on) or 'There were too few labels to score the model.'}</p>"
    rows = [
        [
            plain(score.name, NAME),
            f"<strong>{_score(score.value)}</strong>",
            f"{_score(score.low)} to {_score(score.high)}",
            _score(score.plain),
            plain(score.better, NAME),
        ]
        for score in scores
    ]
    head = ["Score", "Corrected", "95 % interval", "Labelled rows only", "Better"]
    return (
        f"<h3>Scores</h3>{table(head, rows, caption='Scores, corrected and of the labelled rows only')}"
        f"<p>{wording.correction(scores)}</p><p class='quiet'>Rows scored: {plain(scored_on)}</p>"
    )


def _score(value: float) -> str:
    return wording.DASH if value != value else f"{value:.3f}".replace("-", wording.MINUS)


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
    return f"<details><summary>About the data</summary>{_facts(facts)}{notes}</details>"


def _facts(facts: Sequence[tuple[str, str]]) -> str:
    return "<dl>" + "".join(f"<div><dt>{term}</dt><dd>{value}</dd></div>" for term, value in facts) + "</dl>"


def figure_sections(contents: Contents) -> list[Section]:
    """Three sections with a figure each, and one with two."""
    findings, by_key = contents.findings, {drawing.key: drawing for drawing in contents.figures}
    parts = [
        ("missingness", "When are labels missing?", wording.missingness_lead(findings.missingness)),
        ("uncertainty", "Are rows without a label harder to classify?", wording.uncertainty_lead(findings.labels)),
        ("classes", "What do the classes look like?", wording.classes_lead(findings.labels)),
    ]
    sections = []
    for key, title, lead in parts:
        drawing = by_key.get(key)
        body = _figure(drawing) if drawing else _absent(contents, key)
        title = plain(drawing.title) if drawing else title
        sections.append(Section(key, title, lead, f'<div class="single">{body}</div>'))
    pair = [
        f"<div><h3>{plain(by_key[key].title)}</h3>{_figure(by_key[key])}</div>"
        if key in by_key
        else _absent(contents, key)
        for key in ("calibration", "roc")
    ]
    lead = wording.trust_lead(findings.scores) + wording.doubts(findings.missingness)
    return [
        *sections,
        Section("trust", "How far can the results be trusted?", lead, f'<div class="pair">{"".join(pair)}</div>'),
    ]


def sensitivity(contents: Contents) -> Section:
    """What follows if labels are missing because of the label: a figure, and a table of a few odds ratios."""
    facts, title = contents.findings.sensitivity, "What if labels are missing because of the label?"
    lead = wording.sensitivity_lead(facts)
    if facts is None:
        return Section("sensitivity", title, lead, "")
    drawing = next((drawing for drawing in contents.figures if drawing.key == "sensitivity"), None)
    rows = [
        [
            f"{plain(times(facts.odds_ratio[i]))} as likely" if facts.odds_ratio[i] != 1.0 else "as the models assume",
            *(
                f"{percent(values[i], 1)} ({percent(interval[i][0], 1)} to {percent(interval[i][1], 1)})"
                for values, interval in (
                    (facts.share, facts.share_interval),
                    (facts.wrong, facts.wrong_interval),
                    (facts.changed, facts.changed_interval),
                )
            ),
        ]
        for i in sorted({wording.nearest(facts.odds_ratio, odds) for odds in (0.25, 0.5, 1.0, 2.0, 4.0)})
    ]
    head = [
        f"{name(facts.label)} is to lose its label",
        f"Rows that are {name(facts.label)}",
        "Imputed labels that would be wrong",
        "that would change",
    ]
    tipping = "".join(f"<li>{plain(sentence)}</li>" for sentence in facts.tipping)
    notes = "".join(f"<p class='quiet'>{plain(note)}</p>" for note in facts.notes)
    body = (
        f'<div class="single">{_figure(drawing) if drawing else _absent(contents, "sensitivity")}</div>'
        f"{table(head, rows, caption='Results at a few odds ratios, with 95 % intervals')}"
        f"<h3>Where conclusions change</h3><ul>{tipping}</ul><p class='quiet'>{wording.ODDS}</p>{notes}"
    )
    return Section("sensitivity", title, lead, body)


def _figure(drawing: Figure) -> str:
    caption = plain(drawing.caption).replace(" %", f"{wording.SPACE}%")
    return (
        '<figure><picture><source media="screen and (prefers-color-scheme: dark)" '
        f'srcset="{_image(drawing.dark)}" {_size(drawing.dark)}>'
        f'<img src="{_image(drawing.light)}" alt="{caption}" {_size(drawing.light)}>'
        f"</picture><figcaption>{caption}</figcaption></figure>"
    )


def _absent(contents: Contents, key: str) -> str:
    why = contents.notes.get(key, "This figure could not be drawn for these data.")
    return f'<p class="note">{plain(why)}</p>'


def _image(png: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"


def _size(png: bytes) -> str:
    """Width and height from the PNG header, so that the page does not move while it loads."""
    width, height = struct.unpack(">II", png[16:24])
    return f'width="{width}" height="{height}"'


def threshold(contents: Contents) -> Section:
    """A slider for the threshold, and a small table for paper and browsers without JavaScript."""
    entries = contents.thresholds
    lead = wording.threshold_lead(entries)
    if not entries:
        why = contents.notes.get("threshold", "There were too few labels to compute the effect of a threshold.")
        return Section("threshold", "Choose a threshold", lead, f'<p class="note">{plain(why)}</p>')
    options = "".join(f'<option value="{i}">{plain(entry.positive, NAME)}</option>' for i, entry in enumerate(entries))
    select = f'<label class="field">Class<select id="positive">{options}</select></label>' if len(entries) > 1 else ""
    tiles = "".join(
        f'<div class="tile {key}"><dt>{title}</dt><dd id="{key}">{wording.DASH}</dd><dd class="quiet">{words}</dd></div>'
        for key, title, words in (
            ("precision", "Precision", "of the rows at or above the threshold belong to the class"),
            ("recall", "Recall", "of the rows of the class are at or above the threshold"),
            ("accuracy", "Accuracy", "of all rows are on the correct side of the threshold"),
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
        '<label for="cut" class="cut"><span>Threshold for <bdi id="cut-class"></bdi></span>'
        '<output id="cut-value" for="cut"></output></label>'
        f'<input type="range" id="cut" min="0" max="{len(entries[0].at) - 1}" step="1" value="{len(entries[0].at) // 2}">'
        f'<dl class="tiles">{tiles}</dl>{sides}<p id="cut-words" class="unseen" role="status" aria-live="polite"></p></div>'
        f'<div class="static">{_few(entries)}</div>'
        "<noscript><p class='note'>The slider needs JavaScript; the table shows a few thresholds instead.</p></noscript>"
        '<p class="quiet">All three are estimates for all rows, with and without a label.</p>'
    )
    return Section("threshold", "Choose a threshold", lead, body)


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
    body = _row_table(rows) if rows.rows else ""
    return Section("rows", "Rows most worth labelling next", lead, body)


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
    """The classifier: the average, its candidates, and the usual classifiers for comparison."""
    model = findings.model
    lead = f"Labels were imputed by {name_of(model.name)}."
    body = "".join(
        [
            _candidates(findings) if model.candidates else "",
            f"<p>{plain(findings.rival.sentence)}</p>" if model.candidates else "",
            f"<p class='quiet'>{wording.INDEPENDENT}</p>" if model.independent else "",
            f"<p class='quiet'>{plain(model.rule)}</p>" if model.rule else "",
        ]
    )
    return Section("models", "Which models predict the labels?", lead, body)


def name_of(words: str) -> str:
    """The name of a model with its article, for a sentence."""
    return f"{'an' if words[:1].lower() in tuple('aeiou') else 'a'} {plain(words)}"


def _averages(findings: Findings) -> bool:
    return findings.model.kind == "MARClassifierCV"


def _candidates(findings: Findings) -> str:
    """Tables of the average, its candidates by weight and the usual classifiers; the lightest candidates are folded."""
    candidates, rivals = findings.model.candidates, findings.model.rivals
    keys = [key for key in SCORES if any(key in row for row in (*candidates, *rivals))]
    sizes = len({row.get("rows") for row in candidates}) > 1
    head = ["Model", "Missingness", "Weight", *(SCORES[key] for key in keys), *(["Rows of its fit"] if sizes else [])]

    def cells(title: str, row: dict[str, Any]) -> list[str]:
        weight = _value(row["weight"]) if "weight" in row else ""
        fit = [_value(row["rows"]) if "rows" in row else ""] if sizes else []
        return [
            title,
            plain(str(row.get("missingness", "")), NAME),
            weight,
            *(_score_of(row, key) for key in keys),
            *fit,
        ]

    rows = (
        [cells("<strong>Average</strong>", _average_scores(findings.scores) | findings.model.independent)]
        if _averages(findings)
        else []
    )
    rows += [cells(_model(row), row) for row in candidates[:SHOWN]]
    rows += [cells(f"Labelled rows alone: {_model(row)}", row) for row in rivals]
    first = table(head, rows, caption="Candidates with weights and scores", words=2)
    rest = [cells(_model(row), row) for row in candidates[SHOWN:]]
    if not rest:
        return first
    others = table(head, rest, caption="The other candidates", words=2)
    return f"{first}<details><summary>The other candidates ({count(len(rest))})</summary>{others}</details>"


def _average_scores(scores: Sequence[ScoreFacts]) -> dict[str, Any]:
    """The scores of the average as a row of the table."""
    keys = {"log-loss": "log_loss", "accuracy": "accuracy", "AUC": "roc_auc"}
    row: dict[str, Any] = {keys[score.name]: score.value for score in scores if score.name in keys}
    for score in scores:
        if score.name == "log-loss":
            row |= {"log_loss_stderr": score.stderr, "plain_log_loss": score.plain}
    return row


def _score_of(row: dict[str, Any], key: str) -> str:
    error = row.get(f"{key}_stderr")
    return _value(row.get(key)) + ("" if error is None else f" ± {_value(error)}")


def _model(row: dict[str, Any]) -> str:
    return plain(str(row.get("candidate", "")))


def parameters(findings: Findings) -> Section:
    """The model whose parameters are reported, and its parameters."""
    model, estimates = findings.statistical, findings.estimates
    title, lead = "Parameters of a model", wording.estimates_lead(estimates)
    if model is None:
        return Section("parameters", title, lead, "")
    name_of_model = model.name[:1].upper() + model.name[1:]
    mechanism = [estimate for estimate in estimates if wording.is_mechanism(estimate)]
    first = mechanism if len(estimates) > wording.MANY else estimates
    rest = [estimate for estimate in estimates if estimate not in first]
    others = _estimates(rest, "The other parameters")
    more = f"<details><summary>The other parameters ({count(len(rest))})</summary>{others}</details>"
    settings = [(plain(key, NAME), plain(str(value), NAME)) for key, value in model.parameters.items()]
    which = f"<p>{wording.statistical_words(model)}</p>" if _averages(findings) else ""
    body = [
        f"<p>{plain(name_of_model)} (<code>{plain(model.kind, NAME)}</code>). {wording.convergence(model)}</p>{which}",
        _facts(settings) if settings else "",
        _estimates(first, "Parameters with intervals") if first else "",
        f"<p class='quiet'>{plain(model.units)}</p>" if model.units else "",
        f"<p class='quiet'>{wording.SLOPE}</p>" if any(estimate.name == "alpha_1" for estimate in first) else "",
        more if rest else "",
    ]
    return Section("parameters", title, lead, "".join(body))


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
        return _score(float("nan") if value is None else value)
    return plain(str(value), NAME)


def warnings(findings: Findings) -> Section:
    """The list of warnings."""
    items = "".join(f"<li>{plain(f'{one.text} {one.advice}'.strip())}</li>" for one in findings.cautions)
    reasons = findings.verdict.reasons if findings.verdict else []
    body = "".join(f"<p>{plain(reason)}</p>" for reason in reasons)
    body += f'<ul class="warnings">{items}</ul>' if items else ""
    return Section("warnings", "Warnings", wording.warnings_lead(findings.cautions), body)


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
    return Section("reproduce", "How to reproduce this report", lead, body + _facts(facts))
