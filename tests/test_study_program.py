"""`marmix study` as people run it: messages that help, MAGIC with and without its data."""

import csv
import os
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

import numpy as np
import pytest
from planted import planted
from test_study_magic import magical, pairs

from marmix import cli
from marmix.study import ITEMS, pieces, run
from marmix.study.pieces import Store

pytestmark = pytest.mark.usefixtures("quick_figures")
SHARED = os.environ.get("MARMIX_SHARED")
needs_shared = pytest.mark.skipif(not SHARED, reason="MARMIX_SHARED names no folder with the MAGIC data")
MAGIC = ["magic-pairs", "magic-thresholds", "magic-missing-proportion"]


def program(*arguments, **environment):
    """The real program, on one BLAS thread."""
    return subprocess.run(
        [sys.executable, "-m", "marmix", "study", *map(str, arguments)],
        capture_output=True, text=True, encoding="utf-8", check=False,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8"} | environment,
    )  # fmt: skip


def read(path):
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


# Messages.


@pytest.mark.parametrize("arguments", [["list"], [], ["--size", "full"]])
def test_without_names_or_with_list_every_item_is_named_with_its_title(arguments, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["study", *arguments]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert [re.split(r"  +", line) for line in printed.out.splitlines()] == [[i.name, i.title] for i in ITEMS.values()]
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_item_is_one_line_on_standard_error(tmp_path, capsys):
    assert cli.main(["study", "tabel-1", "--out", str(tmp_path)]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    (line,) = printed.err.splitlines()
    assert line.startswith("marmix study: tabel-1: no such item.")
    assert all(name in line for name in ITEMS)


@pytest.mark.parametrize("wrong", [["--jobs", "0"], ["--size", "huge"], ["--seed", "-1"]])
def test_wrong_options_give_exit_code_2(wrong, tmp_path, capsys):
    with pytest.raises(SystemExit) as left:
        cli.main(["study", "fig-approximation", "--out", str(tmp_path / "out"), *wrong])
    assert left.value.code == 2
    assert wrong[0] in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_quiet_run_writes_its_files_and_prints_the_path_alone(tmp_path):
    done = program("fig-approximation", "--out", tmp_path, "--quiet")
    assert (done.returncode, done.stderr, done.stdout) == (0, "", f"{tmp_path / 'index.html'}\n")
    expected = {"pieces.sqlite", "index.html", "index.md", "fig-approximation-shares.csv"}
    expected |= {f"fig-approximation.{ending}" for ending in ("csv", "md", "png", "svg")}
    assert {path.name for path in tmp_path.iterdir()} == expected
    rows = read(tmp_path / "fig-approximation.csv")
    assert len(rows) == 1000
    row = next(row for row in rows if row["squared_margin"] == "0.36")
    assert float(row["entropy_exact"]) == pytest.approx(-0.8 * np.log(0.8) - 0.2 * np.log(0.2), rel=1e-12)
    assert float(row["entropy_taylor"]) == pytest.approx(np.log(2) - 0.18, rel=1e-12)


def test_a_file_in_place_of_the_folder_is_an_error_with_a_message(tmp_path, capsys):
    path = tmp_path / "file"
    path.write_text("mine")
    assert cli.main(["study", "fig-approximation", "--out", str(path)]) == 1
    assert capsys.readouterr() == ("", f"marmix study: {path} is a file: give a folder to write to.\n")
    assert path.read_text() == "mine"


# MAGIC without its data.


@pytest.fixture
def no_magic(monkeypatch, tmp_path):
    """No file of MAGIC, and no network."""

    def refused(*_, **__):
        raise OSError("no network here")

    monkeypatch.setattr(urllib.request, "urlopen", refused)
    monkeypatch.setenv("MARMIX_DATA", str(tmp_path / "no-data"))


def keep(folder, item, found):
    """Put finished pieces of an item into the store of a folder."""
    folder.mkdir(exist_ok=True)
    with Store(folder / "pieces.sqlite") as store:
        for key, value in found.items():
            store.put(key, 0, value)
        store.remember(item, "small", 0)


def test_without_its_data_an_item_is_left_out_and_the_others_are_made(no_magic, tmp_path, capsys):
    out = tmp_path / "out"
    names = ["magic-pairs", "fig-simulation", "magic-thresholds"]
    code = cli.main(["study", *names, "--out", str(out), "--quiet", "--jobs", "1"])
    printed = capsys.readouterr()
    assert code == 1
    assert printed.out == f"{out / 'index.html'}\n"
    (line,) = printed.err.splitlines()
    assert line.startswith("marmix study: left out: magic-pairs, magic-thresholds. ")
    assert "MARMIX_DATA" in line
    assert (out / "fig-simulation.csv").exists()
    assert not (out / "magic-pairs.md").exists()
    for name in ("index.html", "index.md"):
        assert "Left out: magic-pairs. " in (out / name).read_text(encoding="utf-8")
        assert "marmix study fig-simulation --size small" in (out / name).read_text(encoding="utf-8")


def test_magic_pages_need_no_data_once_their_pieces_are_kept(no_magic, tmp_path):
    names = ["magic-pairs", "magic-missing-proportion"]
    for item, values in zip(names, (pairs(), planted(names[1], magical(0.0))), strict=True):
        keep(tmp_path, item, values)
    pages, left_out = run(names, tmp_path, quiet=True)
    assert left_out == {}
    assert [page.name for page in pages] == names
    assert all((tmp_path / f"{name}.md").exists() for name in names)


def test_an_item_with_some_of_its_pieces_kept_still_needs_its_data(no_magic, tmp_path):
    values = planted("magic-thresholds", magical(0.0))
    values.pop("magic/published/gaussian/0.7/2")
    keep(tmp_path, "magic-thresholds", values)
    pages, left_out = run(["magic-thresholds", "fig-simulation"], tmp_path, quiet=True)
    assert list(left_out) == ["magic-thresholds"]
    assert [page.name for page in pages] == ["fig-simulation"]


# MAGIC with its data.


@needs_shared
@pytest.mark.long
def test_the_items_of_magic_give_plausible_numbers(tmp_path, monkeypatch):
    monkeypatch.setenv("MARMIX_DATA", str(Path(SHARED) / "data"))
    monkeypatch.setitem(pieces.REPLICATES["magic"], "small", 2)  # they take long
    run(MAGIC, tmp_path, size="small", seed=0, jobs=1, quiet=True)
    auc = {row["boundary"]: float(row["auc"]) for row in read(tmp_path / "magic-pairs.csv")}
    assert 0.80 < auc["logistic regression"] < auc["one Gaussian a class"] < auc["gradient boosting"] < 0.92
    for hider in ("boosting", "gaussian"):
        held = read(tmp_path / f"magic-missing-proportion-held-out-{hider}.csv")
        assert {row["n"] for row in held} == {"2"}
        mean = {(r["rate"], r["method"], r["metric"]): float(r["mean"]) for r in held}
        assert 0.80 < mean["0.7", "logistic", "auc"] < 0.85
        assert mean["0.7", "logistic", "auc"] < mean["0.7", "gradient boosting", "auc"] < auc["gradient boosting"]
        assert mean["0.7", "logistic, C by CV", "auc"] == pytest.approx(mean["0.7", "logistic", "auc"], abs=0.01)
        own = read(tmp_path / f"magic-missing-proportion-published-{hider}.csv")
        own = {(r["rate"], r["method"], r["metric"]): float(r["mean"]) for r in own}
        assert own["0.7", "logistic", "auc"] == pytest.approx(mean["0.7", "logistic", "auc"], abs=0.02)
        rows = read(tmp_path / f"magic-thresholds-{hider}.csv")
        at = {(r["method"], r["rows"], r["metric"], float(r["threshold"])): float(r["mean"]) for r in rows}
        recall = [at["logistic", "held-out", "recall", t] for t in (0.3, 0.5, 0.7)]
        assert recall == sorted(recall, reverse=True)
        assert 0.7 < at["logistic", "held-out", "accuracy", 0.5] < 0.85
        right, swapped = (at[n, "published", "accuracy", 0.5] for n in ("logistic", "logistic, classes swapped"))
        assert swapped == pytest.approx(1 - right, abs=1e-9)
