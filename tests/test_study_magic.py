"""The MAGIC items of the study: verdicts follow what is planted, pages need no data, and held-out rows stay out."""

import numpy as np
import pytest
from planted import GAIN, OUTCOMES, SMALL, better, claim_on, half, made, planted, sheet
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.utils import Bunch

from marmix.study import magic, methods, metrics
from marmix.study.magic import DEFINED, NOT_REPRODUCED, SCRIPT
from marmix.study.methods import AVERAGE, LOGISTIC, SWAPPED
from marmix.study.pieces import Piece, Plan
from marmix.study.summaries import FAILS, HOLDS, MIXED, PARTLY, UNDECIDED

FULL = Plan("full")
PAIRS, THRESHOLDS, PROPORTIONS = "magic-pairs", "magic-thresholds", "magic-missing-proportion"
OVERLAP = 0.5  # a third of the rows held out, two thirds fitted to
NAMES = {"published": (*magic.PUBLISHED, SWAPPED), "held-out": magic.HELD_OUT, "average": (AVERAGE,)}


def magical(gain, late=None, spread=0.0, drop=0.0, gaussian=None, average=0.0):
    """A replicate on MAGIC: ECM-AO as defined is better by `gain`, at 90 % by `late`; by `gaussian` where that hides.

    Its precision and recall range wider over thresholds by `spread`; scores of logistic regression fall by `drop` over them.
    """

    def value(place):
        _, part, hider, rate, _ = place.parts
        gained = late if late is not None and rate == "0.9" else gain
        gained = gaussian if gaussian is not None and hider == "gaussian" else gained
        slope = np.linspace(-0.5, 0.5, len(magic.THRESHOLDS))
        scored, thresholds = {}, {}
        for name in NAMES[part]:
            defined = name == DEFINED
            ahead = gained if defined else average if name == AVERAGE else 0.0
            scored[name] = better(ahead, place.noise if defined else 0.0)
            if part == "published":
                scored[name] = dict.fromkeys(metrics.PUBLISHED, 0.5) | scored[name] | {"turned": 0.0}
            fall = (drop + place.noise) * slope if drop and name == LOGISTIC else 0.0 * slope
            wide = 0.2 + (spread + place.noise) * defined
            thresholds[name] = {m: (0.6 - wide * slope - fall).tolist() for m in ("precision", "recall")}
            thresholds[name]["accuracy"] = (scored[name]["accuracy"] - fall).tolist()
        return {"scores": scored, "thresholds": thresholds, "unfinished": [SCRIPT] if place.noise > 0 else []}

    return value


# Thresholds.


@OUTCOMES
def test_accuracy_is_compared_at_every_threshold_for_both_ways_of_hiding(gain, word):
    claim = made(THRESHOLDS, planted(THRESHOLDS, magical(gain))).claims[0]
    assert claim.verdict == {FAILS: NOT_REPRODUCED}.get(word, word)
    right, wrong = 18 * (gain > 0), 18 * (gain < 0)
    assert f"clearly better in {right}, clearly worse in {wrong} of 18 comparisons" in claim.evidence
    assert f"on the rows of the fit: clearly better in {right}, clearly worse in {wrong} of 18;" in claim.details
    assert "as the script does: clearly better in 0, clearly worse in 0 of 18." in claim.details
    assert gain == 0.0 or f" {gain:+.3f} to {gain:+.3f};" in claim.evidence


@OUTCOMES
def test_scores_are_more_stable_where_their_range_is_smaller(gain, word):
    claim = made(THRESHOLDS, planted(THRESHOLDS, magical(0.0, spread=-gain))).claims[1]
    assert claim.verdict == {FAILS: NOT_REPRODUCED}.get(word, word)
    assert claim.evidence.count(f"± {half(3, OVERLAP):.3f}") == 4
    assert gain == 0.0 or claim.evidence.count(f"{-gain:+.3f} ±") == 4


