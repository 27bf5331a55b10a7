"""Verdicts of the study follow its numbers: pages are made from replicates whose differences are known."""

import re
from typing import NamedTuple

import numpy as np
import pytest
from scipy import stats

from marmix.study import comparison, magic, measures, methods, metrics, plan, proportion, table_1
from marmix.study.blocks import Paragraph, Sheet
from marmix.study.drawing import styled
from marmix.study.methods import AVERAGE, ECM_AO, ECM_LOGIT, LOGISTIC, MAR_LOGISTIC, QDA
from marmix.study.pieces import Piece
from marmix.study.plan import Plan
from marmix.study.published import TABLE_1, TABLE_2
from marmix.study.running import ITEMS
from marmix.study.summaries import FAILS, HOLDS, PARTLY, UNDECIDED
from marmix.study.writing import as_markdown

SMALL = Plan("small")
NOISE = 0.002  # of the paper's method, evenly spread over the replicates
LEVEL = {"auc": 0.7, "log_loss": 0.6, "brier": 0.2, "calibration": 0.05, "accuracy": 0.65}
GAIN = 0.05
# the paper's method ahead, behind, and neither
OUTCOMES = pytest.mark.parametrize(("gain", "word"), [(GAIN, HOLDS), (-GAIN, FAILS), (0.0, UNDECIDED)])


class Place(NamedTuple):
    """Where a piece belongs: its key in parts, and noise of its replicate that adds up to zero over replicates."""

    parts: list[str]
    noise: float


def planted(item, value, size=SMALL):
    """A value for every piece of an item."""
    pieces = [piece for piece in ITEMS[item].pieces(size) if re.search(r"/\d+(/average)?$", piece.key)]
    numbers = [int(re.search(r"/(\d+)(/average)?$", piece.key)[1]) for piece in pieces]
    last = max(numbers)
    noise = np.linspace(-NOISE, NOISE, last + 1) if last else [0.0]
    return {piece.key: value(Place(piece.key.split("/"), noise[i])) for piece, i in zip(pieces, numbers, strict=True)}


def half(n):
    """Half the 95 % interval of a mean over n replicates that differ by the planted noise alone."""
    return stats.t.ppf(0.975, n - 1) * stats.sem(np.linspace(-NOISE, NOISE, n))


def made(item, found, size=SMALL):
    with styled():
        return ITEMS[item].page(size, found)


def better(gain, noise=0.0):
    """Scores that are better by `gain`, whatever the metric's direction."""
    return {m: v + (-gain if metrics.METRICS[m][1] else gain) + noise for m, v in LEVEL.items()}


def sheet(page, stem):
    return next(block for block in page.blocks if isinstance(block, Sheet) and block.stem == stem)


# Tables I and II.


def compared(gains, missing=()):
    """A replicate of the comparison in which methods are better by `gains`."""

    def value(place):
        fitted = [m for m in (methods.BAYES, *comparison.COMPARED) if m not in missing]
        scored = {m: better(gains.get(m, 0.0), place.noise if m in gains else 0.0) for m in fitted}
        printed = TABLE_1 | {m: row for (name, m), row in TABLE_2.items() if name == place.parts[1]}
        row = dict.fromkeys(metrics.PUBLISHED, 0.5)
        published = {m: row | printed.get(m, {}) for m in (*comparison.ON_TRAINING_ROWS, comparison.SWAPPED)}
        published = {m: {k: v + place.noise for k, v in row.items()} for m, row in published.items()}
        return {
            "scores": scored,
            "roc": {m: np.sqrt(metrics.FALSE_POSITIVES).tolist() for m in comparison.WITH_ROC},
            "published": published,
            "failed": list(missing),
            "unfinished": [MAR_LOGISTIC] if place.noise > 0 else [],
            "rate": 0.7,
        }

    return value


