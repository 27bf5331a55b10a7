"""Every tool of scikit-learn that fits an estimator, on partially labelled data: it is right, or it is refused."""

import importlib
import inspect
import re
from functools import partial, wraps
from pathlib import Path

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.base import BaseEstimator, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.cross_decomposition import PLSRegression
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    BaggingClassifier,
    BaggingRegressor,
    RandomForestClassifier,
    StackingClassifier,
    StackingRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.experimental import enable_halving_search_cv  # noqa: F401  (makes the halving searches importable)
from sklearn.feature_selection import RFE, RFECV, SelectFromModel, SelectKBest, SequentialFeatureSelector
from sklearn.frozen import FrozenEstimator
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LinearRegression, LogisticRegression, RANSACRegressor
from sklearn.metrics import (
    ConfusionMatrixDisplay,
    accuracy_score,
    fbeta_score,
    get_scorer,
    get_scorer_names,
    make_scorer,
)
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    HalvingGridSearchCV,
    HalvingRandomSearchCV,
    KFold,
    RandomizedSearchCV,
    StratifiedKFold,
    StratifiedShuffleSplit,
    TunedThresholdClassifierCV,
    cross_val_predict,
    cross_val_score,
    cross_validate,
    learning_curve,
    permutation_test_score,
    validation_curve,
)
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier, OutputCodeClassifier
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier, MultiOutputRegressor, RegressorChain
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import KBinsDiscretizer, StandardScaler
from sklearn.semi_supervised import LabelSpreading, SelfTrainingClassifier
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import all_estimators
from sklearn.utils.estimator_checks import parametrize_with_checks

import marmix
from marmix import LabelledRows, MARClassifierCV, MARGaussianMixture, MARLogisticRegression, WithUnlabelled
from marmix.evaluation import PartialLabelKFold, StratifiedPartialLabelKFold, population_scorer

pytestmark = pytest.mark.filterwarnings("ignore")

RNG = np.random.default_rng(0)
TRUTH = np.repeat([0, 1], 30)
X = RNG.normal(size=(60, 2)) + np.c_[3.0 * TRUTH, np.zeros(60)]
LABELLED = RNG.random(60) < 0.6
Y = np.where(LABELLED, TRUTH, -1)
TEXTS = np.where(LABELLED, np.array(["no", "yes"], dtype=object)[TRUTH], None)
FOLDS = StratifiedPartialLabelKFold(3)
MIXTURE = MARGaussianMixture(covariance_type="tied", link=None)
LOGISTIC = MARLogisticRegression(link=None)
DIRECT = clone(MIXTURE).fit(X, Y)
INSIDE = WithUnlabelled(MIXTURE, X[~LABELLED])
GRID = {"tol": [1e-3, 1e-6]}
NESTED = {"estimator__tol": [1e-3, 1e-6]}

WORKS, REFUSES, OTHER = "works", "refuses", "not for classifiers, or for features only"