@pytest.mark.parametrize(("drop", "word"), [(0.1, HOLDS), (-0.4, NOT_REPRODUCED)])
def test_a_drop_is_that_from_the_lowest_threshold_to_the_highest(drop, word):
    claim = made(THRESHOLDS, planted(THRESHOLDS, magical(0.0, drop=drop))).claims[2]
    accuracy, recall = claim.evidence.split(", recall by ")
    wide = f"± {half(3, OVERLAP):.3f}"
    assert accuracy.count(f"{-drop:+.3f} {wide}") == recall.count(f"{-0.2 - drop:+.3f} {wide}") == 2
    assert claim.verdict == word


def test_of_the_events_called_gamma_the_share_between_the_thresholds_is_counted():
    values = planted(THRESHOLDS, magical(0.0))
    for value in values.values():
        for at in value["thresholds"].values():  # 0.8 called at the lowest, 0.6 at the highest, in units of the gammas
            at["recall"] = np.linspace(0.64, 0.54, 9).tolist()
            at["precision"] = np.linspace(0.8, 0.9, 9).tolist()
    assert magic.MagicRuns(SMALL, values).certain("boosting", DEFINED) == pytest.approx(0.25)
    claim = made(THRESHOLDS, values).claims[1]
    assert "lie 25 % (gradient boosting), 25 % (one Gaussian a class) of the events" in claim.details


# Proportions.


@OUTCOMES
def test_the_verdict_on_magic_proportions_follows_the_planted_differences(gain, word):
    page = made(PROPORTIONS, planted(PROPORTIONS, magical(gain)))
    claim = page.claims[0]
    assert claim.verdict == {FAILS: NOT_REPRODUCED}.get(word, word)
    right, wrong = 6 * (gain > 0), 6 * (gain < 0)
    assert f"clearly better in {right}, clearly worse in {wrong} of 6 comparisons" in claim.evidence
    assert gain == 0.0 or f" {gain:+.3f} to {gain:+.3f};" in claim.evidence
    assert page.claims[1].verdict != HOLDS


@pytest.mark.parametrize(("elsewhere", "word"), [(-GAIN, MIXED), (0.0, PARTLY)])
def test_a_claim_that_holds_for_one_way_of_hiding_alone_does_not_simply_hold(elsewhere, word):
    page = made(PROPORTIONS, planted(PROPORTIONS, magical(GAIN, gaussian=elsewhere)))
    assert page.claims[0].verdict == word


@pytest.mark.parametrize(
    ("early", "late", "word"),
    [
        (GAIN, -GAIN, HOLDS),
        (GAIN, GAIN, NOT_REPRODUCED),
        (-GAIN, -GAIN, NOT_REPRODUCED),
        (-GAIN, GAIN, NOT_REPRODUCED),
        (GAIN, 0.0, UNDECIDED),
        (0.0, -GAIN, UNDECIDED),
    ],
)
def test_an_order_is_reversed_only_where_both_ends_are_clear(early, late, word):
    claim = made(PROPORTIONS, planted(PROPORTIONS, magical(early, late))).claims[1]
    assert claim.verdict == word
    first, second = claim.evidence.split("; at 50 %: ")
    wide = f"± {half(3, OVERLAP):.3f}"
    assert late == 0.0 or first.count(f"{late:+.3f} {wide}") == 2
    assert early == 0.0 or second.count(f"{early:+.3f} {wide}") == 2


def test_an_order_that_is_reversed_for_one_way_of_hiding_is_reversed_in_part():
    claim = made(PROPORTIONS, planted(PROPORTIONS, magical(GAIN, late=-GAIN, gaussian=GAIN))).claims[1]
    assert claim.verdict == PARTLY


def test_the_best_method_is_named_with_those_it_is_not_clearly_above():
    best = made(PROPORTIONS, planted(PROPORTIONS, magical(GAIN))).claims[2]
    assert best.evidence.count(f"{DEFINED}, 0.750 ± {half(3, OVERLAP):.3f}") == 2
    assert best.evidence.count("(clearly above all others)") == 2
    level = made(PROPORTIONS, planted(PROPORTIONS, magical(0.0))).claims[2]
    assert level.evidence.count("not clearly above") == 2
    assert LOGISTIC in level.evidence


