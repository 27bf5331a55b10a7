"""The paper's own rows and its approximation; and tables in Markdown."""

import os
import re
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from marmix.displays.drawing import styled
from marmix.inference.tables import Table
from marmix.mechanism.measures import entropy, log_entropy, posterior
from marmix.study import figures, tables
from marmix.study.methods import ECM_AO, ECM_LOGIT, LOGISTIC, SWAPPED
from marmix.study.paper import TABLE_1, table_1_data
from marmix.study.pieces import Piece, Plan
from marmix.study.summaries import FAILS, HOLDS, MIXED, PARTLY

SHARED = os.environ.get("MARMIX_SHARED")
needs_shared = pytest.mark.skipif(not SHARED, reason="MARMIX_SHARED names no folder with the paper's rows")


# The approximation.


def test_entropy_from_the_squared_margin_is_the_library_s():
    squared = np.linspace(0.0, 0.999, 50)
    m = np.sqrt(squared)
    p = posterior(np.log(np.array([(1 + m) / 2, (1 - m) / 2])))
    np.testing.assert_allclose(figures.entropy_of(squared), entropy(p).value, rtol=1e-10)
    np.testing.assert_allclose(figures.curves(squared)["log-entropy"][0], log_entropy(p).value, rtol=1e-9)
    assert figures.entropy_of(np.array([1.0])) == 0.0


def test_errors_of_the_approximation_are_those_at_posteriors_of_a_fifth_and_four_fifths():
    squared = np.linspace(0.0, 0.999, 1000)
    found = figures.largest_errors(squared, below=True)
    h = -0.8 * np.log(0.8) - 0.2 * np.log(0.2)  # m² = 0.36
    assert found["entropy"][:2] == pytest.approx((np.log(2) - 0.18 - h, 0.36), rel=1e-9)
    assert found["entropy"][2] == pytest.approx((np.log(2) - 0.18 - h) / (np.log(2) - h), rel=1e-9)
    line = np.log(np.log(2)) - 0.36 / (2 * np.log(2))
    assert found["log-entropy"][:2] == pytest.approx((line - np.log(h), 0.36), rel=1e-9)
    assert found["log-entropy"][2] == pytest.approx((line - np.log(h)) / (np.log(np.log(2)) - np.log(h)), rel=1e-9)
    beyond = figures.largest_errors(squared, below=False)
    assert all(beyond[name][0] > found[name][0] and beyond[name][1] > 0.36 for name in found)


def test_both_approximations_are_of_second_order_in_the_margin():
    m = np.array([0.02, 0.04])
    for exact, taylor in figures.curves(m**2).values():
        error = np.abs(exact - taylor)
        assert error[1] / error[0] == pytest.approx(16.0, rel=0.01)  # what is left out is of order m⁴


@pytest.mark.parametrize(
    ("shares", "word"), [((0.6, 0.9, 0.51, 0.7), HOLDS), ((0.6, 0.4, 0.7, 0.7), MIXED), ((0.2, 0.3, 0.5, 0.1), FAILS)]
)
def test_the_line_covers_most_rows_where_every_share_is_above_one_half(shares, word):
    counted = dict(zip(figures.DISTRIBUTIONS, shares, strict=True))
    with styled():
        page = figures.approximation_page(Plan(), {figures.BELOW: counted})
    closely, majority = page.claims
    assert majority.verdict == word
    assert f"{100 * shares[0]:.0f} % (Gaussian), {100 * shares[1]:.0f} % (Gamma)" in majority.evidence
    assert closely.verdict == PARTLY  # the entropy, but not its logarithm: see the errors above
    assert "6.6 % of its fall there; 0.0661 for its logarithm, 20.3 %." in closely.evidence


def test_shares_below_the_line_are_those_of_the_true_margins():
    found = figures.below_the_line(np.random.default_rng(0))
    # Gaussian classes two apart: m = |tanh(x)| for x from N(1, 1) or N(-1, 1), and m² = .36 at x = log 2
    share = stats.norm.cdf(np.log(2) - 1) - stats.norm.cdf(-np.log(2) - 1)
    assert found["gaussian"] == pytest.approx(share, abs=4 * np.sqrt(share * (1 - share) / figures.COUNTED))
    assert set(found) == set(figures.DISTRIBUTIONS)


# Table I on the paper's own rows.


@pytest.fixture(scope="module")
def on_the_rows():
    return Piece(tables.DATA_SET, tables.on_the_data_set).compute(0)


@pytest.mark.parametrize("method", [ECM_AO, ECM_LOGIT])
def test_the_ecm_rows_of_table_1_come_out_to_the_last_digit_or_one_off(on_the_rows, method):
    for name, printed in TABLE_1[method].items():
        assert abs(on_the_rows["scores"][method][name] - printed) <= 0.001, name


def test_the_logistic_row_of_table_1_is_that_of_swapped_classes_to_the_digit(on_the_rows):
    found = on_the_rows["scores"]
    assert {name: round(found[SWAPPED][name], 3) for name in TABLE_1[SWAPPED]} == TABLE_1[SWAPPED]
    assert found[LOGISTIC]["log_loss"] < found[ECM_AO]["log_loss"] < found[SWAPPED]["log_loss"]


def test_the_rows_of_table_1_are_200_with_70_percent_of_the_labels_hidden():
    data = table_1_data()
    assert data.data.shape == (200, 2)
    known = data.target >= 0
    np.testing.assert_array_equal(data.target[known], data.target_true[known])
    assert set(data.target_true) == {0, 1}
    assert np.mean(~known) == pytest.approx(0.7, abs=0.1)


@needs_shared
def test_the_packaged_rows_are_those_that_the_paper_s_script_draws():
    ours = files("marmix.study").joinpath("table_1.csv").read_bytes()
    assert ours == (Path(SHARED) / "oracles" / "paper_gauss_n200.csv").read_bytes()


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
