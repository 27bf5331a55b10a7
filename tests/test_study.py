"""Runs of the study: pieces that are kept, the same files for any number of jobs, the index page, and the program."""

import csv
import os
import re
import urllib.request
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from planted import planted
from sklearn.linear_model import LogisticRegression
from test_study_magic import magical, pairs

from marmix import MARLogisticRegression, cli
from marmix.datasets import make_mar_mixture
from marmix.inference.tables import Table
from marmix.plotting.drawing import canvas
from marmix.study import ITEMS, methods, pieces, run, running
from marmix.study.magic import NOT_REPRODUCED
from marmix.study.pages import (
    READING,
    VERDICT_CLASSES,
    Claim,
    Heading,
    Item,
    Page,
    Paragraph,
    Picture,
    Sheet,
    as_markdown,
    claims_table,
    index_html,
    verdict_counts,
)
from marmix.study.pieces import Piece, Store
from marmix.study.summaries import FAILS, HOLDS, MIXED, MOSTLY_NOT, PARTLY, UNDECIDED

SHARED = os.environ.get("MARMIX_SHARED")
needs_shared = pytest.mark.skipif(not SHARED, reason="MARMIX_SHARED names no folder with the MAGIC data")
MAGIC = ["magic-pairs", "magic-thresholds", "magic-missing-proportion"]


def numbers(rng, count=3):
    return rng.uniform(size=count).tolist()


def toy_page(name):
    def page(size, values):
        total = float(np.sum([values[piece.key] for piece in ITEMS[name].pieces(size)]))
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
def toys(monkeypatch, quick_figures):
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
    return re.search(r"\*\*holds\*\* \| (\S+) \|", (folder / f"{name}.md").read_text(encoding="utf-8"))[1]


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
    complete = run(["toy-a"], tmp_path / "complete", quiet=True)[0]
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
    assert again[0].claims == complete[0].claims


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
    assert "numpy 99.0" in (tmp_path / "index.html").read_text(encoding="utf-8")


def test_the_page_shows_what_earlier_runs_put_into_the_folder(toys, tmp_path):
    run(["toy-b"], tmp_path, quiet=True)
    shown = run(["toy-a"], tmp_path, quiet=True)[0]
    assert [page.name for page in shown] == ["toy-a", "toy-b"]
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert page.index("Claim of toy-a") < page.index("Claim of toy-b")
    assert "[Title of toy-b](toy-b.md)" in (tmp_path / "index.md").read_text(encoding="utf-8")
    other_seed = run(["toy-a"], tmp_path, seed=1, quiet=True)[0]
    assert [page.name for page in other_seed] == ["toy-a"]


def test_a_file_that_is_no_database_is_refused_with_what_to_do(toys, tmp_path):
    path = tmp_path / "pieces.sqlite"
    path.write_bytes(b"this is not a database" * 50)
    with pytest.raises(OSError, match=rf"{re.escape(str(path))}.*--out"):
        run(["toy-a"], tmp_path, quiet=True)


def test_nothing_but_the_files_of_items_is_left_in_the_folder(toys, tmp_path):
    run(["toy-a"], tmp_path, quiet=True)
    expected = {"pieces.sqlite", "index.html", "index.md", *(f"toy-a.{e}" for e in ("csv", "md", "png", "svg"))}
    assert {path.name for path in tmp_path.iterdir()} == expected
    assert evidence(tmp_path, "toy-a") == (tmp_path / "toy-a.csv").read_text(encoding="utf-8").split()[1]


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
        assert "marmix study toy-a toy-b --size small --seed 0 --out out" in (tmp_path / "out" / name).read_text(
            encoding="utf-8"
        )
    assert "`marmix study toy-a --size small --seed 0 --out out`" in (tmp_path / "out" / "toy-a.md").read_text(
        encoding="utf-8"
    )
    run(["toy-b"], "out", size="full", seed=7, quiet=True)
    assert "marmix study toy-b --size full --seed 7 --out out" in (tmp_path / "out" / "index.md").read_text(
        encoding="utf-8"
    )


