"""The study as a program: pieces that are kept, files that are the same for any number of jobs, messages that help."""

import csv
import os
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from marmix import MARLogisticRegression, cli
from marmix.datasets import make_mar_mixture
from marmix.inference.tables import Table
from marmix.study import ITEMS, methods, pieces, plan, run
from marmix.study.blocks import Claim, Item, Page, Picture, Sheet
from marmix.study.drawing import canvas
from marmix.study.pieces import Piece, Store

SHARED = os.environ.get("MARMIX_SHARED")
needs_shared = pytest.mark.skipif(not SHARED, reason="MARMIX_SHARED names no folder with the MAGIC data")


def program(*arguments, **environment):
    """The real program, on one BLAS thread."""
    return subprocess.run(
        [sys.executable, "-m", "marmix", "study", *map(str, arguments)],
        capture_output=True, text=True, encoding="utf-8", timeout=900, check=False,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8"} | environment,
    )  # fmt: skip


def numbers(rng, count=3):
    return rng.uniform(size=count).tolist()


def toy_page(name):
    def page(size, found):
        total = float(np.sum([found[piece.key] for piece in ITEMS[name].pieces(size)]))
        figure, axes = canvas(2.0, 1.5)
        axes.plot([0, 1], [0, total])
        sheet = Sheet(name, Table(f"Table of {name}", ["total"], ["sum"], [[total]]), [{"total": total}])
        return Page(
            name,
            f"Title of {name}",
            [Claim(f"Claim of {name}", "holds", f"{total!r}")],
            [sheet, Picture(name, "c", figure)],
        )

    return page


@pytest.fixture
def toys(monkeypatch):
    """Two items whose pieces cost nothing; the list of pieces computed so far."""
    monkeypatch.setitem(plan.REPLICATES, "toy", {"small": 3, "full": 5})
    computed = []

    def toy_pieces(name):
        return lambda size: [Piece(f"{name}/{i}", numbers) for i in range(size.replicates("toy"))]

    for name in ("toy-a", "toy-b"):
        monkeypatch.setitem(ITEMS, name, Item(name, f"Title of {name}", toy_pieces(name), toy_page(name)))
    compute = Piece.compute

    def counted(self, seed):
        value = compute(self, seed)
        computed.append(self.key)
        return value

    monkeypatch.setattr(Piece, "compute", counted)
    return computed


def evidence(folder, name):
    return re.search(r"\*\*holds\*\* \| (\S+) \|", (folder / f"{name}.md").read_text())[1]


# Pieces.


def test_a_piece_has_the_same_value_whenever_and_wherever_it_is_computed():
    a = Piece("a", numbers).compute(0)
    np.random.default_rng(0).uniform(size=7)
    assert Piece("a", numbers).compute(0) == a
    assert Piece("a", numbers, {"count": 2}).compute(0) == a[:2]


def test_another_key_or_another_seed_gives_other_random_numbers():
    values = [Piece(key, numbers).compute(seed) for key in ("a", "b") for seed in (0, 1)]
    assert len({x for value in values for x in value}) == 12


def test_pieces_of_one_source_see_the_same_random_numbers():
    a, b = (Piece(key, numbers, source="both").compute(3) for key in "ab")
    assert a == b == Piece("both", numbers).compute(3)


def test_a_piece_that_fails_is_named_in_the_error(tmp_path):
    def fails(rng):
        raise ZeroDivisionError("no")

    with Store(tmp_path / "s") as store, pytest.raises(ZeroDivisionError) as caught:
        pieces.compute([Piece("the/bad/one", fails)], store, 5, 1, True)
    assert "'the/bad/one' with seed 5" in " ".join(caught.value.__notes__)


def test_values_come_back_from_the_store_as_they_went_in(tmp_path):
    value = {"x": 0.1 + 0.2, "none": None, "list": [1, 1e-300, -0.0], "flag": True}
    with Store(tmp_path / "s") as store:
        store.put("k", 0, value)
        store.put("n", 0, float("nan"))
    with Store(tmp_path / "s") as store:
        assert store.get("k", 0) == value
        assert np.isnan(store.get("n", 0))
        assert store.keys(0) == {"k", "n"}
        assert store.keys(1) == set()


