"""Damaged, edited and made-up model files are refused with a reason, whatever is in them."""

import zipfile

import numpy as np
import pytest
from model_files import drop, edited, members_of, put, rewritten, saved, with_array
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from marmix import MARClassifierCV, MARGaussianMixture, MARLogisticRegression
from marmix.container import ContainerError, describe, load
from marmix.container.models import estimator_of, state_of


@pytest.fixture(scope="module")
def clf(two):
    y = np.array(["no", "yes"], dtype=object)[two.truth]
    y[two.missing] = None
    return MARGaussianMixture(link="logit").fit(two.X, y)


def test_no_byte_can_change_unnoticed(clf, tmp_path):
    path = saved(clf, tmp_path)
    good = path.read_bytes()
    rng = np.random.default_rng(0)
    places = {*range(100), *range(len(good) - 250, len(good)), *rng.integers(len(good), size=350).tolist()}
    for place in sorted(places):
        bad = bytearray(good)
        bad[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(bad)
        with pytest.raises(ContainerError):
            load(path)


def test_a_truncated_or_lengthened_file_is_refused_with_a_reason(clf, tmp_path):
    path = saved(clf, tmp_path)
    good = path.read_bytes()
    for size in (0, 3, 21, 22, 100, len(good) // 2, len(good) - 1):
        path.write_bytes(good[:size])
        with pytest.raises(ContainerError, match=r"cut short|no saved model"):
            load(path)
    path.write_bytes(good + b"\0")
    with pytest.raises(ContainerError, match="its end is not as marmix writes it"):
        load(path)


def test_what_is_no_saved_model_is_refused_with_a_reason(clf, tmp_path):
    path = tmp_path / "model"
    for content, reason in [
        (b"", "no saved model"),
        (b"PK\x03\x04" + bytes(30), "cut short"),
        (b"\x80\x04." * 50, "no saved"),
    ]:
        path.write_bytes(content)
        with pytest.raises(ContainerError, match=reason):
            load(path)
    for compression in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        with zipfile.ZipFile(path, "w", compression) as file:
            for name, data in members_of(saved(clf, tmp_path)).items():
                file.writestr(name, data)
        with pytest.raises(ContainerError):
            load(path)


@pytest.mark.parametrize(
    "name", ["../../evil", "arrays/../x.npy", "/etc/passwd", "arrays/a b.npy", "extra.pkl", "arrays/x.npy"]
)
def test_a_member_that_does_not_belong_is_refused(name, clf, tmp_path):
    path = saved(clf, tmp_path)
    rewritten(path, members_of(path) | {name: b"data"})
    with pytest.raises(ContainerError, match=r"no part of a saved model|not those that model.json lists"):
        load(path)


def test_a_file_that_is_too_large_is_refused_before_it_is_read(clf, tmp_path):
    path = saved(clf, tmp_path)
    with open(path, "r+b") as file:
        file.truncate(2**31)  # sparse: takes no room
    with pytest.raises(ContainerError, match="no saved model has more than"):
        load(path)
    members = members_of(saved(clf, tmp_path)) | {"model.json": b" " * (2**24 + 1)}
    rewritten(path, members)
    with pytest.raises(ContainerError, match=r"model.json has 16,777,217 bytes"):
        load(path)


def test_a_newer_format_says_to_upgrade_and_from_what(clf, tmp_path):
    path = saved(clf, tmp_path)

    def newer(model):
        model["format_version"] = 2
        model["written_by"]["marmix"] = "7.1"

    edited(path, newer)
    with pytest.raises(ContainerError, match=r"version 2 of the format, written by marmix 7.1.*upgrade"):
        load(path)


FITTED = ("model", "fitted")
MECHANISM = (*FITTED, "mechanism_")
MADE_UP = {
    "no class": drop("model", "class"),
    "another class": put("model", "class", "os.system"),
    "a class that is a list": put("model", "class", ["MARGaussianMixture"]),
    "no fit": drop("model", "fitted"),
    "fields that are none": put("model", "fitted", [1, 2]),
    "an unknown field": put(*FITTED, "__class__", 1),
    "a weight that is no number": put(*FITTED, "_tempering", {"type": "float", "value": "nan"}),
    "a missing field": drop(*FITTED, "means_"),
    "an unknown parameter": put("model", "parameters", "evil", 1),
    "a bad parameter": put("model", "parameters", "covariance_type", "round"),
    "a parameter of another type": put("model", "parameters", "link", ["logit"]),
    "an array for a number": put(*FITTED, "loglik_", "much"),
    "a number for an array": put(*FITTED, "means_", 3),
    "an array that is not there": put(*FITTED, "means_", {"type": "array", "name": "nothing"}),
    "an array that is used twice": put(*FITTED, "means_", {"type": "array", "name": "fitted.weights_"}),
    "an unknown type": put(*FITTED, "loglik_", {"type": "eval", "value": "1"}),
    "a type with more fields": put(*FITTED, "loglik_", {"type": "float", "value": "inf", "more": 1}),
    "a special number that is none": put(*FITTED, "loglik_", {"type": "float", "value": "1e5"}),
    "a number too large for its type": put(*FITTED, "loglik_", {"type": "scalar", "dtype": "int8", "value": 300}),
    "alpha too long": put(*MECHANISM, "alpha", [0.0, 1.0, 2.0]),
    "alpha not a number": put(*MECHANISM, "alpha", [0.0, {"type": "float", "value": "nan"}]),
    "no alpha": put(*MECHANISM, "alpha", []),
    "a negative shape": put(*MECHANISM, "shape", -1.0),
    "a share of one": put(*MECHANISM, "share", 1.0),
    "another measure": put(*MECHANISM, "uncertainty", "entropy"),
    "a measure that does not exist": put(*FITTED, "_measure", "boredom"),
    "no mechanism beside alpha": put(*MECHANISM[:2], "mechanism_", None),
    "columns that are not there": put(*FITTED, "_columns", [7]),
    "a negative dimension": put(*FITTED, "n_features_in_", -2),
    "another dimension": put(*FITTED, "n_features_in_", 3),
    "true as a dimension": put(*FITTED, "n_features_in_", True),
    "counts that do not sum": put(*FITTED, "_model", "counts", [1, 2]),
    "endless counts": put(*FITTED, "_model", "counts", [1, 2**40]),
    "one class": put(*FITTED, "classes_", {"type": "objects", "items": ["no"]}),
    "the same class twice": put(*FITTED, "classes_", {"type": "objects", "items": ["no", "no"]}),
    "a class of nothing": put(*FITTED, "classes_", {"type": "objects", "items": ["no", None]}),
    "half a character": put(*FITTED, "classes_", {"type": "objects", "items": ["no", "\ud800"]}),
    "text far wider than it is": put(*FITTED, "classes_", {"type": "strings", "items": ["no", "yes"], "width": 2**30}),
    "classes that the header does not know": put("classes", ["no", "maybe"]),
    "features that the header does not know": put("features", []),
    "no about": put("about", None),
    "half a character in what it is about": put("about", "x", ["\ud800"]),
    "another format": put("format", "pickle"),
    "a version that is text": put("format_version", "1"),
    "version zero": put("format_version", 0),
    "no version of marmix": put("written_by", 3),
    "an array of objects": put("arrays", "fitted.means_", "dtype", "object"),
    "an array of another shape": put("arrays", "fitted.means_", "shape", [4, 1]),
    "an array of negative shape": put("arrays", "fitted.means_", "shape", [-2, -2]),
    "an endless array": put("arrays", "fitted.means_", "shape", [2**30, 2**30, 2**30]),
    "a shape that is none": put("arrays", "fitted.means_", "shape", "2, 2"),
    "another order": put("arrays", "fitted.means_", "order", "F"),
    "a wrong checksum": put("arrays", "fitted.means_", "sha256", "0" * 64),
    "a checksum that is none": put("arrays", "fitted.means_", "sha256", None),
    "an array that nothing lists": drop("arrays", "fitted.means_"),
    "an array that nothing uses": put(*FITTED, "trace_", []),
}


@pytest.mark.parametrize("case", MADE_UP)
def test_a_made_up_file_is_refused(case, clf, tmp_path):
    path = saved(clf, tmp_path)
    edited(path, MADE_UP[case])
    with pytest.raises(ContainerError, match=r"model\.marmix"):
        load(path)
    with pytest.raises(ContainerError):
        describe(path)


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("fitted._theta.chol", np.zeros((2, 2, 2))),
        ("fitted._theta.chol", -np.ones((2, 2, 2))),
        ("fitted._theta.chol", np.eye(2)),
        ("fitted._theta.mu", np.full((2, 2), np.nan)),
        ("fitted._theta.mu", np.zeros((3, 2))),
        ("fitted._theta.mu", np.zeros((2, 2), dtype=np.float32)),
        ("fitted._theta.log_pi", np.zeros(0)),
        ("fitted._frame.whitener", np.zeros((2, 2))),
        ("fitted._frame.centre", np.array([np.inf, 0.0])),
        ("fitted._frame.centre", np.array([1e308, -1e308])),
        ("fitted.alpha_", np.array([5.0, 5.0])),
        ("fitted._fingerprint.scatter", np.zeros((3, 2, 3))),
        ("fitted.weights_", np.zeros((2, 1))),
    ],
)
def test_arrays_that_do_not_belong_together_are_refused(name, array, clf, tmp_path):
    path = saved(clf, tmp_path)
    with_array(path, name, array)
    if name == "fitted._frame.centre" and np.isfinite(array).all():
        assert not np.isfinite(load(path).predict_proba(np.zeros((1, 2)))).all()  # far away, but a frame
        return
    with pytest.raises(ContainerError):
        load(path)


