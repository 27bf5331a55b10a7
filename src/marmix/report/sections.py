"""The sections of a report that do not move: findings, figures, parameters, warnings, reproduction."""

import base64
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

from marmix.report import wording
from marmix.report.contents import Contents, Estimate, Figure, Findings, ScoreFacts
from marmix.report.markup import NAME, name, plain, table
from marmix.report.wording import count, counted, figure, percent, share_of

SCORES = {
    "log_loss": "Log-loss",
    "log_loss_stderr": "its standard error",
    "plain_log_loss": "Plain log-loss",
    "brier": "Brier score",
    "roc_auc": "AUC",
}


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


def found(findings: Findings) -> Section:
    """What was found: cards, classes, scores, and the data behind them."""
    labels = findings.labels
    body = (
        f'<div class="cards">{_cards(findings)}</div>{_classes(findings)}{_scores(findings.scores, findings.scored_on)}'
    )
    lead = wording.found_lead(labels, findings.data.rows)
    return Section("found", "What was found", lead, body + _data(findings))


def _cards(findings: Findings) -> str:
    labels, sure = findings.labels, findings.labels.certainty
    unfilled = f"; {counted(labels.unfilled, 'row')} left open, as features are missing" if labels.unfilled else ""
    imputed = (
        f"{share_of(labels.imputed, labels.missing)} of the missing ones{unfilled}"
        if labels.missing
        else "none was missing"
    )
    cards = [
        _card(
            "Labels missing",
            count(labels.missing),
            f"{share_of(labels.missing, findings.data.rows)} of {counted(findings.data.rows, 'row')}",
        ),
        _card("Labels imputed", count(labels.imputed), imputed),
    ]
    if sure.mean_probability is not None:
        many = (
            f"is the mean probability of an imputed label; {count(sure.at_least_90)} have at least 90{wording.SPACE}%, "
            f"{count(sure.at_least_99)} at least 99{wording.SPACE}%"
        )
        cards.append(_card("How sure", percent(sure.mean_probability, 1), many))
    test = f" {wording.chance(findings.missingness)}"
    cards += [
        _card(
            "Was missingness informative?",
            wording.informative_verdict(findings.missingness),
            plain(findings.missingness.sentence) + test,
            wide=True,
        ),
        _card(
            "Did modelling it help?",
            wording.help_verdict(findings.comparison),
            plain(findings.comparison.sentence),
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
            name(one.name),
            count(one.given),
            share_of(one.given, labels.given),
            count(one.imputed),
            share_of(one.imputed, labels.imputed),
            count(one.given + one.imputed),
        ]
        for one in labels.classes
    ]
    head = ["Class", "Given", "Share", "Imputed", "Share", "Together"]
    return f"<h3>Labels by class</h3>{table(head, rows, caption='Labels given and imputed by class')}"


def _scores(scores: Sequence[ScoreFacts], scored_on: str) -> str:
    if not scores:
        return f"<h3>Scores</h3><p>{plain(scored_on) or 'There were too few labels to score it.'}</p>"
    rows = [
        [
            plain(score.name, NAME),
            f"<strong>{_score(score.value)}</strong>",
            f"± {_score(score.stderr)}",
            _score(score.plain),
            plain(score.better, NAME),
        ]
        for score in scores
    ]
    head = ["Score", "For all rows", "Standard error", "Labelled rows only", "Better is"]
    return (
        f"<h3>Scores</h3>{table(head, rows, caption='Scores, corrected and plain')}"
        f"<p>{wording.correction(scores)}</p><p class='quiet'>{plain(scored_on)}</p>"
    )


def _score(value: float) -> str:
    return wording.DASH if value != value else f"{value:.3f}".replace("-", wording.MINUS)


def _data(findings: Findings) -> str:
    data = findings.data
    facts = [
        ("File", name(data.file)),
        ("Label column", name(data.label)),
        ("Id column", name(data.id) if data.id is not None else "none"),
        (f"{counted(len(data.features), 'feature')}", wording.features_words(data.features)),
    ]
    if len(data.columns) != len(data.features):
        facts.append(
            ("Columns of the model", f"{count(len(data.columns))}, after categories became columns of 0 and 1")
        )
    incomplete = f"{count(data.incomplete_rows)} ({share_of(data.incomplete_rows, data.rows)}). {plain(data.rule)}"
    facts.append(("Rows with missing features", incomplete if data.incomplete_rows else "none"))
    notes = "".join(f"<p>{plain(note)}</p>" for note in data.notes)
    return f"<details><summary>About the data</summary>{_facts(facts)}{notes}</details>"


def _facts(facts: Sequence[tuple[str, str]]) -> str:
    return "<dl>" + "".join(f"<div><dt>{term}</dt><dd>{value}</dd></div>" for term, value in facts) + "</dl>"


