"""Runs of the study: pieces that are kept, files that are the same for any number of jobs, and what the index says of them."""

import re

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from marmix import MARLogisticRegression, cli
from marmix.datasets import make_mar_mixture
from marmix.displays.drawing import canvas
from marmix.inference.tables import Table
from marmix.study import ITEMS, methods, pieces, run, running
from marmix.study.pages import Claim, Item, Page, Picture, Sheet
from marmix.study.pieces import Piece, Store


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
    monkeypatch.setitem(pieces.REPLICATES, "toy", {"small": 3, "full": 5})
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
        small = {piece.key: piece for piece in item.pieces(pieces.Plan("small"))}
        full = {piece.key: piece for piece in item.pieces(pieces.Plan("full"))}
        assert small.items() <= full.items()
    with pytest.raises(ValueError, match="'huge' is not one of small, full"):
        pieces.Plan("huge")


@pytest.mark.long
def test_every_file_is_the_same_for_one_job_and_for_two(tmp_path, monkeypatch):
    monkeypatch.setitem(pieces.REPLICATES, "four-classes", {"small": 2, "full": 2})
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
    assert len(kept) == 2 * 4 + 1
    assert kept == kept_by_two
    assert len(files) == 4 + 5 + 5 + 2
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


# What the index says of a run.


def test_the_command_of_the_index_names_the_items_that_it_shows(toys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(["toy-b"], "out", quiet=True)
    run(["toy-a"], "out", quiet=True)
    for name in ("index.html", "index.md"):
        assert "marmix study toy-a toy-b --size small --seed 0 --out out" in (tmp_path / "out" / name).read_text()
    assert "`marmix study toy-a --size small --seed 0 --out out`" in (tmp_path / "out" / "toy-a.md").read_text()
    run(["toy-b"], "out", size="full", seed=7, quiet=True)
    assert "marmix study toy-b --size full --seed 7 --out out" in (tmp_path / "out" / "index.md").read_text()


def test_the_command_of_the_index_is_all_where_all_items_are_shown(toys, tmp_path, monkeypatch):
    monkeypatch.setattr(running, "ITEMS", {name: ITEMS[name] for name in ("toy-a", "toy-b")})
    run(["toy-a"], tmp_path, quiet=True)
    assert f"`marmix study toy-a --size small --seed 0 --out {tmp_path}`" in (tmp_path / "index.md").read_text()
    run(["toy-b"], tmp_path, quiet=True)
    assert f"`marmix study all --size small --seed 0 --out {tmp_path}`" in (tmp_path / "index.md").read_text()
    again = run(["all"], tmp_path, quiet=True)[0]
    assert [page.name for page in again] == ["toy-a", "toy-b"]
    assert len(toys) == 6


def test_the_small_size_says_that_it_is_preliminary(toys, tmp_path):
    for size in ("small", "full"):
        run(["toy-a"], tmp_path, size=size, quiet=True)
        for name in ("index.html", "index.md"):
            text = (tmp_path / name).read_text()
            assert ("Preliminary: the small size has few replicates" in text) == (size == "small")
            assert f"Size {size}, seed 0; marmix " in text


# The program, on toys.


def test_a_run_that_is_not_quiet_prints_every_claim_with_its_verdict(toys, tmp_path, capsys):
    assert cli.main(["study", "toy-a", "--out", str(tmp_path), "--jobs", "1"]) == 0
    assert capsys.readouterr().out == f"holds: Claim of toy-a\n{tmp_path / 'index.html'}\n"


def test_a_seed_that_is_too_large_is_refused_with_a_message(toys, tmp_path, capsys):
    arguments = ["study", "toy-a", "--out", str(tmp_path / "out"), "--quiet", "--jobs", "1", "--seed"]
    assert cli.main([*arguments, str(2**63)]) == 1
    assert capsys.readouterr().err.startswith(f"marmix study: seed={2**63} must be a whole number from 0 to 2^63 - 1.")
    assert not (tmp_path / "out").exists()
    assert cli.main([*arguments, str(2**63 - 1)]) == 0