# What each does with missing labels, and how it is made from an estimator.
METAS = {
    "AdaBoostClassifier": (REFUSES, lambda e, **_: AdaBoostClassifier(e, n_estimators=2)),
    "AdaBoostRegressor": (REFUSES, lambda e, **_: AdaBoostRegressor(e, n_estimators=2)),
    "BaggingClassifier": (REFUSES, lambda e, **_: BaggingClassifier(e, 2, bootstrap=False)),
    "BaggingRegressor": (REFUSES, lambda e, **_: BaggingRegressor(e, 2)),
    "CalibratedClassifierCV": (REFUSES, lambda e, **_: CalibratedClassifierCV(e, cv=3)),
    "ClassifierChain": (REFUSES, lambda e, **_: ClassifierChain(e)),
    "ColumnTransformer": (OTHER, None),
    "FeatureUnion": (OTHER, None),
    "FixedThresholdClassifier": (REFUSES, lambda e, **_: FixedThresholdClassifier(e)),
    "FrozenEstimator": (WORKS, lambda e, **_: FrozenEstimator(e)),
    "GridSearchCV": (WORKS, lambda e, grid=GRID, **_: GridSearchCV(e, grid, cv=3)),
    "HalvingGridSearchCV": (
        WORKS,
        lambda e, grid=GRID, **_: HalvingGridSearchCV(e, grid, cv=3, min_resources="exhaust"),
    ),
    "HalvingRandomSearchCV": (
        WORKS,
        lambda e, grid=GRID, **_: HalvingRandomSearchCV(e, grid, cv=3, n_candidates=2, min_resources="exhaust"),
    ),
    "MultiOutputClassifier": (WORKS, lambda e, **_: MultiOutputClassifier(e)),
    "MultiOutputRegressor": (WORKS, lambda e, **_: MultiOutputRegressor(e)),
    "OneVsOneClassifier": (REFUSES, lambda e, **_: OneVsOneClassifier(e)),
    "OneVsRestClassifier": (REFUSES, lambda e, **_: OneVsRestClassifier(e)),
    "OutputCodeClassifier": (REFUSES, lambda e, **_: OutputCodeClassifier(e, random_state=0)),
    "Pipeline": (WORKS, lambda e, **_: Pipeline([("last", e)])),
    "RANSACRegressor": (REFUSES, lambda e, **_: RANSACRegressor(e, min_samples=20)),
    "RFE": (WORKS, lambda e, **_: RFE(e, n_features_to_select=1)),
    "RFECV": (WORKS, lambda e, **_: RFECV(e, cv=FOLDS)),
    "RandomizedSearchCV": (WORKS, lambda e, grid=GRID, **_: RandomizedSearchCV(e, grid, cv=3, n_iter=2)),
    "RegressorChain": (REFUSES, lambda e, **_: RegressorChain(e)),
    "SelectFromModel": (WORKS, lambda e, **_: SelectFromModel(e)),
    "SelfTrainingClassifier": (WORKS, lambda e, **_: SelfTrainingClassifier(e)),
    "SequentialFeatureSelector": (WORKS, lambda e, **_: SequentialFeatureSelector(e, n_features_to_select=1, cv=3)),
    "StackingClassifier": (REFUSES, lambda e, **_: StackingClassifier([("a", e)], cv=3)),
    "StackingRegressor": (OTHER, lambda e, **_: StackingRegressor([("a", e)])),
    "TransformedTargetRegressor": (REFUSES, lambda e, **_: TransformedTargetRegressor(e)),
    "TunedThresholdClassifierCV": (REFUSES, lambda e, **_: TunedThresholdClassifierCV(e, cv=3, thresholds=9)),
    "VotingClassifier": (REFUSES, lambda e, **_: VotingClassifier([("a", e)], voting="soft")),
    "VotingRegressor": (OTHER, lambda e, **_: VotingRegressor([("a", e)])),
}
SELECTORS = {"RFE", "RFECV", "SelectFromModel", "SequentialFeatureSelector"}
HOLDERS = {
    "estimator",
    "estimators",
    "base_estimator",
    "regressor",
    "classifier",
    "steps",
    "transformers",
    "transformer_list",
}


MODULES = (
    "calibration compose ensemble feature_selection frozen linear_model model_selection multiclass multioutput pipeline"
)


def holds_estimators(kind):
    return bool(HOLDERS & set(inspect.signature(kind).parameters))


def test_every_meta_estimator_of_these_modules_is_tried():
    modules = [importlib.import_module(f"sklearn.{name}") for name in [*MODULES.split(), "semi_supervised"]]
    classes = {
        name: getattr(module, name) for module in modules for name in module.__dict__.get("__all__", dir(module))
    }
    estimators = [
        kind
        for kind in classes.values()
        if isinstance(kind, type) and issubclass(kind, BaseEstimator) and not inspect.isabstract(kind)
    ]
    assert {kind.__name__ for kind in estimators if holds_estimators(kind)} <= set(METAS)


@pytest.mark.long
def test_every_meta_estimator_of_scikit_learn_is_tried():
    """A new one of a later version is missing here until it has been tried."""
    assert {name for name, kind in all_estimators() if holds_estimators(kind)} <= set(METAS)


def names_that(outcome):
    return [name for name, (what, _) in METAS.items() if what == outcome]


def labels_for(name, y):
    return np.column_stack([y, y]) if "MultiOutput" in name or "Chain" in name else y


REFUSED = "takes missing labels for a class"


@pytest.mark.parametrize("name", names_that(REFUSES))
@pytest.mark.parametrize("threads", [False, True])
@pytest.mark.parametrize(
    "estimator", [MIXTURE, clone(MIXTURE).set_params(classes=[0, 1]), LabelledRows(LogisticRegression())]
)
def test_tools_that_number_the_labels_are_refused(name, estimator, threads):
    tool = METAS[name][1](estimator)
    if threads and "n_jobs" in tool.get_params():
        tool.set_params(n_jobs=2)
    with parallel_config(backend="threading"), pytest.raises(ValueError, match=f"{name} {REFUSED}"):
        tool.fit(X, labels_for(name, Y))


@pytest.mark.parametrize("name", sorted({*names_that(REFUSES)} - {"AdaBoostClassifier"}))  # a pipeline has no weights
@pytest.mark.parametrize("threads", [False, True])
def test_tools_that_number_the_labels_are_refused_around_a_pipeline(name, threads):
    """Then some are seen only in the jobs of their fit, and tuned thresholds are refused by scikit-learn itself."""
    tool = METAS[name][1](make_pipeline(StandardScaler(), MIXTURE))
    if threads and "n_jobs" in tool.get_params():
        tool.set_params(n_jobs=2)
    with parallel_config(backend="threading"), pytest.raises(ValueError, match=f"{REFUSED}|Only binary classification"):
        tool.fit(X, labels_for(name, Y))


