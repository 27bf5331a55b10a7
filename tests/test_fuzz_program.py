"""The program on damaged data and models: a result, or an error of at most two lines that leaves nothing behind."""

import math
import random

import pytest
from test_fuzz_tables import ROWS, mutated

from marmix.cli import main

pytestmark = [pytest.mark.usefixtures("quick_figures"), pytest.mark.filterwarnings("ignore")]


def fit(data, out):
    options = ["--label", "label", "--id", "id", "--model", "logistic", "--folds", "2"]
    return ["fit", str(data), *options, "--out", str(out)]


@pytest.fixture(scope="module")
def sound(tmp_path_factory, quick_figures):
    """A file of forty rows and its model."""
    folder = tmp_path_factory.mktemp("sound")
    (folder / "rows.csv").write_text("\n".join(",".join(row) for row in ROWS) + "\n")
    assert main([*fit(folder / "rows.csv", folder / "out"), "--quiet"]) in (0, 3)
    return (folder / "rows.csv").read_bytes(), (folder / "out" / "model.marmix").read_bytes()


def commands(rows, model, out, rng):
    """Each command in turn, a fit now and then: it takes the longest."""
    one = str(out / "out.csv")
    yield ["predict", str(model), str(rows), "--out", one]
    yield ["evaluate", str(model), str(rows), "--label", "label"]
    yield ["info", str(model)]
    if rng.random() < 0.1:
        yield fit(rows, out / "out")


def test_damaged_files_give_results_or_two_lines_and_nothing_else(sound, tmp_path, capsys, monkeypatch, seeds):
    monkeypatch.setattr("marmix.journey.progress._EVERY", math.inf)  # no progress, however busy the machine
    codes = set()
    rows, model, out = tmp_path / "rows.csv", tmp_path / "model.marmix", tmp_path / "out"
    out.mkdir()
    for seed in seeds(30):
        rng = random.Random(seed)
        data_too = rng.random() < 0.7
        rows.write_bytes(mutated(sound[0], rng) if data_too else sound[0])
        model.write_bytes(sound[1] if data_too else mutated(sound[1], rng))
        for command in commands(rows, model, out, rng):
            code = main(command)
            printed = capsys.readouterr()
            case = f"seed {seed}: {command[0]}, exit code {code}: {printed.err}"
            assert code in ((0, 1, 2, 3) if command[0] == "fit" else (0, 1)), case
            assert "unexpected" not in printed.err, case
            assert "Traceback" not in printed.err, case
            codes.add((command[0], code))
            if code in (1, 2):
                assert 1 <= len(printed.err.splitlines()) <= 2 or "before the fit" in printed.err, case
                assert printed.out == "", case
                assert not any(out.iterdir()), case
            for path in sorted(out.rglob("*"), reverse=True):
                path.rmdir() if path.is_dir() else path.unlink()
    assert {("predict", 0), ("predict", 1), ("info", 0), ("info", 1), ("evaluate", 0)} <= codes