def drawn(contents: Contents) -> list[Section]:
    """The sections that are figures: three of one, and one of two."""
    findings, by_key = contents.findings, {one.key: one for one in contents.figures}
    parts = [
        ("missingness", "Which rows lose their labels", wording.missingness_lead(findings.missingness)),
        ("uncertainty", "How hard the rows are", wording.uncertainty_lead(findings.labels)),
        ("classes", "What the classes look like", wording.classes_lead(findings.labels)),
    ]
    sections = []
    for key, title, lead in parts:
        one = by_key.get(key)
        body = _figure(one) if one else _absent(contents, key)
        sections.append(Section(key, plain(one.title) if one else title, lead, f'<div class="single">{body}</div>'))
    pair = [
        f"<div><h3>{plain(by_key[key].title)}</h3>{_figure(by_key[key])}</div>"
        if key in by_key
        else _absent(contents, key)
        for key in ("calibration", "roc")
    ]
    lead = wording.trust_lead(findings.scores)
    return [*sections, Section("trust", "How far to trust it", lead, f'<div class="pair">{"".join(pair)}</div>')]


def _figure(one: Figure) -> str:
    caption = plain(one.caption)
    return (
        '<figure><picture><source media="screen and (prefers-color-scheme: dark)" '
        f'srcset="{_image(one.dark)}" {_size(one.dark)}><img src="{_image(one.light)}" alt="{caption}" {_size(one.light)}>'
        f"</picture><figcaption>{caption}</figcaption></figure>"
    )


def _absent(contents: Contents, key: str) -> str:
    why = contents.notes.get(key, "There is no figure here: it could not be drawn for these data.")
    return f'<p class="note">{plain(why)}</p>'


def _image(png: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"


def _size(png: bytes) -> str:
    """Width and height, from the header of the PNG, so that the page keeps their place."""
    width, height = struct.unpack(">II", png[16:24])
    return f'width="{width}" height="{height}"'


def parameters(findings: Findings) -> Section:
    """The model and its parameters."""
    model, estimates = findings.model, findings.estimates
    title = model.name[:1].upper() + model.name[1:]
    first = [one for one in estimates if wording.is_mechanism(one)] if len(estimates) > wording.MANY else estimates
    rest = [one for one in estimates if one not in first]
    others = _estimates(rest, "The other parameters")
    more = f"<details><summary>The other parameters ({count(len(rest))})</summary>{others}</details>"
    settings = [(plain(key, NAME), plain(str(value), NAME)) for key, value in model.parameters.items()]
    body = [
        f"<p>{plain(title)} (<code>{plain(model.kind, NAME)}</code>). {wording.convergence(findings)}</p>",
        _facts(settings) if settings else "",
        _estimates(first, "Parameters with intervals") if first else "",
        f"<p class='quiet'>{plain(model.units)}</p>" if model.units else "",
        f"<p class='quiet'>{wording.SLOPE}</p>" if any(one.name == "alpha_1" for one in first) else "",
        more if rest else "",
        _candidates(model.candidates) if model.candidates else "",
    ]
    return Section("parameters", "The model and its parameters", wording.estimates_lead(estimates), "".join(body))


def _estimates(estimates: Sequence[Estimate], caption: str) -> str:
    rows = [
        [name(one.name), figure(one.value), figure(one.stderr), figure(one.low), figure(one.high)] for one in estimates
    ]
    return table(["Parameter", "Estimate", "Standard error", f"95{wording.SPACE}% from", "to"], rows, caption=caption)


def _candidates(candidates: Sequence[dict[str, Any]]) -> str:
    head = list(dict.fromkeys(key for row in candidates for key in row))
    words = sum(any(isinstance(row.get(key), str) for row in candidates) for key in head)
    head.sort(key=lambda key: not any(isinstance(row.get(key), str) for row in candidates))
    rows = [[_value(row.get(key)) for key in head] for row in candidates]
    titles = [plain(SCORES.get(key, key.replace("_", " ").capitalize()), NAME) for key in head]
    body = table(titles, rows, caption="Models that were compared", words=words)
    return f"<details><summary>Models that were compared ({count(len(candidates))})</summary>{body}</details>"


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return count(value)
    if value is None or isinstance(value, float):
        return _score(float("nan") if value is None else value)
    return plain(str(value), NAME)


def warned(findings: Findings) -> Section:
    """Warnings in plain words."""
    items = "".join(f"<li>{plain(warning)}</li>" for warning in findings.warnings)
    body = f'<ul class="warnings">{items}</ul>' if items else ""
    return Section("warnings", "Warnings", wording.warnings_lead(findings.warnings), body)


def reproduced(findings: Findings) -> Section:
    """The command, and what it ran with."""
    again = findings.reproduction
    facts = [
        ("Data", f"{name(findings.data.file)}, sha256 <code>{plain(again.sha256, NAME + 10)}</code>"),
        ("Seed", str(again.seed)),
        ("Versions", ", ".join(f"{plain(key, NAME)} {plain(value, NAME)}" for key, value in again.versions.items())),
    ]
    body = (
        '<div class="command"><pre tabindex="0" role="region" aria-label="Command">'
        f'<code id="command">{plain(again.command, None)}</code></pre>'
        '<button type="button" id="copy" hidden>Copy</button><span class="unseen" role="status" id="copied"></span></div>'
    )
    lead = "The same command, the same file and the same versions give the same report."
    return Section("reproduce", "How to reproduce it", lead, body + _facts(facts))
