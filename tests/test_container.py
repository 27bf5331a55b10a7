"""A model in a file: what is loaded is what was saved, and a model that cannot be saved is refused with a reason."""

import hashlib
import io
import json
import os
import stat
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import sklearn
from model_files import members_of, saved
from problems import PAPER
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

import marmix
from marmix import (
    MARBoostingClassifier,
    MARClassifierCV,
    MARGaussianMixture,
    MARKernelClassifier,
    MARLogisticRegression,
    MARStudentMixture,
)
from marmix.persistence import ContainerError, describe, load, save
from marmix.persistence.format import Encoder, packed, read, write
from marmix.persistence.models import estimator_of, state_of

STORED = Path(__file__).parent / "data"

MODELS = {
    "full": MARGaussianMixture(**PAPER),
    "tied, share": MARGaussianMixture(link="aranda-ordaz", mcar_share=True, shape=0.5),
    "diag, several": MARGaussianMixture(covariance_type="diag", n_components={"yes": 2}, random_state=0),
    "spherical, ignored": MARGaussianMixture(covariance_type="spherical", link=None),
    "own start": MARGaussianMixture(link="logit", init={"alpha": [0.5, -1.0], "means": np.eye(2)}, measure="entropy"),
    "student": MARStudentMixture(dof="by_class", covariance_type="full", mechanism_features=[0]),
    "student, tied, several": MARStudentMixture(dof=4, n_components=2, random_state=0, link=None),
    "logistic": MARLogisticRegression(C=np.inf, link="cloglog", classes=["yes", "no"], measure="signed-margin"),
    "quadratic, covariate": MARLogisticRegression(degree=2, link="logit", mechanism_features=[1], n_init=1),
    "kernel": MARKernelClassifier(C=1.0, gamma=0.5, n_landmarks=20, cv=2, mechanism_features=[0]),
    "boosting": MARBoostingClassifier(n_estimators=10, mechanism_weight=0.1, mechanism_features=[0]),
}


def named(data, names=("no", "yes")):
    """Labels by name, None where they are missing."""
    y = np.array(names, dtype=object)[data.truth]
    y[data.missing] = None
    return y


DERIVED = ("measured", "transduction_", "held_out_proba_", "values", "total_weight")  # not compared


def vars_of(model):
    return {name: value for name, value in vars(model).items() if name not in ("transduction_", "held_out_proba_")}


def same(one, other):
    """Equal to the last bit, of the same types, at any depth; functions that were derived aside."""
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray) and one.dtype == object:
        return same(one.tolist(), other.tolist())
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(same(a, b) for a, b in zip(one, other, strict=True))
    if hasattr(one, "__dict__") and not callable(one):
        a, b = ({k: v for k, v in vars(x).items() if k not in DERIVED} for x in (one, other))
        return set(a) == set(b) and all(same(a[key], b[key]) for key in a)
    return one is other or one == other or (one != one and other != other)


@pytest.fixture(scope="module", params=MODELS)
def fitted(request, two):
    if request.param == "boosting":
        pytest.importorskip("lightgbm")
    return clone(MODELS[request.param]).fit(two.X, named(two))


def test_every_attribute_comes_back_to_the_last_bit(fitted, tmp_path):
    again = load(saved(fitted, tmp_path))
    assert type(again) is type(fitted)
    before, after = vars_of(fitted), vars_of(again)
    assert set(after) == set(before)
    assert [name for name in before if not same(before[name], after[name])] == []


