"""`python -m benchmarks` says which figures moved between two records, and every script explains itself."""

import importlib.util
import json
import runpy
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "benchmarks"
SPEC = importlib.util.spec_from_file_location("benchmarks_main", FOLDER / "__main__.py")
bench = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(bench)

SCRIPTS = sorted(path for path in FOLDER.glob("*.py") if path.name != "__main__.py")
RECORDS = sorted((FOLDER / "recorded").glob("*.json"))


def record(*rows, within=0.1):
    columns = ["data", "loss", "passes", "seconds"]
    table = {
        "title": "fits",
        "keys": 1,
        "within": within,
        "ignored": ["seconds"],
        "columns": columns,
        "rows": list(rows),
    }
    return {"tables": [table]}


def verdicts(old, new):
    return {(row, column): verdict for _, row, column, *_, verdict in bench.compare(old, new)}


@pytest.mark.parametrize(
    ("loss", "passes", "seconds", "expected"),
    [
        ([0.5, 0.02], 40, 1.0, ("same", "same")),
        ([0.5, 0.02], 40, 9.0, ("same", "same")),  # seconds are not compared
        ([0.555, 0.02], 44, 1.0, ("close", "close")),  # twice the standard error of the difference is 0.057
        ([0.57, 0.05], 36, 1.0, ("close", "close")),
        ([0.44, 0.0], 45, 1.0, ("MOVED", "MOVED")),
        ([0.62, 0.02], 35, 1.0, ("MOVED", "MOVED")),
        ([None, None], None, 1.0, ("MISSING", "MISSING")),
    ],
)
def test_a_figure_moved_if_it_left_its_standard_errors_and_the_stated_share(loss, passes, seconds, expected):
    found = verdicts(record(["wine", [0.5, 0.02], 40, 1.0]), record(["wine", loss, passes, seconds]))
    assert found == {("wine", "loss"): expected[0], ("wine", "passes"): expected[1]}


def test_rows_are_matched_by_their_names_and_those_of_one_record_alone_are_missing_or_new():
    wine, iris, pima = ([name, [loss, 0.02], 7, 1.0] for name, loss in (("wine", 0.5), ("iris", 0.1), ("pima", 0.6)))
    found = verdicts(record(wine, iris), record(pima, wine))
    by_row = {row: verdict for (row, column), verdict in found.items() if column == "loss"}
    assert by_row == {"wine": "same", "iris": "MISSING", "pima": "new"}


def test_what_a_report_writes_is_read_and_has_not_moved(tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(FOLDER)
    from common.tables import Report, mean

    monkeypatch.setattr(sys, "argv", ["benchmarks/fit.py", "wide", "--json", "a.json", "--rows", "3"])
    report = Report()
    report.table("fits", {"data": "", "loss": ".2f", "share": ".0%"}).add("wine", mean([0.1, 0.3]), 0.5)
    assert "| wine | 0.20 ± 0.10 | 50% |" in capsys.readouterr().out
    paths = [tmp_path / "old.json", tmp_path / "new.json"]
    for path in paths:
        report.write(path)
    written = json.loads(paths[0].read_text(encoding="utf-8"))
    assert written["command"] == "python benchmarks/fit.py wide --rows 3"
    assert bench.figures(written) == {
        ("fits", "wine", "loss"): (0.2, 0.1, 0.01),
        ("fits", "wine", "share"): (0.5, 0.0, 0.01),
    }
    assert bench.main(["--compare", *map(str, paths)]) == 0
    paths[1].write_text(paths[1].read_text(encoding="utf-8").replace("0.5", "0.6"), encoding="utf-8")
    assert bench.main(["--compare", *map(str, paths)]) == 1


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_a_record_names_a_script_and_has_not_moved_from_itself(path):
    old = bench.read(path)
    assert FOLDER / old["command"].split()[1].rpartition("/")[2] in SCRIPTS
    assert {row[-1] for row in bench.compare(old, old)} == {"same"}


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_every_script_explains_itself(path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(FOLDER)
    monkeypatch.setattr(sys, "argv", [path.name, "--help"])
    with pytest.raises(SystemExit) as end:
        runpy.run_path(str(path), run_name="__main__")
    assert end.value.code == 0
    assert f"python benchmarks/{path.name}" in capsys.readouterr().out