@pytest.mark.parametrize("name", names_that(REFUSES))
def test_tools_that_number_the_labels_are_refused_for_texts(name):
    """Two tools look at the labels before they look at an estimator; scikit-learn then refuses None."""
    first = {"StackingClassifier": "Unknown label type", "VotingClassifier": "Unknown label type"}
    with pytest.raises(ValueError, match=first.get(name, f"{name} {REFUSED}")):
        METAS[name][1](MIXTURE).fit(X, labels_for(name, TEXTS))


@pytest.mark.parametrize("name", sorted({*names_that(WORKS)} - SELECTORS))
def test_tools_that_pass_the_labels_on_give_what_the_estimator_gives(name):
    tool = METAS[name][1](DIRECT if name == "FrozenEstimator" else MIXTURE).fit(X, labels_for(name, Y))
    predicted = tool.predict(X)
    if name == "SelfTrainingClassifier":  # it labels rows itself
        assert tool.classes_.tolist() == [0, 1]
        assert np.mean(predicted == TRUTH) > 0.9
    else:
        np.testing.assert_array_equal(predicted, labels_for(name, DIRECT.predict(X)))


@pytest.mark.parametrize("name", sorted(SELECTORS))
@pytest.mark.parametrize("estimator", [LOGISTIC, LabelledRows(LogisticRegression())])
def test_selectors_find_the_feature_that_matters(name, estimator):
    selector = METAS[name][1](estimator).fit(X, Y)
    assert selector.get_support().tolist() == [True, name == "RFECV" and selector.n_features_ == 2]


@pytest.mark.parametrize("name", ["HalvingGridSearchCV", "HalvingRandomSearchCV", "MultiOutputClassifier"])
def test_tools_that_sort_the_labels_ask_for_numbers(name):
    with pytest.raises(ValueError, match=f"{name} cannot sort missing labels: write the classes as whole numbers"):
        METAS[name][1](MIXTURE).fit(X, labels_for(name, TEXTS))


def test_splitters_that_sort_the_labels_ask_for_numbers():
    with pytest.raises(
        ValueError, match="StratifiedKFold cannot sort missing labels: write the classes as whole numbers"
    ):
        cross_val_score(MIXTURE, X, TEXTS, cv=StratifiedKFold(3))
    with pytest.raises(ValueError, match="StratifiedShuffleSplit cannot sort missing labels"):
        GridSearchCV(MIXTURE, GRID, cv=StratifiedShuffleSplit(2)).fit(X, TEXTS)
    assert np.mean(cross_val_score(MIXTURE, X, TEXTS, cv=FOLDS)) > 0.9


@pytest.mark.parametrize("kind", [*(getattr(marmix, name) for name in marmix.__all__ if name.startswith("MAR"))])
def test_every_estimator_refuses(kind):
    with pytest.raises(ValueError, match=f"VotingClassifier {REFUSED}.*{kind.__name__}"):
        VotingClassifier([("a", kind())]).fit(X, Y)
    with pytest.raises(ValueError, match=f"OneVsRestClassifier {REFUSED}.*{kind.__name__}"):
        OneVsRestClassifier(kind()).fit(X, Y)


def test_regressors_that_check_refuse_a_classifier():
    for name in ("StackingRegressor", "VotingRegressor"):
        with pytest.raises(ValueError, match="should be a regressor"):
            METAS[name][1](MIXTURE).fit(X, Y)


@pytest.mark.parametrize("name", ["VotingClassifier", "OutputCodeClassifier"])
def test_a_tool_that_learnt_missing_labels_elsewhere_is_refused_when_it_predicts(name):
    tool = METAS[name][1](LogisticRegression()).fit(X, Y)
    tool.estimators_ = [DIRECT for _ in tool.estimators_]
    with pytest.raises(ValueError, match=f"{name} {REFUSED}"):
        tool.predict(X)


@pytest.mark.parametrize("y", [np.where(LABELLED, TRUTH, 0), np.where(TRUTH == 0, -1, 1)], ids=["0, 1", "-1, 1"])
def test_nothing_is_refused_if_no_label_is_missing(y):
    named = clone(MIXTURE).set_params(classes=np.unique(y))
    for name in ("OneVsRestClassifier", "CalibratedClassifierCV") if y.min() == 0 else ("CalibratedClassifierCV",):
        assert METAS[name][1](named).fit(X, y).classes_.tolist() == np.unique(y).tolist()
    assert np.isfinite(cross_val_score(named, X, y, cv=3, scoring="accuracy")).all()


