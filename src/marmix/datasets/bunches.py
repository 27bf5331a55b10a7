"""Return values of the data sets: a Bunch, with data frames on request, or ``(data, target)``."""

from typing import Any

import numpy as np
from sklearn.utils import Bunch

_ROW_VALUES = {"target_true", "margin", "missing", "missing_proba", "birads"}  # besides the target


def delivered(bunch: Bunch, as_frame: bool, return_X_y: bool = False) -> Any:
    """The bunch, or ``(data, target)``.

    With `as_frame` (needs pandas), ``data`` and ``posterior`` become DataFrames, other values by row become Series, and
    ``frame`` holds the features and the target. All share one index.
    """
    bunch.frame = None
    if as_frame:
        import pandas as pd

        bunch.data = pd.DataFrame(bunch.data, columns=np.asarray(bunch.feature_names, dtype=object))
        index = bunch.data.index
        bunch.frame = bunch.data.assign(target=bunch.target)
        bunch.target = bunch.frame["target"]
        for name in _ROW_VALUES & bunch.keys():
            bunch[name] = pd.Series(bunch[name], index=index, name=name)
        if "posterior" in bunch:
            columns = np.asarray(bunch.target_names, dtype=object)
            bunch.posterior = pd.DataFrame(bunch.posterior, index=index, columns=columns)
    return (bunch.data, bunch.target) if return_X_y else bunch
