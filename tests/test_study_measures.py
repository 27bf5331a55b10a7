"""Measures of uncertainty and the Aranda-Ordaz shape: verdicts follow what is planted."""

import numpy as np
import pytest
from planted import GAIN, NOISE, SMALL, better, claim_on, half, made, planted, sheet
from scipy import stats

from marmix.study import measures, pieces, shape
from marmix.study.pieces import Piece
from marmix.study.summaries import FAILS, HOLDS, MIXED, PARTLY, UNDECIDED

EVEN = dict.fromkeys(measures.compared(), 0.1)


def measured(gains, loglik=0.0):
    """A replicate of a study of measures: ignoring costs 0.2 of log-loss, a measure wins back `gains` of it.

    The measure that hid the labels has a log-likelihood that is larger by `loglik`.
    """

    def value(place):
        losses = {measures.ALL_LABELS: 0.0, measures.IGNORED: 0.2} | {m: 0.2 - g for m, g in gains.items()}
        return {
            m: {"loglik": -100.0 + loglik * (m == place.parts[1]) + place.noise * (m == "margin"), "converged": True}
            | better(-losses[m], place.noise * (m == "margin"))
            for m in measures.fits()
        }

    return value


def clock(margin=1.0, entropy=1.0, log_entropy=1.0, noise=0.0):
    """Seconds round by round; the ratio of the margin to the others is noisy."""
    drift = np.linspace(1, 2, measures.ROUNDS)  # of the machine: the same for all
    noisy = 1 + np.linspace(-noise, noise, measures.ROUNDS)
    seconds = {"margin": margin * noisy, "entropy": entropy, "log-entropy": log_entropy, "gini": 1.0}
    timed = {name: (1e-3 * value * drift).tolist() for name, value in seconds.items()}
    return {measures.TIMES: {"fit": timed, "measure": timed}}


def two(gains, loglik=0.0, **seconds):
    return planted("measures", measured(gains, loglik)) | clock(**seconds)


# Two classes.


@pytest.mark.parametrize(
    ("gain", "word", "worse"), [(GAIN, HOLDS, 0), (0.0, HOLDS, 0), (-GAIN, FAILS, 12), (-0.005, UNDECIDED, 12)]
)
def test_the_margin_is_as_good_where_every_interval_ends_below_what_it_may_lose(gain, word, worse):
    claim = made("measures", two(EVEN | {"margin": 0.1 + gain})).claims[0]
    assert claim.verdict == word
    assert f"clearly better in {12 * (gain > 0)}, clearly worse in {worse} of 12 comparisons" in claim.evidence
    assert gain == 0.0 or f"at worst {-gain:+.4f} ± {half(10):.4f}" in claim.evidence


def test_the_margin_is_as_good_in_places_where_it_loses_to_one_rival_alone():
    claim = made("measures", two(EVEN | {"entropy": 0.1 + GAIN})).claims[0]
    assert claim.verdict == MIXED
    assert f"at worst {GAIN:+.4f} ± {half(10):.4f}" in claim.evidence
    assert ", against entropy, labels hidden by" in claim.evidence


def test_one_replicate_does_not_show_that_the_margin_is_as_good(monkeypatch):
    monkeypatch.setattr(pieces, "REPLICATES", {what: {"small": 1} for what in pieces.REPLICATES})
    assert made("measures", two(EVEN | {"margin": 0.0})).claims[0].verdict == UNDECIDED


@pytest.mark.parametrize(("loglik", "word"), [(0.5, "hardly"), (1.9, "hardly"), (2.0, "in places"), (5.0, "in places")])
def test_the_likelihood_tells_measures_apart_where_it_is_larger_at_home(loglik, word):
    page = made("measures", two(EVEN, loglik))
    claim = page.claims[1]
    assert claim.verdict == word
    home, away = claim.evidence.split("; where the other did: ")
    assert home.count(f"{loglik:+.1f} ± 0.0") == away.count(f"{-loglik:+.1f} ± 0.0") == 4
    table = sheet(page, "measures-loglik").table
    for i, row in enumerate(table.rows):
        assert row[i] == ""
        assert all(cell.startswith(f"{-loglik:+.2f}") for j, cell in enumerate(row) if j != i)