def test_the_small_plan_is_the_beginning_of_the_full_one():
    for item in ITEMS.values():
        small = {piece.key: piece for piece in item.pieces(plan.Plan("small"))}
        full = {piece.key: piece for piece in item.pieces(plan.Plan("full"))}
        assert small.items() <= full.items()
    with pytest.raises(ValueError, match="'huge' is not one of small, full"):
        plan.Plan("huge")


@pytest.mark.slow
def test_every_file_is_the_same_for_one_job_and_for_two(tmp_path, monkeypatch):
    monkeypatch.setitem(plan.REPLICATES, "four-classes", {"small": 2, "full": 2})
    written = []
    for jobs in (1, 2):
        folder = tmp_path / str(jobs)
        folder.mkdir()
        monkeypatch.chdir(folder)
        run(["fig-simulation", "four-classes", "fig-approximation"], "out", jobs=jobs, quiet=True)
        with Store(folder / "out" / "pieces.sqlite") as store:
            kept = {key: store.get(key, 0) for key in store.keys(0)}
        files = {path.name: path.read_bytes() for path in (folder / "out").iterdir() if path.suffix != ".sqlite"}
        written.append((kept, files))
    (kept, files), (kept_by_two, files_by_two) = written
    assert len(kept) == 8
    assert kept == kept_by_two
    assert len(files) == 3 * 4 + 2
    assert files.keys() == files_by_two.keys()
    assert [name for name in files if files[name] != files_by_two[name]] == []


# Resuming.


def test_a_second_run_computes_nothing_and_writes_the_same(toys, tmp_path):
    run(["toy-a"], tmp_path, quiet=True)
    assert toys == ["toy-a/0", "toy-a/1", "toy-a/2"]
    files = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    del files["pieces.sqlite"]
    run(["toy-a"], tmp_path, quiet=True)
    assert len(toys) == 3
    assert {name: (tmp_path / name).read_bytes() for name in files} == files


def test_a_run_that_fails_keeps_what_was_finished(toys, tmp_path, monkeypatch):
    whole = run(["toy-a"], tmp_path / "whole", quiet=True)[0]
    toys.clear()
    counted = Piece.compute

    def fails(self, seed):
        if self.key == "toy-a/2":
            raise RuntimeError("out of luck")
        return counted(self, seed)

    with monkeypatch.context() as broken:
        broken.setattr(Piece, "compute", fails)
        with pytest.raises(RuntimeError, match="out of luck"):
            run(["toy-a"], tmp_path / "stopped", quiet=True)
    assert toys == ["toy-a/0", "toy-a/1"]
    assert not (tmp_path / "stopped" / "index.html").exists()
    again = run(["toy-a"], tmp_path / "stopped", quiet=True)[0]
    assert toys == ["toy-a/0", "toy-a/1", "toy-a/2"]
    assert again[0].claims == whole[0].claims


def test_a_larger_plan_computes_only_what_is_new(toys, tmp_path):
    run(["toy-a"], tmp_path, quiet=True)
    run(["toy-a"], tmp_path, size="full", quiet=True)
    assert toys == [f"toy-a/{i}" for i in range(5)]


def test_another_seed_is_kept_apart(toys, tmp_path):
    first = [run(["toy-a"], tmp_path, seed=seed, quiet=True)[0][0].claims for seed in (0, 1)]
    assert len(toys) == 6
    assert first[0] != first[1]
    assert [run(["toy-a"], tmp_path, seed=seed, quiet=True)[0][0].claims for seed in (0, 1)] == first
    assert len(toys) == 6


def test_other_versions_of_the_libraries_are_not_mixed(toys, tmp_path, monkeypatch):
    run(["toy-a"], tmp_path, quiet=True)
    monkeypatch.setattr(np, "__version__", "99.0")
    shown = run(["toy-b"], tmp_path, quiet=True)[0]
    assert [page.name for page in shown] == ["toy-b"]  # pieces of toy-a were made by another version
    run(["toy-a"], tmp_path, quiet=True)
    assert toys.count("toy-a/0") == 2
    assert "numpy 99.0" in (tmp_path / "index.html").read_text()


