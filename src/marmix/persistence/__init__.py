"""Models in files, without pickle: `save`, `load` and `describe`.

A file is a zip of JSON and NumPy arrays, each with its checksum; `marmix.persistence.format` describes it. It holds
numbers and text only: loading a file never runs code from it.
"""

import os
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import numpy as np
import sklearn

from marmix.core.arrays import quiet
from marmix.outputs import one_file
from marmix.persistence.checks import ContainerError
from marmix.persistence.format import FORMAT_VERSION, read, write
from marmix.persistence.models import estimator_of, input_of, state_of

__all__ = ["ContainerError", "describe", "load", "save"]


def save(
    model: Any, path: str | os.PathLike[str], *, about: Mapping[str, Any] | None = None, overwrite: bool = False
) -> None:
    """Write a fitted model to a file that `load` can read.

    Parameters
    ----------
    model : fitted estimator
        Any estimator of marmix, or a pipeline that ends in one after `StandardScaler` or `marmix.tables.Preparation`.
    path : str or path
        The file, such as `model.marmix`; no extension is added. It appears under this name once it is complete.
    about : dict, optional
        Further information to store, as plain JSON; `describe` returns it.
    overwrite : bool, default=False
        Whether to replace an existing file.

    See Also
    --------
    marmix.load : read the model again.
    marmix.persistence.describe : what is in a file, without using it.

    Notes
    -----
    The same model gives the same bytes. Results for the training rows (`transduction_`, and `held_out_proba_`, `missing_proba_`,
    `reference_proba_` and `posterior_` of `MARClassifierCV`) are not saved, as they grow with the rows and may be private. But
    kernels are centred at some training rows, and labels spread over neighbours, where they have a weight in an average, need all
    of them: these rows are in the file.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from marmix import MARGaussianMixture, load, save
    >>> X = np.array([[0.0], [1.0], [0.5], [5.0], [6.0], [5.5]])
    >>> clf = MARGaussianMixture(link=None).fit(X, [0, 0, -1, 1, 1, -1])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.marmix")
    ...     save(clf, path)
    ...     again = load(path)
    >>> bool(np.all(again.predict_proba(X) == clf.predict_proba(X)))
    True
    """
    header = {
        "format": "marmix",
        "format_version": FORMAT_VERSION,
        "written_by": {
            "marmix": version("marmix"),
            "numpy": np.__version__,
            "scikit-learn": sklearn.__version__,
        },
        "about": {} if about is None else about,
        "model": state_of(model),
    }
    advice = "pass overwrite=True to replace it, or give another path"
    with one_file(path, overwrite, advice=advice) as part, open(part, "wb") as file:
        write(file, header)


def load(path: str | os.PathLike[str]) -> Any:
    """Return the model in a file that `save` wrote.

    Sizes, checksums, types and shapes are checked. A file that is truncated or damaged raises `ContainerError`, a ValueError that
    says what is wrong. No code from the file is run.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    fitted estimator
        With the predictions of the one that was saved.

    See Also
    --------
    marmix.save : write the file.

    Examples
    --------
    >>> import os, tempfile
    >>> from marmix import MARGaussianMixture, load, save
    >>> X, y = [[0.0], [1.0], [0.5], [5.0], [6.0], [5.5]], [0, 0, -1, 1, 1, -1]
    >>> clf = MARGaussianMixture(link=None).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(clf, os.path.join(folder, "model.marmix"))
    ...     again = load(os.path.join(folder, "model.marmix"))
    >>> again.predict([[1.0], [5.0]])
    array([0, 1])
    """
    return _read(path)[0]


def describe(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the description of a saved model, checked as `load` does.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    dict
        `format`, `format_version`, `written_by` (versions of marmix, numpy and scikit-learn), `class`, `classes`, `features`
        (`name` and `dtype` of each) and `about`.

    See Also
    --------
    marmix.load : the model itself.

    Examples
    --------
    >>> import os, tempfile
    >>> from marmix import MARGaussianMixture, save
    >>> from marmix.persistence import describe
    >>> X, y = [[0.0], [1.0], [0.5], [5.0], [6.0], [5.5]], [0, 0, -1, 1, 1, -1]
    >>> clf = MARGaussianMixture(link=None).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(clf, os.path.join(folder, "model.marmix"), about={"study": "pilot"})
    ...     content = describe(os.path.join(folder, "model.marmix"))
    >>> content["class"], content["classes"], content["about"]
    ('MARGaussianMixture', [0, 1], {'study': 'pilot'})
    """
    return _read(path)[1]


def _read(path: str | os.PathLike[str]) -> tuple[Any, dict[str, Any]]:
    """The model in a file, and its description."""
    with open(path, "rb") as file, quiet():
        try:
            header = read(file)
            model = estimator_of(header["model"])
            return model, {key: header[key] for key in header if key not in ("model", "arrays")} | input_of(model)
        except Exception as error:  # damaged contents can raise anything
            reason = " ".join(str(error).split())[:300]
            if not isinstance(error, ContainerError):
                reason = f"it is damaged, or not a saved model ({type(error).__name__}: {reason})."
            raise ContainerError(f"{os.fspath(path)!r} cannot be loaded: {reason}") from error
