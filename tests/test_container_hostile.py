"""Damaged, edited and made-up model files are refused with a reason, whatever is in them."""

import io
import struct
import tracemalloc
import warnings
import zipfile
from functools import reduce

import numpy as np
import pytest
from model_files import drop, members_of, put, saved, with_array, with_json, with_member, zipped
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from marmix import MARClassifierCV, MARGaussianMixture, MARKernelClassifier, MARLogisticRegression
from marmix.persistence import ContainerError, describe, load
from marmix.persistence.models import estimator_of, state_of


@pytest.fixture(scope="module")
def files(two, tmp_path_factory):
    """Bytes of saved models of four kinds."""
    y = np.array(["no", "yes"], dtype=object)[two.truth]
    y[two.missing] = None
    grid = {"tied": MARGaussianMixture(covariance_type="tied", link="logit"), "b": MARLogisticRegression(link=None)}
    models = {
        "mixture": MARGaussianMixture(covariance_type="full").fit(two.X, y),
        "pipeline": make_pipeline(StandardScaler(), MARLogisticRegression(link="logit")).fit(two.X, two.y),
        "kernel": MARKernelClassifier(C=10.0, gamma=0.3, mechanism_weight=0.3, n_landmarks=9).fit(two.X, two.y),
        "choice": MARClassifierCV(estimators=grid, cv=3).fit(two.X, two.y),
    }
    return {name: saved(model, tmp_path_factory.mktemp(name)).read_bytes() for name, model in models.items()}


def repacked(data, compression=zipfile.ZIP_STORED, twice=()):
    """The same members, zipped by another program; those in `twice` are there two times."""
    file, members = io.BytesIO(), members_of(io.BytesIO(data))
    with zipfile.ZipFile(file, "w", compression) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about names that are there already
        for name in (*members, *twice):
            archive.writestr(name, members[name])
    return file.getvalue()


def directory_of(data):
    """Where the directory of a zip file begins."""
    return struct.unpack("<I", data[-6:-2])[0]


def overwritten(data, place, new):
    return data[:place] + new + data[place + len(new) :]


def in_directory(offset, new):
    """A change of bytes: other ones in every record of the directory, `offset` bytes from where it begins."""

    def changed(data):
        place = directory_of(data)
        while data[place : place + 4] == b"PK\x01\x02":
            data = overwritten(data, place + offset, new)
            place += 46 + sum(struct.unpack("<3H", data[place + 28 : place + 34]))
        return data

    return changed


def with_zip64(data):
    """A record at the end that speaks of a directory of 2**40 bytes, which `zipfile` believes."""
    record = struct.pack("<IQ2H2I4Q", 0x06064B50, 44, 45, 45, 0, 0, 1, 1, 2**40, 0)
    locator = struct.pack("<2IQI", 0x07064B50, 0, len(data) - 22, 1)
    return data[:-22] + record + locator + data[-22:]


BYTES = {
    "nothing": lambda data: b"",
    "a pickle": lambda data: b"\x80\x04." * 50,
    "a zip file that is only begun": lambda data: b"PK\x03\x04" + bytes(30),
    **{
        f"cut to {share:.0%}": lambda data, share=share: data[: int(share * len(data))]
        for share in (0.01, 0.3, 0.6, 0.99)
    },
    "cut by a byte": lambda data: data[:-1],
    "a byte more": lambda data: data + b"\0",
    "a zip comment": lambda data: overwritten(data, len(data) - 2, b"\5\0") + b"hello",
    "a script before it": lambda data: b"#!/bin/sh\n" + data,
    "compressed": lambda data: repacked(data, zipfile.ZIP_DEFLATED),
    "a member twice": lambda data: repacked(data, twice=["arrays/fitted.means_.npy"]),
    "model.json twice": lambda data: repacked(data, twice=["model.json"]),
    "encrypted": in_directory(8, b"\1"),
    "strongly encrypted": in_directory(8, b"\x40"),
    "an unknown compression": in_directory(10, b"\x63"),
    "said to be compressed": in_directory(10, b"\x08"),
    "larger than they are": in_directory(20, struct.pack("<2I", 2**31, 2**31)),
    "smaller than they are": in_directory(20, struct.pack("<2I", 50, 50)),
    "sizes that differ": in_directory(24, struct.pack("<I", 2**31)),
    "members all in one place": in_directory(42, bytes(4)),
    "members beyond the end": in_directory(42, b"\xff\xff\xff\x7f"),
    "a directory elsewhere": lambda data: overwritten(data, len(data) - 6, struct.pack("<I", 100)),
    "a directory of 4 GiB": lambda data: overwritten(data, len(data) - 10, b"\xff\xff\xff\xff"),
    "a directory of 2**40 bytes": with_zip64,
    "no directory": lambda data: overwritten(data, len(data) - 10, bytes(4)),
}

