"""The paper's tables and figures: as published, corrected, and on fresh rows with intervals.

`marmix study list` lists the items; `marmix study NAME` or `marmix study all` computes them, and so does `run` from Python.
"""

from marmix.study.pieces import SIZES
from marmix.study.running import ITEMS, run

__all__ = ["ITEMS", "SIZES", "run"]
