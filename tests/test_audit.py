"""The audit: its draw, its intervals, what it learns, and what it refuses."""

import json
from itertools import product

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import hypergeom
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from marmix import Audit, LabelledRows, MARClassifierCV, MARGaussianMixture
from marmix.audit.draw import draw, strata_of
from marmix.audit.intervals import Sample, ratio, total
from marmix.audit.learning import _OFFSET, _SLOPE, Models, learn
from marmix.datasets import make_mar_mixture


class Says:
    """A classifier whose probabilities are the features."""

    def __init__(self, classes):
        self.classes_ = np.array(list(classes))

    def predict_proba(self, X):
        return np.asarray(X)


def rows(n=400, labelled=50, classes="abc", seed=0):
    """Probabilities, labels of which only the first are known, and all labels."""
    rng = np.random.default_rng(seed)
    proba = rng.dirichlet(np.full(len(classes), 0.5), n)
    truth = np.array(list(classes))[(rng.random((n, 1)) > proba.cumsum(axis=1)[:, :-1]).sum(axis=1)]
    y = truth.astype(object)
    y[labelled:] = None
    return proba, y, truth


def sample(N, n, x, u=None):
    return Sample(*(np.array(column) for column in (N, n, x, [0] * len(N) if u is None else u)))


def numbers(result):
    """Every number of a result, by class name."""
    classes = {name: tuple(np.ravel(one)) for name, one in result.classes.items()}
    return (*result.wrong, *result.accuracy, *result.remaining, result.no_change), classes


# the draw


@pytest.mark.parametrize(
    ("sizes", "n"), [((500, 300, 5), 30), ((10, 10, 10, 10, 10, 500), 100), ((40,), 5), ((3, 0, 2), 4)]
)
def test_strata_are_few_have_eight_rows_or_more_and_rows_in_proportion(sizes, n):
    predicted = np.repeat(np.arange(len(sizes)), sizes)
    strata = strata_of(predicted, len(sizes), n)[predicted]
    chosen = draw(strata, np.empty(0, dtype=int), n, np.random.default_rng(0))
    sizes, drawn = np.bincount(strata), np.bincount(strata[chosen], minlength=strata.max() + 1)
    assert len(set(chosen)) == n
    assert len(sizes) == 1 or (len(sizes) <= 4 and drawn.min() >= 8)
    for k in range(1, n + 1):  # however many are labelled
        assert np.abs(np.bincount(strata[chosen[:k]], minlength=len(sizes)) - k * sizes / sizes.sum()).max() < 1.5


def test_every_row_of_a_stratum_is_drawn_equally_often():
    strata, n_draws = np.repeat([0, 1], [12, 30]), 2000
    times = np.zeros(len(strata))
    for seed in range(n_draws):
        rng = np.random.default_rng(seed)
        first = draw(strata, np.empty(0, dtype=int), 9, rng)
        times[np.concatenate([first, draw(strata, first, 5, rng)])] += 1
    for h in (0, 1):
        share = times[strata == h].mean() / n_draws
        assert np.abs(times[strata == h] / n_draws - share).max() < 4.5 * np.sqrt(share * (1 - share) / n_draws)


# intervals


def test_in_one_stratum_the_interval_is_the_exact_hypergeometric_one():
    N, n, m = 40, 9, np.arange(41)
    for x in range(n + 1):
        one = total(sample([N], [n], [x]))
        assert one.low == m[hypergeom.sf(x - 1, N, m, n) > 0.025].min()
        assert one.high == m[hypergeom.cdf(x, N, m, n) > 0.025].max()


@pytest.mark.parametrize("sequence", [False, True])
@pytest.mark.parametrize(("N", "n"), [((14, 9), (8, 5)), ((30, 6), (9, 4)), ((25,), (8,))])
def test_intervals_cover_by_enumeration(N, n, sequence):
    outcomes = list(product(*(range(k + 1) for k in n)))
    limits = np.array([total(sample(N, n, x), sequence)[1:] for x in outcomes])
    for m in product(*(range(size + 1) for size in N)):
        chance = np.prod(
            [hypergeom.pmf(column, *args) for column, *args in zip(np.transpose(outcomes), N, m, n, strict=True)],
            axis=0,
        )
        assert chance @ ((limits[:, 0] <= sum(m)) & (sum(m) <= limits[:, 1])) >= 0.95