@pytest.fixture(scope="module")
def on_the_rows():
    return {table_1.DATA_SET: Piece(table_1.DATA_SET, table_1.on_the_data_set).compute(0)}


@OUTCOMES
def test_the_verdicts_on_table_1_follow_the_planted_differences(on_the_rows, gain, word):
    # ECM-logit shares the gain in AUC alone: ECM-AO is then ahead of it as well
    def value(place):
        out = compared({ECM_AO: gain})(place)
        out["scores"][ECM_LOGIT]["auc"] = out["scores"][ECM_AO]["auc"]
        return out

    page = made("table-1", on_the_rows | planted("table-1", value))
    assert [claim.verdict for claim in page.claims] == [word] * 4
    if gain:
        wide = f"± {half(8):.3f}"
        assert f"{gain:+.3f} {wide} truncated, {gain:+.3f} {wide} not truncated" in page.claims[0].evidence
        for claim in page.claims[1:3]:
            assert f"{-gain:+.3f} {wide} truncated, {-gain:+.3f} {wide} not truncated" in claim.evidence
    (roc,) = made("fig-roc", on_the_rows | planted("fig-roc", value)).claims
    assert roc.verdict == word
    assert f"{gain:+.3f} ± {half(8):.3f}" in roc.evidence


def test_a_claim_on_both_ecm_variants_does_not_hold_where_one_is_behind(on_the_rows):
    page = made("fig-roc", on_the_rows | planted("fig-roc", compared({ECM_AO: GAIN, ECM_LOGIT: -GAIN})))
    assert page.claims[0].verdict == PARTLY


@pytest.mark.parametrize("name", ["table-1", "table-2"])
def test_a_claim_on_log_loss_and_brier_score_does_not_hold_where_the_brier_score_is_worse(name, on_the_rows):
    def value(place):
        out = compared({ECM_AO: GAIN})(place)
        out["scores"][ECM_AO]["brier"] += 2 * GAIN
        return out

    claims = made(name, on_the_rows | planted(name, value)).claims
    (claim,) = [claim for claim in claims if "lower LogLoss and Brier score" in claim.sentence]
    assert claim.verdict == PARTLY


def test_the_honest_table_shows_the_planted_means_and_paired_differences(on_the_rows):
    page = made("table-1", on_the_rows | planted("table-1", compared({ECM_AO: GAIN})))
    records = {(r["method"], r["metric"]): r for r in sheet(page, "table-1-honest-truncated").records}
    for metric, level in LEVEL.items():
        smaller = metrics.METRICS[metric][1]
        ours = records[ECM_AO, metric]
        assert ours["mean"] == pytest.approx(level - GAIN if smaller else level + GAIN)
        assert ours["difference"] == pytest.approx(-GAIN if smaller else GAIN)
        assert ours["difference_low"] < ours["difference"] < ours["difference_high"]
        assert ours["replicates"] == 8
        assert records[LOGISTIC, metric]["difference"] == 0.0
    notes = " ".join(sheet(page, "table-1-honest-truncated").table.notes)
    assert f"really use: {ECM_AO}." in notes
    assert f"{MAR_LOGISTIC} did not converge in 4 of 8 samples." in notes


def test_a_method_that_never_could_be_fitted_is_named_and_has_empty_cells(on_the_rows):
    page = made("table-1", on_the_rows | planted("table-1", compared({ECM_AO: GAIN}, missing=[QDA])))
    table = sheet(page, "table-1-honest-truncated").table
    assert f"{QDA} could not be fitted in 8 of 8 samples." in table.notes
    assert set(table.rows[table.index.index(QDA)]) == {""}
    as_markdown(page, "")


