"""Labels as votes of annotators: y of shape (n, K)."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import KNeighborsClassifier

from marmix import (
    MARBoostingClassifier,
    MARClassifierCV,
    MARGaussianMixture,
    MARKernelClassifier,
    MARLogisticRegression,
    MARStudentMixture,
    votes,
)
from marmix.app.fit import fit_file
from marmix.app.reading import Table
from marmix.app.saved import Request, evaluate_file
from marmix.app.survey import Options, labels_of
from marmix.core.labels import copies_of, vote_shares
from marmix.evaluation import (
    PartialLabelKFold,
    StratifiedPartialLabelKFold,
    accuracy,
    brier,
    log_loss,
    missingness_check,
    population_scorer,
    roc_auc,
)
from marmix.evaluation.pseudo_labels import pseudo_labels
from marmix.inference.bootstrap import _weights
from marmix.inference.curvature import row_terms, rows_of
from marmix.selection.evidence import Evidence
from marmix.selection.held_out import folds_of_copies
from marmix.terminal import Progress

ESTIMATORS = {
    "mixture": MARGaussianMixture(),
    "two components": MARGaussianMixture(covariance_type="diag", n_components={0: 2}, random_state=0, tol=1e-10),
    "student": MARStudentMixture(tol=1e-10),
    "logistic": MARLogisticRegression(),
    "kernel": MARKernelClassifier(C=1.0, gamma=0.3, mechanism_weight=0.3, n_landmarks=20, cv=None),
    "boosting": MARBoostingClassifier(n_estimators=10, mechanism_weight=0.1, cv=None, n_jobs=1),
}
BY_NAME = pytest.mark.parametrize("estimator", ESTIMATORS.values(), ids=ESTIMATORS.keys())
WITH_PARAMETERS = pytest.mark.parametrize(
    "estimator",
    [
        *(ESTIMATORS[name] for name in ("mixture", "two components", "student")),
        MARLogisticRegression(C=np.inf),
    ],
)


def rows_with_votes(n=120, seed=3):
    """Two overlapping classes in two dimensions and up to five votes; unclear rows often have none."""
    rng = np.random.default_rng(seed)
    z = rng.integers(2, size=n)
    X = rng.normal(size=(n, 2)) + 1.5 * z[:, None]
    p = 1.0 / (1.0 + np.exp(1.5 - X.sum(axis=1)))
    counts = rng.integers(1, 6, size=n)
    second = rng.binomial(counts, p)
    labelled = rng.uniform(size=n) < 0.5 + 0.9 * np.abs(p - 0.5)
    return X, np.column_stack([counts - second, second]) * labelled[:, None]


X, VOTES = rows_with_votes()
COPIES = copies_of(vote_shares(VOTES)[0])


@BY_NAME
def test_votes_are_copies_of_the_row_weighted_by_their_shares(estimator):
    weight = np.random.default_rng(1).integers(0, 4, size=len(X)).astype(float)
    fit = clone(estimator).fit(X, VOTES, weight)
    of_copies = COPIES.share * weight[COPIES.rows]
    repeated = clone(estimator).fit(X[COPIES.rows], COPIES.z, of_copies)
    np.testing.assert_allclose(fit.predict_log_proba(X), repeated.predict_log_proba(X), rtol=0, atol=1e-10)
    np.testing.assert_allclose(fit.missing_proba(X), repeated.missing_proba(X), rtol=0, atol=1e-10)
    assert fit.loglik_ == pytest.approx(repeated.loglik_, abs=1e-10)
    assert fit.model_.total_weight == pytest.approx(weight.sum(), rel=1e-12)
    counts = of_copies / (1.0 - fit.missing_proba(X)[COPIES.rows])
    hits = np.where(COPIES.z >= 0, counts, 0.0) * (fit.predict(X)[COPIES.rows] == COPIES.z)
    assert fit.score(X, VOTES, weight) == pytest.approx(hits.sum() / counts[COPIES.z >= 0].sum(), abs=1e-12)


@BY_NAME
def test_one_vote_a_row_is_the_label_to_the_bit(estimator):
    z = np.where(VOTES.any(axis=1), VOTES.argmax(axis=1), -1)
    one_hot = np.where(z[:, None] >= 0, 3.0 * (z[:, None] == np.arange(2)), np.nan)
    by_label, by_vote = clone(estimator).fit(X, z), clone(estimator).fit(X, one_hot)
    np.testing.assert_array_equal(by_vote.predict_log_proba(X), by_label.predict_log_proba(X))
    np.testing.assert_array_equal(by_vote.transduction_, by_label.transduction_)
    assert by_vote.loglik_ == by_label.loglik_
    assert by_vote.score(X, one_hot) == pytest.approx(by_label.score(X, z), abs=1e-15)


@BY_NAME
def test_columns_and_classes_permute_together(estimator):
    table = pd.DataFrame(VOTES, columns=["b", "a"])
    if isinstance(estimator.get_params().get("n_components"), dict):
        estimator = clone(estimator).set_params(n_components={"b": 2})
    given = [
        (table, None, ["b", "a"]),
        (table[["a", "b"]], None, ["a", "b"]),
        (table[["a", "b"]], ["b", "a"], ["b", "a"]),  # columns of a table are found by name
    ]
    proba = []
    for y, classes, expected in given:
        fit = clone(estimator).set_params(classes=classes).fit(X, y)
        assert fit.classes_.tolist() == expected
        proba.append(fit.predict_proba(X)[:, [expected.index("b"), expected.index("a")]])
    np.testing.assert_array_equal(proba[2], proba[0])
    np.testing.assert_allclose(proba[1], proba[0], rtol=0, atol=1e-6)


@BY_NAME
def test_imputed_labels_are_the_most_voted_class_then_the_most_probable(estimator):
    fit = clone(estimator).fit(X, VOTES)
    expected = np.where(VOTES[:, 0] > VOTES[:, 1], 0, 1)
    tied = VOTES[:, 0] == VOTES[:, 1]
    assert (tied & VOTES.any(axis=1)).sum() > 3
    expected[tied] = fit.predict(X)[tied]
    np.testing.assert_array_equal(fit.transduction_, expected)
    np.testing.assert_array_equal(fit.impute(X, VOTES), expected)


# Inference


@WITH_PARAMETERS
def test_the_sandwich_adds_the_scores_of_a_row_before_the_outer_product(estimator):
    fit = clone(estimator).fit(X, VOTES)
    result = fit.inference(X, VOTES)
    information = result.fitted.information
    naive = clone(estimator).fit(X[COPIES.rows], COPIES.z, COPIES.share)
    naive = naive.inference(X[COPIES.rows], COPIES.z, COPIES.share)
    # scores of the copies, in the order of the engine: sorted by class, unlabelled rows last
    objective = result.fitted.objective
    (block,) = rows_of(objective, fit.model_.theta)
    gradient, _ = row_terms(block, objective.model, result.fitted.mechanism, 1.0)
    components = gradient[objective.model.owner] * block.share
    by_coefficients = np.vstack([(components[:, None] * block.phi).reshape(-1, len(block.weight)), gradient[2:]])
    scores = information.pull @ by_coefficients * block.weight
    rows = COPIES.rows[np.argsort(np.where(COPIES.z < 0, 2, COPIES.z), kind="stable")]
    by_row = np.array([np.bincount(rows, score, len(X)) for score in scores])
    by_row -= by_row.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(information.meat, by_row @ by_row.T, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(result.cov_params("observed"), naive.cov_params("observed"), rtol=1e-8, atol=1e-12)
    classes = [i for i, kind in enumerate(result.fitted.parameters.kinds) if kind in ("mean", "coef", "weight")]
    assert (result.bse[classes] < naive.bse[classes]).all()
    assert any("one label" in note for note in result.notes)


def test_the_bootstrap_draws_rows_with_all_their_votes():
    result = MARGaussianMixture().fit(X, VOTES).inference(X, VOTES)
    weight = _weights(result.fitted, np.random.default_rng(0))
    times = weight / COPIES.share
    np.testing.assert_allclose(times, np.round(times), atol=1e-9)
    counts = np.bincount(COPIES.rows, weight)
    np.testing.assert_allclose(times, counts[COPIES.rows], atol=1e-9)
    assert counts.sum() == pytest.approx(len(X))
    assert len(np.unique(np.round(counts))) > 2
    with pytest.raises(ValueError, match="bootstrap=False"):
        result.test_informative(bootstrap=True)


# Folds


def test_copies_of_a_row_share_a_fold_and_every_training_part_has_all_classes():
    counts = np.tile([[5, 0, 0], [0, 5, 0], [0, 0, 0]], (20, 1))
    counts[0, 2] = counts[3, 2] = 1  # the only votes for the third class
    copies = copies_of(vote_shares(counts)[0])
    for seed in range(20):
        folds = folds_of_copies(copies.z, copies.share, copies.rows, 5, seed)
        for test in folds:
            train = np.delete(np.arange(len(copies.z)), test)
            assert not set(copies.rows[test]) & set(copies.rows[train])
            assert set(copies.z[train]) == {-1, 0, 1, 2}
        assert sum(map(len, folds)) >= len(copies.z) - 2


@pytest.mark.parametrize(
    "estimator",
    [
        MARKernelClassifier(C=1.0, gamma=0.3, n_landmarks=5, cv=3),
        MARBoostingClassifier(n_estimators=10, max_estimators=10, n_jobs=1, cv=3),
    ],
)
def test_estimators_that_hold_rows_out_hold_out_all_votes_of_a_row(estimator):
    folds = [np.arange(k, len(X), 3) for k in range(3)]
    of_copies = [np.flatnonzero(np.isin(COPIES.rows, test)) for test in folds]
    fit = clone(estimator).set_params(cv=folds).fit(X, VOTES)
    repeated = clone(estimator).set_params(cv=of_copies).fit(X[COPIES.rows], COPIES.z, COPIES.share)
    np.testing.assert_allclose(fit.held_out_proba_[COPIES.rows], repeated.held_out_proba_, rtol=0, atol=1e-10)
    assert fit.mechanism_weight_ == repeated.mechanism_weight_
    dealt = clone(estimator).fit(X, VOTES)
    assert dealt.held_out_proba_.shape == (len(X), 2)
    assert np.isfinite(dealt.held_out_proba_).all()


# What is refused


def test_votes_of_any_size_become_shares():
    y = np.array([[1.0, 3.0], [1e308, 1e308], [5e-324, 0.0], [0.0, 0.0], [np.nan, np.nan], [0.2, 0.8]])
    shares, classes = vote_shares(y)
    expected = [[0.25, 0.75], [0.5, 0.5], [1.0, 0.0], [0.0, 0.0], [0.0, 0.0], [0.2, 0.8]]
    np.testing.assert_allclose(shares, expected, rtol=1e-15)
    assert classes.tolist() == [0, 1]
    assert vote_shares(y.tolist())[0].tolist() == shares.tolist()
    assert vote_shares(np.ma.masked_invalid(y))[0].tolist() == shares.tolist()
    assert vote_shares(pd.DataFrame(y).convert_dtypes())[0].tolist() == shares.tolist()


def test_columns_of_annotators_become_counts_of_classes():
    table = pd.DataFrame({"ann": ["cat", None, "dog"], "bob": ["dog", np.nan, "dog"], "eve": ["cat", pd.NA, None]})
    counts, classes = votes(table)
    assert counts.tolist() == [[2, 1], [0, 0], [0, 2]]
    assert classes.tolist() == ["cat", "dog"]
    assert votes(table, ["dog", "cat"])[0].tolist() == [[1, 2], [0, 0], [2, 0]]
    numbers, classes = votes(np.array([[3, 7, -1], [-1, -1, -1]]))
    assert numbers.tolist() == [[1, 1], [0, 0]]
    assert classes.tolist() == [3, 7]
    with pytest.raises(ValueError, match="'owl', which is not among the classes"):
        votes([["cat", "owl"], ["dog", None]], ["cat", "dog"])


# Averages of candidates, and scores


def candidates():
    return {
        "modelled": MARGaussianMixture(),
        "ignored": MARGaussianMixture(mechanism_weight=0.0),
        "logistic": MARLogisticRegression(),
    }


def test_the_average_is_that_of_the_copies():
    folds = [np.arange(k, len(X), 3) for k in range(3)]
    of_copies = [(np.empty(0, int), np.flatnonzero(np.isin(COPIES.rows, test))) for test in folds]
    options = {"estimators": candidates() | {"labels": LogisticRegression(), "no weights": KNeighborsClassifier()}}
    fit = MARClassifierCV(**options, cv=[(np.empty(0, int), test) for test in folds]).fit(X, VOTES)
    repeated = MARClassifierCV(**options, cv=of_copies).fit(X[COPIES.rows], COPIES.z, COPIES.share)
    for name in [*candidates(), "labels"]:
        of_rows, of_all = fit.estimators_[name].predict_proba(X), repeated.estimators_[name].predict_proba(X)
        np.testing.assert_allclose(of_rows, of_all, rtol=0, atol=1e-6)
    assert fit.results_["plain_log_loss"][0] == pytest.approx(
        np.average(
            -np.log(_held_out(candidates()["modelled"], folds)[COPIES.rows, COPIES.z])[COPIES.z >= 0],
            weights=COPIES.share[COPIES.z >= 0],
        ),
        rel=1e-6,
    )
    tied = VOTES[:, 0] == VOTES[:, 1]
    expected = np.where(tied, fit.predict(X), VOTES.argmax(axis=1))
    np.testing.assert_array_equal(fit.transduction_, expected)


def test_the_evidence_of_votes_is_that_of_copies_and_counts_a_row_once():
    rng = np.random.default_rng(0)
    counts, v = rng.uniform(0.5, 2.0, size=len(X)), rng.normal(size=len(X))
    proba = MARGaussianMixture().fit(X, VOTES).predict_proba(X)
    shares, rows = vote_shares(VOTES)[0], COPIES.rows
    evidence = Evidence(shares, counts, v)
    of_copies = Evidence(COPIES.z, COPIES.share * counts[rows], v[rows])
    np.testing.assert_allclose(evidence.losses(proba), of_copies.losses(proba[rows]), rtol=1e-9)
    assert evidence.gain(proba) == pytest.approx(of_copies.gain(proba[rows]) * len(X) / len(rows), rel=1e-6)
    q = evidence.missing_proba(proba, evidence.mechanism(proba))
    np.testing.assert_allclose(
        q[rows], of_copies.missing_proba(proba[rows], of_copies.mechanism(proba[rows])), rtol=1e-6
    )


def _held_out(estimator, folds):
    proba = np.empty((len(X), 2))
    for test in folds:
        train = np.delete(np.arange(len(X)), test)
        proba[test] = clone(estimator).fit(X[train], VOTES[train]).predict_proba(X[test])
    return proba


@pytest.mark.parametrize("score", [log_loss, brier, accuracy, roc_auc])
@pytest.mark.parametrize("robust", [False, True])
def test_scores_of_votes_are_those_of_weighted_copies(score, robust):
    fit = MARGaussianMixture().fit(X, VOTES)
    proba, q = fit.predict_proba(X), fit.missing_proba(X)
    result = score(VOTES, proba, q, classes=[0, 1], posterior=proba if robust else None)
    shares = vote_shares(VOTES)[0]
    r, _, _ = pseudo_labels(shares, q, proba if robust else None)
    if score is roc_auc:
        value = roc_auc_score(np.repeat([0, 1], len(X)), np.tile(proba[:, 1], 2), sample_weight=np.abs(r.T.ravel()))
        if robust:
            return  # scikit-learn has no negative weights
    else:
        losses = {
            log_loss: -np.log(proba),
            brier: (1.0 - proba) ** 2,
            accuracy: (proba == proba.max(axis=1, keepdims=True)).astype(float),
        }[score]
        value = (r * losses).sum() / r.sum()
        influence = ((r * losses).sum(axis=1) - value * r.sum(axis=1)) / r.sum()
        assert result.stderr == pytest.approx(np.sqrt((influence**2).sum()), rel=1e-10)  # one term a row, not a vote
    assert result.value == pytest.approx(value, rel=1e-10)
    assert result.n_labelled == VOTES.any(axis=1).sum()
    table = pd.DataFrame(VOTES, columns=["a", "b"])[["b", "a"]]
    assert score(table, proba, q, classes=["a", "b"], posterior=proba if robust else None) == result


def test_splitters_checks_and_scorers_take_votes():
    z = np.where(VOTES.any(axis=1), VOTES.argmax(axis=1), -1)
    for splitter in (PartialLabelKFold(4), StratifiedPartialLabelKFold(4)):
        for by_vote, by_label in zip(splitter.split(X, VOTES), splitter.split(X, z), strict=True):
            np.testing.assert_array_equal(by_vote[1], by_label[1])
    fit = MARGaussianMixture().fit(X, VOTES)
    q, u = fit.missing_proba(X), fit.uncertainty(X)
    assert str(missingness_check(VOTES, q, u)) == str(missingness_check(z, q, u))
    scorer = population_scorer("log_loss")
    assert scorer(fit, X, VOTES) == -log_loss(VOTES, fit.predict_proba(X), q, classes=[0, 1]).value


# Files


def of_columns(columns, **options):
    return labels_of(Table(Path("rows.csv"), pa.table(columns)), None, **options or {"shares": list(columns)})


def test_columns_of_annotators_and_columns_of_shares_are_the_same_votes():
    rng = np.random.default_rng(0)
    labels = rng.choice(["10", "9", "", "NA"], size=(50, 3), p=[0.4, 0.3, 0.2, 0.1])
    by_vote = of_columns({name: labels[:, i] for i, name in enumerate("abc")}, votes=["a", "b", "c"])
    by_share = of_columns({name: (labels == name).sum(axis=1) for name in ("9", "10")})
    np.testing.assert_array_equal(by_vote.shares, by_share.shares)
    np.testing.assert_array_equal(by_vote.codes, by_share.codes)
    assert by_vote.classes.tolist() == by_share.classes.tolist() == [9, 10]
    np.testing.assert_array_equal(by_vote.codes < 0, ~np.isin(labels, ["9", "10"]).any(axis=1))


def test_shares_count_the_texts_of_missing_cells():
    cells = {"a": ["1", "NA", " ", "0", "?"], "b": [1.0, None, float("nan"), 1.0, None]}
    labels = of_columns(cells, shares=["a", "b"], missing=["?"])
    assert labels.marks == {"NA": 1, "": 3, "nan": 1, "?": 1}
    assert labels.notes() == ["Missing labels: '?' in 1 cell, 'NA' in 1, 'nan' in 1, empty in 3."]


def test_marmix_fit_takes_votes(tmp_path, monkeypatch):
    monkeypatch.setattr("marmix.app.analyse.candidates_of", lambda *args: candidates())
    monkeypatch.setattr(
        "marmix.selection.comparison.default_rivals", lambda *args: {"logistic regression": LogisticRegression()}
    )
    monkeypatch.setattr("marmix.app.analyse.figures", lambda subject: ([], {}))
    table = pd.DataFrame(X[:80], columns=["u", "v"])
    for i in range(3):  # two annotators share the votes of odd numbers
        table[f"reader {i}"] = np.where(VOTES[:80, 1] > i, "ill", np.where(VOTES[:80, 0] > i, "well", ""))
    table.to_csv(tmp_path / "rows.csv", index=False)
    readers = [f"reader {i}" for i in range(3)]
    options = Options(tmp_path / "rows.csv", out=tmp_path / "out", votes=readers)
    findings = fit_file(options, Progress(quiet=True))
    counts, _ = votes(table[readers].replace("", None))
    voted, divided = counts.any(axis=1), (counts > 0).sum(axis=1) > 1
    facts = findings.labels.votes
    assert (facts.rows, facts.divided) == (voted.sum(), divided.sum())
    assert facts.without_majority == np.sum(voted & (2 * counts.max(axis=1) <= counts.sum(axis=1)))
    written = pd.read_csv(tmp_path / "out" / "imputed.csv")
    assert findings.data.features == ["u", "v"]
    np.testing.assert_array_equal(written["marmix_source"] == "given", voted)
    assert json.loads((tmp_path / "out" / "summary.json").read_text(encoding="utf-8"))["labels"]["votes"] == vars(facts)
    table[["ill", "well"]] = counts  # the same votes as counts of the classes
    table.to_csv(tmp_path / "rows.csv", index=False)
    by_vote, by_share = (
        evaluate_file(Request(tmp_path / "out" / "model.marmix", tmp_path / "rows.csv", **given), Progress(quiet=True))
        for given in ({"votes": readers}, {"shares": ["well", "ill"]})
    )
    assert replace(by_vote, notes=by_share.notes) == by_share
    assert by_vote.labelled == voted.sum()
