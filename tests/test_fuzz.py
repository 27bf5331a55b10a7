"""Random hostile tables and arrays: a sound result, or an error in words that leaves nothing behind.

Cases come from seeds; with ``--long`` there are new ones for a minute each. Model files are in test_persistence_hostile.py.
"""

import gzip
import io
import os
import random
import zipfile

import numpy as np
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("openpyxl")

import pandas as pd
from damage import damaged
from sklearn.base import clone

from marmix import (
    MARBoostingClassifier,
    MARClassifierCV,
    MARGaussianMixture,
    MARKernelClassifier,
    MARLogisticRegression,
    MARStudentMixture,
)
from marmix.app.reading import read, write_rows
from marmix.app.survey import labels_of
from marmix.outputs import new_files
from marmix.tables import Preparation

pytestmark = pytest.mark.filterwarnings("ignore")


def check_words(message, most=600):
    assert 10 < len(message) < most, message
    assert message.count("\n") <= 2 or most > 600, message


# Tables


def table():
    x = [round(0.37 * i - 3.0, 3) for i in range(40)]
    columns = {
        "id": [f"p{i}" for i in range(40)],
        "x": x,
        "group": list("abcd") * 10,
        "label": ["u", "v", "", "NA"] * 10,
    }
    return pd.DataFrame(columns)


def as_bytes(write):
    file = io.BytesIO()
    write(file)
    return file.getvalue()


SOURCES = {
    ".csv": as_bytes(lambda file: table().to_csv(file, index=False)),
    ".csv.gz": gzip.compress(as_bytes(lambda file: table().to_csv(file, index=False)), mtime=0),
    ".parquet": as_bytes(lambda file: table().to_parquet(file, row_group_size=17)),
    ".xlsx": as_bytes(lambda file: table().to_excel(file, index=False)),
}


def damaged_inside(data, rng):
    """A workbook, one part of which was changed before it was packed."""
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(file, "w") as new:
        chosen = rng.choice(old.namelist())
        for name in old.namelist():
            new.writestr(name, damaged(old.read(name), rng) if name == chosen else old.read(name))
    return file.getvalue()


def copied(path, out):
    """The number of rows of a file that is read, prepared and written again."""
    table = read(path)
    label = "label" if "label" in table.names else table.names[-1]
    features = [name for name in table.names if name not in ("id", label)]
    assert np.isfinite(Preparation(features=features).fit(table.data).transform(table.data)).all()
    labels = labels_of(table, label)
    assert labels.codes.max() < len(labels.classes)
    with new_files(out, ["copy.csv"]) as part:
        write_rows(part / "copy.csv", table, {"new": np.repeat("a", len(labels.codes))}, escape_formulas=True)
    return len(labels.codes)


@pytest.mark.parametrize("ending", SOURCES)
def test_a_damaged_table_gives_rows_or_an_error_in_words(ending, seeds, tmp_path):
    outcomes = set()
    for seed in seeds(20):
        rng, folder = random.Random(seed), tmp_path / str(seed)
        folder.mkdir()
        path = folder / f"rows{ending}"
        damage = damaged_inside if ending == ".xlsx" and seed % 3 else damaged
        path.write_bytes(damage(SOURCES[ending], rng) if seed else SOURCES[ending])
        try:
            assert copied(path, folder / "out") == 40 or seed
            outcomes.add("read")
        except (ValueError, OSError) as error:
            check_words(str(error))
            assert os.listdir(folder) == [path.name]
            outcomes.add("refused")
    assert outcomes == {"read", "refused"}


# Arrays


NUMBERS = [0.0, 1.0, 1e-300, 1e8, -1e100, 1e155, 1.7e308, np.nan, np.inf]
LABELS = [["a", "b"], [0, 1], [0.0, 1.0], [True, False], [0, "a"], [-1, 0], ["", "x"], [None, 1]]
ESTIMATORS = [
    MARGaussianMixture(max_iter=20, n_init=1),
    MARStudentMixture(max_iter=20, n_init=1),
    MARLogisticRegression(max_iter=20, n_init=1),
    MARKernelClassifier(C=1.0, gamma=0.5, mechanism_weight=0.1, n_landmarks=5, max_iter=20),
    MARClassifierCV(estimators={"a": MARGaussianMixture(max_iter=20), "b": MARLogisticRegression(link=None)}, cv=2),
    MARBoostingClassifier(n_estimators=3, mechanism_weight=0.1, n_jobs=1),
]


def odd_features(X, rng):
    """The rows with absurd numbers, or of another type, shape or layout."""
    value, kind = rng.choice(NUMBERS), rng.choice(["float16", "int8", "bool", "complex128", "object", "U5", ">f8"])
    one, column = X.copy(), X.copy()
    one[rng.randrange(len(X)), 0] = column[:, 0] = value
    masked = np.ma.array(X, mask=rng.choice([0.0, 100.0]) < X)
    shapes = [X[:, :0], X.ravel(), X[None], X[:0], None, {"a": X[:, 0]}, X.tolist()]
    return rng.choice([X, X, one, column, X * value, X.astype(kind), masked, rng.choice(shapes)])


def odd_labels(z, rng):
    """Labels of any kind, with any marker where they are missing."""
    names, marker = rng.choice(LABELS), rng.choice([-1, -1, None, np.nan, "", "NA", -2])
    y = [marker if k < 0 else names[k] for k in z.tolist()]
    return rng.choice([y, y[:-1], np.array([*y, None], dtype=object)[:-1], np.array(y, dtype="U5"), z, None])


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda estimator: type(estimator).__name__)
def test_arrays_of_any_kind_give_probabilities_or_an_error_in_words(estimator, seeds):
    if isinstance(estimator, MARBoostingClassifier):
        pytest.importorskip("lightgbm")
    z = np.arange(36) % 2
    X = np.random.default_rng(0).normal(size=(36, 2)) + 2.0 * z[:, None]
    z[::3] = -1
    for seed in seeds(6):
        rng = random.Random(seed)
        with np.errstate(all="ignore"):
            try:
                fit = clone(estimator).fit(odd_features(X, rng), odd_labels(z, rng))
                proba = fit.predict_proba(odd_features(X, rng))
            except (ValueError, TypeError) as error:
                check_words(str(error), most=20_000)  # scikit-learn shows the array
                continue
        assert np.isfinite(proba).all()
        np.testing.assert_allclose(proba.sum(axis=1), 1.0, rtol=1e-6)
        assert proba.shape[1] == len(fit.classes_)
