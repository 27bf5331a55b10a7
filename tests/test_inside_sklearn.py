"""Partially labelled data in the tools of scikit-learn, and the wrappers that bring unlabelled rows in or leave them out."""

import re
import warnings
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import BaggingClassifier, StackingClassifier, VotingClassifier
from sklearn.experimental import enable_halving_search_cv  # noqa: F401  (makes the halving searches importable)
from sklearn.feature_selection import RFE, RFECV, SelectFromModel, SelectKBest, SequentialFeatureSelector
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    HalvingGridSearchCV,
    HalvingRandomSearchCV,
    RandomizedSearchCV,
    TunedThresholdClassifierCV,
    cross_val_predict,
    cross_val_score,
    cross_validate,
    learning_curve,
    permutation_test_score,
    validation_curve,
)
from sklearn.multiclass import OneVsRestClassifier, OutputCodeClassifier
from sklearn.multioutput import MultiOutputClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import SelfTrainingClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

import marmix
from marmix import LabelledRows, MARClassifierCV, MARGaussianMixture, MARLogisticRegression, WithUnlabelled
from marmix.evaluation import StratifiedPartialLabelKFold

RNG = np.random.default_rng(0)
TRUTH = np.repeat([0, 1], 30)
X = RNG.normal(size=(60, 2)) + np.c_[3.0 * TRUTH, np.zeros(60)]
LABELLED = RNG.random(60) < 0.6
Y = np.where(LABELLED, TRUTH, -1)
TEXTS = np.where(LABELLED, np.array(["no", "yes"], dtype=object)[TRUTH], None)
FOLDS = StratifiedPartialLabelKFold(3)
MIXTURE = MARGaussianMixture(covariance_type="tied", link=None)
LOGISTIC = MARLogisticRegression(link=None)
INSIDE = WithUnlabelled(LOGISTIC, X[~LABELLED])


# The table of the guide


def fitted(make, y=lambda labels: labels):
    """Accuracy of a tool that is fitted, NaN if it takes -1 for a class."""

    def run(estimator, X_given, labels):
        tool = make(estimator).fit(X_given, y(labels))
        return np.nan if -1 in np.ravel(getattr(tool, "classes_", 0)) else np.mean(tool.predict(X).T == TRUTH)

    return run


def selected(make):
    """Whether a tool selects the feature that matters."""
    return lambda estimator, X, y: bool(make(estimator).fit(X, y).get_support()[0])


def grid(estimator):
    return {"estimator__tol" if isinstance(estimator, WithUnlabelled) else "tol": [1e-3, 1e-6]}


def scored(function, place=None, **options):
    def run(estimator, X, y):
        result = function(estimator, X, y, cv=FOLDS, **options)
        return np.mean(result if place is None else result[place])

    return run


TOOLS = {
    "Pipeline": fitted(lambda e: Pipeline([("last", e)])),
    "GridSearchCV": fitted(lambda e: GridSearchCV(e, grid(e), cv=FOLDS)),
    "RandomizedSearchCV": fitted(lambda e: RandomizedSearchCV(e, grid(e), cv=FOLDS, n_iter=2)),
    "HalvingGridSearchCV": fitted(lambda e: HalvingGridSearchCV(e, grid(e), cv=3, min_resources="exhaust")),
    "HalvingRandomSearchCV": fitted(lambda e: HalvingRandomSearchCV(e, grid(e), cv=3, n_candidates=2)),
    "cross_val_score": scored(cross_val_score),
    "cross_validate": scored(cross_validate, "test_score"),
    "learning_curve": scored(learning_curve, 2, train_sizes=[1.0]),
    "validation_curve": lambda e, X, y: scored(validation_curve, 1, param_name=next(iter(grid(e))), param_range=[1e-6])(
        e, X, y
    ),
    "permutation_test_score": scored(permutation_test_score, 0, n_permutations=1, random_state=0),
    "permutation_importance": lambda e, X, y: (
        permutation_importance(clone(e).fit(X, y), X, y, random_state=0)["importances_mean"].argmax() == 0
    ),
    "cross_val_predict": lambda e, X, y: np.mean((cross_val_predict(e, X, y, cv=3) == y)[y != -1]),
    "RFE": selected(lambda e: RFE(e, n_features_to_select=1)),
    "RFECV": selected(lambda e: RFECV(e, cv=FOLDS)),
    "SelectFromModel": selected(SelectFromModel),
    "SequentialFeatureSelector": selected(lambda e: SequentialFeatureSelector(e, n_features_to_select=1, cv=FOLDS)),
    "MultiOutputClassifier": fitted(MultiOutputClassifier, lambda y: np.column_stack([y, y])),
    "SelfTrainingClassifier": fitted(SelfTrainingClassifier),
    "CalibratedClassifierCV": fitted(lambda e: CalibratedClassifierCV(e, cv=3)),
    "VotingClassifier": fitted(lambda e: VotingClassifier([("a", e)], voting="soft")),
    "StackingClassifier": fitted(lambda e: StackingClassifier([("a", e)], cv=3)),
    "BaggingClassifier": fitted(lambda e: BaggingClassifier(e, 3, random_state=0)),
    "OneVsRestClassifier": fitted(OneVsRestClassifier),
    "OutputCodeClassifier": fitted(lambda e: OutputCodeClassifier(e, random_state=0)),
    "TunedThresholdClassifierCV": fitted(lambda e: TunedThresholdClassifierCV(e, cv=3, thresholds=9)),
    "FixedThresholdClassifier": fitted(FixedThresholdClassifier),
}


