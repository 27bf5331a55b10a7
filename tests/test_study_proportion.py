"""The missing-proportion figure: its verdicts follow what is planted, and what large samples show."""

import numpy as np
import pytest
from planted import GAIN, SMALL, better, claim_on, half, made, planted, sheet, text_of

from marmix.study import metrics, proportion
from marmix.study.methods import ECM_AO, LOGISTIC, QDA
from marmix.study.pieces import Piece
from marmix.study.summaries import FAILS, HOLDS, MIXED, UNDECIDED

ITEM = "fig-missing-proportion"


def proportions(lost=0.0, logistic=0.0, bias=0.0, lost_when_truncated=None):
    """Replicates in which ECM-AO loses `lost` of every score between the first and the last rate; large samples with a bias."""

    def value(place):
        if place.parts[1] == "large":
            return {"every label": [0.0, 2.0, 0.0], "labels left": [place.noise, 2.0 + bias + place.noise, 0.0]}
        out = {}
        for rate, share in zip(proportion.RATES, np.linspace(0, 1, len(proportion.RATES)), strict=True):
            cut = place.parts[1] == "truncated"
            mine = lost if lost_when_truncated is None or not cut else lost_when_truncated
            fresh = {m: better(0.0) for m in proportion.SHOWN}
            fresh[ECM_AO] = better(-share * mine, share * place.noise)
            fresh[LOGISTIC] = better(-share * logistic, share * place.noise)
            training = {
                m: dict.fromkeys(metrics.PUBLISHED, 0.6 + 0.1 * share) | {"turned": float(place.noise > 0)}
                for m in proportion.SHOWN
            }
            out[f"{rate:.2f}"] = {"fresh": fresh, "training": training, "unfinished": [], "failed": []}
        return out

    return value


@pytest.mark.parametrize(("lost", "word"), [(0.0, HOLDS), (-GAIN, HOLDS), (GAIN, FAILS), (0.01, UNDECIDED)])
def test_scores_are_kept_where_less_than_the_margin_is_lost(lost, word):
    page = made(ITEM, planted(ITEM, proportions(lost)))
    auc, calibration = claim_on(page, "keeps its AUC"), claim_on(page, "preserves calibration")
    assert (auc.verdict, calibration.verdict) == (word, word)
    if lost:
        wide = f"± {half(5):.3f}"
        assert f"{-lost:+.3f} {wide} (truncated), {-lost:+.3f} {wide} (not truncated)" in auc.evidence
        assert f"{lost:+.3f} {wide} (truncated), {lost:+.3f} {wide} (not truncated)" in calibration.evidence
    assert "on training rows: +0.100 ± 0.000 (truncated)" in auc.details


def test_what_is_kept_without_truncation_and_lost_with_it_is_mixed():
    page = made(ITEM, planted(ITEM, proportions(0.0, lost_when_truncated=GAIN)))
    assert claim_on(page, "keeps its AUC").verdict == MIXED


@pytest.mark.parametrize(("lost", "word"), [(GAIN, HOLDS), (-GAIN, FAILS), (0.0, UNDECIDED)])
def test_logistic_regression_degrades_where_its_auc_clearly_falls(lost, word):
    claim = claim_on(made(ITEM, planted(ITEM, proportions(logistic=lost))), "progressively degrades")
    assert claim.verdict == word
    assert lost == 0.0 or f"{-lost:+.3f} ± {half(5):.3f} (truncated)" in claim.evidence


@pytest.mark.parametrize(("bias", "word"), [(0.0, FAILS), (0.2, HOLDS), (-0.2, HOLDS), (0.05, UNDECIDED)])
def test_labels_that_are_left_are_biased_where_large_samples_say_so(bias, word):
    page = made(ITEM, planted(ITEM, proportions(bias=bias)))
    claim = claim_on(page, "selection bias")
    assert claim.verdict == word
    assert bias == 0.0 or f", {bias:+.3f} ± {half(20):.3f}, " in claim.evidence
    assert ("not bias." in claim.details) == (word == FAILS)
    records = {(r["labels"], r["coefficient"]): r for r in sheet(page, f"{ITEM}-large").records}
    slope = records["labels left", "slope of the first feature"]
    assert (slope["true"], slope["mean"], slope["n"]) == (2.0, pytest.approx(2.0 + bias), 20)


def test_the_page_says_how_often_the_roc_routine_turned():
    page = made(ITEM, planted(ITEM, proportions()))
    assert "turned at 95 % missing in 40 % of samples for ECM-AO and in 40 % for logistic" in text_of(page)


def test_a_method_that_failed_has_no_value_and_one_that_is_absent_is_an_error():
    found = planted(ITEM, proportions())
    found["proportion/truncated/2"]["0.95"]["failed"] = [LOGISTIC]
    runs = proportion.ProportionRuns(SMALL, found)
    np.testing.assert_array_equal(np.isnan(runs.of(True, 0.95, LOGISTIC, "auc")), np.arange(5) == 2)
    assert runs.rise(True, LOGISTIC, "auc").n == 4
    assert runs.troubles() == [f"{LOGISTIC} could not be fitted in 1 of 100 fits."]
    with pytest.raises(KeyError, match=QDA):
        runs.of(True, 0.95, QDA, "auc")


def test_large_samples_give_the_coefficients_of_the_classes_with_every_label_and_with_those_left(monkeypatch):
    monkeypatch.setattr(proportion, "LARGE", 20_000)
    found = Piece("proportion/large/0", proportion.large_sample).compute(0)
    # two normal classes of variance 1, two apart: log-odds 2 x; the standard errors are about .02 with every label
    np.testing.assert_allclose(found["every label"], proportion.TRUE_COEFFICIENTS, atol=0.1)
    np.testing.assert_allclose(found["labels left"], proportion.TRUE_COEFFICIENTS, atol=0.2)
    assert found["every label"] != found["labels left"]


def test_a_replicate_scores_the_same_rows_at_every_rate(monkeypatch):
    monkeypatch.setattr(proportion, "SHOWN", (proportion.methods.EVERY_LABEL, LOGISTIC))
    value = proportion.replicate(np.random.default_rng(0), truncated=True)
    assert list(value) == [f"{rate:.2f}" for rate in proportion.RATES]
    every = [at["fresh"]["logistic, every label"] for at in value.values()]
    assert all(scored == every[0] for scored in every)  # it sees all labels, whatever the rate
    assert len({at["fresh"][LOGISTIC]["log_loss"] for at in value.values()}) == len(proportion.RATES)