FITTED = ("model", "fitted")
MECHANISM = (*FITTED, "mechanism_")
MEANS = ("arrays", "fitted.means_")
STEPS, CANDIDATES = ("model", "steps"), (*FITTED, "estimators_")
NAN, CLASSES = {"type": "float", "value": "nan"}, (*FITTED, "classes_")


def npy(descr="<f8", shape="(2, 2)", data=bytes(32), version=b"\1\0"):
    """An array as bytes, its header made by hand."""
    header = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape}, }}".ljust(117).encode() + b"\n"
    return b"\x93NUMPY" + version + struct.pack("<H", len(header)) + header + data


MIXTURE = {
    "no class": drop("model", "class"),
    "another class": put("model", "class", "os.system"),
    "a class that is a list": put("model", "class", ["MARGaussianMixture"]),
    "no fit": drop("model", "fitted"),
    "fields that are a list": put("model", "fitted", [1, 2]),
    "a model that is a number": put("model", 3),
    "an unknown field": put(*FITTED, "__class__", 1),
    "a tempering of NaN": put(*FITTED, "_tempering", NAN),
    "an absent field": drop(*FITTED, "means_"),
    "an unknown parameter": put("model", "parameters", "evil", 1),
    "a bad parameter": put("model", "parameters", "covariance_type", "round"),
    "a parameter of another type": put("model", "parameters", "link", ["logit"]),
    "text for a number": put(*FITTED, "loglik_", "much"),
    "a number for an array": put(*FITTED, "means_", 3),
    "an array that is not there": put(*FITTED, "means_", {"type": "array", "name": "nothing"}),
    "an array used twice": put(*FITTED, "means_", {"type": "array", "name": "fitted.weights_"}),
    "an unknown type": put(*FITTED, "loglik_", {"type": "eval", "value": "1"}),
    "a type that is a list": put(*FITTED, "loglik_", {"type": ["float"], "value": "nan"}),
    "a type with more fields": put(*FITTED, "loglik_", {"type": "float", "value": "inf", "more": 1}),
    "a special number that is ordinary": put(*FITTED, "loglik_", {"type": "float", "value": "1e5"}),
    "a number too large for its type": put(*FITTED, "loglik_", {"type": "scalar", "dtype": "int8", "value": 300}),
    "a number of another type": put(*FITTED, "loglik_", {"type": "scalar", "dtype": "float64", "value": True}),
    "a number of 64 bits and more": put(*FITTED, "n_iter_", 2**63),
    "pairs that are triples": put("model", "parameters", "n_components", {"type": "dict", "items": [[1, 2, 3]]}),
    "a key that is a list": put("model", "parameters", "n_components", {"type": "dict", "items": [[[], 2]]}),
    "a key twice": put("model", "parameters", "n_components", {"type": "dict", "items": [[1, 2], [1, 3]]}),
    "alpha too long": put(*MECHANISM, "alpha", [0.0, 1.0, 2.0]),
    "alpha of NaN": put(*MECHANISM, "alpha", [0.0, NAN]),
    "no alpha": put(*MECHANISM, "alpha", []),
    "label term without its flag": put(*MECHANISM, "label", [0.0, 1.0]),
    "a negative shape": put(*MECHANISM, "shape", -1.0),
    "a share of one": put(*MECHANISM, "share", 1.0),
    "another measure": put(*MECHANISM, "uncertainty", "margin"),
    "a measure that does not exist": put(*FITTED, "_measure", "boredom"),
    "alpha without a mechanism": put(*MECHANISM, None),
    "columns that are not there": put(*FITTED, "_columns", [7]),
    "a negative dimension": put(*FITTED, "n_features_in_", -2),
    "another dimension": put(*FITTED, "n_features_in_", 3),
    "true as a dimension": put(*FITTED, "n_features_in_", True),
    "counts that do not sum": put(*FITTED, "_model", "counts", [1, 2]),
    "endless counts": put(*FITTED, "_model", "counts", [1, 2**40]),
    "one class": put(*CLASSES, {"type": "objects", "items": ["no"]}),
    "the same class twice": put(*CLASSES, {"type": "objects", "items": ["no", "no"]}),
    "a class that is None": put(*CLASSES, {"type": "objects", "items": ["no", None]}),
    "a class that is a dict": put(*CLASSES, {"type": "objects", "items": ["no", {}]}),
    "half a character": put(*CLASSES, {"type": "objects", "items": ["no", "\ud800"]}),
    "text far wider than it is": put(*CLASSES, {"type": "strings", "items": ["no", "yes"], "width": 2**30}),
    "empty text of any width": put(*CLASSES, {"type": "strings", "items": [], "width": 2**30}),
    "text wider than it says": put(*CLASSES, {"type": "strings", "items": ["no", "yes"], "width": 2}),
    "a width that is true": put(*CLASSES, {"type": "strings", "items": ["n", "y"], "width": True}),
    "items that are text": put(*CLASSES, {"type": "objects", "items": "no"}),
    "other classes in the header": put("classes", ["no", "maybe"]),
    "other features in the header": put("features", []),
    "another class in the header": put("class", "Pipeline"),
    "no about": put("about", None),
    "half a character in about": put("about", "x", ["\ud800"]),
    "another format": put("format", "pickle"),
    "a version that is text": put("format_version", "1"),
    "version zero": put("format_version", 0),
    "no writer": put("written_by", 3),
    "a field more": put("extra", 3),
    "no arrays": put("arrays", []),
    "an array that model.json does not list": drop(*MEANS),
    "an array that nothing uses": put(*FITTED, "trace_", []),
    "an entry that is a list": put(*MEANS, []),
    "objects, says model.json": put(*MEANS, "dtype", "object"),
    "another shape, says model.json": put(*MEANS, "shape", [4, 1]),
    "an endless shape, says model.json": put(*MEANS, "shape", [2**30] * 3),
    "another order, says model.json": put(*MEANS, "order", "F"),
    "a wrong checksum": put(*MEANS, "sha256", "0" * 64),
    "a checksum of None": put(*MEANS, "sha256", None),
    **{
        f"{array.dtype.name} {np.ravel(array)[:1]} of shape {array.shape} as {name}": with_array(
            f"fitted.{name}", array
        )
        for name, array in [
            ("_theta.chol", np.zeros((2, 2, 2))),
            ("_theta.chol", -np.ones((2, 2, 2))),
            ("_theta.chol", np.eye(2)),
            ("_theta.mu", np.full((2, 2), np.nan)),
            ("_theta.mu", np.zeros((3, 2))),
            ("_theta.mu", np.zeros((2, 2), dtype=np.float32)),
            ("_theta.log_pi", np.zeros(0)),
            ("_frame.whitener", np.zeros((2, 2))),
            ("_frame.centre", np.array([np.inf, 0.0])),
            ("alpha_", np.array([5.0, 5.0])),
            ("_fingerprint.scatter", np.zeros((3, 2, 3))),
            ("weights_", np.zeros((2, 1))),
        ]
    },
    **{
        f"an array {case}": with_member("arrays/fitted.means_.npy", data)
        for case, data in {
            "of nothing": b"",
            "that is a pickle": b"\x80\x04]\x94.",
            "that is a zip file": b"PK\x03\x04" + bytes(60),
            "of objects": npy("|O"),
            "of fields": npy([("a", "<f8"), ("b", "<f8")], "(2,)"),
            "of bytes swapped": npy(">f8"),
            "of text": npy("<U4", "(2,)"),
            "of dates": npy("<M8[s]"),
            "of negative shape": npy(shape="(-2, -2)"),
            "of an endless shape": npy(shape="(2**30, 2**30)"),
            "of 2**60 rows": npy(shape=f"({2**60}, 2)"),
            "of none by 2**60": npy(shape=f"(0, {2**60})", data=b""),
            "of 5 dimensions": npy(shape="(2, 2, 1, 1, 1)"),
            "of a shape that is a list": npy(shape="[2, 2]"),
            "of a shape that is a call": npy(shape="print(1)"),
            "that is too short": npy(data=bytes(31)),
            "that is too long": npy(data=bytes(33)),
            "of version 2": npy(version=b"\2\0"),
            "of version 9": npy(version=b"\x09\0"),
        }.items()
    },
    **{
        f"a member {name}": with_member(name, b"data")
        for name in ("../../evil", "arrays/../x.npy", "/etc/passwd", "arrays/a b.npy", "extra.pkl", "arrays/x.npy")
    },
    **{
        f"the JSON {text[:24]!r}": with_member("model.json", text)
        for text in (
            b"[" * 100_000 + b"]" * 100_000,
            b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
            b"[" + b"[]," * 300_000 + b"[]]",
            b'{"format": "marmix", "format": "marmix"}',
            b'{"format": 1e400}',
            b'{"format": NaN}',
            b'{"format": ' + b"9" * 5000 + b"}",
            b'{"format": "marmix"',
            b"\xff\xfe{}",
            b"",
            b"null",
            b"[]",
            b" " * (2**24 + 1),
        )
    },
    "lists nested too deeply": put("model", "parameters", "init", reduce(lambda inner, _: [inner], range(70), [])),
}

