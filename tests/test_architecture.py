"""ARCHITECTURE.md is true of the source: it names every part of the package, and imports go down only."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "marmix"
FILES = sorted(SOURCE.rglob("*.py"))


def part(path):
    """The folder or file directly under the package that holds this file; '' is the package itself."""
    first = path.relative_to(SOURCE).parts[0]
    return first.removesuffix(".py").replace("__init__", "")


def layers():
    """Parts by the number of their layer, from the table of ARCHITECTURE.md, lowest first."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| [^|]+ \| ((?:`[^`|]+`(?:, )?)+) \|.*\|$", text, re.M)
    return {name: i for i, cell in enumerate(rows) for name in re.findall(r"`([^`]+)`", cell)}


LAYERS = layers()


def imported_parts(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            modules = [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}: imports are written in full"
            modules = [node.module]
            if node.module == "marmix":
                modules = [f"marmix.{name.name}" for name in node.names]
        else:
            continue
        for module in modules:
            names = module.split(".")
            if names[0] == "marmix":
                yield names[1] if len(names) > 1 and (names[1] in LAYERS) else "marmix"


def test_the_table_names_every_part_and_no_other():
    assert set(LAYERS) == {part(path) or "marmix" for path in FILES}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_go_down(path):
    own = LAYERS[part(path) or "marmix"]
    assert {name for name in imported_parts(path) if LAYERS[name] > own} == set()


def test_there_is_no_room_for_odds_and_ends():
    assert not {"utils.py", "util.py", "helpers.py", "common.py", "misc.py"} & {path.name for path in FILES}