@pytest.mark.parametrize("N", [(14,), (6, 5)])
def test_the_sequence_covers_at_all_looks_at_once(N):
    looks = [[(k + len(N) - 1 - h) // len(N) for h in range(len(N))] for k in range(1, sum(N) + 1)]
    limits = {}
    for n in looks:
        for x in product(*(range(k + 1) for k in n)):
            limits[*n, *x] = total(sample(N, n, x), sequence=True)[1:]
    for m in product(*(range(0, size + 1, 2) for size in N)):
        paths, before = {(0,) * len(N): 1.0}, [0] * len(N)  # chances of the counts, never outside so far
        for n in looks:
            for h in [h for h in range(len(N)) if n[h] > before[h]]:
                after = {}
                for x, chance in paths.items():
                    wrong = (m[h] - x[h]) / (N[h] - before[h])
                    for one, p in ((0, 1 - wrong), (1, wrong)):
                        y = (*x[:h], x[h] + one, *x[h + 1 :])
                        after[y] = after.get(y, 0.0) + chance * p
                paths = after
            before = n
            paths = {x: p for x, p in paths.items() if p > 0 and limits[*n, *x][0] <= sum(m) <= limits[*n, *x][1]}
        assert sum(paths.values()) >= 0.95


@pytest.mark.parametrize("sequence", [False, True])
def test_rows_without_the_attribute_mirror_those_with_it_and_more_unknown_rows_widen(sequence):
    one = sample((300, 80), (20, 9), (3, 1), (2, 0))
    here, there = total(one, sequence), total(one.others, sequence)
    np.testing.assert_allclose([380 - there.value, 380 - there.high, 380 - there.low], here)
    right, wrong = (
        total(one._replace(u=np.zeros(2, int)), sequence),
        total(one._replace(x=one.x + one.u, u=np.zeros(2, int)), sequence),
    )
    assert (here.low, here.high) == (right.low, wrong.high)
    there, here = ratio(one, one.others, sequence), ratio(one.others, one, sequence)
    np.testing.assert_allclose(np.subtract(1.0, [there.value, there.high, there.low]), here, atol=1e-9)


def test_a_ratio_is_the_quantile_of_draws():
    part, rest, rng = sample([200], [30], [20]), sample([300, 50], [25, 9], [4, 1]), np.random.default_rng(0)

    def positions(N, n, x):  # the x-th smallest of n numbers
        return np.sort(rng.random((20000, N)).argsort(axis=1)[:, :n] + 1, axis=1)[:, x - 1]

    w = positions(200, 30, 20)
    v = positions(300, 25, 5) + positions(50, 9, 2) - 2
    one = ratio(part, rest)
    assert np.mean(w / (w + v) <= one.low) == pytest.approx(0.025, abs=0.006)
    assert one.low < 133.3 / (133.3 + 48 + 5.6) < one.high


def test_of_many_rows_limits_are_those_of_fewer_in_proportion_and_on_the_safe_side():
    few, many = (total(sample((N, N), (40, 30), (9, 0))) for N in (60_000, 600_000))
    assert few.low / 60_000 == pytest.approx(many.low / 600_000, abs=2e-3)
    assert many.low % 10 == 0  # ten rows are a step
    assert few.high / 60_000 == pytest.approx(many.high / 600_000, abs=2e-3)


# learning


@pytest.mark.parametrize("K", [2, 4])
def test_derivatives_agree_with_differences(K):
    rng = np.random.default_rng(1)
    proba, labels = rng.dirichlet(np.ones(K), 12), np.eye(K)[rng.integers(K, size=12)]
    labels[3] = 0.0
    labels[4] = 1.0 / K
    models = Models(np.log(proba), labels, rng.integers(2, size=(3, 1, 12)).astype(float), _OFFSET, _SLOPE)
    c = 0.3 * rng.standard_normal((3, 4, K + 1))
    gradient, hessian = models.derivatives(c)
    for j, step in enumerate(1e-5 * np.eye(K + 1)):
        slope = (models.value(c + step) - models.value(c - step)) / 2e-5
        curve = (models.derivatives(c + step)[0] - models.derivatives(c - step)[0]) / 2e-5
        np.testing.assert_allclose(gradient[..., j], slope, atol=1e-8)
        np.testing.assert_allclose(-hessian[..., j], curve, atol=1e-8)


def test_two_classes_have_the_evidence_of_one_offset_and_one_slope():
    rng = np.random.default_rng(2)
    p, y = rng.random(15), rng.integers(2, size=15)
    weights = learn(np.c_[1 - p, p], np.eye(2)[y])[0].weights
    o = np.log(p) - np.log1p(-p)
    b, a = np.meshgrid(np.linspace(-16, 16, 800), np.linspace(-3.5, 3.5, 201), indexing="ij")
    logit = o + b[..., None] + 0.5 * a[..., None] * o
    loglik = -np.logaddexp(0.0, np.where(y, -logit, logit)).sum(axis=-1)
    exact = [4 * np.exp(-np.logaddexp(0.0, np.where(y, -o, o)).sum())]
    for sb, sa in zip(_OFFSET, _SLOPE, strict=True):
        prior = np.exp(-0.5 * (b / sb) ** 2) * (np.abs(a) < 0.0175 if sa == 0 else np.exp(-0.5 * (a / sa) ** 2))
        exact.append(np.sum(prior * np.exp(loglik)) / prior.sum())
    np.testing.assert_allclose(weights, np.array(exact) / sum(exact), atol=0.02)


def test_held_out_posteriors_are_those_of_a_fit_without_the_tenth():
    proba, _, truth = rows(23)
    labels = (truth[:, None] == list("abc")).astype(float)
    out, fold = learn(proba, labels)[1], np.arange(23) % 10
    for f in (0, 7):
        expected = learn(proba[fold != f], labels[fold != f])[0](proba[fold == f])
        np.testing.assert_allclose(out[fold == f], expected, atol=1e-9)


# audits


class Curve(ClassifierMixin, BaseEstimator):
    """P(1 | x) = expit(2 |x|) where x > 0 if up, and its mirror if not; the same for both elsewhere."""

    def __init__(self, up=True):
        self.up = up

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        p = expit(np.where((X[:, 0] > 0) & ~np.array(self.up), -2.0, 2.0) * np.abs(X[:, 0]))
        return np.column_stack([1.0 - p, p])


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_weights_of_an_average_follow_the_audited_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 1))
    truth = (rng.random(600) < Curve().fit(X, [0, 1]).predict_proba(X)[:, 1]).astype(int)
    y = np.where((X[:, 0] > 0) | (rng.random(600) < 0.5), -1, truth)  # where labels are, the candidates agree
    pair = {name: Pipeline([("same", "passthrough"), ("curve", Curve(name == "up"))]) for name in ("up", "down")}
    clf = MARClassifierCV(estimators=pair, cv=2).fit(X, y)
    audit = Audit(clf, X, y, n=100)
    result = audit.record(truth[audit.rows])
    assert clf.weights_["up"] == pytest.approx(0.5, abs=1e-3)
    assert result.classifier.estimator.weights_["up"] > 0.85
    assert np.mean(result.transduction == truth) > np.mean(clf.transduction_ == truth) + 0.1
    few = Audit(clf, X, y, n=5)
    assert few.record(truth[few.rows]).classifier.estimator.weights_["up"] < 0.65


