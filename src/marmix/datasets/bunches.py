"""What users receive: a Bunch, with data frames on request, or the features and the target alone."""

from typing import Any

import numpy as np
from sklearn.utils import Bunch


def delivered(bunch: Bunch, as_frame: bool, return_X_y: bool) -> Any:
    """The bunch with its frame, or ``(data, target)``; `as_frame` needs pandas.

    With `as_frame`, ``data`` becomes a DataFrame, ``target`` and ``target_true`` a Series each, and ``frame`` holds the
    features beside the target.
    """
    bunch.frame = None
    if as_frame:
        try:
            import pandas as pd
        except ImportError:
            raise ImportError("as_frame=True needs pandas: install it, or leave as_frame=False for arrays.") from None
        bunch.data = pd.DataFrame(bunch.data, columns=np.asarray(bunch.feature_names, dtype=object))
        bunch.frame = bunch.data.assign(target=bunch.target)
        bunch.target = bunch.frame["target"]
        if "target_true" in bunch:
            bunch.target_true = pd.Series(bunch.target_true, name="target_true")
    return (bunch.data, bunch.target) if return_X_y else bunch
