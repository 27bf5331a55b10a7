"""Model files, mutated, cut, spliced, or made up with every checksum right: they load as a model, or are refused in words."""

import copy
import io
import json
import tracemalloc
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
from model_files import at, members_of, saved, with_array, with_json, with_member, zipped
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from fuzz.running import Subject, run
from fuzz.tables import ROWS
from marmix import (
    MARBoostingClassifier,
    MARClassifierCV,
    MARGaussianMixture,
    MARKernelClassifier,
    MARLogisticRegression,
    MARStudentMixture,
)
from marmix.persistence import ContainerError, describe, load, save
from marmix.persistence.format import packed
from marmix.persistence.models import input_of, state_of
from marmix.tables import Preparation

# Memory that a load may take: this many bytes, and this many for each byte of the file.
BASE_BYTES, PER_BYTE = 8 * 2**20, 60

NUMBERS = [0.0, -0.0, 1.0, -1.0, 2.0, 0.5, 1e-8, 1e8, -1e8, 1e30, 1e-30, 1e155, -1e155, 1e-155, 1e300, -1e300, 1e-300]
NUMBERS += [5e-324, 1.7e308, np.nan, np.inf, -np.inf]
ODD = [
    *(None, True, False, 0, -1, 1, 2, 7, 2**31, 2**62, -0.5, 1e-300, 1e308),
    *("", "x", "margin", "tied", "__class__", "\ud800", "\x1b[31m", [], [[]], [0.5, "a"], ["a", "b"], {}),
    *({"type": "float", "value": value} for value in ("nan", "inf", "-inf")),
    {"type": "tuple", "items": [1]},
    {"type": "dict", "items": [[1, 2], [1, 3]]},
    {"type": "dict", "items": [[[], 2]]},
    {"type": "objects", "items": ["a", "b"]},
    {"type": "objects", "items": [1, True]},
    {"type": "strings", "items": ["a", "b"], "width": 2**40},
    {"type": "scalar", "dtype": "float64", "value": 3},
    {"type": "scalar", "dtype": "int64", "value": 3},
    {"type": "scalar", "dtype": "float32", "value": 0.5},
    {"type": "array", "name": "fitted.classes_"},
    {"type": "array", "name": "fitted.means_"},
    {"class": "MARGaussianMixture", "parameters": {}},
    {"class": "Pipeline", "steps": [], "verbose": False},
]


class Sound(NamedTuple):
    """A model, the rows it was fitted to, and the members of its file."""

    model: object
    X: object
    members: dict[str, bytes]
    about: dict


def clusters(K, seed=0, n=90):
    """Rows of K classes on a circle in the plane, and labels of which a third are missing."""
    rng = np.random.default_rng(seed)
    z = np.arange(n) % K
    X = rng.normal(size=(n, 2)) + 2.0 * np.column_stack([np.cos(2.0 * np.pi * z / K), np.sin(2.0 * np.pi * z / K)])
    return X, np.where(rng.random(n) < 0.35, -1, z)


def prepare(folder):
    """Models of every kind in files."""
    (X2, y2), (X3, y3) = clusters(2), clusters(3, 1)
    names = np.array(["no", "yes", None], dtype=object)[y2]
    grid = {"a": MARGaussianMixture(covariance_type="tied"), "b": MARLogisticRegression(link=None)}
    several = MARGaussianMixture(covariance_type="spherical", n_components={0: 2}, link=None, random_state=0)
    table = {"a": X2[:, 0], "b": X2[:, 1], "c": np.array(["p", "q"])[(X2[:, 1] > 0).astype(int)]}
    fits = [
        (MARGaussianMixture(link="logit", classes=["no", "yes"]), X2, names),
        (MARGaussianMixture(link="logit", delta={1: 0.5}, mcar_share=True), X2, y2),
        (several, X3, y3),
        (MARStudentMixture(dof="by_class", covariance_type="diag"), X3, y3),
        (MARStudentMixture(dof=4.0, measure="entropy"), X2, y2),
        (MARLogisticRegression(link="logit", degree=2, mechanism_features=[0], n_init=1), X3, y3),
        (MARKernelClassifier(C=10.0, gamma=0.3, mechanism_weight=0.3, n_landmarks=9), X3, y3),
        (make_pipeline(StandardScaler(), MARGaussianMixture(covariance_type="diag", link="logit")), X2, y2),
        (MARClassifierCV(estimators=grid, cv=2), X2, y2),
        (MARClassifierCV(estimators=grid, cv=2, prior={"yes": 0.4}), X2, names),
        (make_pipeline(Preparation(), MARLogisticRegression(link=None)), table, y2),
        (make_pipeline(Preparation(impute="drop"), MARClassifierCV(estimators=grid, cv=2)), table, y2),
    ]
    try:
        boosting = MARBoostingClassifier(n_estimators=4, mechanism_weight=0.1, categorical_features=[0], n_jobs=1)
        fits.append((boosting, np.column_stack([X3[:, 0] > 0, X3]), y3))
    except ImportError:
        pass
    sounds = []
    for model, X, y in fits:
        model.fit(X, y)
        sounds.append(Sound(model, X, members_of(saved(model, folder, about={"note": "made up"})), {"note": "made up"}))
    path = folder / "model.marmix"
    path.write_bytes(fitted_by_program())
    columns = dict(zip(ROWS[0], zip(*ROWS[1:], strict=True), strict=True))
    table = {"x": [float(x) for x in columns["x"]], "group": list(columns["group"])}
    return [*sounds, Sound(load(path), table, members_of(path), describe(path)["about"])]


