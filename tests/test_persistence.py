"""A model in a file: what is loaded is what was saved, and a model that cannot be saved is refused with a reason."""

import io
import json
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import sklearn
from make_models import DATA, GRID, KINDS, THREE
from model_files import saved
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

import marmix
from marmix import MARClassifierCV, MARGaussianMixture, MARLogisticRegression
from marmix.persistence import describe, load, save
from marmix.persistence.format import read, write

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
ANSWERS = ("predict_proba", "predict", "missing_proba", "uncertainty")


@pytest.fixture(scope="module", params=KINDS)
def fitted(request):
    """A fitted model, with its features."""
    if request.param == "boosting":
        pytest.importorskip("lightgbm")
    model, (X, y) = KINDS[request.param]
    return clone(model).fit(X, y), X


@pytest.fixture(scope="module")
def mixture():
    X, y = THREE
    return MARGaussianMixture(link="logit").fit(X, y)


def test_every_answer_is_the_same_to_the_last_bit(fitted, tmp_path):
    model, X = fitted
    again = load(saved(model, tmp_path))
    assert type(again) is type(model)
    assert repr(again) == repr(model)
    for name in ANSWERS:
        assert hasattr(again, name) == hasattr(model, name)
        if hasattr(model, name):
            np.testing.assert_array_equal(getattr(again, name)(X), getattr(model, name)(X))
    one, other = (m[-1] if isinstance(m, Pipeline) else m for m in (again, model))
    assert str(one.summary()) == str(other.summary())
    assert one.notes_ == other.notes_
    first = (tmp_path / "model.marmix").read_bytes()
    assert saved(again, tmp_path).read_bytes() == first


@pytest.mark.parametrize(
    ("version", "name"),
    [
        (path.stem, name.removesuffix(".marmix"))
        for path in sorted(DATA.glob("models-*.zip"))
        for name in zipfile.ZipFile(path).namelist()
        if name != "answers.json"
    ],
)
def test_files_of_earlier_versions_predict_as_they_did(version, name, tmp_path):
    with zipfile.ZipFile(DATA / f"{version}.zip") as archive:
        answers = json.loads(archive.read("answers.json"))[name]
        path = Path(archive.extract(f"{name}.marmix", tmp_path))
    model, X = load(path), answers.pop("X")
    X = pd.DataFrame(X) if isinstance(X, dict) else np.array(X)
    for method, values in answers.items():
        np.testing.assert_allclose(getattr(model, method)(X), values, rtol=1e-10)
    assert describe(path)["about"] == {"made by": "make_models.py"}
    saved(model, tmp_path)
    np.testing.assert_array_equal(load(tmp_path / "model.marmix").predict_proba(X), model.predict_proba(X))


def test_inference_recognises_the_rows_after_loading(two, tmp_path):
    clf = MARLogisticRegression(C=np.inf, link="logit").fit(two.X, two.y)
    again = load(saved(clf, tmp_path))
    np.testing.assert_array_equal(again.inference(two.X, two.y).bse, clf.inference(two.X, two.y).bse)
    assert [again.aic(), again.bic()] == [clf.aic(), clf.bic()]
    with pytest.raises(ValueError, match="not the rows"):
        again.inference(two.X[1:], two.y[1:])


def test_a_warm_start_continues_from_the_file(two, tmp_path):
    clf = MARGaussianMixture(link="logit", warm_start=True).fit(two.X, two.y)
    again = load(saved(clf, tmp_path))
    again.fit(two.X[10:], two.y[10:])
    clf.fit(two.X[10:], two.y[10:])
    assert (again.loglik_, again.n_iter_) == (clf.loglik_, clf.n_iter_)


@pytest.mark.parametrize(
    "classes",
    [
        np.array([3, 7], dtype=np.int8),
        np.array([1.0, 2.0], dtype=np.float32),
        np.array([False, True]),
        np.array(["n", "yes"]),
        np.array(["n\u00e9e", "<yes> & \U0001f600"], dtype=object),
    ],
    ids=lambda names: str(names.dtype),
)
def test_classes_keep_their_type(classes, two, tmp_path):
    clf = MARGaussianMixture(link=None, covariance_type="tied").fit(two.X, classes[two.truth])
    again = load(saved(clf, tmp_path))
    assert again.classes_.dtype == clf.classes_.dtype
    np.testing.assert_array_equal(again.predict(two.X), clf.predict(two.X))


def test_feature_names_come_back(two, tmp_path):
    frame = pd.DataFrame(two.X, columns=["length", "width"])
    clf = MARLogisticRegression(link="logit", mechanism_features=["width"]).fit(frame, two.y)
    again = load(saved(clf, tmp_path))
    np.testing.assert_array_equal(again.missing_proba(frame), clf.missing_proba(frame))
    with pytest.raises(ValueError, match="feature names should match"):
        again.predict(frame[["width", "length"]])