def test_the_command_of_the_index_is_all_where_all_items_are_shown(toys, tmp_path, monkeypatch):
    monkeypatch.setattr(running, "ITEMS", {name: ITEMS[name] for name in ("toy-a", "toy-b")})
    run(["toy-a"], tmp_path, quiet=True)
    assert f"`marmix study toy-a --size small --seed 0 --out {tmp_path}`" in (tmp_path / "index.md").read_text(
        encoding="utf-8"
    )
    run(["toy-b"], tmp_path, quiet=True)
    assert f"`marmix study all --size small --seed 0 --out {tmp_path}`" in (tmp_path / "index.md").read_text(
        encoding="utf-8"
    )
    again = run(["all"], tmp_path, quiet=True)[0]
    assert [page.name for page in again] == ["toy-a", "toy-b"]
    assert len(toys) == 6


def test_the_small_size_says_that_it_is_preliminary(toys, tmp_path):
    for size in ("small", "full"):
        run(["toy-a"], tmp_path, size=size, quiet=True)
        for name in ("index.html", "index.md"):
            text = (tmp_path / name).read_text(encoding="utf-8")
            assert ("Preliminary: the small size has few replicates" in text) == (size == "small")
            assert f"Size {size}, seed 0; marmix " in text


# The program.


def test_a_run_that_is_not_quiet_prints_every_claim_with_its_verdict(toys, tmp_path, capsys):
    assert cli.main(["study", "toy-a", "--out", str(tmp_path), "--jobs", "1"]) == 0
    assert capsys.readouterr().out == f"holds: Claim of toy-a\n{tmp_path / 'index.html'}\n"


def test_a_seed_that_is_too_large_is_refused_with_a_message(toys, tmp_path, capsys):
    arguments = ["study", "toy-a", "--out", str(tmp_path / "out"), "--quiet", "--jobs", "1", "--seed"]
    with pytest.raises(SystemExit):
        cli.main([*arguments, str(2**63)])
    assert f"--seed: '{2**63}'" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    assert cli.main([*arguments, str(2**63 - 1)]) == 0


def read_csv(path):
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
    assert cli.main(["study", "fig-approximation", "tabel-1", "--out", str(tmp_path / "out")]) == 1
    assert not (tmp_path / "out").exists()
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


def test_a_quiet_run_writes_its_files_and_prints_the_path_alone(tmp_path, capfd, quick_figures):
    assert cli.main(["study", "fig-approximation", "--out", str(tmp_path), "--jobs", "1", "--quiet"]) == 0
    assert capfd.readouterr() == (f"{tmp_path / 'index.html'}\n", "")
    expected = {"pieces.sqlite", "index.html", "index.md", "fig-approximation-shares.csv"}
    expected |= {f"fig-approximation.{ending}" for ending in ("csv", "md", "png", "svg")}
    assert {path.name for path in tmp_path.iterdir()} == expected
    rows = read_csv(tmp_path / "fig-approximation.csv")
    assert len(rows) == 1000
    row = next(row for row in rows if row["squared_margin"] == "0.36")
    assert float(row["entropy_exact"]) == pytest.approx(-0.8 * np.log(0.8) - 0.2 * np.log(0.2), rel=1e-12)
    assert float(row["entropy_taylor"]) == pytest.approx(np.log(2) - 0.18, rel=1e-12)


def test_a_file_in_place_of_the_folder_is_an_error_with_a_message(tmp_path, capsys):
    path = tmp_path / "file"
    path.write_text("mine", encoding="utf-8")
    assert cli.main(["study", "fig-approximation", "--out", str(path)]) == 1
    assert capsys.readouterr() == ("", f"marmix study: {path} is a file: give a folder to write to.\n")
    assert path.read_text(encoding="utf-8") == "mine"