@cache
def fitted_by_program():
    """The bytes of the model that ``marmix fit`` writes for the table of forty rows."""
    options = ["--label", "label", "--id", "id", "--model", "logistic", "--folds", "2", "--quiet"]
    with TemporaryDirectory() as folder:
        data, out = Path(folder, "rows.csv"), Path(folder, "out")
        data.write_text("\n".join(",".join(row) for row in ROWS) + "\n", encoding="utf-8")
        assert run(["fit", str(data), *options, "--out", str(out)]).code in (0, 3)
        return (out / "model.marmix").read_bytes()


# Mutations of the file


def places_of(value, path=()):
    """Every place in JSON at which something stands."""
    if path:
        yield path
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from places_of(value[key], (*path, key))


def other_value(model, rng):
    """Something else to stand somewhere: odd, from elsewhere in the file, or a number a little or far off."""
    kind = rng.randrange(3)
    if kind == 0:
        return copy.deepcopy(rng.choice(ODD))
    if kind == 1:
        return copy.deepcopy(at(model, rng.choice(list(places_of(model)))))
    return rng.choice([rng.randrange(-3, 5), rng.gauss(0, 1), 10.0 ** rng.randrange(-300, 300)])


def edited(model, rng):
    """One to three edits of the value of model.json; arrays keep their entries, which would not pass their checksum."""
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        top = rng.choice([key for key in model if key != "arrays"] if rng.random() < 0.9 else list(model) or [""])
        path = rng.choice([(top, *rest) for rest in [(), *places_of(model.get(top))]])
        place, key, action = at(model, path[:-1]), path[-1], rng.randrange(4)
        if key not in (place if isinstance(place, dict) else range(len(place))):
            break
        if action == 0:
            del place[key]
        elif action == 1 and isinstance(place, list):
            place.insert(key, other_value(model, rng))
        elif action == 2 and isinstance(place, dict):
            place[rng.choice(["extra", "type", "class", "fitted", *map(str, place)])] = other_value(model, rng)
        else:
            place[key] = other_value(model, rng)
        if not model:
            break


def with_edited_array(members, rng):
    """Other values, another shape or another type in an array, and model.json made to agree."""
    name = rng.choice(list(json.loads(members["model.json"])["arrays"]))
    array = np.load(io.BytesIO(members[f"arrays/{name}.npy"])).copy()
    action = rng.randrange(5)
    if action <= 1:
        array = with_other_numbers(array, rng)
    elif action == 2:
        array = np.resize(array, [rng.randrange(4) for _ in range(rng.randrange(1, 4))])
    elif action == 3:
        array = array.astype(rng.choice(["float32", "int64", "bool", "uint8"]))
    else:
        array = np.asfortranarray(array) * rng.choice([0, -1, 1e200] if array.dtype.kind == "f" else [0])
    return with_array(name, array)(members)