def test_every_answer_is_the_same(fitted, two, tmp_path):
    again, y = load(saved(fitted, tmp_path)), named(two)
    for answer in (
        lambda clf: clf.predict_proba(two.X),
        lambda clf: clf.predict_log_proba(10.0 * two.X),
        lambda clf: clf.predict(two.X),
        lambda clf: clf.uncertainty(two.X),
        lambda clf: clf.impute(two.X, y),
        lambda clf: clf.score(two.X, y),
        lambda clf: str(clf.summary()),
        lambda clf: repr(clf.get_params()),
        lambda clf: repr(clone(clf)),
        lambda clf: clone(clf).fit(two.X, y).loglik_,
    ):
        assert same(answer(again), answer(fitted))
    if not isinstance(fitted, MARBoostingClassifier | MARKernelClassifier):
        one, other = ([clf.aic(), clf.bic(), clf.icl(), clf.bic(two.X[:50], y[:50])] for clf in (again, fitted))
        assert same(one, other)
    if fitted.link is None:
        assert not hasattr(again, "missing_proba")
    else:
        assert same(again.missing_proba(two.X), fitted.missing_proba(two.X))


def test_inference_recognises_the_rows_after_loading(two, tmp_path):
    clf = MARLogisticRegression(C=np.inf, link="logit").fit(two.X, two.y)
    again = load(saved(clf, tmp_path))
    assert same(again.inference(two.X, two.y).bse, clf.inference(two.X, two.y).bse)
    with pytest.raises(ValueError, match="not the rows"):
        again.inference(two.X[1:], two.y[1:])


@pytest.mark.parametrize("estimator", [MARGaussianMixture(link="logit"), MARLogisticRegression(link="logit")], ids=str)
def test_a_warm_start_continues_from_the_file(estimator, two, tmp_path):
    clf = clone(estimator).set_params(warm_start=True).fit(two.X, two.y)
    again = load(saved(clf, tmp_path))
    again.fit(two.X[10:], two.y[10:])
    clf.fit(two.X[10:], two.y[10:])
    assert again.loglik_ == clf.loglik_
    assert again.n_iter_ == clf.n_iter_


def test_results_for_the_training_rows_are_not_saved(two, tmp_path):
    clf = MARGaussianMixture(link="logit").fit(two.X, two.y)
    with pytest.raises(AttributeError, match="not saved with the model"):
        _ = load(saved(clf, tmp_path)).transduction_
    many = MARGaussianMixture(link="logit").fit(np.tile(two.X, (20, 1)), np.tile(two.y, 20))
    few_bytes = saved(clf, tmp_path).stat().st_size
    assert saved(many, tmp_path).stat().st_size < 1.2 * few_bytes


@pytest.mark.parametrize(
    "names",
    [
        np.array([3, 7], dtype=np.int8),
        np.array([3, 7], dtype=np.uint64),
        np.array([1.0, 2.0], dtype=np.float32),
        np.array([False, True]),
        np.array(["n", "yes"], dtype="<U30"),
        np.array(["n\u00e9e", "<yes> & \U0001f600"], dtype=object),
    ],
    ids=lambda names: str(names.dtype),
)
def test_classes_keep_their_type(names, two, tmp_path):
    y = np.ma.masked_array(names[two.truth], two.missing)
    clf = MARGaussianMixture(link=None, covariance_type="tied").fit(two.X[~two.missing], y.data[~two.missing])
    again = load(saved(clf, tmp_path))
    assert same(again.classes_, clf.classes_)
    assert same(again.predict(two.X), clf.predict(two.X))


@pytest.mark.parametrize("kind", ["range", "Index", "Series", "array"])
def test_any_sequence_that_a_fit_takes_comes_back_as_a_list(kind, two, tmp_path):
    classes, columns = range(2), range(1)
    if kind != "range":
        classes, columns = map(getattr(pytest.importorskip("pandas"), kind), ([0, 1], [0]))
    clf = MARLogisticRegression(link="logit", classes=classes, mechanism_features=columns)
    loaded = load(saved(clf.fit(two.X, two.y), tmp_path))
    assert loaded.classes == [0, 1]
    assert loaded.mechanism_features == [0]
    np.testing.assert_array_equal(loaded.predict_proba(two.X), clf.predict_proba(two.X))