@pytest.mark.parametrize(
    ("seconds", "word", "ratios"),
    [
        ({"margin": 0.5}, HOLDS, (0.5, 0.5)),
        ({}, FAILS, (1.0, 1.0)),
        ({"entropy": 2.0}, MIXED, (0.5, 1.0)),
        ({"margin": 0.78}, UNDECIDED, (0.78, 0.78)),
        ({"margin": 0.82}, UNDECIDED, (0.82, 0.82)),
    ],
)
def test_the_verdict_on_computing_time_follows_the_clock_round_by_round(seconds, word, ratios):
    n = measures.ROUNDS
    wide = stats.t.ppf(0.975, n - 1) * stats.sem(np.linspace(-0.3, 0.3, n))
    claim = made("measures", two(EVEN, noise=0.3, **seconds)).claims[2]
    assert claim.verdict == word
    first, second = (f"{ratio:.2f} ± {ratio * wide:.2f} of the time with the" for ratio in ratios)
    assert f"{first} entropy and {second} log-entropy" in claim.evidence


def test_the_table_of_seconds_has_medians():
    records = {r["measure"]: r for r in sheet(made("measures", two(EVEN, entropy=3.0)), "measures-seconds").records}
    assert records["margin"]["fit_seconds"] == pytest.approx(1.5e-3)
    assert records["entropy"]["measure_seconds_a_row"] == pytest.approx(4.5e-3)


def test_tables_of_measures_show_the_planted_log_loss_and_count_fits_that_did_not_converge():
    values = two(EVEN | {"entropy": 0.15})
    values["measures/gini/3"]["margin"]["converged"] = False
    page = made("measures", values)
    records = {(r["hidden_by"], r["fitted"]): r for r in sheet(page, "measures").records}
    base = better(0.0)["log_loss"]
    for hidden_by in measures.compared():
        values = [records[hidden_by, m]["mean"] for m in ("entropy", "margin", measures.IGNORED, measures.ALL_LABELS)]
        assert values == pytest.approx([base + 0.05, base + 0.1, base + 0.2, base])
        assert records[hidden_by, "margin"]["n"] == 10
    assert "margin did not converge in 1 of 40 fits." in sheet(page, "measures").table.notes
    assert len(sheet(page, "measures-truncated").table.notes) == 1


def test_a_measure_that_is_absent_from_a_piece_is_an_error():
    values = two(EVEN)
    del values["measures/margin/0"]["gini"]
    with pytest.raises(KeyError, match="gini"):
        made("measures", values)


# Four classes.


@pytest.mark.parametrize("best", measures.compared())
def test_with_four_classes_the_measure_with_the_smallest_log_loss_is_named(best):
    page = made("four-classes", planted("four-classes", measured(EVEN | {best: 0.16})))
    assert page.claims[0].verdict == best
    assert page.claims[0].evidence.count("+0.0600") == 3


def test_with_four_classes_measures_that_cannot_be_told_apart_are_all_named():
    leading = EVEN | {"entropy": 0.16, "gini": 0.16}
    assert made("four-classes", planted("four-classes", measured(leading))).claims[0].verdict == "entropy or gini"


@pytest.mark.parametrize(
    ("margin", "word", "counts"), [(0.05, HOLDS, (6, 0)), (0.15, FAILS, (0, 6)), (0.1, UNDECIDED, (0, 0))]
)
def test_measures_of_all_posteriors_beat_the_margin_where_planted(margin, word, counts):
    claim = made("four-classes", planted("four-classes", measured(EVEN | {"margin": margin}))).claims[1]
    assert claim.verdict == word
    assert "clearly better in {}, clearly worse in {} of 6 comparisons".format(*counts) in claim.evidence


@pytest.mark.parametrize(("gini", "word", "better_in"), [(0.1, HOLDS, 16), (0.0, PARTLY, 12), (-0.1, MIXED, 12)])
def test_modelling_the_mechanism_pays_where_every_measure_gains_over_ignoring_it(gini, word, better_in):
    page = made("four-classes", planted("four-classes", measured(EVEN | {"gini": gini})))
    claim = claim_on(page, "pays even with another measure")
    assert claim.verdict == word
    worse = 4 * (gini < 0)
    assert f"clearly better in {better_in}, clearly worse in {worse} of 16 combinations" in claim.evidence


def test_every_mechanism_hides_labels_of_the_same_rows():
    pieces = {p.key: p for p in measures.pieces_for(SMALL, "measures")}
    values = [pieces[f"measures/{hidden_by}/0"].compute(0) for hidden_by in ("margin", "gini")]
    assert values[0][measures.ALL_LABELS] == values[1][measures.ALL_LABELS]
    assert values[0]["margin"] != values[1]["margin"]


