"""`marmix info`: a description of a saved model."""

import argparse
from copy import copy
from pathlib import Path
from textwrap import fill
from typing import Any

from sklearn.pipeline import Pipeline

from marmix import persistence
from marmix.commands.arguments import add_command, add_shared
from marmix.commands.words import print_json


def add(commands: Any) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "info",
        info,
        about="describe a saved model: classes, features, settings, versions",
        usage="MODEL [options]",
        description="Read a model file, check its sizes, checksums and types, and describe the model.",
        examples=[
            ("Describe a model:", "marmix info results/model.marmix"),
            ("Print the header of the file as JSON:", "marmix info results/model.marmix --json"),
        ],
        also=("predict",),
    )
    add_shared(parser.add_argument_group("input"), "model")
    output = parser.add_argument_group("output")
    output.add_argument("--json", action="store_true", help="print the header as JSON, for use by other programs")
    add_shared(parser.add_argument_group("general"), "--debug", "--help")


def info(options: argparse.Namespace) -> int:
    """Describe the model."""
    header = persistence.describe(options.model)
    if options.json:
        print_json(header)
        return 0
    model = persistence.load(options.model)
    steps = [step for _, step in model.steps] if isinstance(model, Pipeline) else [model]
    about = {name: value for name, value in header["about"].items() if isinstance(value, str)}
    annotators = header["about"].get("votes") or header["about"].get("shares")
    facts = {
        "model": about.get("name", type(steps[-1]).__name__),
        "steps": " > ".join(type(step).__name__ for step in steps),
        "classes": ", ".join(map(str, header["classes"])),
        "columns": ", ".join(f"{feature['name']} ({feature['dtype']})" for feature in header["features"]),
        "label": about.get("label"),
        "votes": ", ".join(map(str, annotators)) if isinstance(annotators, list) else None,
        "written by": f"marmix {header['written_by']['marmix']}, format {header['format_version']}",
    }
    print(Path(options.model).name)
    for name, text in facts.items():
        if text:
            print(fill(f"{name:<11} {text}", 100, initial_indent="  ", subsequent_indent=" " * 14))
    last = copy(steps[-1])
    if len(steps) > 1 and not hasattr(last, "feature_names_in_"):
        last.feature_names_in_ = model[:-1].get_feature_names_out()
    print(f"\n{last.summary()}")
    return 0