@OUTCOMES
def test_the_verdicts_on_table_2_follow_the_planted_differences(gain, word):
    page = made("table-2", planted("table-2", compared({ECM_AO: gain, MAR_LOGISTIC: 0.01})))
    assert [claim.verdict for claim in page.claims] == [word, word, "in 6 of 6 settings"]
    count = {HOLDS: (6, 0), FAILS: (0, 6), UNDECIDED: (0, 0)}[word]
    assert "smaller in {} and clearly larger in {} of 6".format(*count) in page.claims[0].evidence
    if gain:
        assert f"by {-gain:+.3f} to {-gain:+.3f}" in page.claims[0].evidence


def test_a_claim_that_holds_in_some_settings_alone_holds_in_part():
    def value(place):
        return compared({ECM_AO: GAIN if place.parts[1] == "beta" else -GAIN})(place)

    page = made("table-2", planted("table-2", value))
    assert [claim.verdict for claim in page.claims[:2]] == [PARTLY, PARTLY]
    assert "smaller in 2 and clearly larger in 4 of 6" in page.claims[0].evidence


def test_published_figures_outside_the_spread_of_samples_are_counted():
    def text(page):
        return " ".join(block.text for block in page.blocks if isinstance(block, Paragraph))

    found = planted("table-2", compared({}))
    assert "Every published figure lies within" in text(made("table-2", found))
    for key, value in found.items():
        if key.startswith("comparison/gamma/truncated"):
            value["published"][ECM_AO]["brier"] += 0.1
    assert "1 of 30 published figures lie outside the spread of our samples: Gamma" in text(made("table-2", found))


# Proportions.


@OUTCOMES
def test_the_verdict_on_missing_proportions_compares_what_is_lost(gain, word):
    def value(place):
        out = {}
        for j, rate in enumerate(proportion.RATES):
            lost = np.linspace(0, 1, len(proportion.RATES))[j] * np.array([0.02, 0.02 + gain])
            scored = {m: better(0.0) for m in proportion.SHOWN}
            scored[ECM_AO] = better(-lost[0], place.noise * (j > 0))
            scored[LOGISTIC] = better(-lost[1])
            out[f"{rate:.2f}"] = {"fresh": scored, "training": scored, "unfinished": [], "failed": []}
        return out

    page = made("fig-missing-proportion", planted("fig-missing-proportion", value))
    (claim,) = page.claims
    assert claim.verdict == word
    assert "0.020" in claim.evidence
    assert f"{0.02 + gain:.3f}" in claim.evidence


# The shape.


def shaped(gain=0.0, bounded=1.0, rejected=0.5):
    """A replicate of the study of the shape; `bounded` and `rejected` are shares of the replicates."""

    def value(place):
        rank = (place.noise + NOISE) / (2 * NOISE)  # 0, 1/9, ..., 1 over ten replicates
        return {
            "shape": 1.5,
            "gain": 5.0 if rank < rejected else 3.0,  # the test at 5 % rejects above 3.84
            "below": 3.0,
            "above": 3.0 if rank < bounded + 1e-9 else 1.0,
            "free": better(gain, place.noise),
            "logit": better(0.0),
            "converged": True,
        }

    return value


@pytest.mark.parametrize(("bounded", "word"), [(1.0, HOLDS), (0.6, PARTLY), (0.2, FAILS)])
def test_the_verdict_on_the_shape_follows_the_share_of_bounded_intervals(bounded, word):
    page = made("shape", planted("shape", shaped(bounded=bounded)))
    assert page.claims[0].verdict == word
    share = np.mean(np.linspace(0, 1, 10) < bounded + 1e-9)
    assert (
        f"{100 * share:.0f} % (truncated) and {100 * share:.0f} % (not) of samples of 200 rows"
        in page.claims[0].evidence
    )