# Functions

FUNCTIONS = {
    "cross_val_score": lambda e, **o: cross_val_score(e, X, Y, **o),
    "cross_validate": lambda e, **o: cross_validate(e, X, Y, **o)["test_score"],
    "learning_curve": lambda e, **o: learning_curve(e, X, Y, train_sizes=[1.0], **o)[2],
    "validation_curve": lambda e, **o: validation_curve(e, X, Y, param_name="classes", param_range=[None], **o)[1],
    "permutation_test_score": lambda e, **o: permutation_test_score(e, X, Y, n_permutations=1, random_state=0, **o)[0],
    "permutation_importance": lambda e, cv=None, **o: permutation_importance(
        e.fit(X, Y), X, Y, n_repeats=1, random_state=0, **o
    )["importances"],
    "GridSearchCV": lambda e, **o: GridSearchCV(e, {"classes": [None]}, **o).fit(X, Y).cv_results_["mean_test_score"],
    "SequentialFeatureSelector": lambda e, **o: (
        SequentialFeatureSelector(e, n_features_to_select=1, **o).fit(X, Y).get_support()
    ),
    "RFECV": lambda e, **o: RFECV(e, importance_getter=importance, **o).fit(X, Y).cv_results_["mean_test_score"],
}


def importance(estimator):
    return np.arange(estimator.n_features_in_)[::-1]


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("scoring", ["accuracy", "roc_auc"])
@pytest.mark.parametrize("estimator", [MIXTURE, LabelledRows(GaussianNB())])
def test_scorers_of_scikit_learn_are_refused_on_missing_labels(function, scoring, estimator):
    with pytest.raises(ValueError, match=r"_score of scikit-learn counts missing labels as a class"):
        FUNCTIONS[function](clone(estimator), cv=3, scoring=scoring)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_other_scorers_and_labelled_test_rows_are_not_refused(function):
    rows = LabelledRows(GaussianNB())
    of_marmix = population_scorer("accuracy", lambda X: np.full(len(X), 0.5))
    of_user = make_scorer(lambda y, p: accuracy_score(y[y != -1], p[y != -1]))
    scores = [FUNCTIONS[function](clone(rows), scoring=scorer, cv=3) for scorer in (of_marmix, of_user)]
    np.testing.assert_allclose(*scores)  # q is constant
    if function != "permutation_importance":
        assert np.isfinite(FUNCTIONS[function](rows, scoring="roc_auc", cv=FOLDS)).all()


def test_several_scorers_are_refused_if_one_of_them_counts_missing_labels():
    kind = clone(MIXTURE).set_params(link="logit")
    with pytest.raises(ValueError, match="accuracy_score of scikit-learn counts missing labels"):
        cross_validate(kind, X, Y, cv=3, scoring=["marmix_accuracy", "accuracy"])


def test_a_scorer_and_a_display_are_refused_when_called_by_hand():
    with pytest.raises(ValueError, match="accuracy_score of scikit-learn counts missing labels"):
        get_scorer("accuracy")(DIRECT, X, Y)
    with pytest.raises(ValueError, match="from_estimator of scikit-learn counts missing labels"):
        ConfusionMatrixDisplay.from_estimator(DIRECT, X, Y)
    assert get_scorer("accuracy")(DIRECT, X[LABELLED], Y[LABELLED]) == DIRECT.score(X, Y)


def test_predictions_by_cross_validation():
    folds = KFold(3)
    labels = cross_val_predict(MIXTURE, X, Y, cv=folds)
    expected = [clone(MIXTURE).fit(X[train], Y[train]).predict(X[test]) for train, test in folds.split(X)]
    np.testing.assert_array_equal(labels, np.concatenate(expected))
    for method in ("predict_proba", "predict_log_proba", "decision_function"):
        with pytest.raises(ValueError, match=re.escape(f"cross_val_predict(method='{method}') {REFUSED}")):
            cross_val_predict(MIXTURE, X, Y, cv=folds, method=method)
    with pytest.raises(ValueError, match="predicts every row once"):
        cross_val_predict(MIXTURE, X, Y, cv=FOLDS)


# Scorers of marmix

NAMES = {"neg_log_loss": "log_loss", "neg_brier_score": "brier", "accuracy": "accuracy", "roc_auc": "roc_auc"}


@pytest.mark.parametrize(("name", "metric"), NAMES.items())
def test_scorers_are_known_by_name(name, metric):
    assert f"marmix_{name}" in get_scorer_names()
    fitted = clone(MIXTURE).set_params(link="logit").fit(X, Y)
    assert get_scorer(f"marmix_{name}")(fitted, X, Y) == population_scorer(metric)(fitted, X, Y)