def test_if_every_row_is_audited_everything_is_known():
    proba, y, truth = rows(90)
    audit = Audit(Says("abc"), proba, y, n=1000)
    result = audit.record(truth[audit.rows])
    imputed = np.array(list("abc"))[proba.argmax(axis=1)]
    wrong = (imputed != truth)[50:].sum()
    assert result.wrong == (wrong, wrong, wrong)
    assert result.remaining == (0, 0, 0)
    assert (result.transduction == truth).all()
    for name, one in result.classes.items():
        is_, said = truth[50:] == name, imputed[50:] == name
        np.testing.assert_allclose(
            one,
            [[x] * 3 for x in ((is_ & said).sum() / said.sum(), (is_ & said).sum() / is_.sum(), is_.mean())],
            atol=1e-8,
        )


@pytest.mark.parametrize("confidence", ["fixed", "sequence"])
def test_other_names_and_another_order_of_the_classes_permute_the_answer(confidence):
    proba, y, truth = rows()
    new, places = dict(zip("abc", "zxy", strict=True)), [1, 2, 0]
    first, second = (
        Audit(Says("abc"), proba, y, n=40, confidence=confidence),
        Audit(Says("xyz"), proba[:, places], [new.get(label) for label in y], n=40, confidence=confidence),
    )
    labels = {int(row): truth[row] for row in first.rows}
    second._drawn = first._drawn  # the same rows
    one, two = first.record(labels), second.record({row: new[label] for row, label in labels.items()})
    (a, by_class), (b, renamed) = numbers(one), numbers(two)
    np.testing.assert_allclose(a, b, atol=1e-9)
    for name in "abc":
        np.testing.assert_allclose(by_class[name], renamed[new[name]], atol=1e-9)
    assert [new[label] for label in one.transduction] == two.transduction.tolist()
    np.testing.assert_allclose(
        one.classifier.predict_proba(proba)[:, places], two.classifier.predict_proba(proba[:, places])
    )