PIPELINE = {
    "no steps": put(*STEPS, []),
    "a step of a bad name": put(*STEPS, 0, 0, "a__b"),
    "steps in another order": with_json(lambda model: model["model"]["steps"].reverse()),
    "a step without a fit": drop(*STEPS, 0, 1, "fitted"),
    "text for a flag": put("model", "verbose", "no"),
    "a list for a count": put(*STEPS, 0, 1, "fitted", "n_samples_seen_", []),
    "another degree": put(*STEPS, 1, 1, "fitted", "_model", "degree", 2),
    "a penalty of zero": put(*STEPS, 1, 1, "fitted", "_model", "C", 0.0),
    "a scale that is not the root of the variance": with_array("steps.0.1.fitted.scale_", np.array([2.0, 3.0])),
    "a mean of 1e200": with_array("steps.0.1.fitted.mean_", np.array([1e200, 0.0])),
    "a negative count": put(*STEPS, 0, 1, "fitted", "n_samples_seen_", -3),
    "a centre elsewhere": with_array("steps.1.1.fitted._frame.centre", np.array([1.0, 0.0])),
    "an information that is no matrix of moments": with_array("steps.1.1.fitted._model.information", -np.eye(3)),
}

CHOICE = {
    "no weights": put(*FITTED, "weights_", {}),
    "weights that are none": put(*FITTED, "weights_", {"tied": 2.0, "b": -1.0}),
    "an unknown method": put("model", "parameters", "method", "vote"),
    "a candidate of another class": put("model", "parameters", "estimators", {"x": {"class": "os"}}),
    "a candidate that is a scaler": put(*CANDIDATES, "tied", {"class": "StandardScaler", "parameters": {}}),
    "a score with too few fields": put(*FITTED, "score_", {"value": 1.0}),
    "a table that is a list": put(*FITTED, "results_", []),
    "a number for text": put(*FITTED, "verdict_", 1),
    "weights other than in the table": put(*FITTED, "weights_", {"tied": 0.123, "b": 0.877}),
    "folds that are text": put("model", "parameters", "cv", "five"),
    "class shares that do not sum to one": put("model", "parameters", "prior", [0.5, 0.9]),
}