def test_feature_names_come_back(two, tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(two.X, columns=["length", "width"])
    for clf in (MARGaussianMixture(link="logit"), MARLogisticRegression(link="logit", mechanism_features=["width"])):
        again = load(saved(clf.fit(frame, two.y), tmp_path))
        assert same(again.feature_names_in_, clf.feature_names_in_)
        assert same(again.predict_proba(frame), clf.predict_proba(frame))
        with pytest.raises(ValueError, match="feature names should match"):
            again.predict(frame[["width", "length"]])


def test_a_fit_without_missing_labels_comes_back(two, tmp_path):
    with pytest.warns(UserWarning, match="Every row has a label"):
        clf = MARGaussianMixture(link="aranda-ordaz").fit(two.X, two.truth)
    again = load(saved(clf, tmp_path))
    assert again.alpha_[0] == -np.inf
    assert np.isnan(again.shape_)
    assert not again.missing_proba(two.X).any()


# Pipelines and choices


def test_a_pipeline_comes_back_with_its_scaler_and_its_output(two, tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(two.X, columns=["length", "width"])
    pipeline = make_pipeline(StandardScaler(), MARLogisticRegression(link="logit")).set_output(transform="pandas")
    pipeline.fit(frame, two.y)
    again = load(saved(pipeline, tmp_path))
    assert same(again.predict_proba(frame), pipeline.predict_proba(frame))
    assert repr(again) == repr(pipeline)
    assert list(again[0].transform(frame).columns) == ["length", "width"]


@pytest.mark.parametrize(
    "options", [{}, {"with_mean": False}, {"with_std": False}, {"with_mean": False, "with_std": False}]
)
def test_scalers_of_every_kind_come_back(options, two, tmp_path):
    pipeline = Pipeline([("a", StandardScaler(**options)), ("b", MARLogisticRegression(link=None))]).fit(two.X, two.y)
    again = load(saved(pipeline, tmp_path))
    assert same(dict(sorted(vars(again[0]).items())), dict(sorted(vars(pipeline[0]).items())))
    assert same(again.predict_proba(two.X), pipeline.predict_proba(two.X))


GRID = {
    "tied, #1": MARGaussianMixture(covariance_type="tied", link="logit"),
    "a pipeline": make_pipeline(StandardScaler(), MARLogisticRegression(link=None)),
}


@pytest.mark.parametrize("method", ["average", "pick"])
def test_a_choice_comes_back_with_its_candidates(method, two, tmp_path):
    choice = MARClassifierCV(estimators=GRID, method=method, cv=3).fit(two.X, named(two))
    again = load(saved(choice, tmp_path))
    for answer in (
        lambda clf: clf.predict_proba(two.X),
        lambda clf: clf.predict(two.X),
        lambda clf: str(clf.summary()),
        lambda clf: [clf.weights_, clf.score_, clf.comparison_, clf.verdict_, clf.notes_, clf.results_, clf.classes_],
        lambda clf: repr(clf),
        lambda clf: clone(clf).fit(two.X, named(two)).predict_proba(two.X),
    ):
        assert same(answer(again), answer(choice))
    for name in ("transduction_", "held_out_proba_", "missing_proba_", "reference_proba_"):
        with pytest.raises(AttributeError, match="not saved with the model"):
            getattr(again, name)


def test_a_preparation_of_tables_comes_back(two, tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    from marmix.tables.preparation import Preparation

    frame = pandas.DataFrame(
        {"length": two.X[:, 0], "width": two.X[:, 1], "kind": np.array(["p", "q", "r"])[two.truth]}
    )
    frame.loc[two.X[:, 0] > 1.0, "kind"] = "r"
    frame.loc[3, "width"] = np.nan
    pipeline = make_pipeline(Preparation(), StandardScaler(), MARLogisticRegression(link="logit")).fit(frame, two.y)
    again = load(saved(pipeline, tmp_path))
    assert same(again.predict_proba(frame), pipeline.predict_proba(frame))
    assert same(again[0].columns_, pipeline[0].columns_)
    assert describe(tmp_path / "model.marmix")["features"] == [
        {"name": "length", "dtype": "number"},
        {"name": "width", "dtype": "number"},
        {"name": "kind", "dtype": "category"},
    ]


# The file


@pytest.fixture(scope="module")
def clf(two):
    return MARGaussianMixture(link="logit").fit(two.X, named(two))


def test_the_same_model_gives_the_same_bytes_also_after_loading(clf, tmp_path):
    first = saved(clf, tmp_path).read_bytes()
    save(clf, tmp_path / "again.marmix")
    assert (tmp_path / "again.marmix").read_bytes() == first
    save(load(tmp_path / "again.marmix"), tmp_path / "third.marmix")
    assert (tmp_path / "third.marmix").read_bytes() == first


def test_any_program_that_knows_zip_and_numpy_can_read_it(clf, tmp_path):
    with zipfile.ZipFile(saved(clf, tmp_path)) as file:
        assert file.testzip() is None
        assert {info.compress_type for info in file.infolist()} == {zipfile.ZIP_STORED}
        model = json.loads(file.read("model.json"))
        means = np.load(io.BytesIO(file.read("arrays/fitted.means_.npy")), allow_pickle=False)
        digest, name = file.read("model.sha256").decode().split()
    np.testing.assert_array_equal(means, clf.means_)
    assert (digest, name) == (hashlib.sha256(json.dumps(model, indent=1).encode() + b"\n").hexdigest(), "model.json")
    assert model["model"]["fitted"]["means_"] == {"type": "array", "name": "fitted.means_"}


def test_describe_returns_what_is_in_the_file(clf, tmp_path):
    about = {"label": "outcome", "missing": ["NA", ""], "rows": 300, "deep": {"x": [1.5, None, True]}}
    path = saved(clf, tmp_path, about=about)
    names = [name for name in members_of(path) if name.endswith(".npy")]
    sizes = {name.removeprefix("arrays/").removesuffix(".npy"): len(members_of(path)[name]) for name in names}
    assert describe(path) == {
        "format": "marmix",
        "format_version": 2,
        "written_by": {"marmix": marmix.__version__, "numpy": np.__version__, "scikit-learn": sklearn.__version__},
        "class": "MARGaussianMixture",
        "classes": ["no", "yes"],
        "features": [{"name": "x0", "dtype": "float64"}, {"name": "x1", "dtype": "float64"}],
        "about": about,
        "sizes": {"file": path.stat().st_size, "arrays": sizes},
    }


def test_stored_files_of_format_1_are_still_read():
    answers = json.loads((STORED / "answers-1.json").read_text(encoding="utf-8"))
    sys.path.insert(0, str(STORED))
    try:
        from make_models import rows
    finally:
        sys.path.remove(str(STORED))
    X, y = rows()
    assert len(answers) == 3
    for name, proba in answers.items():
        model = load(STORED / name)
        np.testing.assert_allclose(model.predict_proba(X[:5]), proba, rtol=1e-12)
        assert model.classes_.tolist() == ["ash", "birch", "cedar"]
        assert describe(STORED / name)["about"] == {"made by": "make_models.py"}
    mixture = load(STORED / "mixture-1.marmix")
    assert mixture.inference(X, y).llf == mixture.loglik_


def test_the_page_on_the_format_reads_a_file_without_marmix(tmp_path, monkeypatch):
    page = (STORED.parents[1] / "docs" / "container.md").read_text(encoding="utf-8")
    code = page.split("```python\n")[1].split("```")[0]
    (tmp_path / "model.marmix").write_bytes((STORED / "mixture-1.marmix").read_bytes())
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(code, names)
    model = load("model.marmix")
    np.testing.assert_allclose(names["proba"], model.predict_proba([[0.5, 1.0]])[0], rtol=1e-9)
    with zipfile.ZipFile("model.marmix") as file:
        fields = json.loads(file.read("model.json"))["model"]["fitted"]
    assert [name for name in fields if f"`{name}`" not in page and f"`{name}` (" not in page] == []


# What cannot be saved


def own_measure(log_tau):
    return np.exp(log_tau).max(axis=1)


class Subclass(MARGaussianMixture):
    pass


def test_what_cannot_be_saved_is_refused_with_advice(two, tmp_path):
    path, mixture = tmp_path / "model.marmix", MARGaussianMixture(link=None).fit(two.X, two.y)
    for model, reason in [
        (MARGaussianMixture(measure=own_measure, link="logit").fit(two.X, two.y), "code cannot be saved"),
        (LogisticRegression().fit(two.X, two.truth), "LogisticRegression cannot be saved: MARGaussianMixture"),
        (make_pipeline(PCA(1), MARLogisticRegression(link=None)).fit(two.X, two.y), "with PCA as a step"),
        (MARClassifierCV(estimators=GRID, cv=StratifiedKFold(3)).fit(two.X, two.y), "cv holds .*KFold.*set_params"),
        (clone(mixture).fit(two.X, two.y).set_params(random_state=np.random.RandomState(0)), "random_state holds"),
        (clone(mixture).fit(two.X, two.y).set_params(init={"alpha": {1, 2}}), r"alpha holds .*\bset\b"),
        (Subclass(link=None).fit(two.X, two.y), "Subclass cannot be saved"),
    ]:
        with pytest.raises(ValueError, match=reason):
            save(model, path)
    mixture.remark = "mine"
    with pytest.raises(ValueError, match=r"this MARGaussianMixture cannot be saved.*'remark'"):
        save(mixture, path)
    with pytest.raises(NotFittedError):
        save(MARGaussianMixture(), path)
    with pytest.raises(NotFittedError):
        save(make_pipeline(StandardScaler(), MARGaussianMixture()), path)
    assert list(tmp_path.iterdir()) == []


def test_parameters_that_no_file_may_hold_are_named_without_the_temporary_file(two, tmp_path):
    mixture = MARGaussianMixture(link=None).fit(two.X, two.y)
    mixture.model_ = replace(mixture.model_, theta=mixture.model_.theta._replace(log_pi=np.array([np.nan, 0.0])))
    with pytest.raises(ValueError, match="this MARGaussianMixture cannot be saved") as refusal:
        save(mixture, tmp_path / "model.marmix")
    assert "log_pi" in str(refusal.value)
    assert str(tmp_path) not in str(refusal.value)
    assert "again" not in str(refusal.value)


@pytest.mark.parametrize("degree", [1, 2])
@pytest.mark.parametrize("C", [1e-100, 1.0, np.inf])
def test_a_fit_of_any_units_is_refused_or_can_be_saved(degree, C, two):
    X, y, refusals = two.X[:60], two.truth[:60], []
    for unit in 10.0 ** np.array([-149, -90, -78, -74, -50, 0, 149]):
        try:
            fit = MARLogisticRegression(C=C, degree=degree, link=None).fit(X * [1.0, unit], y)
        except ValueError as error:
            refusals.append(str(error))
        else:
            estimator_of(state_of(fit))
    assert len(refusals) <= 4
    assert all("column 'x1'" in refusal and "Rescale" in refusal for refusal in refusals)


@pytest.mark.parametrize(
    "about", [{"x": np.nan}, {"x": object()}, {1: "a"}, {"x": (1, 2)}, {"x": np.float64(1)} | {2: 3}]
)
def test_about_must_be_plain_json(about, clf, tmp_path):
    with pytest.raises(ValueError, match="about must be plain JSON"):
        save(clf, tmp_path / "a", about=about)
    assert list(tmp_path.iterdir()) == []


# Where it goes


def test_a_file_is_replaced_only_when_asked(clf, tmp_path):
    path = tmp_path / "model"
    path.write_text("precious", encoding="utf-8")
    with pytest.raises(FileExistsError, match="overwrite=True"):
        save(clf, path)
    assert path.read_text(encoding="utf-8") == "precious"
    save(clf, str(path), overwrite=True)
    assert load(str(path)).loglik_ == clf.loglik_
    assert [file.name for file in tmp_path.iterdir()] == ["model"]


def test_a_path_that_is_no_file_is_refused(clf, tmp_path):
    with pytest.raises(IsADirectoryError, match="is a folder"):
        save(clf, tmp_path, overwrite=True)
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        save(clf, tmp_path / "nowhere" / "model.marmix")
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nothing")
    with pytest.raises(ContainerError, match="is not a file"):
        load(tmp_path)


def test_a_failed_write_leaves_the_old_file(clf, tmp_path, monkeypatch):
    path = saved(clf, tmp_path)
    before = path.read_bytes()

    def full_disk(file, members):
        file.write(b"half")
        raise OSError("no space left on device")

    monkeypatch.setattr("marmix.persistence.write", full_disk)
    with pytest.raises(OSError, match="no space"):
        save(clf, path, overwrite=True)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["model.marmix"]


@pytest.mark.posix_only("pipes and permissions")
def test_files_have_default_permissions_and_pipes_are_refused(clf, tmp_path):
    path = saved(clf, tmp_path)
    (tmp_path / "other").write_text("x", encoding="utf-8")
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE((tmp_path / "other").stat().st_mode)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ContainerError, match="is not a file"):
        load(tmp_path / "pipe")


def test_loading_imports_nothing_because_of_the_file(clf, tmp_path):
    code = (
        "import sys, encodings.cp437, marmix.persistence as c; before = set(sys.modules); c.load(sys.argv[1]); "
        "print(sorted(set(sys.modules) - before))"  # cp437 is how names in zip files are read
    )
    answer = subprocess.run(
        [sys.executable, "-c", code, saved(clf, tmp_path)], capture_output=True, text=True, check=True, encoding="utf-8"
    )
    assert answer.stdout.strip() == "[]"


# Values


VALUES = [
    *(None, True, -0.0, 1.5e-308, float("inf"), 2**62, "\u00fc \U0001f600 \x00"),
    *([1, [2.5, "x"], []], (1, (2,)), {"type": "dict", "a": 1}, {1: "one", "two": 2, 2.5: [None]}),
    *(np.float32(0.1), np.int8(-3), np.bool_(True), np.array([["a"]])[0], np.array([True, False])),
    np.array(["a", 1, 2.5, None], dtype=object),
    np.zeros((0, 3)),
    np.asfortranarray(np.arange(6.0).reshape(2, 3)),
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_value_survives_json(value):
    file, writer = io.BytesIO(), {"marmix": "0.1", "numpy": "2.1", "scikit-learn": "1.6"}
    header = {"format": "marmix", "format_version": 1, "written_by": writer, "class": "", "classes": [], "features": []}
    write(file, packed(header | {"about": {}, "model": {"value": value}}))
    again = read(file)[0]["model"]["value"]
    assert same(again, value)
    if isinstance(value, np.ndarray):
        assert again.flags.f_contiguous == value.flags.f_contiguous


def test_arrays_are_little_endian_in_the_file():
    members = packed({"model": {"value": np.arange(3, dtype=">i4")}})
    assert np.load(io.BytesIO(members["arrays/value.npy"])).dtype.str == "<i4"


@pytest.mark.parametrize(
    "value",
    [object(), 1j, {1, 2}, 2**70, np.zeros(2, dtype=complex), np.array(None), print, b"x"],
    ids=lambda value: type(value).__name__,
)
def test_a_value_that_cannot_be_saved_is_refused(value):
    with pytest.raises(ValueError, match="cannot be saved"):
        Encoder().encode(value, ("init", "alpha"))