def test_several_scores_by_name_choose_the_candidate():
    scoring = ["marmix_neg_log_loss", "marmix_accuracy"]
    grid = {"covariance_type": ["spherical", "tied"]}
    kind = MARGaussianMixture(link="logit")
    search = GridSearchCV(kind, grid, cv=FOLDS, scoring=scoring, refit="marmix_neg_log_loss").fit(X, Y)
    losses = [
        np.mean(cross_val_score(clone(kind).set_params(covariance_type=c), X, Y, cv=FOLDS, scoring=scoring[0]))
        for c in grid["covariance_type"]
    ]
    np.testing.assert_allclose(search.cv_results_["mean_test_marmix_neg_log_loss"], losses, rtol=1e-12)
    assert search.best_index_ == np.argmax(losses)


@pytest.mark.parametrize("scoring", ["one", "several"])
def test_a_search_does_not_take_its_first_candidate_where_the_scorer_cannot_score(scoring):
    forest = DecisionTreeClassifier(random_state=0)
    scorer = population_scorer("log_loss", DIRECT.fit(X, Y).set_params(link=None).predict_proba)
    options = {"scoring": scorer} if scoring == "one" else {"scoring": {"a": scorer}, "refit": "a"}
    with pytest.raises(ValueError, match="DecisionTreeClassifier has learnt missing labels as the class -1"):
        GridSearchCV(forest, {"max_depth": [1, 2]}, cv=StratifiedKFold(3), **options).fit(X, Y)
    with pytest.raises(ValueError, match="LabelledRows has no missing_proba"):
        GridSearchCV(LabelledRows(forest), {"classes": [None]}, cv=FOLDS, scoring="marmix_accuracy").fit(X, Y)


def test_a_scorer_called_by_hand_raises():
    with pytest.raises(ValueError, match="DecisionTreeClassifier has learnt missing labels as the class -1"):
        population_scorer("accuracy")(DecisionTreeClassifier().fit(X, Y), X, Y)
    named = LabelledRows(DecisionTreeClassifier(), classes=[-1, 0, 1]).fit(X, Y)
    assert population_scorer("accuracy", lambda X: np.full(len(X), 0.5))(named, X[LABELLED], Y[LABELLED]) == 1.0


# Folds of labelled rows

PLAIN = [
    DecisionTreeClassifier(),
    make_pipeline(StandardScaler(), LogisticRegression()),
    GridSearchCV(DecisionTreeClassifier(), {"max_depth": [1]}),
    VotingClassifier([("a", DecisionTreeClassifier())]),
    RandomForestClassifier(),
]


