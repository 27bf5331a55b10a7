"""The paper's tables and figures: as published, corrected, and on fresh rows with intervals.

`marmix study list` names the items, `marmix study NAME` or `marmix study all` computes them; `run` is the same from Python.
"""

from marmix.study.plan import SIZES
from marmix.study.running import ITEMS, run

__all__ = ["ITEMS", "SIZES", "run"]