def test_the_average_of_candidates_is_compared_on_the_splits_that_it_saw():
    values = planted(PROPORTIONS, magical(GAIN, average=0.2), FULL)
    runs = magic.MagicRuns(FULL, values)
    assert runs.of("boosting", 0.7, AVERAGE, "auc").shape == (5,)
    assert runs.of("boosting", 0.7, DEFINED, "auc").shape == (20,)
    paired = runs.versus("boosting", 0.7, AVERAGE, LOGISTIC, "auc")
    assert (paired.mean, paired.n) == (pytest.approx(0.2), 5)
    page = made(PROPORTIONS, values, FULL)
    details = claim_on(page, "highest AUC").details
    assert f"{AVERAGE} minus the best of these: +0.15" in details
    records = sheet(page, f"{PROPORTIONS}-held-out-boosting").records
    assert {r["n"] for r in records if r["method"] == AVERAGE} == {5}
    assert {r["n"] for r in records if r["method"] != AVERAGE} == {20}


def test_at_the_small_size_the_average_of_candidates_is_not_fitted():
    assert not any("/average/" in piece.key for piece in magic.pieces(SMALL))
    page = made(PROPORTIONS, planted(PROPORTIONS, magical(0.0)))
    records = sheet(page, f"{PROPORTIONS}-held-out-gaussian").records
    assert {r["method"] for r in records} == set(magic.HELD_OUT)
    assert AVERAGE not in claim_on(page, "highest AUC").details


def test_every_mean_on_magic_is_over_the_splits_with_intervals_for_overlap():
    page = made(PROPORTIONS, planted(PROPORTIONS, magical(0.0)))
    for where in magic.WHERE:
        for hider in magic.HIDERS:
            block = sheet(page, f"{PROPORTIONS}-{where}-{hider}")
            assert {r["n"] for r in block.records} == {3}
            row = next(r for r in block.records if (r["method"], r["metric"]) == (DEFINED, "auc"))
            overlap = OVERLAP if where == "held-out" else 0.0  # as published there are no splits
            assert (row["high"] - row["low"]) / 2 == pytest.approx(half(3, overlap))
            # one of three replicates, at five rates, as published and held out
            assert f"{SCRIPT} did not converge in 10 runs, all proportions together." in block.table.notes


def test_a_method_that_is_absent_from_a_piece_is_an_error():
    values = planted(PROPORTIONS, magical(0.0))
    del values["magic/held-out/boosting/0.7/1"]["scores"][LOGISTIC]
    with pytest.raises(KeyError, match=LOGISTIC):
        made(PROPORTIONS, values)


# The scatterplot matrix.


def pairs(linear=0.80, free=0.85):
    """What the scatterplot matrix needs, made up."""
    rng = np.random.default_rng(0)
    density = [[rng.uniform(size=magic.BINS).tolist() for _ in range(2)] for _ in magic.COLUMNS]
    edges = [np.linspace(-3, 3, magic.BINS + 1).tolist() for _ in magic.COLUMNS]
    drawn = {"X": rng.normal(size=(60, 4)).tolist(), "y": [0, 1] * 30, "edges": edges, "density": density, "n": 19020}
    auc = {"logistic regression": linear, "one Gaussian a class": 0.81, "gradient boosting": free}
    return {magic.POINTS: drawn, magic.AUC: auc}


@pytest.mark.parametrize(
    ("linear", "free", "word"), [(0.80, 0.85, HOLDS), (0.80, 0.80, FAILS), (0.84, 0.85, FAILS), (0.90, 0.97, FAILS)]
)
def test_a_linear_boundary_is_not_enough_where_a_free_one_gets_further_and_classes_overlap(linear, free, word):
    (claim,) = made(PAIRS, pairs(linear, free)).claims
    assert claim.verdict == word
    assert f"{linear:.3f} by logistic regression, 0.810 by one Gaussian a class, {free:.3f} by" in claim.evidence


# The computations, on rows that are made up.


@pytest.fixture
def made_up(monkeypatch):
    """Two classes in four dimensions in place of MAGIC."""
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=600)
    X = rng.normal(size=(600, 4)) + y[:, None] * np.array([1.0, 0.5, 0.0, 0.0])
    monkeypatch.setattr(magic, "rows", lambda: (X, y))
    magic.hiding_posterior.cache_clear()
    yield X, y
    magic.hiding_posterior.cache_clear()