# The file


def test_describe_returns_what_is_in_the_file(mixture, tmp_path):
    about = {"label": "outcome", "missing": ["NA", ""], "rows": 300, "deep": {"x": [1.5, None, True]}}
    assert describe(saved(mixture, tmp_path, about=about)) == {
        "format": "marmix",
        "format_version": 4,
        "written_by": {"marmix": marmix.__version__, "numpy": np.__version__, "scikit-learn": sklearn.__version__},
        "class": "MARGaussianMixture",
        "classes": ["ash", "birch", "cedar"],
        "features": [{"name": "x0", "dtype": "float64"}, {"name": "x1", "dtype": "float64"}],
        "about": about,
    }
    pipeline, (X, y) = KINDS["table"]
    features = describe(saved(clone(pipeline).fit(X, y), tmp_path))["features"]
    assert [tuple(feature.values()) for feature in features] == [("a", "number"), ("b", "number"), ("c", "category")]


@pytest.mark.parametrize(
    "value",
    [
        *(None, True, -0.0, 1.5e-308, float("inf"), 2**62, "\u00fc \U0001f600 \x00"),
        *([1, [2.5, "x"], []], {"type": "dict", "a": 1}, {1: "one", "two": 2, 2.5: [None]}),
        *(np.array(["ab", ""]), np.array([True, False]), np.array(["a", 1, 2.5, None], dtype=object)),
        *(np.zeros((0, 3)), np.asfortranarray(np.arange(6.0).reshape(2, 3)), np.arange(3, dtype=">i4")),
    ],
    ids=repr,
)
def test_a_value_survives(value):
    file = io.BytesIO()
    write(file, {"format": "marmix", "format_version": 1, "model": {"value": value}})
    again = read(file)["model"]["value"]
    assert repr(again) == repr(value).replace("'>i4'", "int32")
    if isinstance(value, np.ndarray):
        assert again.dtype == value.dtype.newbyteorder("=")
        assert again.flags.f_contiguous == value.flags.f_contiguous


# What cannot be saved


class Subclass(MARGaussianMixture):
    pass


def test_what_cannot_be_saved_is_refused_with_advice(two, tmp_path):
    mixture = MARGaussianMixture(link=None).fit(two.X, two.y)
    for model, reason in [
        (MARGaussianMixture(measure=lambda log_tau: log_tau[:, 0]).fit(two.X, two.y), "measure holds a function"),
        (LogisticRegression().fit(two.X, two.truth), "LogisticRegression cannot be saved: MARGaussianMixture"),
        (make_pipeline(PCA(1), MARLogisticRegression(link=None)).fit(two.X, two.y), "PCA cannot be saved"),
        (MARClassifierCV(estimators=GRID, cv=StratifiedKFold(3)).fit(two.X, two.y), "cv holds a .*KFold.*set_params"),
        (clone(mixture).fit(two.X, two.y).set_params(init={"alpha": {1, 2}}), "alpha holds a set"),
        (Subclass(link=None).fit(two.X, two.y), "Subclass cannot be saved"),
    ]:
        with pytest.raises(ValueError, match=reason):
            save(model, tmp_path / "model.marmix")
    for model in (MARGaussianMixture(), make_pipeline(StandardScaler(), MARGaussianMixture())):
        with pytest.raises(NotFittedError):
            save(model, tmp_path / "model.marmix")
    for about in ({"x": np.nan}, {"x": object()}):
        with pytest.raises((TypeError, ValueError), match="JSON"):
            save(mixture, tmp_path / "model.marmix", about=about)
    assert list(tmp_path.iterdir()) == []


# Where it goes


def test_a_file_is_replaced_only_when_asked(mixture, tmp_path):
    path = tmp_path / "model"
    path.write_text("precious", encoding="utf-8")
    with pytest.raises(FileExistsError, match="overwrite=True"):
        save(mixture, path)
    assert path.read_text(encoding="utf-8") == "precious"
    save(mixture, str(path), overwrite=True)
    assert load(str(path)).loglik_ == mixture.loglik_
    assert [file.name for file in tmp_path.iterdir()] == ["model"]


def test_a_path_that_is_no_file_is_refused(mixture, tmp_path):
    with pytest.raises(OSError, match="folder"):
        save(mixture, tmp_path, overwrite=True)
    for path in (tmp_path / "nothing", tmp_path):
        with pytest.raises(OSError, match=path.name):
            load(path)