@pytest.mark.parametrize("right", [True, False])
def test_all_right_and_all_wrong(right):
    proba, y, _ = rows(classes="ab")
    audit = Audit(Says("ab"), proba, y, n=50)
    said = proba[audit.rows].argmax(axis=1)
    result = audit.record(np.array(["a", "b"])[said if right else 1 - said])
    assert result.wrong.value == (0 if right else 350)
    assert 0.85 < (result.accuracy.low if right else 1 - result.accuracy.high) < 0.95
    assert result.contradicted is not right


def test_rows_of_which_nobody_can_tell_are_wrong_above_and_right_below():
    proba, y, truth = rows()
    labels, limits = truth.copy().astype(object), []
    for change in (None, "right", "wrong"):
        audit = Audit(Says("abc"), proba, y, n=40)
        said = np.array(list("abc"))[proba[audit.rows].argmax(axis=1)]
        given = labels[audit.rows]
        given[::9] = {None: None, "right": said[::9], "wrong": np.where(said == "a", "b", "a")[::9]}[change]
        limits.append(audit.record(given))
    unknown, right, wrong = limits
    assert (unknown.wrong.low, unknown.wrong.high) == (right.wrong.low, wrong.wrong.high)
    nothing = Audit(Says("abc"), proba, y, n=20).record([None] * 20)
    assert np.isnan(nothing.wrong.value)
    assert nothing.wrong[1:] == (0, 350)
    assert nothing.no_change == pytest.approx(0.5)
    assert nothing.verdict.state == "not verified"
    assert "nan" not in str(nothing)
    assert "contradict" not in str(nothing)
    assert nothing.remaining[1:] == (0, 350)  # they still have an imputed label
    assert (unknown.verdict.of, right.verdict.of) == (315, 310)


def test_a_class_that_is_never_imputed_has_no_precision():
    proba, y, truth = rows(classes="abc")
    proba = np.c_[proba[:, 0] + proba[:, 1] + 0.01, proba[:, 2] + 0.01, np.zeros(len(proba))] / 1.02
    audit = Audit(Says("abc"), proba, y, n=40)
    c = audit.record(truth[audit.rows]).classes["c"]
    assert np.isnan(c.precision.value)
    assert c.precision[1:] == (0, 1)
    assert c.recall == pytest.approx((0, 0, 0), abs=1e-8)
    assert c.share.low > 0.1