@pytest.mark.parametrize(
    ("gain", "word", "counts"), [(GAIN, HOLDS, (12, 0)), (-GAIN, FAILS, (0, 18)), (0.0, None, (0, 0))]
)
def test_the_verdict_on_the_link_follows_the_log_loss(gain, word, counts):
    page = made("shape", planted("shape", shaped(gain)))
    claim = page.claims[1]
    assert claim.verdict == word or (word is None and claim.verdict != HOLDS)
    assert f"clearly in {counts[0]} of 12 settings; it raises it clearly in {counts[1]} of all 18" in claim.evidence
    records = sheet(page, "shape").records
    assert {round(r["log_loss_difference"], 12) for r in records} == {-gain}
    assert {r["logit_rejected"] for r in records} == {0.5}
    assert {r["mean_likelihood_ratio"] for r in records} == {4.0}


# Measures.


def measured(gains):
    """A replicate of a study of measures: ignoring costs 0.2 of log-loss, a measure wins back `gains` of it."""

    def value(place):
        lost = {measures.ALL_LABELS: 0.0, measures.IGNORED: 0.2} | {m: 0.2 - g for m, g in gains.items()}
        return {
            m: {"loglik": -100.0, "converged": True} | better(-lost[m], place.noise * (m == "margin"))
            for m in measures.FITS
        }

    return value


def two_classes(gains, margin=0.01, entropy=0.01, log_entropy=0.01):
    seconds = {"margin": margin, "entropy": entropy, "log-entropy": log_entropy, "gini": 0.01}
    return planted("measures", measured(gains)) | {measures.TIMES: {"fit": seconds, "measure": seconds}}


EVEN = dict.fromkeys(measures.SLOPES, 0.1)


@pytest.mark.parametrize(("gain", "word"), [(GAIN, HOLDS), (-GAIN, FAILS)])
def test_the_verdict_on_the_margin_follows_the_log_loss(gain, word):
    claim = made("measures", two_classes(EVEN | {"margin": 0.1 + gain})).claims[0]
    assert claim.verdict == word
    assert f"larger than that of the (log-)entropy in {12 * (gain < 0)} and clearly" in claim.evidence
    assert f"{-gain:+.4f} ± {half(10):.4f}" in claim.evidence


def test_one_replicate_does_not_show_that_the_margin_is_as_good(monkeypatch):
    monkeypatch.setattr(plan, "REPLICATES", {what: {"small": 1} for what in plan.REPLICATES})
    assert made("measures", two_classes(EVEN | {"margin": 0.0})).claims[0].verdict == UNDECIDED


@pytest.mark.parametrize(
    ("seconds", "word", "words"),
    [
        ((0.005, 0.01, 0.01), HOLDS, "0.50 of the time with the entropy and 0.50 of"),
        ((0.01, 0.01, 0.01), FAILS, "1.00 of the time with the entropy and 1.00 of"),
        ((0.01, 0.02, 0.01), PARTLY, "0.50 of the time with the entropy and 1.00 of"),
    ],
)
def test_the_verdict_on_computing_time_follows_the_clock(seconds, word, words):
    claim = made("measures", two_classes(EVEN, *seconds)).claims[1]
    assert claim.verdict == word
    assert words in claim.evidence


def test_what_a_measure_wins_back_is_its_share_of_what_ignoring_costs():
    found = two_classes(EVEN | {"entropy": 0.15})
    records = {(r["hidden_by"], r["fitted"]): r for r in sheet(made("measures", found), "measures").records}
    for hidden_by in measures.SLOPES:
        assert records[hidden_by, "entropy"]["recovered"] == pytest.approx(0.75)
        assert records[hidden_by, "margin"]["recovered"] == pytest.approx(0.5)
        assert records[hidden_by, measures.IGNORED]["recovered"] == pytest.approx(0.0)
        assert records[hidden_by, measures.ALL_LABELS]["recovered"] == pytest.approx(1.0)


@pytest.mark.parametrize("best", list(measures.SLOPES))
def test_with_four_classes_the_measure_that_wins_back_most_is_named(best):
    page = made("four-classes", planted("four-classes", measured(EVEN | {best: 0.16})))
    assert page.claims[0].verdict == best
    assert f"{best} 80 % (80 %)" in page.claims[0].details


