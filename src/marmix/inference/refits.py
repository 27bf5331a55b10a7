"""An estimator fitted again, to other rows or with other settings."""

import warnings
from copy import copy
from typing import Any

from numpy.typing import NDArray
from sklearn.base import clone

from marmix.arrays import Array


def refit(
    estimator: Any, X: NDArray[Any], z: NDArray[Any], weight: Array | None = None, *, warm: bool = True, **settings: Any
) -> Any:
    """A copy of the estimator with these settings, fitted to these rows; silently, for the caller looks at what came of it.

    Parameters
    ----------
    warm : bool
        Whether to start from the estimator's own fit; otherwise as a first fit does.
    """
    other = copy(estimator) if warm else clone(estimator)
    other.set_params(warm_start=warm, **settings)
    if other.random_state is None:  # what is done behind the user's back must not depend on NumPy's global state
        other.set_params(random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return other.fit(X, z, sample_weight=weight)


def with_link(link: str | None) -> dict[str, Any]:
    """Settings that change the link, to one that `shape` does not contradict."""
    settings: dict[str, Any] = {"link": link, "shape": None}
    return settings if link is not None else settings | {"mcar_share": False, "mechanism_features": None}
