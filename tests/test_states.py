"""Estimators through fits, refused fits, changed parameters, copies and files: they answer as at the last successful fit."""

import copy
import pickle
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from marmix import (
    MARBoostingClassifier,
    MARClassifierCV,
    MARGaussianMixture,
    MARKernelClassifier,
    MARLogisticRegression,
    MARStudentMixture,
    load,
    save,
)

pd = pytest.importorskip("pandas")

pytestmark = pytest.mark.filterwarnings("ignore")

TWO = {"mixture": MARGaussianMixture(max_iter=20), "logistic": MARLogisticRegression(link=None, max_iter=20)}
ESTIMATORS = {
    "mixture": MARGaussianMixture(max_iter=20),
    "student": MARStudentMixture(max_iter=5, n_init=1),
    "logistic": MARLogisticRegression(max_iter=20),
    "kernel": MARKernelClassifier(C=1.0, gamma=0.5, mechanism_weight=0.1, cv=None, n_landmarks=8, max_iter=20),
    "boosting": MARBoostingClassifier(n_estimators=3, mechanism_weight=0.03, n_jobs=1),
    "average": MARClassifierCV(estimators=TWO, cv=2),
}


def rows(seed, classes=("no", "yes"), d=2, named=False):
    """Forty rows of a few classes, a third of them without a label; `X` may be a table with names."""
    rng = np.random.default_rng(seed)
    z = np.arange(40) % len(classes)
    X = rng.normal(size=(40, d)) + 1.5 * z[:, None]
    y = np.array(classes, dtype=object)[z]
    y[rng.random(40) < 0.3] = None
    return pd.DataFrame(X, columns=[f"f{i}" for i in range(d)]) if named else X, y


def _with(X, value):
    X = np.array(X)
    X[7, 0] = value
    return X


# What is wrong with a fit that is refused: other rows, classes and columns than those of the fit before.
REFUSED = {
    "infinity": lambda X, y: (_with(X, np.inf), y),
    "too large": lambda X, y: (_with(X, -1e160), y),
    "lengths": lambda X, y: (X[:-1], y),
    "no label": lambda X, y: (X, np.full(len(y), None)),
    "one class": lambda X, y: (X, np.where(y == y[np.flatnonzero(y)[0]], y, None)),
    "text": lambda X, y: (np.full(X.shape, "red"), y),
    "dates": lambda X, y: (X.astype("datetime64[s]"), y),
    "weights": lambda X, y: (X, y, np.full(len(y), -1.0)),
    "masked weight": lambda X, y: (X, y, np.ma.array(np.ones(len(y)), mask=np.arange(len(y)) == 2)),
    "no rows": lambda X, y: (X[:0], y[:0]),
}
METHODS = ["predict", "predict_proba", "predict_log_proba", "decision_function", "missing_proba", "uncertainty"]
# Parameters that a fit refuses.
WRONG = {
    "measure": "unknown",
    "shape": -1.0,
    "mechanism_features": ["absent"],
    "link": "none",
    "n_jobs": 0,
    "method": "best",
}


def answers(estimator, X):
    """Everything a fitted estimator says: predictions and public attributes."""
    said = {"predict": estimator.predict(X).tolist(), "proba": np.asarray(estimator.predict_proba(X)).tobytes()}
    for name in (
        "classes_",
        "n_features_in_",
        "feature_names_in_",
        "notes_",
        "alpha_",
        "weights_",
        "mechanism_weight_",
    ):
        said[name] = repr(getattr(estimator, name, None))
    for name in ("transduction_", "held_out_proba_"):
        said[name] = repr(np.asarray(getattr(estimator, name, None)).tolist())
    return said


class Life(RuleBasedStateMachine):
    """One estimator through fits and refusals; after each step it answers as at its last successful fit."""

    kind: str

    def __init__(self):
        super().__init__()
        self.estimator, self.expected, self.X = clone(ESTIMATORS[self.kind]), None, None

    @rule(
        seed=st.integers(0, 3),
        classes=st.sampled_from([("no", "yes"), ("a", "b", "c"), (0, 1)]),
        d=st.integers(1, 3),
        named=st.booleans(),
    )
    def fit(self, seed, classes, d, named):
        X, y = rows(seed, classes, d, named)
        assert self.estimator.fit(X, y) is self.estimator
        self.X, self.expected = X, answers(self.estimator, X)
        fresh = answers(clone(self.estimator).fit(X, y), X)
        assert self.expected == fresh  # nothing of an earlier fit is left

    @rule(what=st.sampled_from(sorted(REFUSED)), seed=st.integers(4, 6), d=st.integers(1, 3))
    def refused_fit(self, what, seed, d):
        X, y = rows(seed, ("x", "y", "z"), d)
        with pytest.raises((ValueError, TypeError)):
            self.estimator.fit(*REFUSED[what](X, y))

    @rule(name=st.sampled_from(sorted(WRONG)), seed=st.integers(4, 6))
    def refused_parameter(self, name, seed):
        if name not in self.estimator.get_params():
            return
        before = self.estimator.get_params()[name]
        self.estimator.set_params(**{name: WRONG[name]})
        with pytest.raises((ValueError, TypeError)):
            self.estimator.fit(*rows(seed, ("x", "y", "z"), 3))
        self.estimator.set_params(**{name: before})

    @precondition(lambda self: self.expected is not None)
    @rule(value=st.sampled_from([np.inf, -np.inf, 1e151, -1e300]), name=st.sampled_from(METHODS))
    def refused_prediction(self, value, name):
        if hasattr(self.estimator, name):
            with pytest.raises(ValueError, match="column"):
                getattr(self.estimator, name)(_with(self.X, value))

    @precondition(lambda self: self.expected is not None)
    @rule(how=st.sampled_from(["pickle", "deepcopy", "copy"]))
    def copied(self, how):
        ways = {"pickle": lambda e: pickle.loads(pickle.dumps(e)), "deepcopy": copy.deepcopy, "copy": copy.copy}
        self.estimator = ways[how](self.estimator)

    @precondition(lambda self: self.expected is not None)
    @rule()
    def saved_and_loaded(self):
        with tempfile.TemporaryDirectory() as folder:
            save(self.estimator, Path(folder) / "model.marmix")
            loaded = load(Path(folder) / "model.marmix")
        kept = set(self.expected) - {"transduction_", "held_out_proba_"}  # these describe the rows, and are not saved
        said = answers(loaded, self.X)
        assert {name: said[name] for name in kept} == {name: self.expected[name] for name in kept}
        self.estimator, self.expected = loaded, said

    @rule()
    def cloned(self):
        with pytest.raises(NotFittedError):
            check_is_fitted(clone(self.estimator))

    @invariant()
    def answers_as_at_the_last_fit(self):
        if self.expected is None:
            with pytest.raises(NotFittedError):
                check_is_fitted(self.estimator)
        else:
            assert answers(self.estimator, self.X) == self.expected


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_an_estimator_answers_as_at_its_last_successful_fit(kind, long):
    examples, steps = (300, 30) if long else (1, 4) if kind == "average" else (2, 10)
    size = settings(settings(), max_examples=examples, stateful_step_count=steps)
    run_state_machine_as_test(type(kind, (Life,), {"kind": kind}), settings=size)
