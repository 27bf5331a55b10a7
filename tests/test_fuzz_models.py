"""Model files that were mutated, cut, spliced, or made up with all checksums right: they load, or raise `ContainerError`."""

import copy
import io
import json
import random
import tracemalloc
import warnings

import numpy as np
import pytest
from model_files import members_of, saved
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from marmix import MARClassifierCV, MARGaussianMixture, MARLogisticRegression
from marmix.container import ContainerError, describe, load
from marmix.container import format as container_format
from marmix.container.plain import written

# Memory that a load may take: this many bytes, and this many for each byte of the file.
OWN_BYTES, PER_BYTE = 8 * 2**20, 60

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
    folder, out = tmp_path_factory.mktemp("models"), []
    grid = {"a": MARGaussianMixture(covariance_type="tied", link="logit"), "b": MARLogisticRegression(link=None)}
    models = [
        MARGaussianMixture(link="logit").fit(two.X, two.y),
        MARGaussianMixture(covariance_type="spherical", n_components=2, link=None, random_state=0).fit(
            three.X, three.y
        ),
        MARLogisticRegression(link="logit", degree=2, mechanism_features=[0], n_init=1).fit(three.X, three.y),
        make_pipeline(StandardScaler(), MARGaussianMixture(covariance_type="diag", link="logit")).fit(two.X, two.y),
        MARClassifierCV(estimators=grid, cv=2).fit(two.X, two.y),
    ]
    try:
        import pyarrow  # noqa: F401

        from marmix.tables.preparation import Preparation

        table = {"a": two.X[:, 0], "b": two.X[:, 1], "c": np.array(["p", "q"])[(two.X[:, 1] > 0).astype(int)]}
        models.append(make_pipeline(Preparation(), MARLogisticRegression(link=None)).fit(table, two.y))
    except ImportError:
        pass
    for model in models:
        out.append(members_of(saved(model, folder)))
    return out


def zipped(members):
    file = io.BytesIO()
    container_format.write(file, [(name, [data]) for name, data in members.items()])
    return file.getvalue()


def places_of(value, path=()):
    """Every place in JSON at which something stands."""
    if path:
        yield path
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from places_of(value[key], (*path, key))


def at(value, path):
    for key in path:
        value = value[key]
    return value


def other_value(model, rng):
    """Something else to stand somewhere: odd, from elsewhere in the file, or a number a little or far off."""
    kind = rng.randrange(3)
    if kind == 0:
        return copy.deepcopy(rng.choice(ODD))
    if kind == 1:
        return copy.deepcopy(at(model, rng.choice(list(places_of(model)))))
    return rng.choice([rng.randrange(-3, 5), rng.gauss(0, 1), 10.0 ** rng.randrange(-300, 300)])


def edited_json(members, rng):
    """One to three edits of model.json."""
    model = json.loads(members["model.json"])
    for _ in range(rng.randrange(1, 4)):
        path = rng.choice(list(places_of(model)))
        place, key = at(model, path[:-1]), path[-1]
        action = rng.randrange(4)
        if action == 0:
            del place[key]
        elif action == 1 and isinstance(place, list):
            place.insert(key, other_value(model, rng))
        elif action == 2 and isinstance(place, dict):
            place[rng.choice(["extra", "type", "class", "fitted", *map(str, place)])] = other_value(model, rng)
        else:
            place[key] = other_value(model, rng)
        if not isinstance(model, dict) or not list(places_of(model)):
            break
    return members | {"model.json": written(model) if _is_json(model) else json.dumps(model).encode()}


def _is_json(model):
    try:
        written(model)
    except ValueError:
        return False
    return True


def edited_array(members, rng):
    """Other values, another shape or another type in an array, and model.json made to agree."""
    model = json.loads(members["model.json"])
    name = rng.choice(list(model["arrays"]))
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
    model["arrays"][name] = container_format.array_entry(array)
    parts = b"".join(container_format.array_parts(array))
    return members | {f"arrays/{name}.npy": parts, "model.json": written(model)}


def checked(members):
    return members | {"model.sha256": container_format.checksum(members["model.json"])}


def mutated_bytes(data, other, rng):
    """Bytes flipped, cut, repeated, or spliced with those of another file."""
    data = bytearray(data)
    action = rng.randrange(5)
    if action == 0:
        for _ in range(rng.randrange(1, 6)):
            data[rng.randrange(len(data))] = rng.randrange(256)
    elif action == 1:
        del data[rng.randrange(len(data)) :]
    elif action == 2:
        start = rng.randrange(len(data))
        data[start:start] = data[start : start + rng.randrange(1, 200)]
    elif action == 3:
        data = data[: rng.randrange(len(data))] + other[rng.randrange(len(other)) :]
    else:  # near the directory at the end, where sizes stand
        for _ in range(rng.randrange(1, 4)):
            data[-rng.randrange(1, min(300, len(data)))] = rng.randrange(256)
    return bytes(data)


def made_up(files, rng):
    members, other = rng.choice(files), rng.choice(files)
    action = rng.randrange(10)
    if action < 6:
        return zipped(checked(edited_json(members, rng)))
    if action < 8:
        return zipped(checked(edited_array(members, rng)))
    if action == 8:
        swapped = rng.choice(list(other))
        return zipped(members | {swapped: other[swapped]})
    return mutated_bytes(zipped(members), zipped(other), rng)


def outcome(path):
    """Whether a file loads; what loads answers."""
    try:
        model = load(path)
    except ContainerError as error:
        reason = str(error)
    else:
        answers(model)
        json.dumps(describe(path))
        return True
    assert str(path) in reason
    assert len(reason) < 700
    with pytest.raises(ContainerError):
        describe(path)
    return False


def answers(model):
    """A model that was loaded predicts, and says what it is."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        repr(model)
        last = model[-1] if hasattr(model, "steps") else model
        first = model[0] if hasattr(model, "steps") else model
        if not hasattr(first, "columns_"):
            assert model.predict_proba(np.zeros((3, first.n_features_in_))).shape == (3, len(last.classes_))
        assert len(str(last.summary())) > 100


def test_a_mutated_file_loads_or_is_refused_and_does_nothing_else(files, tmp_path, seeds):
    path, tries, loads = tmp_path / "model.marmix", 0, 0
    for seed in seeds(400):
        data = made_up(files, random.Random(seed))
        path.write_bytes(data)
        traced = seed % 20 == 0
        if traced:
            tracemalloc.start()
        try:
            loads += outcome(path)
            if traced:
                assert tracemalloc.get_traced_memory()[1] < OWN_BYTES + PER_BYTE * len(data)
        except BaseException:
            kept = tmp_path / "found.marmix"
            kept.write_bytes(data)
            print(f"seed {seed}: {kept}")
            raise
        finally:
            if traced:
                tracemalloc.stop()
        tries += 1
    assert 0 < loads < tries
