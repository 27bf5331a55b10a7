"""Verdicts: never verified without an audit, and the numbers that they rest on."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from marmix.evaluation.joint import Range
from marmix.evaluation.verdict import (
    DIFFERENT,
    DO_NOT_USE,
    NOT_VERIFIED,
    STATES,
    VERIFIED,
    Grounds,
    rows_needed,
    verdict,
    verdict_after,
)

GOOD = Grounds(
    {"elm": 50.0, "oak": 50.0},
    {"elm": 45.0, "oak": 55.0},
    "audit {}".format,
    Range(8.0, 4.0, 14.0),
    Range(8.0, 3.0, 25.0),
    "oak",
    55.0,
    log_loss=0.2,
)


@pytest.mark.parametrize(
    ("changes", "state", "words"),
    [
        ({}, NOT_VERIFIED, "8 (4 to 14) of the 100"),
        ({}, NOT_VERIFIED, "3 to 25"),
        (
            {"given": {"elm": 80.0, "oak": 20.0}},
            NOT_VERIFIED,
            "80 % of the given labels are 'elm'; of the others, the model expects 45",
        ),
        (
            {"classes": [np.array([0.25, 0.75])] * 99},
            NOT_VERIFIED,
            "50 % of the given labels are 'elm'; of the others, the model expects 25 to 25 %",
        ),
        ({"given": {"elm": 19.0, "oak": 19.0}}, NOT_VERIFIED, "2 classes have fewer than 20 labels"),
        ({"given": {"elm": 50.0, "oak": 19.0}}, NOT_VERIFIED, "19 rows are labelled 'oak'"),
        ({"given": {"elm": 50.0, "oak": 4.0}}, DO_NOT_USE, "Only 4 rows are labelled 'oak'"),
        ({"converged": False}, DO_NOT_USE, "did not converge"),
        ({"wrong": Range(None, None, None)}, DO_NOT_USE, "cannot be told"),
        ({"wrong": Range(20.0, 12.0, 30.0)}, NOT_VERIFIED, "more than the 10 %"),
        ({"wrong": Range(20.0, 12.0, 30.0), "most": 85.0}, DO_NOT_USE, "every one of these rows 'oak'"),
        ({"wrong": Range(7.0, 4.0, 9.0), "most": 95.0}, NOT_VERIFIED, "7 (4 to 9)"),
        ({"wrong": Range(60.0, 51.0, 80.0), "most": 30.0}, DO_NOT_USE, "more than half"),
        ({"log_loss": 0.8}, DO_NOT_USE, "0.800, is worse"),
        ({"rival": "random forest"}, NOT_VERIFIED, "random forest"),
    ],
)
def test_without_an_audit_the_state_follows_from_the_grounds(changes, state, words):
    answer = verdict(GOOD._replace(**changes))
    assert answer.state == state
    assert words in str(answer)
    assert bool(answer.command) == (state == NOT_VERIFIED)
    assert answer.next in str(answer)


@given(st.lists(st.integers(5, 500), min_size=2, max_size=5), st.data())
def test_without_an_audit_nothing_is_verified_and_different_classes_ask_for_one_first(labels, data):
    imputed = data.draw(st.lists(st.integers(1, 500), min_size=len(labels), max_size=len(labels)))
    n = sum(imputed)
    low, value, high = sorted(data.draw(st.floats(0.0, n)) for _ in range(3))
    names = [f"class {k}" for k in range(len(labels))]
    it = GOOD._replace(
        given=dict(zip(names, labels, strict=True)),
        imputed=dict(zip(names, imputed, strict=True)),
        wrong=Range(value, low, high),
        hidden=Range(value, 0.0, n),
        most=max(imputed),
    )
    answer = verdict(it)
    assert answer.state in STATES[1:]
    shares = np.array(labels) / sum(labels) - np.array(imputed) / n
    first = 0.5 * np.abs(shares).sum() >= DIFFERENT
    assert any("of the given" in reason for reason in answer.reasons) == first
    if answer.state == NOT_VERIFIED:
        assert answer.next.startswith("Before anything else") == first
        assert answer.command == f"audit {min(20, n)}"


@given(st.integers(1, 5000), st.floats(0.01, 0.5), st.booleans(), st.data())
def test_an_audit_verifies_if_and_only_if_its_upper_limit_is_accepted(left, accept, contradicted, data):
    low, value, high = sorted(data.draw(st.integers(0, left)) for _ in range(3))
    it = verdict_after(
        (value, low, high),
        (value, low, high),
        left + 30,
        left,
        labelled=30,
        contradicted=contradicted,
        accept=accept,
        audit=str,
    )
    assert (it.state == VERIFIED) == (high <= accept * left)
    if low > accept * left:
        assert it.state == DO_NOT_USE
    elif value <= accept * left:
        assert it.state != DO_NOT_USE
    if it.state == NOT_VERIFIED:
        assert not it.command or 0 < int(it.command) <= max(left, 20)
    assert it.wrong == (value, low, high)


def test_a_class_that_is_not_found_or_rows_that_nobody_could_tell_verify_nothing():
    few, half, all_right = Range(0.0, 0.0, 0.0), Range(0.3, 0.1, 0.6), Range(1.0, 0.9, 1.0)
    one = {"labelled": 30, "contradicted": False, "audit": str, "hardest": "hardest"}
    for precision, recall, state in (
        (all_right, all_right, VERIFIED),
        (half, half, VERIFIED),
        (all_right, few, NOT_VERIFIED),
        (few, all_right, NOT_VERIFIED),
    ):
        it = verdict_after((2, 0, 5), (2, 0, 5), 130, 100, **one, classes={"elm": (precision, recall, half)})
        assert it.state == state
        assert ("'elm'" in it.reasons[0], it.command) == ((False, "") if state == VERIFIED else (True, "hardest"))
    nothing = (np.nan, 0, 100)
    it = verdict_after(nothing, nothing, 100, 100, **(one | {"labelled": 0}), untold=20)
    assert (it.state, it.wrong.value) == (NOT_VERIFIED, None)
    assert "nan" not in str(it)


@given(st.floats(0.0, 0.08), st.floats(0.1, 0.4))
def test_as_many_rows_as_needed_have_an_upper_limit_that_is_accepted(share, accept):
    n = rows_needed(share, accept)
    wrong = int(np.ceil(share * n))
    assert binomtest(wrong, n).proportion_ci(0.95, "exact").high <= accept
