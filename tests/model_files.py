"""Saved models for tests, and edits of them with every checksum right."""

from functools import reduce
from operator import getitem

from marmix.persistence import save
from marmix.persistence.format import read, write


def saved(model, folder, **options):
    path = folder / "model.marmix"
    save(model, path, overwrite=True, **options)
    return path


def edit(path, *place):
    """Put the last argument in the place of what is at the keys before it; ``"model", "fitted"`` begin those of a fit."""
    *keys, last, value = place
    with open(path, "rb") as file:
        contents = read(file)
    reduce(getitem, keys, contents)[last] = value
    with open(path, "wb") as file:
        write(file, contents)
