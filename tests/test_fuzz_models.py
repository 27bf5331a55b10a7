"""Model files that were mutated, cut, spliced, or made up with all checksums right: they load, or raise `ContainerError`."""

import copy
import io
import json
import random
import tracemalloc
import warnings

import numpy as np
import pytest
from model_files import at, members_of, saved, with_array, with_json, with_member, zipped
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from marmix import (
    MARBoostingClassifier,
    MARClassifierCV,
    MARGaussianMixture,
    MARKernelClassifier,
    MARLogisticRegression,
    MARStudentMixture,
)
from marmix.container import ContainerError, describe, load

# Memory that a load may take: this many bytes, and this many for each byte of the file.
BASE_BYTES, PER_BYTE = 8 * 2**20, 60

ODD = [
    *(None, True, False, 0, -1, 1, 2, 7, 2**31, 2**62, -0.5, 1e-300, 1e308),
    *("", "x", "margin", "tied", "__class__", "\ud800", [], [[]], [0.5, "a"], {}),
    {"type": "float", "value": "nan"},
    {"type": "float", "value": "-inf"},
    {"type": "tuple", "items": [1]},
    {"type": "dict", "items": [[1, 2], [1, 3]]},
    {"type": "dict", "items": [[[], 2]]},
    {"type": "objects", "items": ["a", "b"]},
    {"type": "strings", "items": ["a", "b"], "width": 2**40},
    {"type": "scalar", "dtype": "float64", "value": 3},
    {"type": "scalar", "dtype": "int64", "value": 3},
    {"type": "array", "name": "fitted.classes_"},
    {"type": "array", "name": "fitted.means_"},
    {"class": "MARGaussianMixture", "parameters": {}},
    {"class": "Pipeline", "steps": [], "verbose": False},
]


@pytest.fixture(scope="module")
def files(two, three, tmp_path_factory):
    """Model files of every kind, as members."""
    grid = {"a": MARGaussianMixture(covariance_type="tied", link="logit"), "b": MARLogisticRegression(link=None)}
    several = MARGaussianMixture(covariance_type="spherical", n_components=2, link=None, random_state=0)
    models = [
        MARGaussianMixture(link="logit").fit(two.X, two.y),
        several.fit(three.X, three.y),
        MARStudentMixture(dof="by_class").fit(three.X, three.y),
        MARLogisticRegression(link="logit", degree=2, mechanism_features=[0], n_init=1).fit(three.X, three.y),
        MARKernelClassifier(C=10.0, gamma=0.3, mechanism_weight=0.3, n_landmarks=9).fit(three.X, three.y),
        make_pipeline(StandardScaler(), MARGaussianMixture(covariance_type="diag", link="logit")).fit(two.X, two.y),
        MARClassifierCV(estimators=grid, cv=2).fit(two.X, two.y),
    ]
    try:
        boosting = MARBoostingClassifier(n_estimators=4, mechanism_weight=0.1, categorical_features=[0])
        models.append(boosting.fit(np.column_stack([three.X[:, 0] > 0, three.X]), three.y))
    except ImportError:
        pass
    try:
        import pyarrow  # noqa: F401

        from marmix.tables.preparation import Preparation

        table = {"a": two.X[:, 0], "b": two.X[:, 1], "c": np.array(["p", "q"])[(two.X[:, 1] > 0).astype(int)]}
        models.append(make_pipeline(Preparation(), MARLogisticRegression(link=None)).fit(table, two.y))
    except ImportError:
        pass
    folder = tmp_path_factory.mktemp("models")
    return [members_of(saved(model, folder)) for model in models]


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
    """One to three edits of the value of model.json."""
    for _ in range(rng.randrange(1, 4)):
        path = rng.choice([*places_of(model)] or [()])
        if not path:
            break
        place, key, action = at(model, path[:-1]), path[-1], rng.randrange(4)
        if action == 0:
            del place[key]
        elif action == 1 and isinstance(place, list):
            place.insert(key, other_value(model, rng))
        elif action == 2 and isinstance(place, dict):
            place[rng.choice(["extra", "type", "class", "fitted", *map(str, place)])] = other_value(model, rng)
        else:
            place[key] = other_value(model, rng)


def with_edited_array(members, rng):
    """Other values, another shape or another type in an array, and model.json made to agree."""
    name = rng.choice(list(json.loads(members["model.json"])["arrays"]))
    array = np.load(io.BytesIO(members[f"arrays/{name}.npy"])).copy()
    action = rng.randrange(5)
    if action == 0 and array.size:
        array.reshape(-1)[rng.randrange(array.size)] = rng.choice([0, 1, 100])
    elif action == 1 and array.dtype.kind == "f" and array.size:
        array.reshape(-1)[rng.randrange(array.size)] = rng.choice([np.nan, np.inf, -np.inf, -1.0, 0.0, 1e308, -1e-308])
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


def made_up(files, rng):
    """The bytes of a file that may or may not be sound."""
    members, other, action = rng.choice(files), rng.choice(files), rng.randrange(10)
    if action < 5:
        return zipped(with_json(lambda model: edited(model, rng))(members))
    if action < 7:
        return zipped(with_edited_array(members, rng))
    if action == 7:
        swapped = rng.choice(list(other))
        return zipped(members | {swapped: other[swapped]})
    if action == 8:
        name = rng.choice([name for name in members if name != "model.sha256"])
        return zipped(with_member(name, mutated(members[name], other["model.json"], rng))(members))
    return mutated(zipped(members), zipped(other), rng)


def loads(path):
    """Whether a file loads; a model that does predicts and describes itself, and a file that does not says why."""
    try:
        model = load(path)
    except ContainerError:
        with pytest.raises(ContainerError, match=path.name) as refusal:
            describe(path)
        assert len(str(refusal.value)) < 700
        return False
    json.dumps(describe(path))
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        repr(model)
        first, last = (model[0], model[-1]) if hasattr(model, "steps") else (model, model)
        if not hasattr(first, "columns_"):
            assert model.predict_proba(np.zeros((3, first.n_features_in_))).shape == (3, len(last.classes_))
        assert len(str(last.summary())) > 100
    return True


def test_a_mutated_file_loads_or_is_refused_and_does_nothing_else(files, tmp_path, seeds):
    path, tries, loaded = tmp_path / "model.marmix", 0, 0
    for seed in seeds(400):
        data = made_up(files, random.Random(seed))
        path.write_bytes(data)
        traced = seed % 20 == 0
        if traced:
            tracemalloc.start()
        try:
            loaded += loads(path)
            assert not traced or tracemalloc.get_traced_memory()[1] < BASE_BYTES + PER_BYTE * len(data)
        except BaseException:
            print(f"seed {seed}: {path}")
            raise
        finally:
            tracemalloc.stop()
        tries += 1
    assert 0.02 * tries < loaded < 0.5 * tries