CASES = [
    *(("mixture", f"bytes: {case}", change) for case, change in BYTES.items()),
    *(
        (kind, case, lambda data, change=change: zipped(change(members_of(io.BytesIO(data)))))
        for kind, changes in (("mixture", MIXTURE), ("pipeline", PIPELINE), ("choice", CHOICE))
        for case, change in changes.items()
    ),
]


@pytest.mark.parametrize(
    ("kind", "change"), [(kind, change) for kind, _, change in CASES], ids=[f"{c[0]}, {c[1]}" for c in CASES]
)
def test_a_damaged_or_made_up_file_is_refused(kind, change, files, tmp_path):
    path = tmp_path / "model.marmix"
    path.write_bytes(change(files[kind]))
    with pytest.raises(ContainerError, match=r"model\.marmix"):
        load(path)
    tracemalloc.start()
    with pytest.raises(ContainerError):
        describe(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**22 + 20 * path.stat().st_size


def test_files_zipped_again_without_compression_load(files, tmp_path):
    path = tmp_path / "model.marmix"
    path.write_bytes(repacked(files["mixture"]))
    assert load(path).classes_.tolist() == ["no", "yes"]


def test_no_byte_that_means_something_can_change_unnoticed(files, tmp_path):
    path, good, rng = tmp_path / "changed", files["mixture"], np.random.default_rng(0)
    places = {*range(0, 100, 2), *range(len(good) - 200, len(good), 2), *rng.integers(len(good), size=150).tolist()}
    refused = 0
    for place in sorted(places):
        path.write_bytes(overwritten(good, place, bytes([good[place] ^ 1 << int(rng.integers(8))])))
        try:
            model = load(path)
        except ContainerError:
            refused += 1
        else:  # a date or a mode of a member, say
            assert saved(model, tmp_path).read_bytes() == good
    assert refused > 0.8 * len(places)


def test_a_file_that_is_too_large_is_refused_before_it_is_read(tmp_path):
    path = tmp_path / "model.marmix"
    with open(path, "wb") as file:
        file.truncate(2**31)  # sparse: takes no room
    with pytest.raises(ContainerError, match="2,147,483,648 bytes"):
        load(path)


def test_a_directory_full_of_members_takes_little_memory(files, tmp_path):
    path, record = tmp_path / "model.marmix", struct.pack("<I6H3I5H2I", 0x02014B50, *[0] * 15, 0)
    directory = (record[:28] + b"\1" + record[29:] + b"a") * 400_000
    end = struct.pack("<I4H2IH", 0x06054B50, 0, 0, 9, 9, len(directory), 4, 0)
    path.write_bytes(b"PK\x03\x04" + directory + end)
    tracemalloc.start()
    with pytest.raises(ContainerError, match="20,000"):
        load(path)
    assert tracemalloc.get_traced_memory()[1] < 2**20
    tracemalloc.stop()


def test_a_newer_format_says_to_upgrade_and_who_wrote_it(files, tmp_path):
    path, members = tmp_path / "model.marmix", members_of(io.BytesIO(files["mixture"]))
    path.write_bytes(zipped(put("format_version", 9)(put("written_by", "marmix", "7.1")(members))))
    with pytest.raises(ContainerError, match=r"version 9 of the format, written by marmix 7\.1.*upgrade"):
        load(path)


@pytest.mark.parametrize(("far", "says"), [(1e308, "centre"), (1e6, "means_")])
def test_a_frame_far_from_the_means_is_refused(far, says, files, tmp_path):
    path, change = tmp_path / "model.marmix", with_array("fitted._frame.centre", np.array([far, -far]))
    path.write_bytes(zipped(change(members_of(io.BytesIO(files["mixture"])))))
    with pytest.raises(ContainerError, match=says):
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
def test_a_table_of_candidates_that_a_summary_cannot_show_is_refused(change, files, tmp_path):
    path = tmp_path / "model.marmix"
    path.write_bytes(files["choice"])
    state = state_of(load(path))
    assert "MARClassifierCV" in str(estimator_of(state_of(load(path))).summary())
    change(state["fitted"]["results_"])
    with pytest.raises(ContainerError, match="results_"):
        estimator_of(state)
