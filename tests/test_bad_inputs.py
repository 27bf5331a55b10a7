"""Bad input, kept as data in ``data/bad_inputs``: what is given, and what must be said. The docs show the same tables."""

import os
import shlex
import sys
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import marmix
from marmix.cli import main

FILES = sorted((Path(__file__).parent / "data" / "bad_inputs").glob("*.toml"))
CASES = [case | {"subject": path.stem} for path in FILES for case in tomllib.loads(path.read_text("utf-8"))["case"]]

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """Sixty rows with two features and labels 0, 1 and -1 for missing, and the bytes of two small models of them."""
    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1], 30)
    X = rng.normal(size=(60, 2)) + 2.0 * truth[:, None]
    y = np.where(rng.random(60) < 0.4, -1, truth)
    named = pd.DataFrame(X, columns=["x0", "x1"]), np.array(["no", "yes", None], dtype=object)[y]
    models = []
    for rows in ((X, y), named):
        models.append(tmp_path_factory.mktemp("sound") / "model.marmix")
        marmix.save(marmix.MARGaussianMixture(covariance_type="tied").fit(*rows), models[-1])
    return X, y, *(path.read_bytes() for path in models)


@pytest.fixture
def names(sound, tmp_path, monkeypatch):
    """Names for the code of a case, which runs in a folder with ``rows.csv``, ``model.marmix`` and ``named.marmix``."""
    X, y, model, named = sound
    monkeypatch.chdir(tmp_path)
    lines = [f"{a:.6f},{b:.6f},{['', 'no', 'yes'][label + 1]}" for (a, b), label in zip(X, y, strict=True)]
    Path("rows.csv").write_text("\n".join(["x0,x1,y", *lines]) + "\n", encoding="utf-8")
    Path("model.marmix").write_bytes(model)
    Path("named.marmix").write_bytes(named)
    return {"np": np, "X": X.copy(), "y": y.copy(), "marmix": marmix, "Path": Path} | {
        name: getattr(marmix, name) for name in marmix.__all__
    }


def contents(folder):
    return {str(path): path.read_bytes() if path.is_file() else None for path in sorted(folder.rglob("*"))}


def test_the_table_is_long_and_says_each_thing_once():
    assert len({case["given"] for case in CASES}) == len(CASES) >= 100


@pytest.mark.parametrize("case", CASES, ids=[f"{case['subject']}: {case['given']}" for case in CASES])
def test_bad_input_is_answered_in_words_and_nothing_is_left(case, names, tmp_path, capsys):
    if case.get("system", sys.platform) not in (os.name, sys.platform):
        pytest.skip(f"only on {case['system']}")
    for library in case.get("needs", []):
        pytest.importorskip(library)
    for name, text in case.get("files", {}).items():
        Path(name).write_text(text, encoding="utf-8", newline="")
    exec(case.get("make", ""), names)
    before = contents(tmp_path)
    said = run_command(case, capsys) if "command" in case else run_python(case, names)
    for words in case["says"]:
        assert words in said, said
    if case.get("code") != 0:
        assert contents(tmp_path) == before, "something was written"


def run_command(case, capsys):
    capsys.readouterr()
    try:
        code = main(shlex.split(case["command"])[1:])
    except SystemExit as ended:  # wrong arguments
        code = ended.code
    printed = capsys.readouterr()
    assert code == case["code"], printed.err
    assert "unexpected" not in printed.err
    assert "Traceback" not in printed.err
    return printed.err + (printed.out if case["code"] == 0 else "")


def run_python(case, names):
    kind = {**vars(__import__("builtins")), **vars(marmix)}[case["error"]]
    if issubclass(kind, Warning):  # it goes on, but says something
        with pytest.warns(kind) as warned:
            exec(case["python"], names)
        return " ".join(str(warning.message) for warning in warned)
    with pytest.raises(kind) as raised:
        exec(case["python"], names)
    return str(raised.value)
