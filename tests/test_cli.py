"""The demo, and the numbers of the README."""

import io
import re
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import marmix
from marmix.cli import main
from marmix.demo import comparison as demo

pytestmark = pytest.mark.usefixtures("quick_figures")
README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def run(*arguments):
    """The program, in this process."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            code = main(arguments)
        except SystemExit as end:
            code = end.code
    return SimpleNamespace(returncode=code, stdout=out.getvalue(), stderr=err.getvalue())


def numbers(text, name, count):
    """The numbers in the lines of a table that begin with `name`."""
    rows = re.findall(rf"^  {re.escape(name)}((?: +[-+]?\d\.\d+(?: \+/-)?)+)$", text, re.M)
    values = [[float(cell) for cell in re.findall(r"[-+]?\d\.\d+", row)] for row in rows]
    return next(row for row in values if len(row) == count)


@pytest.fixture(scope="module")
def printed():
    done = run("demo", "--compare", "--splits", "3", "--seed", "7")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


@pytest.fixture(scope="module")
def data():
    return demo.load()


@pytest.fixture(scope="module")
def table(data):
    return demo.all_scores(data, splits=3, seed=7)


def test_the_comparison_prints_the_means_that_its_functions_give(printed, table):
    for name, row in zip(demo.MODELS, table.mean(axis=0), strict=True):
        np.testing.assert_allclose(numbers(printed, name, 4), row, atol=6e-4)


def test_the_comparison_prints_paired_differences_with_their_intervals(printed, table):
    reference = demo.MODELS.index(demo.LABELLED)
    for name in set(demo.MODELS) - {demo.LABELLED}:
        paired = table[:, demo.MODELS.index(name)] - table[:, reference]
        shown = np.reshape(numbers(printed, name, 8), (4, 2))
        np.testing.assert_allclose(shown[:, 0], paired.mean(axis=0), atol=6e-4)
        half = 4.302652729911275 * paired.std(axis=0, ddof=1) / np.sqrt(3)  # t with 2 degrees of freedom, 97.5 %
        np.testing.assert_allclose(shown[:, 1], half, atol=6e-4)


def test_the_comparison_says_what_was_hidden_and_what_was_found(printed, data):
    part = demo.split(data, 7)
    missing = part.y < 0
    assert f"{missing.sum()} of {len(missing)} training labels hidden" in printed
    assert f"hard rows: {np.sum(missing & part.hard)} of {part.hard.sum()} hidden" in printed
    fit = demo.fit_mixture(part)
    shown = re.search(r"probability (\S+) at a toss-up, (\S+) where", printed).groups()
    np.testing.assert_allclose([float(value) for value in shown], demo.missing_at(fit), atol=0.01)
    doubtful = np.argmin(np.abs(fit.decision_function(part.X)))
    assert demo.missing_at(fit)[0] == pytest.approx(fit.missing_proba(part.X)[doubtful], abs=0.02)
    assert demo.missing_at(fit)[1] < demo.missing_at(fit)[0]
    assert re.search(r"alpha = \(-?\d+\.\d\d, -?\d+\.\d\d\), shape = \d+\.\d\d", printed)
    right = float(re.search(r"imputed labels that are right: (\S+)%", printed).group(1))
    assert right == pytest.approx(100.0 * np.mean(fit.transduction_[missing] == part.y_true[missing]), abs=0.6)
    assert "random forest" in printed


def test_the_comparison_passes_on_what_a_fit_notes(data):
    part = demo.split(data, 3)
    part = part._replace(X=np.column_stack([part.X, part.X[:, 0]]))
    notes = demo.fit_mixture(part).notes_
    assert notes, "a column that repeats another should be noted"
    assert demo.one_fit(part)[-len(notes) :] == [f"  the fit notes: {note}" for note in notes]


def test_the_comparison_prints_the_verdict_of_its_own_numbers(printed, table):
    assert demo.verdict(table, demo.MECHANISM, demo.IGNORED) in printed
    assert demo.verdict(table, demo.MECHANISM, demo.LABELLED) in printed


@pytest.mark.parametrize(
    ("shift", "words"),
    [
        (-0.1, "better in log-loss, Brier; worse in accuracy, AUC."),
        (0.1, "better in accuracy, AUC; worse in log-loss, Brier."),
        (0.0, "no clear difference in log-loss, Brier, accuracy, AUC."),
    ],
)
def test_the_verdict_follows_the_numbers(shift, words):
    made_up = np.random.default_rng(0).normal(0.5, 0.01, size=(20, len(demo.MODELS), len(demo.METRICS)))
    made_up -= made_up.mean(axis=0)
    made_up[:, demo.MODELS.index(demo.MECHANISM)] += shift
    assert demo.verdict(made_up, demo.MECHANISM, demo.LABELLED) == words


def test_labels_are_hidden_at_the_stated_rate_and_the_harder_the_likelier(data):
    assert data.hide.mean() == pytest.approx(demo.RATE)
    order = np.argsort(data.difficulty)
    assert (np.diff(data.hide[order]) >= 0).all()


def test_help_shows_the_commands_with_examples():
    done = run("--help")
    assert done.returncode == 0
    assert "marmix demo" in done.stdout
    assert "examples:" in done.stdout


def test_version_is_that_of_the_package():
    done = subprocess.run([sys.executable, "-m", "marmix", "--version"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, f"marmix {marmix.__version__}")


@pytest.mark.parametrize(
    ("arguments", "word"),
    [(["dmo"], "'dmo'"), (["demo", "--splits", "1"], "--splits"), (["demo", "--seed", "x"], "--seed"), ([], "command")],
)
def test_wrong_arguments_give_exit_code_2_and_a_short_message(arguments, word):
    done = run(*arguments)
    assert done.returncode == 2
    assert word in done.stderr
    assert len(done.stderr.splitlines()) <= 2
    assert done.stdout == ""


def test_the_readme_shows_what_the_comparison_prints():
    done = run("demo", "--compare")
    assert done.returncode == 0, done.stderr
    for name in demo.MODELS:
        # another version of scikit-learn may grow another forest
        np.testing.assert_allclose(numbers(README, name, 4), numbers(done.stdout, name, 4), atol=0.005)


def test_the_readme_says_what_the_demo_finds(demonstration):
    summary = demonstration.printed
    sentence = (
        r"expects (\d+) of (\d+) imputed labels to be wrong, and (\d+) are; it estimates an accuracy of (\S+) \(95 % interval "
        r"(\S+) to (\S+)\) "
    )
    shown = re.search(sentence + r"for all rows where the labelled rows alone would show (\S+)\.", README)
    expected, imputed, wrong, *accuracy = (float(text) for text in shown.groups())
    labels = summary["labels"]
    # another version of scikit-learn may grow another forest
    assert labels["certainty"]["expected_errors"] == pytest.approx(expected, abs=6)
    assert labels["imputed"] == pytest.approx(imputed, abs=15)
    assert labels["imputed"] - summary["right"] == pytest.approx(wrong, abs=6)
    score = next(score for score in summary["scores"] if score["name"] == "accuracy")
    found = [score[name] for name in ("value", "low", "high", "plain")]
    np.testing.assert_allclose(found, accuracy, atol=0.015)
