"""Cells that a spreadsheet would run as a formula: found, and made plain text."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from marmix.batches import arrow

_BEGINNINGS = np.isin(np.arange(256), np.frombuffer(b"=+-@\t\r\n", np.uint8))
_HARMLESS = r"^[+-]([0-9]*\.?[0-9]*([eE][+-]?[0-9]+)?)$"  # a number with a sign, or the sign alone


def formulas(text: Any) -> NDArray[np.bool_]:
    """Which cells of an array of strings begin like a formula: with = + - @, tab or a line end, and are no plain number."""
    pa, pc = arrow(), arrow(".compute")
    found = _BEGINNINGS[_first_bytes(text)]
    if found.any():
        harmless = pc.match_substring_regex(text.filter(pa.array(found)), _HARMLESS)
        found[found] = ~harmless.to_numpy(zero_copy_only=False)
    return found


def neutralised(text: Any, which: NDArray[np.bool_]) -> Any:
    """An array of strings with an apostrophe before these cells."""
    pa, pc = arrow(), arrow(".compute")
    return pc.if_else(pa.array(which), pc.binary_join_element_wise(pa.scalar("'"), text, pa.scalar("")), text)


def _first_bytes(text: Any) -> NDArray[np.uint8]:
    """The first byte of each cell, 0 where it is empty."""
    _, offsets, data = text.buffers()
    first = np.zeros(len(text), np.uint8)
    places = np.frombuffer(offsets, np.int32)[text.offset : text.offset + len(text) + 1]
    begun = places[:-1] < places[1:]
    if begun.any():
        first[begun] = np.frombuffer(data, np.uint8)[places[:-1][begun]]
    return first
