"""Saved models for tests: taken apart, changed, and put together again with every checksum right."""

import io
import json
import zipfile

import numpy as np

from marmix.persistence import format as container_format
from marmix.persistence import save


def saved(model, folder, **options):
    path = folder / "model.marmix"
    save(model, path, overwrite=True, **options)
    return path


def members_of(path):
    with zipfile.ZipFile(path) as file:
        return {name: file.read(name) for name in file.namelist()}


def zipped(members):
    """The bytes of a file with these members, the checksum of model.json right again."""
    file = io.BytesIO()
    container_format.write(file, members | {"model.sha256": container_format.checksum(members["model.json"])})
    return file.getvalue()


def with_json(change):
    """A change of members: `change` edits the value of model.json, or returns another."""

    def changed(members):
        model = json.loads(members["model.json"])
        return members | {"model.json": json.dumps(change(model) or model).encode()}

    return changed


def put(*path):
    """A change of members: the last argument replaces what stands in model.json at the keys before it."""
    *keys, last, value = path
    return with_json(lambda model: at(model, keys).__setitem__(last, value))


def drop(*path):
    """A change of members: what stands in model.json at these keys is removed."""
    *keys, last = path
    return with_json(lambda model: at(model, keys).__delitem__(last))


def with_array(name, array):
    """A change of members: other values in an array, with its entry in model.json and its checksum."""
    file = io.BytesIO()
    np.save(file, array)
    entry = put("arrays", name, container_format.array_entry(array, file.getvalue()))
    return lambda members: entry(members | {f"arrays/{name}.npy": file.getvalue()})


def with_member(name, data):
    """A change of members: other bytes in one of them, with its checksum in model.json where it is an array there."""
    array, digest = name.removeprefix("arrays/").removesuffix(".npy"), container_format.hashlib.sha256(data).hexdigest()

    def changed(members):
        listed = name in members and name != "model.json"
        return (put("arrays", array, "sha256", digest)(members) if listed else members) | {name: data}

    return changed


def at(value, path):
    """What stands at the end of a path of keys."""
    for key in path:
        value = value[key]
    return value


def rewrite(path, *changes):
    """Apply changes of members to a file, with every checksum right again."""
    members = members_of(path)
    for change in changes:
        members = change(members)
    with open(path, "wb") as file:
        file.write(zipped(members))