def piece(part, hider="gaussian", rate=0.5, i=0):
    return next(p for p in magic.pieces(SMALL) if p.key == f"magic/{part}/{hider}/{rate:.1f}/{i}")


def test_methods_are_scored_on_rows_that_they_never_saw(made_up, monkeypatch):
    X, y = made_up
    fits = []
    fitted = methods.fitted

    def watched(names, rows, partial, truth, seed):
        fits.append((rows, partial, truth))
        return fitted(names, rows, partial, truth, seed)

    monkeypatch.setattr(methods, "fitted", watched)
    monkeypatch.setattr(magic, "HELD_OUT", (LOGISTIC,))
    value = piece("held-out").compute(0)
    ((rows, partial, truth),) = fits
    assert rows.shape == (400, 4)
    assert np.mean(partial < 0) == pytest.approx(0.5, abs=0.1)
    np.testing.assert_array_equal(partial[partial >= 0], truth[partial >= 0])
    held = ~(X[:, None] == rows).all(axis=2).any(axis=1)
    assert held.sum() == 200
    fit = LogisticRegression(C=np.inf, max_iter=10_000).fit(rows[partial >= 0], partial[partial >= 0])
    auc = roc_auc_score(y[held], fit.decision_function(X[held]))
    assert value["scores"][LOGISTIC]["auc"] == pytest.approx(auc, rel=1e-12)
    called = fit.predict_proba(X[held])[:, 0] >= 0.5
    at = list(magic.THRESHOLDS).index(0.5)
    assert value["thresholds"][LOGISTIC]["accuracy"][at] == np.mean(called == (y[held] == 0))


def test_the_same_rows_are_held_out_at_every_rate_and_for_every_way_of_hiding(made_up, monkeypatch):
    fits = []

    def watched(names, rows, partial, truth, seed):
        fits.append((rows, partial))
        return {}, [], []

    monkeypatch.setattr(methods, "fitted", watched)
    monkeypatch.setattr(magic, "ECM", {})
    settings = [("gaussian", 0.5, 0), ("gaussian", 0.9, 0), ("boosting", 0.5, 0), ("gaussian", 0.5, 1)]
    for setting in settings:
        piece("held-out", *setting).compute(0)
    for rows, _ in fits[1:3]:
        np.testing.assert_array_equal(rows, fits[0][0])
    assert (fits[3][0] != fits[0][0]).any()
    few, many = (set(np.flatnonzero(partial < 0)) for _, partial in fits[:2])
    assert few < many


def test_as_published_every_row_is_fitted_and_scored(made_up):
    _, y = made_up
    value = piece("published").compute(0)
    assert set(value["scores"]) == {*magic.PUBLISHED, SWAPPED}
    right, swapped = value["scores"][LOGISTIC], value["scores"][SWAPPED]
    assert (right["turned"], swapped["turned"]) == (0.0, 1.0)
    assert swapped["auc"] == pytest.approx(right["auc"], rel=1e-12)
    assert swapped["log_loss"] > right["log_loss"]
    recall = value["thresholds"][LOGISTIC]["recall"]
    counts = np.array(recall) * np.sum(y == 0)
    np.testing.assert_allclose(counts, np.round(counts), atol=1e-9)  # of all gammas, not of a third of them
    assert (np.diff(recall) <= 0).all()


def test_what_is_drawn_is_in_the_store_and_not_in_the_data(made_up, monkeypatch):
    monkeypatch.setattr(magic, "load_magic", lambda **_: Bunch(data=made_up[0], target=made_up[1]))
    monkeypatch.setattr(magic, "SHOWN", 50)
    points = Piece(magic.POINTS, magic.points).compute(0)
    assert (len(points["X"]), points["n"]) == (50, 600)
    for edges, by_class in zip(points["edges"], points["density"], strict=True):
        for density in by_class:
            assert np.sum(density * np.diff(edges)) == pytest.approx(1.0)

    def refused(**_):
        raise OSError("no file here")

    monkeypatch.setattr(magic, "load_magic", refused)
    monkeypatch.setattr(magic, "rows", refused)
    made(PAIRS, pairs() | {magic.POINTS: points})
    for item in (THRESHOLDS, PROPORTIONS):
        made(item, planted(item, magical(0.0)))
