"""Arrays of any type, shape and size through every estimator: finite probabilities that sum to one, or an error in words."""

import numpy as np

from fuzz.models import check_probabilities, clusters
from fuzz.running import Subject
from marmix import (
    MARBoostingClassifier,
    MARClassifierCV,
    MARGaussianMixture,
    MARKernelClassifier,
    MARLogisticRegression,
    MARStudentMixture,
)

NUMBERS = [
    0.0,
    1.0,
    -1.0,
    1e-300,
    1e-160,
    1e8,
    1e20,
    -1e100,
    1e154,
    1e155,
    -1e200,
    1.7e308,
    np.nan,
    np.inf,
    -np.inf,
    5e-324,
]
DTYPES = [
    "float64",
    "float64",
    "float32",
    "float16",
    "int64",
    "int8",
    "uint8",
    "bool",
    "complex128",
    "object",
    "U5",
    ">f8",
]
LABELS = [["a", "b", "c"], [0, 1, 2], [1, 2, 3], [0.0, 1.0, 2.0], [True, False, True], ["0", "1", "2"], [0, "a", 2.5]]
LABELS += [
    [-1, 0, 1],
    ["", "x", "y"],
    ["NA", "EU", "SA"],
    [0.5, 1.5, 2.5],
    [2**62, 1, 2],
    [(1,), (2,), (3,)],
    [None, 1, 2],
]
MISSING = [-1, None, np.nan, "", "NA", -1.0, "missing", -2]
ERRORS = (ValueError, TypeError)


def prepare(folder):
    """Makers of small estimators."""
    grid = {"a": MARGaussianMixture(covariance_type="tied", max_iter=20), "b": MARLogisticRegression(link=None)}
    models = [
        lambda rng: MARGaussianMixture(
            covariance_type=rng.choice(["full", "tied", "diag", "spherical"]),
            link=rng.choice([None, "logit"]),
            measure=rng.choice(["margin", "entropy"]),
            max_iter=20,
            n_init=1,
        ),
        lambda rng: MARStudentMixture(dof=rng.choice([3.0, "common"]), max_iter=20, n_init=1),
        lambda rng: MARLogisticRegression(
            degree=rng.choice([1, 2]), link=rng.choice([None, "logit"]), C=rng.choice([1.0, 1e6]), max_iter=20, n_init=1
        ),
        lambda rng: MARKernelClassifier(C=1.0, gamma=0.5, mechanism_weight=0.1, n_landmarks=5, max_iter=20),
        lambda rng: MARClassifierCV(estimators=grid, cv=2),
    ]
    try:
        import lightgbm  # noqa: F401
    except ImportError:
        return models
    return [*models, lambda rng: MARBoostingClassifier(n_estimators=3, mechanism_weight=0.1, n_jobs=1)]


def features(X, rng):
    """The rows with absurd numbers, of another type, shape or layout, masked or as lists."""
    X = X.copy()
    for _ in range(rng.choice([0, 0, 1, 1, 2])):
        value = rng.choice(NUMBERS)
        if not X.size:
            break
        match rng.randrange(7):
            case 0 | 1:
                X[rng.randrange(len(X)), rng.randrange(X.shape[1])] = value
            case 2:
                X[:, rng.randrange(X.shape[1])] = value
            case 3:
                X = X * value
            case 4:
                X = X + value
            case 5:
                X = np.column_stack([X, X[:, 0]])
            case 6:
                X = X[rng.choices(range(len(X)), k=rng.choice([0, 1, 2, len(X), len(X)]))]
    match rng.randrange(12):
        case 0:
            return np.ma.array(X, mask=rng.choice([0.0, 100.0]) < X)
        case 1:
            return X.tolist()
        case 2:
            return np.asfortranarray(X)[::-1]
        case 3:
            return rng.choice([X[:, :0], X.ravel(), X[None], X[:1].ravel(), np.float64(1.0), None, "X", {"a": X[:, 0]}])
        case 4 | 5:
            return X.astype(rng.choice(DTYPES))
    return X


def labels(z, rng):
    """Labels of any kind, with any marker where they are missing."""
    names, marker = list(rng.choice(LABELS)), rng.choice(MISSING) if rng.random() < 0.6 else -1
    y = [marker if k < 0 else names[k] for k in z.tolist()]
    match rng.randrange(8):
        case 0:
            return y
        case 1:
            return y[:-1]
        case 2:
            return np.ma.array(z, mask=z < 0)
        case 3:
            return np.array(y, dtype=object)[:, None]
        case 4:
            return rng.choice([np.array(y, dtype="U5"), [names[0]] * len(y), [marker] * len(y), z.astype(float), None])
    return np.array([*y, None], dtype=object)[:-1]


def attempt(sound, rng, folder):
    """Fit to such arrays, and predict such rows."""
    (X, z), model = clusters(rng.choice([2, 3]), rng.randrange(3), n=36), rng.choice(sound)(rng)
    new, labelled = features(X, rng), rng.random() < 0.3
    with np.errstate(all="ignore"):
        try:
            X, y = (X if labelled else features(X, rng)), labels(z, rng)
            model.fit(X, y)
        except ERRORS as error:
            return check_words(error)
        given = np.asarray(y, dtype=object).ravel().tolist()
        assert all(item in given for item in model.classes_.tolist()), model.classes_
        outcome = "predicted"
        for rows in (X, new):
            try:
                proba = model.predict_proba(rows)
                check_probabilities(proba, model.classes_)
                assert set(model.predict(rows).tolist()) <= set(model.classes_.tolist())
            except ERRORS as error:
                outcome = check_words(error)
    return outcome


def check_words(error):
    """The outcome of an error, which must be one in words."""
    message = str(error)
    assert 10 < len(message) < 20_000, message  # scikit-learn shows the array
    return "refused"


SUBJECT = Subject(prepare, attempt, 20, frozenset({"predicted", "refused"}))