# MAGIC without its data.


@pytest.fixture
def no_magic(monkeypatch, tmp_path, quick_figures):
    """No file of MAGIC, and no network."""

    def refused(*_, **__):
        raise OSError("no network here")

    monkeypatch.setattr(urllib.request, "urlopen", refused)
    monkeypatch.setenv("MARMIX_DATA", str(tmp_path / "no-data"))


def keep(folder, item, values):
    """Put finished pieces of an item into the store of a folder."""
    folder.mkdir(exist_ok=True)
    with Store(folder / "pieces.sqlite") as store:
        for key, value in values.items():
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
def test_the_items_of_magic_give_plausible_numbers(tmp_path, monkeypatch, quick_figures):
    monkeypatch.setenv("MARMIX_DATA", str(Path(SHARED) / "data"))
    monkeypatch.setitem(pieces.REPLICATES["magic"], "small", 2)  # they take long
    run(MAGIC, tmp_path, size="small", seed=0, jobs=1, quiet=True)
    auc = {row["boundary"]: float(row["auc"]) for row in read_csv(tmp_path / "magic-pairs.csv")}
    assert 0.80 < auc["logistic regression"] < auc["one Gaussian a class"] < auc["gradient boosting"] < 0.92
    for hider in ("boosting", "gaussian"):
        held = read_csv(tmp_path / f"magic-missing-proportion-held-out-{hider}.csv")
        assert {row["n"] for row in held} == {"2"}
        mean = {(r["rate"], r["method"], r["metric"]): float(r["mean"]) for r in held}
        assert 0.80 < mean["0.7", "logistic", "auc"] < 0.85
        assert mean["0.7", "logistic", "auc"] < mean["0.7", "gradient boosting", "auc"] < auc["gradient boosting"]
        assert mean["0.7", "logistic, C by CV", "auc"] == pytest.approx(mean["0.7", "logistic", "auc"], abs=0.01)
        published = read_csv(tmp_path / f"magic-missing-proportion-published-{hider}.csv")
        published = {(r["rate"], r["method"], r["metric"]): float(r["mean"]) for r in published}
        assert published["0.7", "logistic", "auc"] == pytest.approx(mean["0.7", "logistic", "auc"], abs=0.02)
        rows = read_csv(tmp_path / f"magic-thresholds-{hider}.csv")
        at = {(r["method"], r["rows"], r["metric"], float(r["threshold"])): float(r["mean"]) for r in rows}
        recall = [at["logistic", "held-out", "recall", t] for t in (0.3, 0.5, 0.7)]
        assert recall == sorted(recall, reverse=True)
        assert 0.7 < at["logistic", "held-out", "accuracy", 0.5] < 0.85
        right, swapped = (at[n, "published", "accuracy", 0.5] for n in ("logistic", "logistic, classes swapped"))
        assert swapped == pytest.approx(1 - right, abs=1e-9)


# The page.


class Reader(HTMLParser):
    """Tags of a page, their references, and the text between them."""

    def __init__(self):
        super().__init__()
        self.tags, self.refers, self.meta, self.text, self.open = [], [], [], "", []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.refers += [value for name, value in attrs if name in ("href", "src", "srcset", "action", "data", "poster")]
        self.meta += [dict(attrs)] if tag == "meta" else []
        if tag not in ("meta", "img"):
            self.open.append(tag)
        assert not any(name.startswith("on") for name, _ in attrs)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def read(page):
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert reader.open == []
    return reader