def mutated(data, other, rng):
    """Bytes flipped, cut, repeated, or spliced with those of another file."""
    place, action = rng.randrange(len(data)), rng.randrange(5)
    if action == 1:
        return data[:place]
    if action == 2:
        return data[:place] + data[place : place + rng.randrange(1, 200)] + data[place:]
    if action == 3:
        return data[:place] + other[rng.randrange(len(other)) :]
    changed = bytearray(data)
    for _ in range(rng.randrange(1, 6)):  # anywhere, or in the directory at the end, where sizes stand
        changed[rng.randrange(len(data)) if action else -rng.randrange(1, min(300, len(data)))] = rng.randrange(256)
    return bytes(changed)


# Mutations of the model, whose file then agrees with itself


def with_other_numbers(array, rng):
    """An array with an absurd number in one place, or in all, or with two rows swapped, or scaled."""
    array = np.array(array)
    if not array.size:
        return array
    kinds = {"f": NUMBERS, "b": [False, True]}.get(array.dtype.kind, [0, 1, -1, 2, 7, 100, -100])
    value, action = rng.choice(kinds), rng.randrange(5)
    with np.errstate(all="ignore"):
        if action <= 1:
            array.reshape(-1)[rng.randrange(array.size)] = value
        elif action == 2:
            array[...] = value
        elif action == 3:
            array = array[rng.sample(range(len(array)), len(array))] if array.ndim else array
        elif array.dtype.kind == "f":
            array = array * value
    return array


def other_number(value, rng):
    """Another value of the kind of this one: number, flag, text, array, or a list, tuple or dict of them."""
    if isinstance(value, np.ndarray):
        return with_other_numbers(value, rng) if value.dtype.kind in "fiub" else value[::-1]
    if isinstance(value, bool | np.bool_):
        return not value
    if isinstance(value, float | np.floating):
        return rng.choice([*NUMBERS, value * 10.0 ** rng.randrange(-9, 9)])
    if isinstance(value, int | np.integer):
        return rng.choice([0, 1, 2, -1, 3, 1000])
    if isinstance(value, str):
        return rng.choice(["", "x", "full", "tied", "margin", "entropy", "by_class", "\x1b[2J", "\u202e", value * 2])
    if isinstance(value, dict) and value:
        key = rng.choice(list(value))
        if rng.random() < 0.1:
            return {name: item for name, item in value.items() if name != key}
        return value | {key: other_number(value[key], rng)}
    if isinstance(value, list | tuple) and value:
        items, place = list(value), rng.randrange(len(value))
        items[place] = other_number(items[place], rng)
        if rng.random() < 0.1:
            del items[place]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return rng.choice([None, 0.5, 3, "x", [], [0, 1]])


def with_other_model(estimator, rng):
    """Change a fitted estimator: one of its parameters, or of the values of its fit."""
    if isinstance(estimator, Pipeline):
        return with_other_model(rng.choice(estimator.steps)[1], rng)
    if rng.random() < 0.1:
        name = rng.choice(list(estimator.get_params(deep=False)))
        setattr(estimator, name, other_number(getattr(estimator, name), rng))
    elif hasattr(estimator, "model_"):
        estimator.model_ = with_other_values(estimator.model_, rng)
    elif hasattr(estimator, "estimators_") and rng.random() < 0.6:
        with_other_model(rng.choice(list(estimator.estimators_.values())), rng)
    else:
        name = rng.choice([name for name in vars(estimator) if name.endswith("_")])
        setattr(estimator, name, other_number(getattr(estimator, name), rng))


def with_other_values(model, rng):
    """A fitted model with another value of one of its fields, or of a field of its frame, mechanism or score model."""
    name = rng.choice(
        ["theta", "theta", "frame", "frame", "mechanism", "score_model", *(f.name for f in fields(model))]
    )
    part = getattr(model, name)
    if name in ("frame", "score_model"):
        part = copy.copy(part)
        attribute = rng.choice([key for key, value in vars(part).items() if not callable(value)])
        vars(part)[attribute] = other_number(vars(part)[attribute], rng)
        if name == "frame" and hasattr(part, "whitener") and np.isfinite(part.whitener).all():
            part.unwhitener = np.linalg.pinv(part.whitener)
    elif name == "mechanism" and part is not None:
        attribute = rng.choice([f.name for f in fields(part)])
        part = copy.copy(part)
        object.__setattr__(part, attribute, other_number(getattr(part, attribute), rng))
    else:
        part = other_number(part, rng)
    return replace(model, **{name: part})


