"""The demo, and its numbers on the page of evidence."""

import io
import json
import re
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import marmix
from marmix import MARLogisticRegression
from marmix.cli import main
from marmix.demo import comparison as demo

pytestmark = pytest.mark.usefixtures("quick_figures")
EVIDENCE = (Path(__file__).parents[1] / "docs" / "evidence.md").read_text(encoding="utf-8")


def run(*arguments):
    """The program, in this process."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            code = main(arguments)
        except SystemExit as end:
            code = end.code
    return SimpleNamespace(returncode=code, stdout=out.getvalue(), stderr=err.getvalue())


@pytest.fixture(scope="module")
def tumours():
    return demo.tumours()


@pytest.fixture
def small(monkeypatch, tumours):
    """A small data set, two candidates, and one process."""
    rows = np.argsort(tumours.difficulty, kind="stable")[::7]
    part = tumours._replace(**{name: getattr(tumours, name)[rows] for name in ("X", "y", "difficulty", "hide")})

    def two(*args, **kwargs):
        return {"ignored": MARLogisticRegression(link=None), "modelled": MARLogisticRegression(n_init=1)}

    monkeypatch.setattr(demo, "DATA", (lambda: part,))
    monkeypatch.setattr(demo, "default_candidates", two)
    monkeypatch.setattr(demo, "JOBS", 1)
    return part


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_scoreboard_counts_the_hidden_labels_that_are_right(small):
    data = small
    done = run("demo", "--compare", "--splits", "2", "--seed", "7", "--json")
    assert done.returncode == 0, done.stderr
    (board,) = json.loads(done.stdout)["scoreboard"]
    assert board["seeds"] == [7, 8]
    assert board["hidden"] == [np.sum(np.random.default_rng(seed).random(len(data.y)) < data.hide) for seed in (7, 8)]
    right, losses = [], []
    for seed in (7, 8):
        hidden = data.hidden(seed)
        rival = make_pipeline(StandardScaler(), LogisticRegression()).fit(data.X[~hidden], data.y[~hidden])
        right.append(np.mean(rival.predict(data.X[hidden]) == data.y[hidden]))
        losses.append(log_loss(data.y[hidden], 0.999 * rival.predict_proba(data.X[hidden]) + 0.0005))
    theirs, ours = board["classifiers"]["logistic regression"], board["classifiers"]["marmix"]
    assert theirs["right"]["mean"] == pytest.approx(np.mean(right))
    assert theirs["right"]["stderr"] == pytest.approx(abs(right[0] - right[1]) / 2)
    assert theirs["log-loss"]["mean"] == pytest.approx(np.mean(losses))
    assert theirs["log-loss"]["ours_less_this"] == pytest.approx(ours["log-loss"]["mean"] - np.mean(losses))


def board(shift):
    """A made-up board of twenty seeds on which ours differs from the others by `shift`."""
    table = np.random.default_rng(0).normal(0.5, 0.01, size=(20, 3, 2))
    table -= table.mean(axis=0)
    table[:, 0] += shift
    return demo.Board("rows", list(range(20)), [10] * 20, [demo.OURS, demo.IGNORED, "forest"], table)


@pytest.mark.parametrize(
    ("shift", "right", "loss"),
    [
        (0.1, "better than", "worse than"),
        (-0.1, "worse than", "better than"),
        (0.0, *["not clearly different from"] * 2),
    ],
)
def test_the_verdict_follows_the_numbers(shift, right, loss):
    sentences = board(shift).verdict()
    ends = "ignoring the missingness, forest."
    assert [text.split(": ")[1] for text in sentences] == [f"marmix is {word} {ends}" for word in (right, loss)]


def test_the_board_prints_means_and_paired_differences_with_their_standard_errors():
    made_up = board(0.1)
    line = next(line for line in made_up.lines() if line.startswith("  forest"))
    paired = made_up.table[:, 0] - made_up.table[:, 2]
    mean, error = made_up.table[:, 2].mean(axis=0), made_up.table[:, 2].std(axis=0, ddof=1) / np.sqrt(20)
    expected = np.array([mean, error, paired.mean(axis=0), paired.std(axis=0, ddof=1) / np.sqrt(20)]).T.ravel()
    shown = [
        float(text.rstrip("%")) / (100.0 if text.endswith("%") else 1.0) for text in line.split()[1:] if text != "+/-"
    ]
    np.testing.assert_allclose(shown, expected, atol=5.1e-4)


def test_version_is_that_of_the_package():
    done = run("--version")
    assert (done.returncode, done.stdout.strip()) == (0, f"marmix {marmix.__version__}")


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["dmo"], "'dmo'"),
        (["demo", "--splits", "few"], "--splits"),
        (["demo", "--seed", "x"], "--seed"),
        ([], "COMMAND"),
    ],
)
def test_wrong_arguments_give_exit_code_2_and_a_short_message(arguments, word):
    done = run(*arguments)
    assert done.returncode == 2
    assert word in done.stderr
    assert len(done.stderr.splitlines()) <= 2
    assert done.stdout == ""


@pytest.mark.long
def test_the_evidence_shows_what_the_comparison_prints():
    done = run("demo", "--compare")
    assert done.returncode == 0, done.stderr
    rows = [line for line in done.stdout.splitlines() if "+/-" in line]
    shown = [line for line in EVIDENCE.splitlines() if line.startswith("  ") and "+/-" in line]
    assert len(rows) == len(shown) == 10
    for row, line in zip(rows, shown, strict=True):
        ours, theirs = ([float(text) for text in re.findall(r"[-+]?\d+\.\d+", text)] for text in (row, line))
        half = len(ours) // 2  # percentages, then log-losses
        np.testing.assert_allclose(theirs[:half], ours[:half], atol=2.0)  # other versions grow other trees
        np.testing.assert_allclose(theirs[half:], ours[half:], atol=0.03)


def test_the_evidence_says_what_the_demo_finds(demonstration, long):
    summary = demonstration.printed
    sentence = (
        r"expects (\d+) of (\d+) imputed labels to be wrong, and (\d+) are; it estimates an accuracy of (\S+) \(95 % interval "
        r"(\S+) to (\S+)\) "
    )
    shown = re.search(
        sentence + r"for all rows,? where the labelled rows alone would show (\S+)\.", " ".join(EVIDENCE.split())
    )
    expected, imputed, wrong, value, low, high, plain = (float(text) for text in shown.groups())
    labels = summary["labels"]
    # another version of scikit-learn may grow another forest
    assert labels["certainty"]["wrong"]["value"] == pytest.approx(expected, abs=6)
    assert labels["imputed"] == pytest.approx(imputed, abs=15)
    assert labels["imputed"] - summary["right"] == pytest.approx(wrong, abs=6)
    score = next(score for score in summary["scores"] if score["name"] == "accuracy")
    np.testing.assert_allclose([score["value"], score["plain"]], [value, plain], atol=0.015)
    if long:  # with all candidates, whose differences widen the interval
        np.testing.assert_allclose([score["low"], score["high"]], [low, high], atol=0.015)
