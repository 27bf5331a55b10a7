"""No fit ends below the fit of a submodel of its own, nor below the fit it was started from."""

import warnings

import numpy as np
import pytest

from marmix import BoundaryWarning, MARGaussianMixture, MARLogisticRegression
from marmix.core.measures import MEASURES

# Both fits stop when less than 1e-8 a row is left.
CLOSE = 1e-4
MEASURED = [name for name, measure in MEASURES.items() if measure.only_classes is None]
long = pytest.mark.long
MODELS = [
    (MARGaussianMixture, {"covariance_type": "full"}),
    pytest.param(MARGaussianMixture, {"covariance_type": "tied"}, marks=long),
    pytest.param(MARGaussianMixture, {"covariance_type": "diag", "n_components": 2}, marks=long),
    (MARLogisticRegression, {"C": np.inf}),
    pytest.param(MARLogisticRegression, {}, marks=long),
    pytest.param(MARLogisticRegression, {"C": np.inf, "degree": 2}, marks=long),
]


def problem(seed):
    """Rows of a few overlapping normal classes, labels missing by the entropy of their posteriors, and a measure."""
    rng = np.random.default_rng(seed)
    n, d, classes = int(rng.integers(60, 120)), int(rng.integers(1, 3)), int(rng.integers(2, 4))
    means = rng.uniform(0.7, 2.5) * rng.normal(size=(classes, d))
    truth = rng.integers(classes, size=n)
    X = means[truth] + rng.normal(size=(n, d))
    scores = -0.5 * np.sum((X[:, None] - means) ** 2, axis=2)
    tau = np.exp(scores - scores.max(axis=1, keepdims=True))
    tau /= tau.sum(axis=1, keepdims=True)
    u = -np.sum(tau * np.log(np.maximum(tau, 1e-300)), axis=1)
    y = np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-rng.uniform(-2.0, 1.0) - rng.uniform(0.0, 4.0) * u)), -1, truth)
    for k in range(classes):
        y[np.flatnonzero(truth == k)[:4]] = k
    return X, y, MEASURED[seed % len(MEASURED)]


def fitted(kind, X, y, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return kind(**options).fit(X, y)


def objective(fit):
    """What the fit maximised."""
    return fit.trace_[-1]


def without_slope(fit, y):
    """What a fit that ignores the mechanism has reached of the model with the mechanism: labels missing at their overall rate."""
    n, missing = len(y), np.sum(y == -1)
    return objective(fit) + missing * np.log(missing / n) + (n - missing) * np.log(1.0 - missing / n)


@pytest.mark.parametrize(("kind", "options"), MODELS)
def test_a_free_shape_is_never_worse_than_the_logit_or_the_cloglog(kind, options, seeds):
    for seed in seeds(1):
        X, y, u = problem(seed)
        free, *fixed = (
            fitted(kind, X, y, link=link, measure=u, **options) for link in ("aranda-ordaz", "logit", "cloglog")
        )
        assert objective(free) > max(map(objective, fixed)) - CLOSE, seed


@pytest.mark.parametrize(("kind", "options"), MODELS)
def test_the_mechanism_is_never_worse_than_no_slope(kind, options, seeds):
    for seed in seeds(1):
        X, y, u = problem(seed)
        full, ignoring = (fitted(kind, X, y, link=link, measure=u, **options) for link in ("logit", None))
        assert objective(full) > without_slope(ignoring, y) - CLOSE, seed


@pytest.mark.parametrize(
    ("options", "smaller"),
    [
        ({"covariance_type": "full"}, {"covariance_type": "tied"}),
        ({"covariance_type": "diag", "n_components": 2}, {"covariance_type": "diag"}),
        pytest.param({"covariance_type": "tied", "n_components": 2}, {"covariance_type": "tied"}, marks=long),
    ],
)
def test_a_mixture_is_never_worse_than_a_smaller_one(options, smaller, seeds):
    for seed in seeds(1):
        X, y, u = problem(seed)
        fit, below = (fitted(MARGaussianMixture, X, y, measure=u, **each) for each in (options, smaller))
        assert objective(fit) > objective(below) - CLOSE, seed


@pytest.mark.parametrize(("kind", "options"), MODELS)
def test_no_fit_ends_below_the_fit_it_was_started_from(kind, options, seeds):
    for seed in seeds(1):
        X, y, u = problem(seed)
        first = fitted(kind, X, y, measure=u, **options)
        before = objective(first)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            again = first.set_params(warm_start=True).fit(X, y)
        assert objective(again) > before - CLOSE, seed


def separable():
    """Rows of two overlapping classes of which the labelled ones are separable, hard rows being unlabelled."""
    rng = np.random.default_rng(56)
    X = rng.normal(size=(150, 4))
    p = 1.0 / (1.0 + np.exp(-X @ [2.0, 1.0, 0.0, 0.0]))
    truth = (rng.random(150) < p).astype(int)
    u = -(p * np.log(p) + (1.0 - p) * np.log(1.0 - p))
    return X, np.where(rng.random(150) < 1.0 / (1.0 + np.exp(1.0 - 5.0 * u)), -1, truth)


def test_separable_labels_have_a_finite_maximum_with_the_mechanism():
    X, y = separable()
    with pytest.warns(BoundaryWarning, match="no finite maximum"):
        alone = MARLogisticRegression(C=np.inf, link=None).fit(X, y)
    assert [note.code for note in alone.model_.notes] == ["run-off"]
    from_labels = fitted_from(alone, X, y)
    clf = fitted(MARLogisticRegression, X, y, C=np.inf)
    assert clf.loglik_ > from_labels.loglik_ + 0.5
    assert np.abs(clf.coef_).max() < 5.0 < 100.0 < np.abs(from_labels.coef_).max()
    assert "run-off" not in [note.code for note in clf.model_.notes]
    assert "run-off" in [note.code for note in from_labels.model_.notes]
    assert not any("no finite maximum" in note for note in clf.inference(X, y).notes)
    assert any("no finite maximum" in note for note in from_labels.inference(X, y).notes)


def fitted_from(clf, X, y):
    """A fit with the mechanism that starts from a fit without it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return clf.set_params(link="logit", warm_start=True, n_init=1).fit(X, y)


def few_labels():
    rng = np.random.default_rng(1)
    truth = rng.integers(3, size=80)
    X = rng.normal(size=(80, 3)) + np.eye(3)[truth]
    y = np.where(rng.random(80) < 0.7, -1, truth)
    return X, y


def test_few_labels_get_several_starts_whose_spread_is_noted_and_repeatable():
    X, y = few_labels()
    single, auto, again = (
        fitted(MARGaussianMixture, X, y, covariance_type="full", **options) for options in ({"n_init": 1}, {}, {})
    )
    assert auto.loglik_ > single.loglik_ + 0.5
    assert auto.loglik_ == again.loglik_
    (note,) = (note for note in auto.model_.notes if note.code == "maxima")
    assert note.values["starts"] >= 4 > note.values["reached"] > 0
    assert note.values["short"] > 0.5


def test_k_means_is_tried_beside_the_labelled_rows():
    rng = np.random.default_rng(2)
    truth = rng.integers(2, size=300)
    X = rng.gamma(np.where(truth == 0, 3.0, 5.0)[:, None], size=(300, 2))
    y = np.where(rng.random(300) < 0.5, -1, truth)
    options = {"covariance_type": "full", "random_state": 0}
    by_labels, by_both = (fitted(MARGaussianMixture, X, y, init=init, **options) for init in ("labelled", "kmeans"))
    assert by_both.loglik_ > by_labels.loglik_ - CLOSE
