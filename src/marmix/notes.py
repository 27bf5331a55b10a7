"""What a user should be told of a fit, in words."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from marmix.mechanism import Mechanism
from marmix.mechanism.charts import SHAPE_MAX
from marmix.mechanism.links import link_of_shape


class BoundaryWarning(UserWarning):
    """The likelihood has its maximum at a limit: a shape of 0 or infinity, an endless slope, a collapsed covariance."""


def mechanism_notes(mechanism: Mechanism | None, loglik_per_row: float) -> Iterator[str]:
    """Limits that the mechanism ran to; `loglik_per_row` is that of the missingness."""
    if mechanism is None:
        return
    if not np.isfinite(mechanism.alpha[0]):
        yield "Every row has a label: there is no mechanism to estimate, and the fit is the one of all labels."
        return
    if mechanism.free_shape and mechanism.shape == 0.0:
        yield (
            f"The shape ran to 0, its lower limit (link={link_of_shape(0.0).name!r}): these data do not tell how the missing "
            "probability bends. Posteriors are hardly affected; fix the shape or the link to be rid of this."
        )
    if mechanism.free_shape and mechanism.shape > 0.999 * SHAPE_MAX:
        yield (
            f"The shape ran to its upper limit, {SHAPE_MAX:g}, which stands for infinity: these data do not tell how the "
            "missing probability bends. Posteriors are hardly affected; link='logit' is the simpler choice."
        )
    if loglik_per_row > -1e-3:
        yield (
            "The uncertainty tells missing from given labels without error, so the slope of the mechanism has no finite "
            "maximum: alpha_ is where the climb stopped."
        )


def covariance_notes(
    dependent: str | None, pivots: NDArray[np.float64], owners: list[object], floor: float
) -> Iterator[str]:
    """Covariances that the data leave singular.

    Parameters
    ----------
    dependent : str or None
        Columns that depend on each other, as a list to print.
    pivots : array
        Residual variances of each component, a single row where they share them.
    owners : list
        The class of each component.
    """
    if dependent is not None:
        yield (
            f"Columns {dependent} are linearly dependent, or there are fewer rows than features: no covariance is regular, "
            "reg_covar decides where the data do not, and log-likelihoods mean little. Drop a column, reduce the features "
            "first (sklearn.decomposition.PCA in a pipeline), or use covariance_type='diag'."
        )
        return
    collapsed = np.any(pivots < 1.01 * floor, axis=1).tolist()
    if any(collapsed):
        whose = (
            owners if len(collapsed) == 1 else [owner for owner, is_so in zip(owners, collapsed, strict=True) if is_so]
        )
        named = ", ".join(dict.fromkeys(repr(name) for name in whose))
        yield (
            f"The covariance of class {named} collapsed to the limit set by reg_covar={floor:g}: too few rows, or "
            "duplicates, in some direction. Use covariance_type='tied' or 'diag', fewer n_components, or a larger "
            "reg_covar."
        )
