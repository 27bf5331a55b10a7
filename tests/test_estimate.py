"""Answers from partially labelled rows."""

import json

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from marmix import Audit, MARClassifierCV, MARGaussianMixture, MARLogisticRegression, diagnose, estimate
from marmix.cli import main
from marmix.datasets import make_mar_mixture


def rows(n=400, seed=0, hidden=0.6):
    """Features, true labels, labels, and their posteriors; labels are missing because of a feature."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.standard_normal((n, 2)), rng.random(n) < 0.5])
    tau = expit(X @ [1.5, 0.7, 0.5] - 0.5)
    truth = (rng.random(n) < tau).astype(int)
    missing = rng.random(n) < expit(np.log(hidden / (1 - hidden)) + X[:, 0])
    return X, truth, np.where(missing, -1, truth), np.column_stack([1 - tau, tau])


def audited(X, y, truth, n):
    clf = MARLogisticRegression().fit(X, y)
    audit = Audit(clf, X, y, n)
    return audit.record(truth[audit.rows])


def test_with_all_labels_the_answers_are_the_plain_ones():
    X, truth, _, proba = rows()
    answer = estimate.share(proba, X, truth)
    p = truth.mean()
    assert_allclose((answer.value, answer.stderr), (p, np.sqrt(p * (1 - p) / len(truth))))
    assert answer.n_effective == pytest.approx(len(truth))
    cost = estimate.mean(proba, X, truth, lambda label, X: label * X[:, 0])
    assert_allclose(
        (cost.value, cost.stderr), (np.mean(truth * X[:, 0]), np.std(truth * X[:, 0]) / np.sqrt(len(truth)))
    )


@pytest.mark.parametrize("family", ["logistic", "linear", "poisson"])
def test_with_all_labels_a_regression_is_that_of_statsmodels(family):
    sm = pytest.importorskip("statsmodels.api")
    X, truth, y, proba = rows()
    kinds = {"logistic": sm.families.Binomial(), "linear": sm.families.Gaussian(), "poisson": sm.families.Poisson()}
    want = sm.GLM(truth, sm.add_constant(X), family=kinds[family]).fit(cov_type="HC0")
    for source, labels in ((proba, truth), (audited(X, y, truth, len(y)), y)):  # an audit of every row is as good
        answer = estimate.regression(source, X, labels, [0, 1, 2], family)
        assert_allclose(answer.value, want.params, rtol=1e-6)
        assert_allclose(answer.stderr, want.bse, rtol=1e-4)


def test_a_label_may_be_a_covariate():
    sm = pytest.importorskip("statsmodels.api")
    X, truth, _, proba = rows()
    want = sm.OLS(X[:, 0], np.column_stack([np.ones(len(X)), X[:, 1], truth])).fit(cov_type="HC0")
    answer = estimate.regression(proba, X, truth, [1], "linear", response=X[:, 0])
    assert answer.names == ["intercept", "x1", "label=1"]
    assert_allclose(answer.value, want.params)
    assert_allclose(answer.stderr, want.bse)


def test_an_audit_of_every_row_leaves_nothing_open():
    X, truth, y, _ = rows()
    result = audited(X, y, truth, len(y))
    for answer in (
        estimate.share(result, X, y, finite=True),
        estimate.mean(result, X, y, {0: 0.0, 1: 1.0}, finite=True),
    ):
        assert_allclose(answer.interval, truth.mean())
    means = [truth[X[:, 2] == group].mean() for group in (0, 1)]
    assert_allclose(estimate.difference(result, X, y, X[:, 2], finite=True).interval, means[1] - means[0])
    assert estimate.share(result, X, y).interval[0] < truth.mean() < estimate.share(result, X, y).interval[1]


def test_an_audit_gives_the_difference_estimator():
    X, truth, y, _ = rows()
    result = audited(X, y, truth, 40)
    drawn, f = result.drawn, np.exp(X[:, 1])
    expected = f * np.where(y < 0, drawn.proba[:, 1], y)
    for h in range(drawn.strata.max() + 1):
        seen = drawn.rows[drawn.strata[drawn.rows] == h]
        expected[seen] += np.sum(drawn.strata == h) / len(seen) * f[seen] * (truth[seen] - drawn.proba[seen, 1])
    answer = estimate.mean(result, X, y, lambda label, X: label * np.exp(X[:, 1]))
    assert_allclose(answer.value, expected.mean())


def test_a_share_of_an_audit_is_that_of_its_stratified_sample():
    X, truth, y, _ = rows()
    result = audited(X, y, truth, 60)
    drawn, value, variance = result.drawn, np.sum(y == 1), 0.0
    for h in range(drawn.strata.max() + 1):
        seen, N = truth[drawn.rows[drawn.strata[drawn.rows] == h]], np.sum(drawn.strata == h)
        value += N * seen.mean()
        variance += N**2 * (1 - len(seen) / N) * seen.var() / len(seen)
    answer = estimate.share(result, X, y, finite=True)
    assert_allclose(answer.value, value / len(y))
    assert_allclose(answer.stderr, np.sqrt(variance) / len(y), rtol=0.1)  # two rows more, drawn by lot


def test_rows_that_nobody_could_tell_count_either_way_in_a_share():
    X, truth, y, _ = rows()
    clf, results = MARLogisticRegression().fit(X, y), []
    for untold in (np.nan, 0.0, 1.0):
        audit = Audit(clf, X, y, 40)
        labels = truth[audit.rows].astype(float)
        labels[:8] = untold
        results.append(audit.record(labels))
    unsure, none, all_of_them = (estimate.share(result, X, y, finite=True) for result in results)
    assert_allclose(unsure.interval, [none.interval[0], all_of_them.interval[1]])
    assert "None" in unsure.assumption
    assert "nobody could tell" in estimate.mean(results[0], X, y, {0: 0.0, 1: 1.0}).assumption


def test_a_p_value_is_below_a_twentieth_if_the_interval_is_without_zero():
    for seed in range(20):
        X, truth, y, proba = rows(150, seed)
        for source in (audited(X, y, truth, 20), proba):
            answer = estimate.regression(source, X, y, [0, 1, 2])
            excludes = (answer.limits[:, 0] > 0) | (answer.limits[:, 1] < 0)
            assert_allclose(answer.tests[1] < 0.05, excludes)


def test_shares_of_the_two_classes_mirror_each_other():
    X, truth, y, proba = rows()
    for source in (proba, audited(X, y, truth, 40)):
        one, other = (estimate.share(source, X, y, of=k) for k in (1, 0))
        assert_allclose(one.value, 1 - other.value)
        assert_allclose(one.interval, 1 - np.array(other.interval)[::-1])
    flipped = np.where(y < 0, -1, 1 - y)
    assert_allclose(
        estimate.share(proba[:, ::-1], X, flipped, of=0).interval, estimate.share(proba, X, y).interval, rtol=1e-4
    )


def test_a_difference_is_a_linear_regression_on_the_group():
    X, truth, y, proba = rows()
    for source in (proba, audited(X, y, truth, 40)):
        difference, slope = estimate.difference(source, X, y, X[:, 2]), estimate.regression(source, X, y, 2, "linear")
        assert_allclose(difference.value, slope.value[1])
        assert_allclose(difference.interval, slope.interval[1])


def test_intervals_cover_where_those_of_labelled_rows_do_not():
    covered = []
    for seed in range(30):
        X, _, y, proba = rows(seed=seed)
        known = y[y >= 0]
        half = 1.96 * known.std() / np.sqrt(len(known))
        low, high = estimate.share(proba, X, y).interval
        covered.append((low < 0.4587 < high, abs(known.mean() - 0.4587) < half))  # the share in two million such rows
    right, naive = np.sum(covered, axis=0)
    assert right >= 26
    assert naive < 15


def test_columns_are_named_or_given():
    X, _, y, proba = rows()
    frame = pd.DataFrame({"age": X[:, 0], "sex": np.where(X[:, 2] > 0, "m", "f")})
    by_name = estimate.regression(proba, frame, y, ["age", "sex"])
    assert by_name.names == ["intercept", "age", "sex=m"]
    for given in (frame, {"age": X[:, 0], "sex": frame["sex"]}, [0, 1], X[:, [0, 2]]):
        assert_allclose(estimate.regression(proba, frame, y, given).value, by_name.value)
    by_name = estimate.difference(proba, frame, y, "sex")
    for groups in (1, frame["sex"], X[:, 2], list(X[:, 2] > 0)):
        assert_allclose(estimate.difference(proba, frame, y, groups).value, by_name.value)


def test_tables_of_pyarrow_are_read_as_those_of_pandas():
    pa = pytest.importorskip("pyarrow")
    X, _, y, proba = rows()
    frame = pd.DataFrame({"age": X[:, 0], "sex": np.where(X[:, 2] > 0, "m", "f")})
    arrow, other = pa.Table.from_pandas(frame), X[:, 1:2]
    for covariates, same in (([0, "sex"], [0, "sex"]), (frame, arrow), (other, pa.table({"x0": X[:, 1]}))):
        want, got = (
            estimate.regression(proba, table, y, given) for table, given in ((frame, covariates), (arrow, same))
        )
        assert got.names == want.names
        assert_allclose(got.value, want.value)
    assert_allclose(*(estimate.difference(proba, table, y, 1).value for table in (frame, arrow)))


def test_every_kind_of_classifier_is_a_source():
    data = make_mar_mixture(200, random_state=0)
    X, y = data.data, data.target
    candidates = {"mixture": MARGaussianMixture(), "logistic": MARLogisticRegression(link=None)}
    for clf in (
        MARLogisticRegression(),
        make_pipeline(StandardScaler(), MARGaussianMixture()),
        MARClassifierCV(estimators=candidates, cv=3),
    ):
        answer = estimate.share(clf.fit(X, y), X, y)
        assert answer.interval[0] < data.target_true.mean() < answer.interval[1]
        assert 0 < answer.n_effective < 200
        assert "features" in str(answer)
    with pytest.raises(ValueError, match="not the rows of the fit"):
        estimate.share(clf, X[::-1], y[::-1])
    alone, single = (clf.fit(X, y) for clf in (Pipeline([("only", MARLogisticRegression())]), MARLogisticRegression()))
    assert estimate.share(alone, X, y).value == estimate.share(single, X, y).value


def test_begg_and_greenes_by_hand():
    # 100 positive tests, 80 with a gold standard, 60 of them diseased; 900 negative tests, 90 with one, 9 diseased
    test = np.repeat([1, 0], [100, 900])
    y = np.repeat([1, 0, -1, 1, 0, -1], [60, 20, 20, 9, 81, 810])
    result = diagnose(test, y)
    positive, negative = 100 * 60 / 80, 900 * 9 / 90  # diseased
    sensitivity, specificity = positive / (positive + negative), (900 - negative) / (1000 - positive - negative)
    want = {
        "prevalence": (positive + negative) / 1000,
        "sensitivity": sensitivity,
        "specificity": specificity,
        "PPV": 60 / 80,
        "NPV": 81 / 90,
        "LR+": sensitivity / (1 - specificity),
        "LR-": (1 - sensitivity) / specificity,
        "AUC": 0.5 * (sensitivity + specificity),
    }
    for name, value in want.items():
        assert_allclose(result[name].value, value)
        assert result[name].low < value < result[name].high
    naive = dict(zip(result.naive.names, result.naive.values, strict=True))
    assert_allclose([naive["sensitivity"], naive["specificity"]], [60 / 69, 81 / 101])
    by_models = diagnose(test, y, X=np.zeros((1000, 1)))["sensitivity"]  # a feature that says nothing
    assert by_models.low < sensitivity < by_models.high


def test_with_all_labels_a_diagnosis_is_the_plain_one():
    X, truth, _, _ = rows()
    result = diagnose(X[:, 0], truth, threshold=0.0)
    assert_allclose(result["AUC"].value, roc_auc_score(truth, X[:, 0]))
    assert_allclose(result["sensitivity"].value, np.mean(X[truth == 1, 0] >= 0))
    assert_allclose(np.trapezoid(result.tpr, result.fpr), result["AUC"].value)
    assert_allclose(result.corrected.limits, result.naive.limits)


@pytest.mark.parametrize(("verified", "least"), [(1.0, 0.93), (0.5, 0.91)])
def test_intervals_of_a_good_test_cover(verified, least):
    rng, covered = np.random.default_rng(0), []
    truth = {"sensitivity": 0.9, "specificity": 0.95, "PPV": 0.18 / 0.22, "NPV": 0.76 / 0.78, "LR-": 0.1 / 0.95}
    for _ in range(200):
        sick = rng.random(60) < 0.2
        test = rng.random(60) < np.where(sick, 0.9, 0.05)
        seen = test | (rng.random(60) < verified)
        result = diagnose(test, np.where(seen, sick, -1))
        covered.append([result[name].low <= value <= result[name].high for name, value in truth.items()])
    assert np.mean(covered, axis=0).min() > least


@pytest.mark.parametrize("rest", [0, 10])
def test_a_perfect_or_useless_test_is_not_known_to_be_so(rest):
    labels = [*[1] * 10, *[0] * 10, *[-1] * rest]
    for test in ([1] * 10 + [0] * (10 + rest), [0] * 10 + [1] * (10 + rest)):
        result = diagnose(test, labels)
        for answer in (result.corrected, result.naive):
            low, high = answer.limits.T
            assert (high > low + 0.1).all()
            assert ((low <= answer.values) & (answer.values <= high)).all()
    exact = diagnose(labels[:20], labels[:20])
    assert_allclose([exact[name][:2] for name in ("sensitivity", "NPV")], [[1.0, 0.025**0.1]] * 2)
    assert "missing because" not in str(exact)


def test_a_diagnosis_takes_the_design_of_a_source():
    X, truth, y, _ = rows(2000)
    result = audited(X, y, truth, 200)
    for design in ({"source": result}, {"X": X}):
        area = diagnose(X[:, 1], y, **{"X": X} | design)["AUC"]
        assert area.low < roc_auc_score(truth, X[:, 1]) < area.high
        assert area.high - area.low < 0.2


def test_the_program_judges_a_column_without_a_model(tmp_path, capsys):
    lines = ["test,disease", *["pos,sick"] * 60, *["pos,well"] * 20, *["pos,"] * 20]
    lines += [*["neg,sick"] * 9, *["neg,well"] * 81, *["neg,"] * 810]
    file = tmp_path / "patients.csv"
    file.write_text("\n".join(lines))
    words = ["evaluate", str(file), "--label", "disease", "--score", "test", "--class"]
    found = []
    for name in ("sick", "well"):
        assert main([*words, name, "--json"]) == 0
        found.append(json.loads(capsys.readouterr().out)["quantities"])
    assert found[0]["sensitivity"]["value"] == pytest.approx(75 / 165)
    assert found[1]["sensitivity"]["value"] == pytest.approx(1 - found[0]["specificity"]["value"])
    assert main([*words, "well", "--features", "disease"]) == 1
    assert "score" in capsys.readouterr().err
    for option in (["--threshold", "0.3"], ["--features", "x"], ["--class", "well"]):  # of a column, not of a model
        assert main(["evaluate", "model.marmix", "rows.csv", *option]) == 1
        assert option[0] in capsys.readouterr().err


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda X, y, p: estimate.share(p, X, y, of=7), "7 is not one of the classes"),
        (lambda X, y, p: estimate.share(p, X, y, finite=True), "needs an audit"),
        (lambda X, y, p: estimate.share(p, X, np.full(len(y), -1)), "no label"),
        (lambda X, y, p: estimate.mean(p, X, y, {0: 1.0}), "a number for each of the classes"),
        (lambda X, y, p: estimate.difference(p, X, y, np.zeros(len(y))), "single group"),
        (lambda X, y, p: estimate.difference(p, X, y, [None, *X[1:, 2]]), "missing values"),
        (lambda X, y, p: estimate.difference(p, X, y, 7), "no column 7"),
        (lambda X, y, p: estimate.share(p, X, y[:50]), "one label for each row"),
        (lambda X, y, p: estimate.share(None, X, y), "source must be"),
        (lambda X, y, p: estimate.share(MARLogisticRegression(), X, y), "not fitted"),
        (lambda X, y, p: estimate.regression(p, X, y, X[:, [0, 0]]), "do not determine"),
        (lambda X, y, p: estimate.regression(p, X, y, [0], "probit"), "is not one of"),
        (lambda X, y, p: estimate.regression(p, X, y, [0], response=X[:, 1]), "transform it"),
        (lambda X, y, p: estimate.share(p, X, y, of=[]), "of= is empty"),
        (lambda X, y, p: estimate.difference(p, X, y, X[:, 2], of=1, value={0: 0, 1: 1}), "one of them"),
        (lambda X, y, p: diagnose(X[:, 0], y, source=p), "source needs X"),
        (lambda X, y, p: diagnose(X[:, 0] * np.nan, y), "finite numbers"),
        (lambda X, y, p: diagnose(X[:, 0] * 0, y), "the same in all rows"),
        (lambda X, y, p: diagnose(X[:9, 0], y), "one for each row"),
        (lambda X, y, p: diagnose(y >= 0, y), "nothing is known"),
    ],
)
def test_bad_input(call, message):
    X, _, y, proba = rows(100)
    with pytest.raises(ValueError, match=message):
        call(X, y, proba)


def test_labels_of_the_audit_are_not_given_twice():
    X, truth, y, _ = rows()
    result = audited(X, y, truth, 40)
    with pytest.raises(ValueError, match="without those that it found"):
        estimate.share(result, X, truth)
