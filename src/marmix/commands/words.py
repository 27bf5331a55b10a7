"""Results as text for the terminal."""

import argparse
import json
import sys
from typing import Any

from marmix.app.findings import Findings
from marmix.app.summary import summary_lines


def print_json(values: Any) -> None:
    """Print plain values as JSON, in ASCII unless standard output is Unicode."""
    unicode = (sys.stdout.encoding or "").lower().replace("-", "").startswith("utf")
    print(json.dumps(values, ensure_ascii=not unicode, allow_nan=False, indent=2))


def print_findings(options: argparse.Namespace, findings: Findings, ending: str) -> None:
    """Print the findings as --json and --quiet ask for."""
    if options.json:
        print_json(findings.as_dict())
    elif not options.quiet:
        print("\n".join(summary_lines(findings)), ending, sep="\n\n")
