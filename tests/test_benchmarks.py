"""`python -m benchmarks`: its figures are read, compared and recorded, and its commands exist."""

import importlib.util
import json
import math
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from newcomer import options_of

import marmix
from marmix.cli import parser_of_all

ROOT = Path(__file__).parent.parent
SPEC = importlib.util.spec_from_file_location("benchmarks_main", ROOT / "benchmarks" / "__main__.py")
bench = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(bench)

TABLE = """Some words.

| data | rows | MARClassifierCV | ratio | other | ratio |
|---|---|---|---|---|---|
| wdbc | 99 | **0.156** | 4.97 | 0.950 (0.028) | yes |
| wine, 3 classes | 1,000 | +0.44 ± 0.25 | -0.007, 0.021, 100% | none | 2e-13 |

| data | rows | accuracy |
|---|---|---|
| wdbc | 99 | 90.1% |
"""


def figure(kind, tolerance=None):
    return bench.Figure("a figure", bench.cell("wdbc", "ratio"), kind, tolerance)


def entry(*figures, **changes):
    values = {"name": "one", "shows": "a thing", "command": "python benchmarks/fit.py", "page": "real", "minutes": 1.0}
    return bench.Entry(**values | changes, figures=figures)


@pytest.mark.parametrize(
    ("row", "column", "value", "error"),
    [
        ("wdbc", "MARClassifierCV", 0.156, math.nan),
        ("wdbc", "ratio", 4.97, math.nan),
        ("wdbc", "other", 0.950, 0.028),
        ("wdbc", 5, 1.0, math.nan),
        ("wine, 3", "rows", 1000.0, math.nan),
        ("wine", "MARClassifierCV", 0.44, 0.25),
        ("wine", "ratio", -0.007, math.nan),
        ("wine", 5, 2e-13, math.nan),
        ("wdbc", "accuracy", 90.1, math.nan),
    ],
)
def test_cells_of_tables_are_read_with_their_standard_errors(row, column, value, error):
    assert bench.cell(row, column)(TABLE) == pytest.approx((value, error), nan_ok=True)


@pytest.mark.parametrize(("row", "column"), [("wine", "other"), ("iris", "ratio"), ("wdbc", "Brier score")])
def test_a_cell_without_a_number_or_that_is_not_there_is_an_error(row, column):
    with pytest.raises(ValueError, match=r"no (number|cell)"):
        bench.cell(row, column)(TABLE)


def test_the_scoreboard_of_the_demo_is_read():
    text = (
        "Handwritten digits: 1,797 images\n      right of 1,262      difference         log-loss        difference\n"
        "  marmix                       89.9% +/- 0.4%                  0.239 +/- 0.008\n"
        "  marmix, missingness ignored  88.8% +/- 0.4%  +1.1% +/- 0.2%  0.282 +/- 0.011  -0.043 +/- 0.005\n"
        "  random forest                87.9% +/- 0.4%  +2.1% +/- 0.3%  0.309 +/- 0.004  -0.070 +/- 0.006\n\n"
        "Breast cancer: 569 tumours\n"
        "  marmix                       90.1% +/- 0.2%                  0.226 +/- 0.004\n"
        "  random forest                88.6% +/- 0.3%  +1.5% +/- 0.3%  0.285 +/- 0.005  -0.058 +/- 0.004\n"
    )
    assert bench.scoreboard("Handwritten digits", "marmix", 0)(text) == (89.9, 0.4)
    assert bench.scoreboard("Handwritten digits", "random forest", 1)(text) == (2.1, 0.3)
    assert bench.scoreboard("Breast cancer", "random forest", 3)(text) == (-0.058, 0.004)


@pytest.mark.parametrize(
    ("kind", "tolerance", "recorded", "now", "moved"),
    [
        ("exact", None, (0.5, math.nan), 0.504, False),
        ("exact", None, (0.5, math.nan), 0.506, True),
        ("exact", 0.25, (8.0, math.nan), 10.0, False),
        ("exact", 0.25, (8.0, math.nan), 11.0, True),
        ("simulated", None, (0.9, 0.02), 0.94, False),
        ("simulated", None, (0.9, 0.02), 0.85, True),
        ("simulated", 0.1, (0.9, 0.02), 0.85, False),
        ("timing", None, (2.0, math.nan), 2.9, False),
        ("timing", None, (2.0, math.nan), 3.1, True),
        ("timing", 1.25, (2.0, math.nan), 1.5, True),
        ("exact", None, (0.5, math.nan), math.nan, True),
        ("simulated", None, (0.5, math.nan), 0.5, True),  # neither a standard error nor a tolerance
    ],
)
def test_what_counts_as_moved_depends_on_the_kind_of_figure(kind, tolerance, recorded, now, moved):
    assert bench.moved(figure(kind, tolerance), recorded, (now, math.nan)) == moved


def test_a_figure_that_cannot_be_read_fails_and_the_others_are_compared():
    broken = bench.Figure("broken", bench.cell("iris", "ratio"))
    one = entry(figure("exact"), broken)
    records = {"one": {"figures": {"a figure": {"value": 4.97}, "broken": {"value": 1.0}}}}
    rows = bench.compared(one, bench.read(one, TABLE), records)
    assert [row[-1].split(":")[0] for row in rows] == ["same", "FAILED"]


