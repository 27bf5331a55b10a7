"""A converted classifier of scikit-learn gives the same class probabilities, and is fitted as far as scikit-learn can tell."""

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from sklearn.utils.validation import check_is_fitted

from marmix import MARClassifierCV, MARGaussianMixture, MARKernelClassifier, MARLogisticRegression
from marmix.estimators.conversion import to_sklearn

CASES = {
    "tied": (MARGaussianMixture(covariance_type="tied", link="logit"), LinearDiscriminantAnalysis),
    "full": (MARGaussianMixture(covariance_type="full", link="logit"), QuadraticDiscriminantAnalysis),
    "diag": (MARGaussianMixture(covariance_type="diag", link="logit"), GaussianNB),
    "spherical": (MARGaussianMixture(covariance_type="spherical", link="logit"), GaussianNB),
    "logistic": (MARLogisticRegression(link="logit"), LogisticRegression),
    "quadratic": (MARLogisticRegression(link="logit", degree=2, C=np.inf, n_init=1), Pipeline),
    "kernel": (MARKernelClassifier(C=10.0, gamma=0.3, mechanism_weight=0.3, n_landmarks=40, cv=None), Pipeline),
}
NAMES = {
    "int64": np.array([10, 20, 30]),
    "float32": np.array([1.0, 2.0, 3.0], dtype=np.float32),
    "text": np.array(["no", "perhaps", "yes"]),
    "object": np.array(["no", "perhaps", "yes"], dtype=object),
    "bool": np.array([False, True]),
}


def partly_named(data, names):
    """The labels by these names, None where they are missing."""
    y = np.asarray(names)[data.truth % len(names)].astype(object)
    y[data.missing] = None
    return y


@pytest.fixture(scope="module", params=["two", "three"])
def data(request, two, three):
    return {"two": two, "three": three}[request.param]


@pytest.mark.parametrize("case", CASES)
def test_probabilities_labels_and_classes_are_the_same(case, data):
    estimator, kind = CASES[case]
    clf = estimator.fit(data.X, data.y)
    converted = clf.to_sklearn()
    assert type(converted) is kind
    check_is_fitted(converted)
    X = np.vstack([data.X, 5.0 * data.X])
    np.testing.assert_allclose(converted.predict_proba(X), clf.predict_proba(X), rtol=0.0, atol=1e-11)
    np.testing.assert_array_equal(converted.predict(X), clf.predict(X))
    np.testing.assert_array_equal(converted.classes_, clf.classes_)
    assert converted.n_features_in_ == 2


def test_attributes_are_those_that_scikit_learn_documents(two):
    tied = MARGaussianMixture(covariance_type="tied", link=None).fit(two.X, two.truth)
    lda, theirs = tied.to_sklearn(), LinearDiscriminantAnalysis(solver="lsqr", store_covariance=True)
    theirs.fit(two.X, two.truth)
    for name in ("means_", "priors_", "covariance_", "coef_"):
        np.testing.assert_allclose(getattr(lda, name), getattr(theirs, name), rtol=1e-4, atol=1e-6)
    assert vars(theirs).keys() - vars(lda).keys() <= {
        "_max_components",
        "_n_features_out",
        "explained_variance_ratio_",
        "scalings_",
    }
    full = MARGaussianMixture(covariance_type="full", link=None).fit(two.X, two.truth)
    qda = full.to_sklearn()
    for k in range(2):
        rotation, scaling = qda.rotations_[k], qda.scalings_[k]
        np.testing.assert_allclose(rotation @ np.diag(scaling) @ rotation.T, full.covariances_[k], rtol=1e-10)
        np.testing.assert_allclose(rotation.T @ rotation, np.eye(2), atol=1e-12)
    logistic = MARLogisticRegression(C=3.0, link=None).fit(two.X, two.y)
    np.testing.assert_array_equal(logistic.to_sklearn().coef_, logistic.coef_)
    assert logistic.to_sklearn().C == 3.0


def test_a_pipeline_is_converted_step_by_step(three):
    pipeline = make_pipeline(StandardScaler(), MARLogisticRegression(link="logit", degree=2)).fit(three.X, three.y)
    converted = to_sklearn(pipeline)
    assert [type(step) for step in (converted[0], converted[-1][0], converted[-1][-1])] == [
        StandardScaler,
        PolynomialFeatures,
        LogisticRegression,
    ]
    assert converted[0] is not pipeline[0]
    np.testing.assert_allclose(converted.predict_proba(three.X), pipeline.predict_proba(three.X), atol=1e-11)


GRID = {
    "tied": MARGaussianMixture(covariance_type="tied", link="logit"),
    "quadratic": MARLogisticRegression(degree=2, link=None),
}


def test_the_picked_candidate_is_converted_with_names_of_classes_and_features(two):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(two.X, columns=["length", "width"])
    y = partly_named(two, ["no", "yes"])
    for grid in ({"tied": GRID["tied"]}, {"quadratic": GRID["quadratic"]}, GRID):
        choice = MARClassifierCV(estimators=grid, method="pick", cv=3).fit(frame, y)
        converted = choice.to_sklearn()
        assert list(converted.classes_) == ["no", "yes"]
        assert list(converted.feature_names_in_) == ["length", "width"]
        np.testing.assert_allclose(converted.predict_proba(frame), choice.predict_proba(frame), atol=1e-11)
        np.testing.assert_array_equal(converted.predict(frame), choice.predict(frame))
        assert choice.estimators_[next(iter(grid))][-1].classes_.tolist() == [0, 1]


def onnx_answers(model, X):
    """Labels and probabilities of an exported classifier."""
    skl2onnx = pytest.importorskip("skl2onnx", reason="pip install skl2onnx")
    onnxruntime = pytest.importorskip("onnxruntime", reason="pip install onnxruntime")
    exported = skl2onnx.to_onnx(model, X[:1], options={"zipmap": False})
    session = onnxruntime.InferenceSession(exported.SerializeToString(), providers=["CPUExecutionProvider"])
    labels, proba = session.run(None, {"X": X})
    return labels.ravel(), proba


@pytest.mark.parametrize("case", [case for case in CASES if case != "kernel"])  # skl2onnx does not know Nystroem
@pytest.mark.filterwarnings("ignore")  # of the converter's own dependencies
def test_onnx_gives_the_same_probabilities_in_single_precision(case, data):
    pipeline = make_pipeline(StandardScaler(), CASES[case][0]).fit(data.X, data.y)
    converted = to_sklearn(pipeline)
    if case == "tied" and len(converted.classes_) == 2:
        # skl2onnx doubles the log-odds of any LinearDiscriminantAnalysis of two classes; as a LogisticRegression it goes through
        lda, same = converted[-1], LogisticRegression()
        same.coef_, same.intercept_, same.classes_, same.n_features_in_ = lda.coef_, lda.intercept_, lda.classes_, 2
        converted.steps[-1] = ("logisticregression", same)
    X = data.X.astype(np.float32)
    labels, proba = onnx_answers(converted, X)
    expected = pipeline.predict_proba(X.astype(float))
    np.testing.assert_allclose(proba, expected, rtol=0.0, atol=1e-5)
    clear = np.diff(np.sort(expected, axis=1)[:, -2:], axis=1)[:, 0] > 1e-4
    np.testing.assert_array_equal(labels[clear], pipeline.predict(X.astype(float))[clear])