def test_with_four_classes_measures_that_cannot_be_told_apart_are_all_named():
    leading = EVEN | {"entropy": 0.16, "gini": 0.16}
    assert made("four-classes", planted("four-classes", measured(leading))).claims[0].verdict == "entropy or gini"


@pytest.mark.parametrize(
    ("margin", "word", "counts"),
    [(0.05, HOLDS, (6, 0)), (0.15, FAILS, (0, 6)), (0.1, UNDECIDED, (0, 0))],
)
def test_measures_of_all_posteriors_beat_the_margin_where_planted(margin, word, counts):
    claim = made("four-classes", planted("four-classes", measured(EVEN | {"margin": margin}))).claims[1]
    assert claim.verdict == word
    assert "margin in {} and clearly larger in {} of 6".format(*counts) in claim.evidence


# MAGIC.


def magical(gain, late=None, spread=0.0):
    """A replicate on MAGIC: ECM-AO is better by `gain`, at 90 % by `late`; its scores range wider over thresholds by `spread`."""

    def value(place):
        here = late if late is not None and place.parts[2] == "0.9" else gain
        slope = np.linspace(-0.5, 0.5, len(magic.THRESHOLDS))
        average = place.parts[-1] == "average"
        out = {"failed": [], "unfinished": []}
        for where in ("training", "held"):
            out[where] = {}
            for name in [AVERAGE] if average else [m for m in magic.SHOWN if m != AVERAGE]:
                own = name == magic.DEFINED
                scored = better(here if own else 0.0, place.noise if own else 0.0)
                wide = 0.1 + (spread + place.noise) * own
                rates = {m: (0.6 + wide * slope).tolist() for m in ("precision", "recall")}
                out[where][name] = scored | rates | {"accuracy": (scored["accuracy"] + 0.1 * slope).tolist()}
        return out

    return value


@OUTCOMES
def test_the_verdicts_on_thresholds_follow_the_planted_differences(gain, word):
    page = made("magic-thresholds", planted("magic-thresholds", magical(gain, spread=-gain)))
    assert [claim.verdict for claim in page.claims] == [word, word]
    assert f"{gain:+.3f} ± {half(3):.3f} (labels hidden by gradient boosting)" in page.claims[0].evidence
    assert page.claims[1].evidence.count(f"± {half(3):.3f}") == 4
    if gain:
        assert page.claims[1].evidence.count(f"{-gain:+.3f} ±") == 4


@OUTCOMES
def test_the_verdict_on_magic_proportions_follows_the_planted_differences(gain, word):
    page = made("magic-missing-proportion", planted("magic-missing-proportion", magical(gain)))
    assert page.claims[0].verdict == word
    if gain:
        assert page.claims[0].evidence.count(f"{gain:+.3f} ±") == 6
    assert page.claims[1].verdict != HOLDS
    if gain > 0:
        assert page.claims[2].verdict == magic.DEFINED
        assert "0.750" in page.claims[2].evidence


@pytest.mark.parametrize(("early", "late", "word"), [(0.05, -0.05, HOLDS), (0.05, 0.05, FAILS), (-0.05, -0.05, FAILS)])
def test_an_order_is_reversed_only_where_both_ends_are_clear(early, late, word):
    found = planted("magic-missing-proportion", magical(early, late))
    claim = made("magic-missing-proportion", found).claims[1]
    assert claim.verdict == word
    assert claim.evidence.count(f"{late:+.3f} ±") == 2


def test_every_mean_on_magic_is_over_the_splits():
    page = made("magic-missing-proportion", planted("magic-missing-proportion", magical(0.0)))
    for block in (block for block in page.blocks if isinstance(block, Sheet)):
        counts = {(r["method"], r["metric"]): r["n"] for r in block.records if r["method"] != AVERAGE}
        assert set(counts.values()) == {3}, [key for key, n in counts.items() if n != 3]