def test_the_page_needs_nothing_but_itself(tmp_path):
    run(["fig-approximation", "fig-simulation"], tmp_path, quiet=True)
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    reader = read(page)
    assert reader.tags.count("img") == 2
    assert not {"script", "link", "iframe", "object", "embed", "base", "form"} & set(reader.tags)
    images = [r for r in reader.refers if r.startswith("data:image/png;base64,")]
    anchors = [r for r in reader.refers if r.startswith("#")]
    assert (len(images), anchors) == (2, ["#fig-approximation", "#fig-simulation"])
    assert len(reader.refers) == 4
    assert all(f'id="{anchor[1:]}"' in page for anchor in anchors)
    without_images = re.sub(r"base64,[A-Za-z0-9+/=]+", "", page)
    assert not re.search(r"https?:|//|url\(|@import", without_images)
    (policy,) = [m["content"] for m in reader.meta if m.get("http-equiv") == "Content-Security-Policy"]
    assert policy.startswith("default-src 'none'")


def test_every_word_of_a_verdict_has_a_colour_and_is_told_in_how_to_read_it():
    words = {HOLDS, PARTLY, MIXED, MOSTLY_NOT, FAILS, UNDECIDED}
    assert words | {NOT_REPRODUCED} == set(VERDICT_CLASSES)
    for word in words:
        html = index_html([Page("name", "t", [Claim("s", word, "e")])], {}, "c", "f")
        assert f"<td class='verdict {VERDICT_CLASSES[word]}'>{word}</td>" in html
        assert {"holds": "differences holds where", "in part": "holds in part where"}.get(word, word) in READING
    css = files("marmix.study").joinpath("page.css").read_text(encoding="utf-8")
    assert all(f".{name}" in css for name in VERDICT_CLASSES.values())


def test_every_claim_is_counted_once_in_the_summary_of_verdicts():
    claims = [Claim("s", verdict, "e") for verdict in (*VERDICT_CLASSES, HOLDS, "entropy", "see right")]
    counts = verdict_counts(claims)
    assert counts.startswith(f"{len(claims)} claims: holds (2), in part (1)")
    assert counts.endswith("questions answered (2).")
    assert sum(map(int, re.findall(r"\((\d+)\)", counts))) == len(claims)


def test_text_is_escaped_wherever_it_stands():
    bad = "<script>&\"'|x"
    figure, _ = canvas(1.0, 1.0)
    table = Table(bad, [bad], [bad], [[bad]], notes=[bad])
    blocks = [Heading(bad), Paragraph(bad), Sheet("s", table, [{"a": 1}]), Picture("p", bad, figure)]
    page = Page("name", bad, [Claim(bad, bad, bad, bad)], blocks)
    html = index_html([page], {"item": bad}, bad, bad)
    reader = read(html)
    assert "<script" not in html
    assert "script" not in reader.tags
    # title twice; claim twice with three cells; details two; heading, paragraph, table with five; caption; and the top with three
    assert reader.text.count(bad) == 2 + 2 * 3 + 2 + 1 + 1 + 5 + 1 + 3
    cells = re.split(r"(?<!\\)\|", claims_table([page]).splitlines()[2])
    assert len(cells) == 5
    assert cells[1].strip() == bad.replace("|", r"\|")
    assert as_markdown(page, "marmix").startswith(f"# {bad}\n\n`marmix`\n")


# Tables in Markdown.


def test_a_table_in_markdown_reads_back_to_its_cells():
    table = Table(
        "A title", ["P(a|b)", "n"], ["x | y", "z"], [[0.25, None], ["a|b", 3]], [("rows", "200")], ["First.", "Second."]
    )
    text = table.as_markdown()
    assert text.startswith("**A title**\n\n- rows: 200\n\n|")
    assert text.endswith("|\n\n- First.\n- Second.")
    lines = [line for line in text.splitlines() if line.startswith("|")]
    cells = [[c.strip().replace(r"\|", "|") for c in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    assert cells == [["", "P(a|b)", "n"], ["---", "---:", "---:"], ["x | y", "0.2500", ""], ["z", "a|b", "3"]]


def test_a_table_without_facts_and_notes_is_its_title_and_its_cells():
    assert Table("T", ["a"], ["r"], [[1]]).as_markdown() == "**T**\n\n|  | a |\n| --- | ---: |\n| r | 1 |"
