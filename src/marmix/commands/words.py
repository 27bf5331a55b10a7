"""Results as text for the terminal."""

import argparse
import json
import shlex
import sys
from textwrap import fill
from typing import Any

from marmix.inference.tables import p_sign
from marmix.pages.contents import Findings


def print_json(values: Any) -> None:
    """Print plain values as JSON, in ASCII unless standard output is Unicode."""
    unicode = (sys.stdout.encoding or "").lower().replace("-", "").startswith("utf")
    print(json.dumps(values, ensure_ascii=not unicode, allow_nan=False, indent=2))


def command_line(options: argparse.Namespace) -> str:
    """The command that was typed."""
    return "marmix " + shlex.join(options.arguments)


def print_findings(options: argparse.Namespace, findings: Findings, ending: str) -> None:
    """Print the findings as --json and --quiet ask for."""
    if options.json:
        print_json(findings.as_dict())
    elif not options.quiet:
        print("\n".join(summary_lines(findings)), ending, sep="\n\n")


def summary_lines(findings: Findings) -> list[str]:
    """The findings in about ten lines."""
    labels, certainty = findings.labels, findings.labels.certainty
    lines = [
        f"{findings.data.file}: {findings.data.rows:,} rows, {labels.missing:,} without a label in '{findings.data.label}'"
    ]
    facts = [] if labels.votes is None else [("votes", labels.votes.sentence())]
    facts.append(("imputed", _imputed(findings)))
    if certainty.mean_probability is not None and certainty.expected_errors is not None:
        text = (
            f"mean probability {certainty.mean_probability:.1%}; {certainty.at_least_90:,} labels have at least 90 %. If the "
            f"probabilities are right, about {certainty.expected_errors:,.0f} of the {labels.imputed:,} labels are wrong."
        )
        facts.append(("how sure", text))
    facts.append(("model", findings.model.name))
    for score in findings.scores:
        if score.name in ("accuracy", "log-loss"):
            ends = f"95 % interval {score.low:.3f} to {score.high:.3f}"
            text = f"{score.value:.3f}, {ends} ({score.plain:.3f} on the labelled rows only)"
            facts.append((score.name, text))
    facts.append(("informative?", _informative(findings)))
    facts.append(("did it help?", findings.comparison.sentence))
    if findings.rival.gain is not None:
        facts.append(("best rival", findings.rival.sentence))
    facts += [("note", warning) for warning in findings.warnings]
    return lines + [_fact(name, text) for name, text in facts]


def _imputed(findings: Findings) -> str:
    labels = findings.labels
    parts = [f"{facts.imputed:,} {facts.name}" for facts in labels.classes[:6]] + ["..."] * (len(labels.classes) > 6)
    unfilled = f"; {labels.unfilled:,} not, because features are missing" if labels.unfilled else ""
    return f"{labels.imputed:,} ({', '.join(parts)}){unfilled}"


def _informative(findings: Findings) -> str:
    facts = findings.missingness
    p = "" if facts.p_value is None else f" ({facts.test}, p {p_sign(facts.p_value, facts.at_floor)})"
    ends = ""
    if facts.toss_up is not None and facts.certain is not None:
        ends = (
            f" P(label missing) is {facts.toss_up:.2f} if all classes are equally probable, {facts.certain:.2f} if the class is "
            "certain."
        )
    word = {True: "doubtful. " if facts.doubts else "yes. ", False: "no. ", None: ""}[facts.informative]
    return word + facts.sentence.removesuffix(".") + p + "." + ends


def _fact(name: str, text: str) -> str:
    return fill(f"{name:<13} {text}", 100, initial_indent="  ", subsequent_indent=" " * 16)