def guide():
    """(tool, answer with missing labels, answer with `WithUnlabelled` on the labelled rows) from the table of the guide."""
    page = (Path(__file__).parents[1] / "docs" / "guide" / "models.md").read_text(encoding="utf-8")
    for tools, *answers in re.findall(r"^\| (`.*?) \| (yes|no)\b.*? \| (yes|no)\b.*? \|$", page, re.M):
        yield from ((tool, *answers) for tool in re.findall(r"`(\w+)`", tools))


GUIDE = list(guide())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("tool", "direct", "inside"), GUIDE, ids=[row[0] for row in GUIDE])
def test_tools_do_what_the_table_of_the_guide_says(tool, direct, inside):
    for answer, *arguments in ((direct, LOGISTIC, X, Y), (inside, INSIDE, X[LABELLED], Y[LABELLED])):
        if answer == "yes":
            assert TOOLS[tool](*arguments) > 0.85
        else:
            with suppress(ValueError):
                assert np.isnan(TOOLS[tool](*arguments))


# Labels that were numbered before the fit


@pytest.mark.parametrize("kind", [getattr(marmix, name) for name in marmix.__all__ if name.startswith("MAR")])
def test_a_fit_without_a_missing_label_warns_unless_the_classes_are_named(kind):
    options = {"estimators": {"a": LOGISTIC}, "cv": 2} if kind is MARClassifierCV else {"link": None}
    with pytest.warns(UserWarning, match=r"Every row has a label.* name the classes in classes="):
        kind(**options).fit(X, Y + 1)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "Every row has a label")
        kind(**options, classes=[0, 1]).fit(X, TRUTH)
        kind(**options).fit(X, Y)


# LabelledRows


@pytest.mark.parametrize(
    "y",
    [Y, np.where(LABELLED, TRUTH, np.nan), np.where(LABELLED, TRUTH, None), np.where(LABELLED, TRUTH, None).tolist()],
    ids=["-1", "NaN", "None", "list"],
)
def test_labelled_rows_is_the_classifier_fitted_to_the_labelled_rows(y):
    weight = np.linspace(0.5, 2.0, 60)
    wrapped = LabelledRows(LogisticRegression()).fit(X, y, sample_weight=weight)
    direct = LogisticRegression().fit(X[LABELLED], TRUTH[LABELLED], sample_weight=weight[LABELLED])
    for method in ("predict", "predict_proba", "predict_log_proba", "decision_function"):
        np.testing.assert_array_equal(getattr(wrapped, method)(X), getattr(direct, method)(X))
    assert wrapped.classes_.tolist() == [0, 1]
    assert wrapped.score(X, y) == direct.score(X[LABELLED], TRUTH[LABELLED])
    np.testing.assert_array_equal(wrapped.coef_, direct.coef_)


def test_transformers_that_look_at_the_labels_are_fitted_to_the_labelled_rows():
    pipeline = make_pipeline(LabelledRows(SelectKBest(k=1)), MIXTURE).fit(X, Y)
    features = SelectKBest(k=1).fit(X[LABELLED], Y[LABELLED]).transform(X)
    np.testing.assert_array_equal(pipeline.predict_proba(X), clone(MIXTURE).fit(features, Y).predict_proba(features))


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(
    [LabelledRows(GaussianNB())],
    expected_failed_checks=lambda e: {"check_classifiers_classes": "-1 is a missing label, and the check's class"},
)
def test_scikit_learn_finds_nothing_wrong_with_labelled_rows(estimator, check):
    check(estimator)


# WithUnlabelled


@pytest.mark.parametrize("kind", [MIXTURE, make_pipeline(StandardScaler(), LOGISTIC)], ids=["alone", "in a pipeline"])
@pytest.mark.parametrize("y", [Y, TEXTS], ids=["numbers", "texts"])
def test_with_unlabelled_is_the_estimator_fitted_to_all_rows(kind, y):
    wrapped = WithUnlabelled(kind, X[~LABELLED]).fit(X[LABELLED], y[LABELLED])
    np.testing.assert_allclose(wrapped.predict_proba(X), clone(kind).fit(X, y).predict_proba(X), atol=1e-6)


def test_unlabelled_rows_have_the_mean_weight_and_columns_are_known_by_name():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["length", "width"])
    weight = np.where(LABELLED, 1.0 + np.arange(60) % 3, 0.0)
    weight[~LABELLED] = weight[LABELLED].mean()
    inside = WithUnlabelled(MIXTURE, frame[["width", "length"]][~LABELLED])
    inside.fit(frame[LABELLED], Y[LABELLED], sample_weight=weight[LABELLED])
    direct = clone(MIXTURE).fit(X, Y, sample_weight=weight)
    np.testing.assert_allclose(inside.predict_proba(frame), direct.predict_proba(X), atol=1e-6)
    assert inside.feature_names_in_.tolist() == ["length", "width"]