def settings(**changes):
    return SimpleNamespace(**{"only": None, "minutes": None} | changes)


def test_what_is_missing_is_skipped_with_the_command_that_gets_it(monkeypatch):
    monkeypatch.setattr(bench, "ENTRIES", (entry(needs=("gem",)), entry(name="two")))
    monkeypatch.setitem(bench.NEEDS, "gem", (lambda: False, "pip install gem"))
    entries, reasons = bench.chosen(settings(), {})
    assert [one.name for one in entries] == ["two"]
    assert reasons == {"one": "needs gem: pip install gem"}


def test_a_budget_of_minutes_takes_the_first_entries_that_fit(monkeypatch):
    few = tuple(entry(name=name, minutes=2.0, alone=alone) for name, alone in (("a", True), ("b", True), ("c", False)))
    monkeypatch.setattr(bench, "ENTRIES", few)
    assert [one.name for one in bench.chosen(settings(minutes=3.0), {})[0]] == ["a", "c"]  # c shares its minutes
    assert [one.name for one in bench.chosen(settings(minutes=3.0), {"b": {"seconds": 30}})[0]] == ["a", "b"]


@pytest.fixture
def scripts(tmp_path, monkeypatch):
    """Two tiny benchmarks, one of which fails."""
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "good.py").write_text(f"print({TABLE!r})", encoding="utf-8")
    (tmp_path / "benchmarks" / "bad.py").write_text("raise SystemExit('no luck')", encoding="utf-8")
    monkeypatch.setattr(bench, "HERE", tmp_path / "benchmarks")
    monkeypatch.setattr(bench, "RECORDED", tmp_path / "recorded.json")
    good = entry(figure("exact"), name="good", command="python benchmarks/good.py")
    bad = entry(figure("exact"), name="bad", command="python benchmarks/bad.py", alone=True)
    monkeypatch.setattr(bench, "ENTRIES", (good, bad))
    return tmp_path


def test_an_entry_that_fails_does_not_stop_the_rest_and_figures_that_moved_set_the_exit_code(scripts, capsys):
    assert bench.main(["--only", "good"]) == 0
    assert "not recorded: 1; run --record" in capsys.readouterr().out
    assert bench.main(["--record"]) == 1  # one failed
    written = json.loads((scripts / "recorded.json").read_text(encoding="utf-8"))
    assert written.keys() == {"good"}
    assert written["good"]["figures"] == {"a figure": {"value": 4.97}}
    assert written["good"].keys() >= {"date", "machine", "commit", "command", "seconds"}
    assert "no luck" in capsys.readouterr().err
    assert bench.main(["--only", "good"]) == 0
    written["good"]["figures"]["a figure"]["value"] = 6.0
    (scripts / "recorded.json").write_text(json.dumps(written), encoding="utf-8")
    assert bench.main(["--only", "good"]) == 1
    assert "MOVED" in capsys.readouterr().out
    page = scripts / "page.md"
    page.write_text("before\n{}\nold\n{}\nafter\n".format(*bench.MARKS), encoding="utf-8")
    assert bench.main(["--markdown", str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "old" not in text
    assert "a figure: **6**" in text


def test_a_name_that_is_no_entry_is_a_wrong_argument():
    words = [sys.executable, "-m", "benchmarks", "--only", "nothing"]
    assert subprocess.run(words, cwd=ROOT, capture_output=True).returncode == 2


def test_every_script_is_an_entry_or_excused():
    scripts = {path.stem for path in (ROOT / "benchmarks").glob("*.py")} - {"__main__"}
    used = {Path(shlex.split(one.command)[1]).stem for one in bench.ENTRIES if one.command.startswith("python")}
    assert scripts == used | bench.EXCUSED.keys()
    assert not used & bench.EXCUSED.keys()


@pytest.mark.parametrize("one", bench.ENTRIES, ids=lambda one: one.name)
def test_every_command_parses_and_every_entry_has_figures_and_a_page(one):
    program, *words = shlex.split(one.command)
    if program == "marmix":
        parser_of_all().parse_args(words)
    else:
        assert program == "python"
        options_of(ROOT / words[0]).parse_args(words[1:])
    assert len({f.name for f in one.figures}) == len(one.figures) > 0
    assert all(need in bench.NEEDS for need in (*one.needs, *(f.needs for f in one.figures if f.needs)))
    assert (ROOT / "docs" / f"{one.page}.md").is_file()


def test_every_entry_that_needs_nothing_is_recorded_with_the_version_of_marmix():
    records = bench.recorded()
    assert records.keys() >= {one.name for one in bench.ENTRIES if not one.needs}
    assert all(re.search(r"\bmarmix \d+\.\d+", record["machine"]) for record in records.values())
    assert f"marmix {marmix.__version__}," in bench.machine()


def test_what_is_recorded_belongs_to_the_entries_and_stands_on_the_page():
    records = bench.recorded()
    commands = {one.name: one.command for one in bench.ENTRIES}
    figures = {one.name: {f.name for f in one.figures} for one in bench.ENTRIES}
    for name, record in records.items():
        assert record["command"] == commands[name]
        assert record["figures"].keys() <= figures[name]
    page = (ROOT / "docs" / "evidence.md").read_text(encoding="utf-8")
    assert "\n".join(bench.claims(records)) in page
