"""Damaged, edited and made-up model files are refused with a reason, whatever is in them."""

import hashlib
import io
import json
import random
import struct
import zipfile

import numpy as np
import pytest
from damage import damaged
from model_files import edit, saved
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from marmix import MARClassifierCV, MARGaussianMixture, MARKernelClassifier, MARLogisticRegression, MARStudentMixture
from marmix.persistence import ContainerError, describe, load
from marmix.persistence.format import read

FITTED = ("model", "fitted")


@pytest.fixture(scope="module")
def files(two, tmp_path_factory):
    """Bytes of saved models."""
    grid = {"tied": MARGaussianMixture(link=None), "b": MARLogisticRegression(link=None)}
    models = {
        "mixture": MARGaussianMixture(covariance_type="full"),
        "student": MARStudentMixture(link=None),
        "quadratic": MARLogisticRegression(degree=2, link=None),
        "pipeline": make_pipeline(StandardScaler(), MARLogisticRegression(link="logit")),
        "kernel": MARKernelClassifier(C=10.0, gamma=0.3, mechanism_weight=0.3, n_landmarks=9),
        "choice": MARClassifierCV(estimators=grid, cv=2, rivals=False),
    }
    folder = tmp_path_factory.mktemp("files")
    return {name: saved(model.fit(two.X[:120], two.y[:120]), folder).read_bytes() for name, model in models.items()}


def refused(path):
    """The message about a file that must be refused, by both functions, in a sentence or two."""
    with pytest.raises(ContainerError, match=path.name) as error:
        load(path)
    with pytest.raises(ContainerError):
        describe(path)
    return str(error.value)


# Bytes


def members_of(data):
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(members, compression=zipfile.ZIP_STORED):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return file.getvalue()


def with_json(data, contents):
    """The file with other contents of model.json, and their checksum."""
    digest = f"{hashlib.sha256(contents).hexdigest()}  model.json\n".encode()
    return packed(members_of(data) | {"model.json": contents, "model.sha256": digest})


def with_array(data, name, npy):
    """The file with other bytes of an array, and their checksum."""
    members = members_of(data)
    header = json.loads(members["model.json"])
    header["arrays"][name] = hashlib.sha256(npy).hexdigest()
    return with_json(packed(members | {f"arrays/{name}.npy": npy}), json.dumps(header).encode())


def with_wide_text(data):
    """A long text among many short ones, which NumPy would pad to 200 GiB."""
    header = json.loads(members_of(data)["model.json"])
    header["model"]["fitted"]["classes"] = {"type": "strings", "items": ["x" * 2**20, *[""] * 2**16]}
    return with_json(data, json.dumps(header).encode())


BYTES = {
    "nothing": lambda data: b"",
    "a pickle": lambda data: b"\x80\x04." * 50,
    "cut by a byte": lambda data: data[:-1],
    "compressed": lambda data: packed(members_of(data), zipfile.ZIP_DEFLATED),
    "another zip file": lambda data: packed({"evil.py": b"import os"}),
    "another checksum": lambda data: packed(members_of(data) | {"model.sha256": b"0"}),
    "wide text": with_wide_text,
    **{
        f"the JSON {text[:20]!r}": lambda data, text=text: with_json(data, text)
        for text in (b"[" * 100_000, b'{"format": NaN}', b'{"format": "marmix"', b"\xff\xfe{}", b"null")
    },
}


@pytest.mark.parametrize("case", BYTES)
def test_damaged_bytes_are_refused(case, files, tmp_path):
    path = tmp_path / "model.marmix"
    path.write_bytes(BYTES[case](files["mixture"]))
    refused(path)


def npy(descr="<f8", shape="(2,)", data=bytes(16)):
    """An array as bytes, its header made by hand."""
    header = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape}, }}".ljust(117).encode() + b"\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + data


@pytest.mark.parametrize(
    "member",
    [
        *(b"", b"\x80\x04]\x94.", npy("|O"), npy("<U2"), npy([("a", "<f8"), ("b", "<f8")], "(1,)"), npy("<f4", "(4,)")),
        *(npy(shape=shape) for shape in ("(3,)", "(1,)", f"({2**60},)", f"(0, {2**60})", "print(1)")),
    ],
    ids=repr,
)
def test_arrays_of_other_types_and_sizes_are_refused(member, files, tmp_path):
    path = tmp_path / "model.marmix"
    path.write_bytes(files["mixture"])
    with open(path, "rb") as file:
        name = next(name for name in read(file)["arrays"] if name.endswith("log_pi"))
    path.write_bytes(with_array(files["mixture"], name, member))
    refused(path)


