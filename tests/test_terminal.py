"""What reaches a terminal, and streams that are closed."""

import contextlib
import csv
import io
import json
import shlex
import subprocess
import sys
import unicodedata
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import marmix
from marmix.cli import main
from marmix.terminal import command_line, visible

HOSTILE = "\x1b]0;pwned\x07\x1b[2J\x9b31m\r\x08\u202eabc\u2066\u200b\x7f\U000e0041"
BIDI = [chr(code) for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C)]


def harmful(text):
    """Characters that a terminal would obey: control characters but tab and line break, and those that reorder text."""
    return [c for c in text if (unicodedata.category(c) == "Cc" and c not in "\t\n") or c in BIDI]


@given(st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from(HOSTILE)))
def test_no_text_controls_a_terminal_and_plain_text_and_json_stay_as_they_are(text):
    assert not harmful(visible(text))
    assert json.loads(visible(json.dumps(text, ensure_ascii=False))) == text
    plain = "".join(
        c for c in text if unicodedata.category(c)[0] != "C" and unicodedata.category(c) not in ("Zl", "Zp")
    )
    assert visible(plain) == plain


def test_letters_and_emoji_that_need_joiners_keep_them():
    for text in ("می‌خواهم", "👩‍🔬", "żołądź\t1\n"):
        assert visible(text) == text


@given(st.lists(st.text(st.sampled_from("ab \\\"'$&|\n"), min_size=1), min_size=1))
def test_a_command_to_paste_is_read_back_by_a_shell(words):
    assert shlex.split(command_line(words, windows=False)) == words


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A folder with a model and a file whose column, class and label names, and facts about the fit, are hostile."""
    folder = tmp_path_factory.mktemp("hostile")
    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1], 30)
    frame = pd.DataFrame(rng.normal(size=(60, 2)) + 2.0 * truth[:, None], columns=[f"a{HOSTILE}", "b"])
    y = np.where(rng.random(60) < 0.4, None, np.array([f"no{HOSTILE}", "yes"], dtype=object)[truth])
    model = marmix.MARGaussianMixture(covariance_type="tied", link="logit").fit(frame, y)
    name = f"m{HOSTILE}".replace("/", "")
    marmix.save(model, folder / f"{name}.marmix", about={"name": HOSTILE, "label": f"y{HOSTILE}", "votes": []})
    frame.assign(**{f"y{HOSTILE}": y}).to_csv(folder / f"{name}.csv", index=False, quoting=csv.QUOTE_ALL)
    return folder, folder / f"{name}.marmix", folder / f"{name}.csv", f"y{HOSTILE}"


COMMANDS = {
    "info": ["info", "MODEL"],
    "info as JSON": ["info", "MODEL", "--json"],
    "scores": ["evaluate", "MODEL", "DATA", "--label", "LABEL"],
    "scores as JSON": ["evaluate", "MODEL", "DATA", "--label", "LABEL", "--json"],
    "predictions": ["predict", "MODEL", "DATA", "--out", f"new{HOSTILE}", "--force"],
    "a class that is not there": ["sensitivity", "MODEL", "DATA", "--class", HOSTILE],
    "a file that is not there": ["fit", f"absent{HOSTILE}.csv", "--label", "y", "--out", "out"],
    "a column that is not there": ["fit", "DATA", "--label", HOSTILE, "--out", "out"],
    "a label column that is a feature": ["evaluate", "MODEL", "DATA", "--label", f"a{HOSTILE}"],
    "an argument": ["fit", "DATA", "--label", "y", "--out", "out", "--time-limit", HOSTILE],
    "an option": ["info", "MODEL", f"--{HOSTILE}"],
    "a command": [HOSTILE],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_nothing_that_the_program_prints_controls_a_terminal(name, hostile, monkeypatch, capsys):
    folder, model, data, label = hostile
    monkeypatch.chdir(folder)
    places = {"MODEL": str(model), "DATA": str(data), "LABEL": label}
    with contextlib.suppress(SystemExit):
        main([places.get(word, word) for word in COMMANDS[name]])
    printed = capsys.readouterr()
    assert printed.out or printed.err
    assert not harmful(printed.out)
    assert not harmful(printed.err)
    if "JSON" in name:
        assert f"no{HOSTILE}" in json.loads(printed.out)["classes"]


def test_no_class_name_begins_a_line_of_its_own(tmp_path, capsys):
    X = np.arange(8.0)[:, None]
    y = np.array(["no\nmarmix predict: done", "yes"], dtype=object)[[0, 0, 0, 0, 1, 1, 1, 1]]
    frame = pd.DataFrame(X + np.tile([0.0, 0.3], 4)[:, None], columns=["x"])
    marmix.save(marmix.MARGaussianMixture(link=None).fit(frame, y), tmp_path / "model")
    frame.assign(y=y).to_csv(tmp_path / "rows.csv", index=False)
    for words in (["evaluate", "--label", "y"], ["predict", "--out", str(tmp_path / "out.csv")]):
        assert main([words[0], str(tmp_path / "model"), str(tmp_path / "rows.csv"), *words[1:]]) == 0
        assert not any(line.startswith("marmix predict: done") for line in capsys.readouterr().out.splitlines())


class Terminal(io.TextIOWrapper):
    def isatty(self):
        return True


@pytest.mark.parametrize("kind", [io.TextIOWrapper, Terminal])
def test_rows_are_raw_data_for_a_program_and_harmless_for_a_terminal(kind, hostile, monkeypatch):
    _, model, data, _ = hostile
    monkeypatch.setattr(sys, "stdout", kind(io.BytesIO(), encoding="utf-8", newline=""))
    assert main(["predict", str(model), str(data), "--quiet"]) == 0
    sys.stdout.flush()
    text = sys.stdout.buffer.getvalue().decode()
    assert bool(harmful(text)) == (kind is not Terminal)
    assert "yes" in text


def test_warnings_of_libraries_are_not_printed(hostile, monkeypatch, capsys):
    _, model, _, _ = hostile
    describe = marmix.persistence.describe

    def warning(path):
        warnings.warn("invalid value encountered", RuntimeWarning, stacklevel=2)
        return describe(path)

    monkeypatch.setattr("marmix.persistence.describe", warning)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert main(["info", str(model)]) == 0
        assert capsys.readouterr().err == ""
        with pytest.warns(RuntimeWarning):
            marmix.persistence.describe(model)


# What an import could change: signals, warnings, floating-point errors, hooks and log handlers.
IMPORT = """
import logging, signal, sys, warnings
import numpy as np
def state():
    signals = [signal.getsignal(number) for number in signal.valid_signals()]
    return signals, list(warnings.filters), np.geterr(), sys.excepthook, list(logging.getLogger().handlers)
import dask, joblib, pyarrow, scipy.stats, sklearn.ensemble
before = state()
import marmix
heavy = {"lightgbm", "matplotlib.pyplot", "torch", "marmix.app", "marmix.plotting"} & set(sys.modules)
assert not heavy, heavy
import marmix.cli
assert state() == before
"""


def test_importing_marmix_changes_nothing_outside_marmix():
    subprocess.run([sys.executable, "-c", IMPORT], check=True)