def rebuilt(sound, rng):
    """The bytes of a file of the changed model, in which everything follows from the changed values; None if nothing can."""
    model = copy.deepcopy(sound.model)
    try:
        with np.errstate(all="ignore"):
            for _ in range(rng.choice([1, 1, 2, 3])):
                with_other_model(model, rng)
            header = json.loads(sound.members["model.json"]) | input_of(model) | {"model": state_of(model)}
            return zipped(packed(header))
    except Exception:  # the change does not even give a file
        return None


def made_up(sounds, rng):
    """The bytes of a file that may or may not be sound, and the model that it came from."""
    sound, other, action = rng.choice(sounds), rng.choice(sounds), rng.randrange(20)
    members = sound.members
    if action < 7:
        return sound, zipped(with_json(lambda model: edited(model, rng))(members))
    if action < 10:
        return sound, zipped(with_edited_array(members, rng))
    if action < 17:
        return sound, rebuilt(sound, rng) or zipped(members)
    if action == 17:
        swapped = rng.choice(list(other.members))
        return sound, zipped(members | {swapped: other.members[swapped]})
    if action == 18:
        name = rng.choice([name for name in members if name != "model.sha256"])
        return sound, zipped(with_member(name, mutated(members[name], other.members["model.json"], rng))(members))
    return sound, mutated(zipped(members), zipped(other.members), rng)


# What must hold


def check_probabilities(proba, classes):
    assert proba.shape[1] == len(classes), proba.shape
    assert np.isfinite(proba).all(), f"probabilities {proba[~np.isfinite(proba).all(axis=1)][:3]}"
    assert ((proba >= 0.0) & (proba <= 1.0)).all(), proba
    assert np.abs(proba.sum(axis=1) - 1.0).max() < 1e-6, proba.sum(axis=1)


def loads(path, sound, again):
    """Whether a file loads; a model that does predicts, describes itself and can be saved, and a file that does not says why."""
    try:
        model = load(path)
    except ContainerError as error:
        message = str(error)
        assert path.name in message, message
        assert len(message) < 700, message
        assert message.isprintable(), repr(message)
        return False
    json.dumps(describe(path), allow_nan=False)
    repr(model)
    first, last = (model[0], model[-1]) if isinstance(model, Pipeline) else (model, model)
    with np.errstate(all="ignore"):
        if takes(first) == takes(sound.model[0] if isinstance(sound.model, Pipeline) else sound.model):
            check_probabilities(model.predict_proba(sound.X), last.classes_)
            X = model[:-1].transform(sound.X) if model is not last else sound.X
            assert set(last.predict(X).tolist()) <= set(last.classes_.tolist())
            if getattr(last, "mechanism_", None) is not None:
                q = last.missing_proba(X)
                assert ((q >= 0.0) & (q <= 1.0)).all(), q
        assert len(str(last.summary())) > 100
    if again:
        save(model, path.with_name("again.marmix"))
    return True


def takes(step):
    """The features that the first step of a model takes."""
    columns = getattr(step, "columns_", [])
    return step.n_features_in_, [(column["name"], column["kind"], column["levels"]) for column in columns]


def attempt(sounds, rng, folder):
    """Load a made-up file, and now and then run the program on it."""
    sound, data = made_up(sounds, rng)
    path = folder / "model.marmix"
    path.write_bytes(data)
    traced, program = rng.random() < 0.05, rng.random() < 0.05
    if traced:
        tracemalloc.start()
    try:
        loaded = loads(path, sound, again=program)
        assert not traced or tracemalloc.get_traced_memory()[1] < BASE_BYTES + PER_BYTE * len(data)
    finally:
        tracemalloc.stop()
    if program:
        rows, out = folder / "rows.csv", folder / "new"
        rows.write_text("\n".join(",".join(row) for row in ROWS) + "\n", encoding="utf-8")
        out.mkdir()
        label = ["--label", "label"]
        commands = [
            ["info", str(path)],
            ["predict", str(path), str(rows), "--out", str(out / "predicted.csv")],
            ["evaluate", str(path), str(rows), *rng.choice([[], label])],
            ["report", str(path), str(rows), *rng.choice([[], label]), "--out", str(out / "report.html")],
        ]
        for command in rng.sample(commands, 2):
            code = run(command).code
            assert loaded or code != 0, command
            assert code == 0 or not any(out.iterdir()), command
    return "loaded" if loaded else "refused"


SUBJECT = Subject(prepare, attempt, 80, frozenset({"loaded", "refused"}))
