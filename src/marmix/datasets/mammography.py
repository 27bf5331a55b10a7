"""Mammographic masses: labels that are missing because the radiologist was undecided."""

from importlib.resources import files
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from marmix.datasets.bunches import delivered

UNDECIDED = (0, 4)  # BI-RADS: needs further images; suspicious

DESCRIPTION = """Mammographic masses: 830 masses, benign (0) or malignant (1); no label where the radiologist was undecided.

Age of the woman in years; shape (1 round to 4 irregular), margin (1 circumscribed to 5 spiculated) and density (1 high to 4
fat-containing) of the mass, by the BI-RADS lexicon. `target_true` is the finding of the biopsy, and `target` the same where the
radiologist was decided: it is -1 where the assessment, `birads`, is 4 (suspicious) or 0 (needs further images), not 2 or 3
(benign), 5 or 6 (malignant). One assessment is 55 in the original file, and is read as 5.

The complete rows of the mammographic mass data of M. Elter, R. Schulz-Wendtland and T. Wittenberg (2007), "The prediction of
breast cancer biopsy outcomes using two CAD approaches that both emphasize an intelligible decision process", Medical Physics
34(11), 4164-4172; UCI Machine Learning Repository, doi:10.24432/C53K6Z, licence CC BY 4.0.
"""


def load_mammography(*, as_frame: bool = False, return_X_y: bool = False) -> Any:
    """830 mammographic masses, benign or malignant, without a label where the radiologist was undecided.

    Labels are really missing here, and the biopsies say what they would have been. Data of Elter, Schulz-Wendtland and
    Wittenberg (2007), licence CC BY 4.0. It needs no network.

    Parameters
    ----------
    as_frame : bool, default=False
        Return a DataFrame and Series (needs pandas).
    return_X_y : bool, default=False
        Return ``(data, target)`` alone.

    Returns
    -------
    Bunch
        `data` (830, 4), `target` (the biopsy: 0 benign, 1 malignant, -1 where the radiologist was undecided), `target_true` (all
        biopsies), `birads` (the radiologist's assessment), `missing`, `feature_names`, `target_names`, `frame` (None unless
        `as_frame`), `DESCR`.

    See Also
    --------
    load_tumours : Rows whose hard labels were hidden on purpose.

    Examples
    --------
    >>> from marmix.datasets import load_mammography
    >>> masses = load_mammography()
    >>> print(len(masses.target), masses.missing.sum(), masses.target_true.sum())
    830 473 403
    """
    with files(__package__).joinpath("mammography.csv").open() as file:
        birads, *features, malignant = np.loadtxt(file, delimiter=",", skiprows=1, unpack=True)
    birads[birads == 55] = 5
    missing = np.isin(birads, UNDECIDED)
    bunch = Bunch(
        data=np.column_stack(features),
        target=np.where(missing, -1, malignant).astype(np.int64),
        target_true=malignant.astype(np.int64),
        birads=birads.astype(np.int64),
        missing=missing,
        feature_names=["age", "shape", "margin", "density"],
        target_names=["benign", "malignant"],
        DESCR=DESCRIPTION,
    )
    return delivered(bunch, as_frame, return_X_y)
