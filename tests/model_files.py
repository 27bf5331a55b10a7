"""Saved models for tests: written, taken apart, and put together again with every checksum right."""

import json
import zipfile

from marmix.container import format as container_format
from marmix.container import save
from marmix.container.plain import written


def saved(model, folder, **options):
    path = folder / "model.marmix"
    save(model, path, overwrite=True, **options)
    return path


def members_of(path):
    with zipfile.ZipFile(path) as file:
        return {name: file.read(name) for name in file.namelist()}


def rewritten(path, members):
    """The file with other members, the checksum of model.json right again."""
    members = members | {"model.sha256": container_format.checksum(members["model.json"])}
    with open(path, "wb") as file:
        container_format.write(file, [(name, [data]) for name, data in members.items()])


def edited(path, change):
    """The file with a changed model.json, every checksum right again."""
    members = members_of(path)
    model = json.loads(members["model.json"])
    members["model.json"] = written(change(model) or model)
    rewritten(path, members)


def put(*path):
    """A change of model.json: the last argument replaces what stands at the others."""
    *keys, value = path

    def change(model):
        place = model
        for key in keys[:-1]:
            place = place[key]
        place[keys[-1]] = value

    return change


def drop(*path):
    def change(model):
        place = model
        for key in path[:-1]:
            place = place[key]
        del place[path[-1]]

    return change


def with_array(path, name, array):
    """The file with other values in an array, every checksum right again."""
    members = members_of(path)
    model = json.loads(members["model.json"])
    model["arrays"][name] = container_format.array_entry(array)
    members["model.json"] = written(model)
    members[f"arrays/{name}.npy"] = b"".join(container_format.array_parts(array))
    rewritten(path, members)