@pytest.mark.parametrize("plain", PLAIN, ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("folds", [PartialLabelKFold(3), FOLDS], ids=lambda f: type(f).__name__)
def test_a_classifier_that_would_learn_missing_labels_is_not_cross_validated(plain, folds):
    message = r"would learn missing labels as a class: use marmix.LabelledRows\("
    with pytest.raises(ValueError, match=message):
        cross_val_score(plain, X, Y, cv=folds)
    with pytest.raises(ValueError, match=message):
        GridSearchCV(plain, {}, cv=folds).fit(X, Y)


def test_folds_of_labelled_rows_do_for_all_others():
    for classifier in (LabelledRows(LogisticRegression()), make_pipeline(StandardScaler(), LabelSpreading()), MIXTURE):
        assert np.mean(cross_val_score(classifier, X, Y, cv=FOLDS)) > 0.8
    assert np.mean(cross_val_score(LogisticRegression(), X, TRUTH, cv=FOLDS)) > 0.8
    assert len(list(FOLDS.split(X, Y))) == 3


# LabelledRows


@pytest.mark.parametrize(
    "y",
    [
        Y,
        np.where(LABELLED, TRUTH, np.nan),
        np.where(LABELLED, TRUTH.astype(object), None),
        [None if missing else label for missing, label in zip(~LABELLED, TRUTH.tolist(), strict=True)],
    ],
    ids=["-1", "NaN", "None", "list"],
)
def test_labelled_rows_is_the_classifier_fitted_to_the_labelled_rows(y):
    weight = RNG.uniform(0.5, 2.0, size=60)
    wrapped = LabelledRows(LogisticRegression()).fit(X, y, sample_weight=weight)
    direct = LogisticRegression().fit(X[LABELLED], TRUTH[LABELLED], sample_weight=weight[LABELLED])
    for method in ("predict", "predict_proba", "predict_log_proba", "decision_function"):
        np.testing.assert_array_equal(getattr(wrapped, method)(X), getattr(direct, method)(X))
    assert wrapped.classes_.tolist() == [0, 1]
    assert wrapped.score(X, y) == direct.score(X[LABELLED], TRUTH[LABELLED])
    np.testing.assert_array_equal(wrapped.coef_, direct.coef_)


@pytest.mark.parametrize("masked", [LABELLED, ~LABELLED])
def test_masked_features_are_missing_in_wrappers(masked):
    hidden = np.ma.array(X, mask=np.zeros_like(X, dtype=bool))
    hidden[np.flatnonzero(masked)[0], 0] = np.ma.masked
    with pytest.raises(ValueError, match="NaN"):
        WithUnlabelled(MARLogisticRegression(), hidden[~LABELLED]).fit(hidden[LABELLED], Y[LABELLED])
    wrapped = LabelledRows(LogisticRegression())
    with pytest.raises(ValueError, match="NaN"):
        wrapped.fit(hidden, Y).predict(hidden)


def test_labelled_rows_of_tables_sparse_rows_and_nested_weights():
    pandas, sparse = pytest.importorskip("pandas"), pytest.importorskip("scipy.sparse")
    frame = pandas.DataFrame(X, columns=["length", "width"])
    y = pandas.Series(TEXTS, dtype="str")
    wrapped = LabelledRows(LogisticRegression()).fit(frame, y)
    assert wrapped.feature_names_in_.tolist() == ["length", "width"]
    assert wrapped.classes_.tolist() == ["no", "yes"]
    of_sparse = LabelledRows(LogisticRegression()).fit(sparse.csr_array(X), Y)
    np.testing.assert_allclose(of_sparse.predict_proba(X), wrapped.predict_proba(frame), rtol=1e-6)
    pipeline = LabelledRows(make_pipeline(StandardScaler(), LogisticRegression()))
    weighted = pipeline.fit(X, Y, logisticregression__sample_weight=LABELLED + 0.5)
    assert weighted.n_features_in_ == 2


def test_an_estimator_of_marmix_in_labelled_rows_sees_no_missing_label():
    wrapped = LabelledRows(MIXTURE).fit(X, Y)
    np.testing.assert_array_equal(
        wrapped.predict_proba(X), clone(MIXTURE).fit(X[LABELLED], Y[LABELLED]).predict_proba(X)
    )


def test_a_refused_fit_leaves_labelled_rows_as_it_was():
    wrapped = LabelledRows(LogisticRegression()).fit(X, Y)
    before = wrapped.predict_proba(X)
    for y, message in (
        (np.full(60, -1), "y has no label at all"),
        (np.zeros((60, 2)), "y has votes"),
        (None, "the target y is None"),
        (Y[:50], "inconsistent numbers of samples"),
        (np.zeros(60), "class"),
    ):
        with pytest.raises(ValueError, match=message):
            wrapped.fit(X, y)
    with pytest.raises(ValueError, match=r"label 1, which is not among the classes \[0, 2\]"):
        wrapped.set_params(classes=[0, 2]).fit(X, Y)
    np.testing.assert_array_equal(wrapped.predict_proba(X), before)
    with pytest.raises(ValueError, match="is not a classifier"):
        LabelledRows(LinearRegression()).fit(X, Y)


SUPERVISED = [
    SelectKBest(k=1),
    SelectFromModel(LogisticRegression()),
    RFE(LogisticRegression(), n_features_to_select=1),
    LinearDiscriminantAnalysis(),
    PLSRegression(1),
    FeatureUnion([("a", SelectKBest(k=1))]),
    ColumnTransformer([("a", SelectKBest(k=1), [0, 1])]),
]


@pytest.mark.parametrize("transformer", SUPERVISED, ids=lambda t: type(t).__name__)
def test_transformers_that_learn_the_labels_are_fitted_to_the_labelled_rows(transformer):
    with pytest.raises(ValueError, match="would learn missing labels as a class"):
        make_pipeline(transformer, MIXTURE).fit(X, Y)
    pipeline = make_pipeline(LabelledRows(transformer), MIXTURE).fit(X, Y)
    features = clone(transformer).fit(X[LABELLED], Y[LABELLED]).transform(X)
    np.testing.assert_array_equal(pipeline.predict_proba(X), clone(MIXTURE).fit(features, Y).predict_proba(features))


def test_transformers_that_ignore_the_labels_are_not_refused():
    for transformer in (
        StandardScaler(),
        PCA(1),
        KBinsDiscretizer(encode="ordinal", strategy="uniform"),
        "passthrough",
    ):
        assert make_pipeline(transformer, MIXTURE).fit(X, Y).classes_.tolist() == [0, 1]


MINUS_ONE = {"check_classifiers_classes": "-1 marks a missing label, and the check uses it as a class"}


@parametrize_with_checks([LabelledRows(GaussianNB())], expected_failed_checks=lambda e: MINUS_ONE)
def test_scikit_learn_finds_nothing_wrong_with_labelled_rows(estimator, check):
    check(estimator)


@pytest.mark.long
@parametrize_with_checks(
    [LabelledRows(LogisticRegression()), WithUnlabelled(LogisticRegression(), None), LabelledRows(MIXTURE)],
    expected_failed_checks=lambda e: MINUS_ONE,
)
def test_scikit_learn_finds_nothing_wrong_with_wrappers(estimator, check):
    check(estimator)


# WithUnlabelled


def test_with_unlabelled_is_the_estimator_fitted_to_all_rows():
    pandas = pytest.importorskip("pandas")
    weight = np.where(LABELLED, 2.0, 2.0)
    for kind in (MIXTURE, make_pipeline(StandardScaler(), LOGISTIC)):
        for y in (Y, TEXTS):
            wrapped = WithUnlabelled(kind, X[~LABELLED]).fit(X[LABELLED], y[LABELLED])
            np.testing.assert_allclose(wrapped.predict_proba(X), clone(kind).fit(X, y).predict_proba(X), atol=1e-6)
    weighted = clone(INSIDE).fit(X[LABELLED], Y[LABELLED], sample_weight=weight[LABELLED])
    np.testing.assert_allclose(
        weighted.predict_proba(X), clone(MIXTURE).fit(X, Y, sample_weight=weight).predict_proba(X), atol=1e-6
    )
    frame = pandas.DataFrame(X, columns=["length", "width"])
    named = WithUnlabelled(MIXTURE, frame[["width", "length"]][~LABELLED]).fit(frame[LABELLED], Y[LABELLED])
    np.testing.assert_allclose(named.predict_proba(frame), DIRECT.predict_proba(X), atol=1e-6)
    assert named.feature_names_in_.tolist() == ["length", "width"]


@pytest.mark.parametrize("scoring", ["marmix_neg_log_loss", "roc_auc"])
def test_folds_with_unlabelled_rows_inside_are_folds_of_labelled_rows(scoring):
    kind = clone(MIXTURE).set_params(link="logit")
    inside = cross_val_score(
        WithUnlabelled(kind, X[~LABELLED]), X[LABELLED], Y[LABELLED], cv=StratifiedKFold(3), scoring=scoring
    )
    np.testing.assert_allclose(inside, cross_val_score(kind, X, Y, cv=FOLDS, scoring=scoring), atol=1e-5)


@pytest.mark.parametrize(
    "name", [name for name in METAS if not (name in (*SELECTORS, *names_that(OTHER)) or "Regressor" in name)]
)
def test_with_unlabelled_works_in_every_tool_or_says_why_not(name):
    why_not = {
        "OneVsOneClassifier": "fits two classes at a time",
        "ClassifierChain": "both need the same columns",
    }
    estimator = clone(INSIDE).fit(X[LABELLED], Y[LABELLED]) if name == "FrozenEstimator" else INSIDE
    tool = METAS[name][1](estimator, grid=NESTED)
    y = labels_for(name, Y[LABELLED])
    if name in why_not:
        with pytest.raises((ValueError, TypeError), match=why_not[name]):
            tool.fit(X[LABELLED], y)
        return
    predicted = tool.fit(X[LABELLED], y).predict(X)
    exactly = {"VotingClassifier", "BaggingClassifier", "OneVsRestClassifier", "FixedThresholdClassifier", "Pipeline"}
    if name in exactly:
        np.testing.assert_array_equal(predicted, DIRECT.predict(X))
    assert np.mean(predicted == labels_for(name, TRUTH)) > 0.85
    if name != "MultiOutputClassifier":
        assert tool.classes_.tolist() == [0, 1]


def test_with_unlabelled_refuses_what_would_mislead_it():
    for tool in (
        make_pipeline(StandardScaler(), INSIDE),
        make_pipeline(StandardScaler(), GridSearchCV(INSIDE, NESTED)),
    ):
        with pytest.raises(ValueError, match=r"put the\s+pipeline inside"):
            tool.fit(X[LABELLED], Y[LABELLED])
    with pytest.raises(ValueError, match=f"{np.sum(~LABELLED)} labels in y are missing"):
        clone(INSIDE).fit(X, Y)
    with pytest.raises(ValueError, match="GaussianNB would learn missing labels as a class: WithUnlabelled is for"):
        WithUnlabelled(make_pipeline(StandardScaler(), GaussianNB()), X[~LABELLED]).fit(X[LABELLED], Y[LABELLED])
    with pytest.raises(ValueError, match="both need the same columns"):
        clone(INSIDE).fit(X[LABELLED][:, :1], Y[LABELLED])
    with pytest.raises(ValueError, match="both need the same columns"):
        SequentialFeatureSelector(INSIDE, n_features_to_select=1).fit(X[LABELLED], Y[LABELLED])


def test_with_unlabelled_is_no_candidate_of_an_average():
    candidates = {"a": MIXTURE, "b": INSIDE}
    with pytest.raises(ValueError, match="put the pipeline inside"):
        MARClassifierCV(estimators=candidates, cv=2).fit(X, Y)


# The page of the guide


@pytest.mark.long
def test_the_examples_of_the_page_on_pipelines_run():
    page = (Path(__file__).parents[1] / "docs" / "guide" / "pipelines.md").read_text(encoding="utf-8")
    names = {"X": X, "y": Y, "np": np}
    for block in re.findall(r"```\{python\}\n(.*?)```", page, re.S)[1:4]:
        exec(block, names)
    assert np.mean(names["ours"]) > np.mean(names["theirs"])
    assert names["calibrated"].classes_.tolist() == [0, 1]


# Saving


def test_what_a_wrapper_holds_can_be_saved(tmp_path):
    inside = clone(INSIDE).fit(X[LABELLED], Y[LABELLED])
    search = GridSearchCV(MIXTURE, GRID, cv=3).fit(X, Y)
    for model, name in (
        (inside, "estimator_"),
        (LabelledRows(MIXTURE).fit(X, Y), "estimator_"),
        (search, "best_estimator_"),
    ):
        with pytest.raises(ValueError, match=f"cannot be saved.*{name}"):
            marmix.save(model, tmp_path / "model.marmix")
        marmix.save(getattr(model, name), tmp_path / "model.marmix", overwrite=True)
        loaded = marmix.load(tmp_path / "model.marmix")
        np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


def test_folds_take_the_classes_of_the_estimator_that_is_cross_validated():
    """Of -1, 0 and 1, each class is tested, as if the folds named them."""
    y = np.arange(60) % 3 - 1
    named = StratifiedPartialLabelKFold(3, classes=[-1, 0, 1])
    tested = [test.tolist() for _, test in named.split(X, y)]
    logistic = MARLogisticRegression(link=None, classes=[-1, 0, 1], max_iter=1)
    for estimator in (
        logistic,
        make_pipeline(StandardScaler(), logistic),
        LabelledRows(GaussianNB(), classes=[-1, 0, 1]),
    ):
        done = cross_validate(estimator, X, y, cv=FOLDS, return_indices=True)
        assert [test.tolist() for test in done["indices"]["test"]] == tested
    assert sorted(row for rows in tested for row in rows) == list(range(60))
    assert eval(repr(named)).classes == [-1, 0, 1]


@pytest.mark.parametrize("estimator", [LOGISTIC, make_pipeline(StandardScaler(), LOGISTIC), LabelledRows(GaussianNB())])
@pytest.mark.parametrize("scoring", ["marmix_accuracy", ["marmix_roc_auc", "marmix_accuracy"]])
def test_scores_of_all_rows_need_a_mechanism(estimator, scoring):
    for validate in (
        cross_validate,
        lambda *args, **kwargs: GridSearchCV(args[0], {}, refit=False, **kwargs).fit(X, Y),
    ):
        with pytest.raises(ValueError, match=r"^\w+ has no missing_proba.*StratifiedPartialLabelKFold"):
            validate(estimator, X, Y, cv=FOLDS, scoring=scoring)
    with pytest.raises(ValueError, match="accuracy_score of scikit-learn counts missing") as raised:
        cross_validate(estimator, X, Y, cv=3, scoring="accuracy")
    assert "marmix_" not in str(raised.value)


def test_a_search_may_choose_the_mechanism():
    search = GridSearchCV(LOGISTIC, {"link": ["logit"]}, cv=FOLDS, scoring="marmix_accuracy", refit=False).fit(X, Y)
    assert 0.5 < search.best_score_ <= 1.0


def test_a_metric_of_scikit_learn_is_recognised_behind_wrappers():
    @wraps(fbeta_score)
    def rounded(*args, **kwargs):
        return round(fbeta_score(*args, **kwargs), 3)

    macro = {"beta": 2.0, "average": "macro"}
    for metric in (partial(fbeta_score, **macro), partial(partial(fbeta_score, beta=2.0), average="macro"), rounded):
        scorer = make_scorer(metric, **(macro if metric is rounded else {}))
        with pytest.raises(ValueError, match="fbeta_score of scikit-learn counts missing"):
            cross_val_score(LOGISTIC, X, Y, cv=3, scoring=scorer)


def test_the_tool_is_named_also_around_a_pipeline():
    with pytest.raises(ValueError, match=r"^OneVsRestClassifier takes missing labels for a class"):
        OneVsRestClassifier(make_pipeline(StandardScaler(), LOGISTIC)).fit(X, np.where(LABELLED, np.arange(60) % 3, -1))
