"""ARCHITECTURE.md is true of the source: its table names every file, and imports go one way."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "marmix"
FILES = sorted(SOURCE.rglob("*.py"))


def room(path):
    """The dotted name inside the package; the package itself is ''."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def table():
    """Rooms from top to bottom of ARCHITECTURE.md, each with the rooms that its row lets it import."""
    rows = re.findall(r"^\| `(\S+\.py)` \|.*\|(.*)\|$", (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8"), re.M)
    above, allowed = [], {}
    for file, cell in rows:
        names = re.findall(r"`([^`]+)`", cell)
        assert set(names) <= set(above), f"{file}: may import {names}, not all of which stand above it"
        name = room(SOURCE / file)
        allowed[name] = set(above) if cell.strip() == "everything above" else set(names)
        above.append(name)
    return allowed


ALLOWED = table()


def imported_rooms(path):
    rooms = {room(file) for file in FILES}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for name in node.names:
                if name.name.split(".")[0] == "marmix":
                    yield name.name.removeprefix("marmix").removeprefix(".")
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}: imports are written in full"
            if node.module.split(".")[0] != "marmix":
                continue
            parent = node.module.removeprefix("marmix").removeprefix(".")
            for name in node.names:
                inner = f"{parent}.{name.name}".removeprefix(".")
                yield inner if inner in rooms else parent


def test_the_table_names_every_file_and_no_other():
    assert sorted(ALLOWED) == sorted(room(path) for path in FILES)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_file_imports_only_what_its_row_of_the_table_allows(path):
    assert set(imported_rooms(path)) <= ALLOWED.get(room(path), set())


def test_there_is_no_room_for_odds_and_ends():
    assert not {"utils.py", "util.py", "helpers.py", "common.py", "misc.py"} & {path.name for path in FILES}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_file_is_longer_than_400_lines(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 400