@pytest.mark.parametrize(
    "text",
    [
        b"[" * 100_000 + b"]" * 100_000,
        b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
        b"[" + b"[]," * 300_000 + b"[]]",
        b'{"format": "marmix", "format": "marmix"}',
        b'{"format": 1e400}',
        b'{"format": NaN}',
        b'{"format": -Infinity}',
        b'{"format": ' + b"9" * 5000 + b"}",
        b'{"format": 99999999999999999999}',
        b'{"format": "marmix"',
        b"\xff\xfe{}",
        b"",
        b"null",
        b"[]",
    ],
    ids=lambda text: text[:24].decode("latin-1"),
)
def test_json_that_no_model_has_is_refused(text, clf, tmp_path):
    path = saved(clf, tmp_path)
    rewritten(path, members_of(path) | {"model.json": text})
    with pytest.raises(ContainerError):
        load(path)


def test_states_of_pipelines_and_choices_are_looked_into(two, tmp_path):
    grid = {"tied": MARGaussianMixture(covariance_type="tied", link="logit"), "b": MARLogisticRegression(link=None)}
    pipeline = make_pipeline(StandardScaler(), MARLogisticRegression(link="logit")).fit(two.X, two.y)
    choice = MARClassifierCV(estimators=grid, cv=3).fit(two.X, two.y)
    steps, candidates = ("model", "steps"), ("model", "fitted", "estimators_")
    for model, change in [
        (pipeline, put(*steps, [])),
        (pipeline, put(*steps, 0, 0, "a__b")),
        (pipeline, lambda m: m["model"]["steps"].reverse()),
        (pipeline, drop(*steps, 0, 1, "fitted")),
        (pipeline, put("model", "verbose", "no")),
        (pipeline, put(*steps, 0, 1, "fitted", "n_samples_seen_", [])),
        (pipeline, put(*steps, 1, 1, "fitted", "_model", "degree", 2)),
        (pipeline, put(*steps, 1, 1, "fitted", "_model", "C", 0.0)),
        (choice, put("model", "fitted", "weights_", {})),
        (choice, put("model", "fitted", "weights_", {"tied": 2.0, "b": -1.0})),
        (choice, put("model", "parameters", "method", "vote")),
        (choice, put("model", "parameters", "estimators", {"x": {"class": "os"}})),
        (choice, put(*candidates, "tied", {"class": "StandardScaler", "parameters": {}})),
        (choice, put("model", "fitted", "score_", {"value": 1.0})),
        (choice, put("model", "fitted", "results_", [])),
        (choice, put("model", "fitted", "verdict_", 1)),
    ]:
        path = saved(model, tmp_path)
        edited(path, change)
        with pytest.raises(ContainerError):
            load(path)


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.clear(),
        lambda table: table.pop("weight"),
        lambda table: table.update(weight=np.array(["1", "0"])),
        lambda table: table.update(mechanism=np.array([0.5, 0.5])),
        lambda table: table.update(candidate=np.array([1, 2])),
        lambda table: table.update(brier=np.array([0.1, 0.2, 0.3])),
    ],
)
def test_a_table_of_candidates_is_one_that_a_summary_can_show(change, two):
    grid = {"a": MARLogisticRegression(link="logit"), "b": MARLogisticRegression(link=None)}
    choice = MARClassifierCV(estimators=grid, cv=2).fit(two.X, two.y)
    assert "MARClassifierCV" in str(estimator_of(state_of(choice)).summary())
    state = state_of(choice)
    change(state["fitted"]["results_"])
    with pytest.raises(ContainerError, match="results_"):
        estimator_of(state)