def test_the_page_shows_what_earlier_runs_put_into_the_folder(toys, tmp_path):
    run(["toy-b"], tmp_path, quiet=True)
    shown = run(["toy-a"], tmp_path, quiet=True)[0]
    assert [page.name for page in shown] == ["toy-a", "toy-b"]
    page = (tmp_path / "index.html").read_text()
    assert page.index("Claim of toy-a") < page.index("Claim of toy-b")
    assert "[Title of toy-b](toy-b.md)" in (tmp_path / "index.md").read_text()
    other_seed = run(["toy-a"], tmp_path, seed=1, quiet=True)[0]
    assert [page.name for page in other_seed] == ["toy-a"]


def test_a_file_that_is_no_database_is_refused_with_what_to_do(toys, tmp_path):
    path = tmp_path / "pieces.sqlite"
    path.write_bytes(b"this is not a database, and long enough to be seen as none" * 20)
    with pytest.raises(OSError, match=rf"{re.escape(str(path))} cannot be used.*delete it, or give another --out"):
        run(["toy-a"], tmp_path, quiet=True)


def test_nothing_but_the_files_of_items_is_left_in_the_folder(toys, tmp_path):
    run(["toy-a"], tmp_path, quiet=True)
    expected = {"pieces.sqlite", "index.html", "index.md", *(f"toy-a.{e}" for e in ("csv", "md", "png", "svg"))}
    assert {path.name for path in tmp_path.iterdir()} == expected
    assert evidence(tmp_path, "toy-a") == (tmp_path / "toy-a.csv").read_text().split()[1]


