"""Findings in the words of a terminal."""

import json
import sys
from textwrap import fill
from typing import Any

from marmix.inference.tables import p_text
from marmix.report.contents import Findings


def print_json(values: Any) -> None:
    """Print plain values as JSON, in characters that standard output knows."""
    every = (sys.stdout.encoding or "").lower().replace("-", "").startswith("utf")
    print(json.dumps(values, ensure_ascii=not every, allow_nan=False, indent=2))


def summary_lines(findings: Findings) -> list[str]:
    """What was found, in some ten lines."""
    labels, certainty = findings.labels, findings.labels.certainty
    lines = [
        f"{findings.data.file}: {findings.data.rows:,} rows, {labels.missing:,} without a label in '{findings.data.label}'"
    ]
    facts = [("imputed", _imputed(findings))]
    if certainty.mean_probability is not None and certainty.expected_errors is not None:
        facts.append(
            (
                "how sure",
                f"mean probability {certainty.mean_probability:.1%}; {certainty.at_least_90:,} of at least 90 %. If these "
                f"probabilities are right, about {certainty.expected_errors:,.0f} of the {labels.imputed:,} are wrong",
            )
        )
    facts.append(("model", findings.model.name))
    for score in findings.scores:
        if score.name in ("accuracy", "log-loss"):
            facts.append(
                (
                    score.name,
                    f"{score.value:.3f} ± {score.stderr:.3f} ({score.plain:.3f} on the labelled rows as they are)",
                )
            )
    facts.append(("informative?", _informative(findings)))
    facts.append(("did it help?", findings.comparison.sentence))
    facts += [("note", warning) for warning in findings.warnings]
    return lines + [_fact(name, text) for name, text in facts]


def _imputed(findings: Findings) -> str:
    parts = ", ".join(f"{own.imputed:,} {own.name}" for own in findings.labels.classes[:6])
    left = f"; {findings.labels.unfilled:,} left without, for want of features" if findings.labels.unfilled else ""
    return f"{findings.labels.imputed:,} ({parts}{', ...' if len(findings.labels.classes) > 6 else ''}){left}"


def _informative(findings: Findings) -> str:
    facts = findings.missingness
    p = "" if facts.p_value is None else f" ({facts.test}, p {_sign(facts.p_value)})"
    ends = ""
    if facts.toss_up is not None and facts.certain is not None:
        ends = f" P(label missing) is {facts.toss_up:.2f} at a toss-up, {facts.certain:.2f} where the class is certain."
    word = {True: "yes. ", False: "no. ", None: ""}[facts.informative]
    return word + facts.sentence.removesuffix(".") + p + "." + ends


def _sign(p_value: float) -> str:
    text = p_text(p_value)
    return text.replace("<", "< ") if text.startswith("<") else f"= {text}"


def _fact(name: str, text: str) -> str:
    return fill(f"{name:<13} {text}", 100, initial_indent="  ", subsequent_indent=" " * 16)
