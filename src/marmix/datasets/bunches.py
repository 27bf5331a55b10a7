"""What users receive: a Bunch, with data frames on request, or the features and the target alone."""

from typing import Any

import numpy as np
from sklearn.utils import Bunch

_OF_ROWS = {"target_true", "margin", "missing", "missing_proba"}  # besides the target, one value a row


def delivered(bunch: Bunch, as_frame: bool, return_X_y: bool) -> Any:
    """The bunch with its frame, or ``(data, target)``; `as_frame` needs pandas.

    With `as_frame`, ``data`` and ``posterior`` become DataFrames (of features, of classes), all else that has a value for
    each row a Series, and ``frame`` holds the features beside the target. They share one index.
    """
    bunch.frame = None
    if as_frame:
        try:
            import pandas as pd
        except ImportError:
            raise ImportError("as_frame=True needs pandas: install it, or leave as_frame=False for arrays.") from None
        bunch.data = pd.DataFrame(bunch.data, columns=np.asarray(bunch.feature_names, dtype=object))
        index = bunch.data.index
        bunch.frame = bunch.data.assign(target=bunch.target)
        bunch.target = bunch.frame["target"]
        for name in _OF_ROWS & bunch.keys():
            bunch[name] = pd.Series(bunch[name], index=index, name=name)
        if "posterior" in bunch:
            columns = np.asarray(bunch.target_names, dtype=object)
            bunch.posterior = pd.DataFrame(bunch.posterior, index=index, columns=columns)
    return (bunch.data, bunch.target) if return_X_y else bunch