def test_an_unknown_item_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(ValueError, match=r"table-3: no such item\. There are fig-approximation, "):
        run(["fig-approximation", "table-3"], tmp_path / "out", quiet=True)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "method"),
    [
        (methods.MAR_LOGISTIC, lambda y, seed: methods._scaled(MARLogisticRegression(link="logit", max_iter=1))),
        (methods.LOGISTIC, lambda y, seed: LogisticRegression(C=np.inf, max_iter=1)),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_a_fit_that_did_not_converge_is_counted(name, method, monkeypatch):
    rows = {methods.MAR_LOGISTIC: "partial", methods.LOGISTIC: "labelled"}[name]
    monkeypatch.setitem(methods.METHODS, name, methods.Method(method, rows))
    data = make_mar_mixture(200, at_least=3, random_state=0)
    assert methods.fitted([name], data.data, data.target, data.target_true, 0)[2] == [name]


# MAGIC absent.


@pytest.fixture
def no_magic(monkeypatch, tmp_path):
    """No file of MAGIC, and no network."""

    def refused(*_, **__):
        raise OSError("no network here")

    monkeypatch.setattr(urllib.request, "urlopen", refused)
    monkeypatch.setenv("MARMIX_DATA", str(tmp_path / "no-data"))


def test_without_its_data_an_item_is_left_out_and_the_others_are_made(no_magic, tmp_path, capsys):
    out = tmp_path / "out"
    code = cli.main(["study", "magic-pairs", "fig-approximation", "--out", str(out), "--quiet", "--jobs", "1"])
    printed = capsys.readouterr()
    assert code == 1
    assert printed.out == f"{out / 'index.html'}\n"
    (line,) = printed.err.splitlines()
    assert line.startswith("marmix study: magic-pairs is left out. ")
    assert "MARMIX_DATA" in line
    assert (out / "fig-approximation.csv").exists()
    assert not (out / "magic-pairs.md").exists()
    for name in ("index.html", "index.md"):
        assert "Left out: magic-pairs. " in (out / name).read_text()


def test_an_item_made_before_its_data_went_does_not_stop_the_others(toys, no_magic, tmp_path):
    with Store(tmp_path / "pieces.sqlite") as store:
        store.put("magic-pairs/boundaries", 0, {"logistic regression": 0.8, "gradient boosting": 0.9})
        store.remember("magic-pairs", "small", 0)
    assert "toy-a" in [page.name for page in run(["toy-a"], tmp_path, quiet=True)[0]]


# The program.


def test_list_names_every_item_with_its_title():
    done = program("list")
    assert (done.returncode, done.stderr) == (0, "")
    assert [re.split(r"  +", line) for line in done.stdout.splitlines()] == [[i.name, i.title] for i in ITEMS.values()]


def test_an_unknown_item_is_one_line_on_standard_error(tmp_path):
    done = program("tabel-1", "--out", tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("marmix study: tabel-1: no such item.")
    assert all(name in line for name in ITEMS)


@pytest.mark.parametrize("wrong", [["--jobs", "0"], ["--size", "huge"], ["--seed", "-1"], []])
def test_wrong_options_give_exit_code_2(wrong, tmp_path, capsys):
    with pytest.raises(SystemExit) as left:
        cli.main(["study", *(["fig-approximation", "--out", str(tmp_path / "out"), *wrong] if wrong else [])])
    assert left.value.code == 2
    assert (wrong[0] if wrong else "NAME") in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_quiet_run_writes_its_files_and_prints_the_path_alone(tmp_path):
    done = program("fig-approximation", "--out", tmp_path, "--quiet")
    assert (done.returncode, done.stderr, done.stdout) == (0, "", f"{tmp_path / 'index.html'}\n")
    expected = {
        "pieces.sqlite",
        "index.html",
        "index.md",
        *(f"fig-approximation.{e}" for e in ("csv", "md", "png", "svg")),
    }
    assert {path.name for path in tmp_path.iterdir()} == expected
    with (tmp_path / "fig-approximation.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 1000
    row = next(row for row in rows if row["squared_margin"] == "0.36")
    assert float(row["entropy_exact"]) == pytest.approx(-0.8 * np.log(0.8) - 0.2 * np.log(0.2), rel=1e-12)
    assert float(row["entropy_taylor"]) == pytest.approx(np.log(2) - 0.18, rel=1e-12)


def test_a_run_that_is_not_quiet_prints_every_claim_with_its_verdict(toys, tmp_path, capsys):
    assert cli.main(["study", "toy-a", "--out", str(tmp_path), "--jobs", "1"]) == 0
    assert capsys.readouterr().out == f"holds: Claim of toy-a\n{tmp_path / 'index.html'}\n"


def test_a_file_in_place_of_the_folder_is_an_error_with_a_message(tmp_path):
    path = tmp_path / "file"
    path.write_text("mine")
    done = program("fig-approximation", "--out", path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"marmix study: {path} is a file: give a folder to write to.\n"
    assert path.read_text() == "mine"


def test_a_seed_of_any_size_does_not_end_in_a_traceback(toys, tmp_path):
    assert cli.main(["study", "toy-a", "--out", str(tmp_path), "--quiet", "--jobs", "1", "--seed", str(2**64)]) in (
        0,
        1,
    )


@needs_shared
@pytest.mark.slow
def test_the_items_of_magic_give_plausible_numbers(tmp_path):
    names = ["magic-pairs", "magic-thresholds", "magic-missing-proportion"]
    data = str(Path(SHARED) / "data")
    done = program(*names, "--size", "small", "--jobs", 2, "--out", tmp_path, "--quiet", MARMIX_DATA=data)
    assert (done.returncode, done.stderr) == (0, "")
    with (tmp_path / "magic-pairs.csv").open() as file:
        auc = {row["boundary"]: float(row["auc"]) for row in csv.DictReader(file)}
    assert 0.80 < auc["logistic regression"] < auc["one Gaussian a class"] < auc["gradient boosting"] < 0.92
    for hider in ("boosting", "gaussian"):
        with (tmp_path / f"magic-missing-proportion-held-{hider}.csv").open() as file:
            held = {(r["rate"], r["method"], r["metric"]): r for r in csv.DictReader(file)}
        assert 0.80 < float(held["0.7", "logistic", "auc"]["mean"]) < 0.85
        assert held["0.7", "logistic", "auc"]["n"] == "3"
        assert float(held["0.7", "gradient boosting", "auc"]["mean"]) > float(held["0.7", "logistic", "auc"]["mean"])
        swapped = float(held["0.7", "logistic, classes swapped", "auc"]["mean"])
        assert swapped == pytest.approx(1 - float(held["0.7", "logistic", "auc"]["mean"]), abs=1e-9)
        with (tmp_path / f"magic-thresholds-{hider}.csv").open() as file:
            at = {(r["method"], r["rows"], r["metric"], r["threshold"]): float(r["mean"]) for r in csv.DictReader(file)}
        recall = [at["logistic", "held", "recall", str(t)] for t in (0.3, 0.5, 0.7)]
        assert recall == sorted(recall, reverse=True)
        assert 0.7 < at["logistic", "held", "accuracy", "0.5"] < 0.85