def test_a_file_with_random_damage_predicts_the_same_or_is_refused(files, seeds, two, tmp_path):
    path, good, outcomes = tmp_path / "model.marmix", files["choice"], set()
    path.write_bytes(good)
    expected = load(path).predict_proba(two.X)
    for seed in seeds(100):
        path.write_bytes(damaged(good, random.Random(seed)))
        try:
            np.testing.assert_array_equal(load(path).predict_proba(two.X), expected)
            outcomes.add("loaded")  # a date or a mode of a member, say
        except ContainerError:
            outcomes.add("refused")
    assert outcomes == {"loaded", "refused"}


# Fields, with every checksum right


EDITS = [
    ("mixture", "model", "class", "os.system"),
    ("mixture", "model", "fitted", None),
    ("mixture", "format", "pickle"),
    ("mixture", "format_version", 0),
    ("mixture", *FITTED, "classes", np.array(["no", "no"])),
    ("mixture", *FITTED, "classes", np.array(["a", "b", "c"])),
    ("mixture", *FITTED, "n_features", 3),
    ("mixture", *FITTED, "theta", "mu", np.full((2, 2), np.nan)),
    ("mixture", *FITTED, "theta", "mu", np.zeros((3, 2))),
    ("mixture", *FITTED, "theta", "mu", np.zeros((2, 2), dtype=int)),
    ("mixture", *FITTED, "theta", "chol", np.zeros((2, 2, 2))),
    ("mixture", *FITTED, "frame", "whitener", np.zeros((2, 2))),
    ("mixture", *FITTED, "score_model", "counts", [1, 2**40]),
    ("mixture", *FITTED, "score_model", "covariance_type", "round"),
    ("mixture", *FITTED, "measure", "boredom"),
    ("mixture", *FITTED, "mechanism", "alpha", [0.0]),
    ("mixture", *FITTED, "mechanism", "share", 1.0),
    ("mixture", *FITTED, "mechanism", "label", [0.0]),
    ("mixture", *FITTED, "notes", [{"code": "collapsed", "values": {"classes": [7], "floor": 1e-6}}]),
    ("student", *FITTED, "theta", "tail", np.zeros(3)),
    ("quadratic", *FITTED, "score_model", "degree", 1),
    ("pipeline", "model", "steps", []),
    ("pipeline", "model", "steps", 0, 1, "fitted", "scale_", np.ones(3)),
    ("kernel", *FITTED, "frame", "gamma", np.inf),
    ("kernel", *FITTED, "frame", "root", np.zeros((0, 9))),
    ("choice", *FITTED, "weights_", {}),
    ("choice", *FITTED, "classes_", np.array([0, 1, 2])),
    ("choice", *FITTED, "score_", {"value": 1.0}),
    ("choice", "model", "parameters", "estimators", {"x": {"class": "os"}}),
]


@pytest.mark.parametrize("case", EDITS, ids=lambda case: " ".join(map(str, (*case[:1], *case[3:]))))
def test_fields_of_other_types_shapes_or_names_are_refused(case, files, tmp_path):
    path = tmp_path / "model.marmix"
    path.write_bytes(files[case[0]])
    edit(path, *case[1:])
    refused(path)


def places_of(value, path=()):
    """Every place at which something stands."""
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield (*path, key)
        yield from places_of(value[key], (*path, key))


@pytest.mark.parametrize("name", ["mixture", "pipeline", "kernel", "choice"])
def test_a_file_with_any_other_value_loads_or_is_refused(name, files, seeds, tmp_path):
    path, outcomes = tmp_path / "model.marmix", set()
    odd = [None, True, -1, 7, 2**62, 1e-300, np.nan, np.inf, "", "x", [], [0.5, "a"], {}, {1: 2}, {"class": "Pipeline"}]
    odd += [np.zeros(0), np.full(2, np.nan), np.eye(2), np.arange(2), np.array(["a", 1], dtype=object)]
    for seed in seeds(25):
        rng = random.Random(seed)
        path.write_bytes(files[name])
        with open(path, "rb") as file:
            place = rng.choice(list(places_of(read(file)["model"])))
        edit(path, "model", *place, rng.choice(odd))
        try:
            load(path)
            outcomes.add("loaded")
        except ContainerError:
            outcomes.add("refused")
    assert outcomes == {"loaded", "refused"}


def test_a_newer_format_says_to_upgrade_and_who_wrote_it(files, tmp_path):
    path = tmp_path / "model.marmix"
    path.write_bytes(files["mixture"])
    edit(path, "written_by", "marmix", "7.1")
    edit(path, "format_version", 9)
    assert "version 9 of the format, written by marmix '7.1'" in refused(path)