# The shape.


def shaped(gain=0.0, bounded=1.0, rejected=0.5, elsewhere=None):
    """A replicate of the study of the shape; `bounded` and `rejected` are shares of the replicates.

    The shape that is estimated gains `gain`, or `elsewhere` at other sample sizes than 200.
    """

    def value(place):
        rank = (place.noise + NOISE) / (2 * NOISE)  # 0, 1/9, ..., 1 over ten replicates
        gained = gain if elsewhere is None or place.parts[3] == "200" else elsewhere
        return {
            "shape": 1.5,
            "gain": 5.0 if rank < rejected else 3.0,  # the test at 5 % rejects above 3.84
            "below": 3.0,
            "above": 3.0 if rank < bounded + 1e-9 else 1.0,
            "free": better(gained, place.noise),
            "logit": better(0.0),
            "converged": True,
        }

    return value


def wilson(hits, n):
    """Wilson's interval of a share, as the textbook writes it."""
    z, p = stats.norm.ppf(0.975), hits / n
    centre, wide = p + z**2 / (2 * n), z * np.sqrt(p * (1 - p) / n + z**2 / (4 * n**2))
    return (centre - wide) / (1 + z**2 / n), (centre + wide) / (1 + z**2 / n)


@pytest.mark.parametrize(("bounded", "hits", "word"), [(1.0, 10, HOLDS), (0.6, 6, UNDECIDED), (0.1, 1, FAILS)])
def test_the_verdict_on_the_shape_follows_the_share_of_bounded_intervals(bounded, hits, word):
    values = planted("shape", shaped(bounded=bounded))
    claim = made("shape", values).claims[0]
    low, high = wilson(hits, 10)
    assert word == (HOLDS if low > 0.5 else FAILS if high < 0.5 else UNDECIDED)
    assert claim.verdict == word
    assert f"{10 * hits} % (truncated) and {10 * hits} % (not) of samples of 200 rows" in claim.evidence
    share = shape.ShapeRuns(SMALL, values).determined((True, 2.0, 200))
    assert share == pytest.approx((hits / 10, low, high, 10), rel=1e-9)


@pytest.mark.parametrize(
    ("gain", "word", "counts", "left_out", "beyond"),
    [
        (GAIN, HOLDS, (12, 0), 0, 12),
        (-GAIN, FAILS, (0, 12), 12, 0),
        (0.0, FAILS, (0, 0), 12, 0),
        (0.003, FAILS, (12, 0), 12, 0),  # better, but not by what counts as marked
        (0.005, UNDECIDED, (12, 0), 0, 0),
    ],
)
def test_the_link_improves_markedly_where_intervals_lie_beyond_what_counts(gain, word, counts, left_out, beyond):
    page = made("shape", planted("shape", shaped(gain)))
    claim = page.claims[1]
    assert claim.verdict == word
    assert "clearly better in {}, clearly worse in {} of 12 settings".format(*counts) in claim.evidence
    assert f"leave that out in {left_out} of 12 settings, and lie beyond it in {beyond}." in claim.details
    records = sheet(page, "shape").records
    assert [r["log_loss_difference"] for r in records] == pytest.approx([-gain] * 18, abs=1e-12)
    assert {r["logit_rejected"] for r in records} == {0.5}
    assert {r["mean_likelihood_ratio"] for r in records} == {4.0}
    assert {r["excludes_both"] for r in records} == {1.0}


def test_the_link_improves_in_part_where_it_does_at_one_sample_size():
    claim = made("shape", planted("shape", shaped(GAIN, elsewhere=0.0))).claims[1]
    assert claim.verdict == PARTLY
    assert "lie beyond it in 4." in claim.details


def test_an_estimate_at_either_end_counts_as_at_a_limit():
    values = planted("shape", shaped())
    for i, estimate in enumerate([0.0, 0.009, 0.011, 98.9, 99.1, 100.0]):
        values[f"shape/truncated/2/200/{i}"]["shape"] = estimate
    assert shape.ShapeRuns(SMALL, values).at_limit((True, 2.0, 200)) == 0.4


def test_a_replicate_of_the_shape_has_its_largest_likelihood_at_the_free_fit():
    value = Piece("shape/x", shape.replicate, {"truncated": False, "shape": 2.0, "rows": 200}).compute(0)
    assert min(value["gain"], value["below"], value["above"]) >= 0.0
    assert 0.0 <= value["shape"] <= 100.0