def test_a_class_of_which_no_row_is_found_is_not_verified():
    n = 1000
    proba = np.tile([0.98, 0.02], (n, 1))
    truth = np.where(np.arange(n) % 25, "a", "b")
    y = np.where(np.arange(n) < 50, truth, None)
    audit = Audit(Says("ab"), proba, y, n=200)
    result = audit.record(truth[audit.rows])
    assert set(result.transduction[50:][~np.isin(np.arange(50, n), audit.rows)]) == {"a"}
    assert result.remaining.high < 0.1 * (n - 250)
    assert result.learnt["b"].recall == pytest.approx((0, 0, 0), abs=1e-8)
    assert result.verdict.state == "not verified"
    assert "'b'" in result.verdict.reasons[0]


def test_votes_count_as_labels():
    proba, y, truth = rows()
    counts = (truth[:, None] == list("abc")) * 3 + np.eye(3, dtype=int)[0]
    votes = np.where((np.arange(len(y)) < 50)[:, None], counts, 0)
    audit, plain = Audit(Says("abc"), proba, votes), Audit(Says("abc"), proba, y)
    result = audit.record(counts[audit.rows])
    assert audit.rows.tolist() == plain.rows.tolist()
    assert result.wrong == plain.record(truth[audit.rows]).wrong
    assert (result.transduction[audit.rows] == truth[audit.rows]).all()
    assert (result.transduction[:50] == truth[:50]).all()


def test_more_rows_extend_the_plan_and_a_saved_plan_goes_on(tmp_path):
    proba, y, truth = rows()
    audit = Audit(Says("abc"), proba, y, n=30, random_state=5)
    first = audit.rows.tolist()
    audit.record(dict(zip(first[:20], truth[first[:20]], strict=True)))
    assert audit.pending.tolist() == first[20:]
    audit.save(tmp_path / "plan.json")
    again = Audit.load(tmp_path / "plan.json", Says("abc"), proba, y)
    for one in (audit, again):
        one.extend(10)
        assert one.rows.tolist()[:30] == first
        assert len(set(one.rows)) == 40
    assert again.rows.tolist() == audit.rows.tolist()
    results = [one.record(truth[one.pending]) for one in (audit, again)]
    assert str(results[0]) == str(results[1])
    assert results[0].n_audited == 40
    assert {"marmix", "seed", "rows", "strata", "predictions"} <= json.loads(
        (tmp_path / "plan.json").read_text()
    ).keys()


def test_labels_of_other_data_of_other_rows_and_second_ones_are_refused(tmp_path):
    proba, y, truth = rows()
    audit = Audit(Says("abc"), proba, y)
    with pytest.raises(ValueError, match="no label is recorded"):
        audit.result()
    audit.save(tmp_path / "plan.json")
    text = (tmp_path / "plan.json").read_text(encoding="utf-8")
    for name, damaged in (("cut", text[:-9]), ("foreign", "{}"), ("list", "[1]")):
        (tmp_path / name).write_text(damaged, encoding="utf-8")
        with pytest.raises(ValueError, match=name):
            Audit.load(tmp_path / name, Says("abc"), proba, y)
    other = y.copy()
    other[60] = "a"
    for X, labels in ((proba[::-1], y), (proba, other), (proba[:-1], y[:-1]), (proba[:, [1, 0, 2]], y)):
        with pytest.raises(ValueError, match="other rows"):
            Audit.load(tmp_path / "plan.json", Says("abc"), X, labels)
    with pytest.raises(ValueError, match="row 0 is not"):
        audit.record({0: "a"})
    with pytest.raises(ValueError, match="29 labels for 30"):
        audit.record(truth[audit.rows[1:]])
    with pytest.raises(ValueError, match="not among the classes"):
        audit.record(["d"] * 30)
    audit.record(truth[audit.rows])
    with pytest.raises(ValueError, match="30 labels for 0"):
        audit.record(truth[audit.rows])
    with pytest.raises(ValueError, match="nothing to audit"):
        Audit(Says("abc"), proba, truth)


@pytest.mark.parametrize("accept", [5, 0, 1.0, -0.1, "0.1"])
def test_an_accepted_share_is_one(accept):
    proba, y, _ = rows()
    with pytest.raises((ValueError, TypeError), match="accept"):
        Audit(Says("abc"), proba, y, accept=accept)


def test_what_is_not_fitted_or_no_number_of_rows_is_refused():
    proba, y, _ = rows()
    with pytest.raises(NotFittedError):
        Audit(MARGaussianMixture(), proba, y)
    for n in (-3, 2.5):
        with pytest.raises((ValueError, TypeError), match="n "):
            Audit(Says("abc"), proba, y).extend(n)


def test_where_labels_are_missing_because_of_the_label_an_audit_repairs():
    rng = np.random.default_rng(3)
    truth = rng.integers(2, size=1500)
    X = (truth + 0.7 * rng.standard_normal(1500))[:, None]
    y = np.where(rng.random(1500) < np.where(truth == 1, 0.95, 0.2), -1, truth)
    for clf in (make_pipeline(StandardScaler(), MARGaussianMixture()), LabelledRows(LogisticRegression())):
        clf.fit(X, y)
        audit = Audit(clf, X, y, n=60)
        result = audit.record(truth[audit.rows])
        open_rows = (y < 0) & ~np.isin(np.arange(1500), audit.rows)
        before = (clf.predict(X) != truth)[open_rows].sum()
        after = (result.transduction != truth)[open_rows].sum()
        assert result.contradicted
        assert after < 0.7 * before
        assert result.wrong.low <= (clf.predict(X) != truth)[y < 0].sum() <= result.wrong.high
        assert result.remaining.low <= after <= result.remaining.high
        assert (result.transduction[y >= 0] == y[y >= 0]).all()
        p, q = clf.predict_proba(X), result.classifier.missing_proba(X)[:, None]
        np.testing.assert_allclose(
            result.classifier.predict_proba(X), (1 - q) * p + q * result.classifier.unlabelled_proba(X)
        )


def test_with_a_label_term_the_probabilities_of_labelled_rows_stay():
    data = make_mar_mixture(600, random_state=0)
    clf = MARGaussianMixture(delta={0: 0.0, 1: 1.5}).fit(data.data, data.target)
    audit = Audit(clf, data.data, data.target)
    classifier = audit.record(data.target_true[audit.rows]).classifier
    p, q, before = clf.predict_proba(data.data), clf.missing_proba(data.data)[:, None], clf.unlabelled_proba(data.data)
    after = classifier.predict_proba(data.data) - q * classifier.unlabelled_proba(data.data)
    np.testing.assert_allclose(after, p - q * before, atol=1e-9)
    assert np.abs(p - before).max() > 0.02


@pytest.mark.parametrize(
    ("wrong", "half", "needed"), [(0.5, 0.05, 360), (0.02, 0.05, 80), (0.1, 0.05, 160), (0.2, 0.1, 80)]
)
def test_a_half_width_gives_the_number_of_rows(wrong, half, needed):
    p = np.where(np.arange(2000) < 1000, wrong, 1 - wrong)
    y = np.full(2002, None)
    y[:2] = "a", "b"
    audit = Audit(Says("ab"), np.c_[1 - p, p][[0, 1999, *range(2000)]], y, half_width=half)
    assert len(audit.rows) == pytest.approx(needed, rel=0.15)


def test_half_widths_are_those_of_the_intervals_with_half_of_the_labels_wrong():
    proba, y, _ = rows(classes="ab")
    audit = Audit(Says("ab"), proba, y, n=40)
    said, strata = proba[audit.rows].argmax(axis=1), audit._strata[audit._drawn]
    rank = np.array([np.sum(strata[:i] == strata[i]) for i in range(40)])
    widths = audit.half_widths()
    for k in (7, 40):
        half = [rank[i] < np.sum(strata[:k] == strata[i]) // 2 for i in range(k)]
        labels = np.array(["a", "b"])[np.where(half, 1 - said[:k], said[:k])]
        one = Audit(Says("ab"), proba, y, n=40).record(dict(zip(audit.rows[:k].tolist(), labels, strict=True))).wrong
        assert widths[k - 1] == pytest.approx((one.high - one.low) / 700)
    assert (np.diff(widths[8:]) < 0.02).all()
