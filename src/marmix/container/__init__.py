"""Models in files: `save` and `load`, without pickle.

A file is a zip of one JSON text and of arrays in NumPy's format, every one with its checksum; `docs/container.md` describes it.
It holds numbers and text only, so that loading one runs nothing of what is in it, whoever wrote it.
"""

import json
import os
import stat
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
from sklearn.utils.validation import check_is_fitted

from marmix.container.format import CHECKSUM, MODEL, Archive, ContainerError, array_entry, array_parts, checksum, write
from marmix.container.models import estimator_of, input_of, state_of
from marmix.container.plain import Decoder, Encoder, parse, written
from marmix.outputs import one_file

__all__ = ["ContainerError", "describe", "load", "save"]

FORMAT_VERSION = 1


def save(
    model: Any, path: str | os.PathLike[str], *, about: Mapping[str, Any] | None = None, overwrite: bool = False
) -> None:
    """Write a fitted model to a file, from which `load` gives it back.

    Parameters
    ----------
    model : fitted estimator
        `MARGaussianMixture`, `MARLogisticRegression`, `MARClassifierCV`, or a pipeline that ends in one of them after
        `StandardScaler` or `marmix.tables.preparation.Preparation`.
    path : str or path
        Of the file; nothing is added to the name, `model.marmix` is the custom. The file appears only when it is whole.
    about : dict, optional
        What else should be kept with the model: anything that is JSON. `describe` gives it back.
    overwrite : bool, default=False
        Whether a file that is there may be replaced.

    Notes
    -----
    The same model gives the same bytes. What the fit said of its own rows (`transduction_`, and `held_out_proba_`,
    `missing_proba_` and `reference_proba_` of `MARClassifierCV`) is not kept: it grows with the rows, which may be private.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from marmix import MARGaussianMixture
    >>> from marmix.container import load, save
    >>> X = np.array([[0.0], [1.0], [0.5], [5.0], [6.0], [5.5]])
    >>> clf = MARGaussianMixture(link=None).fit(X, [0, 0, -1, 1, 1, -1])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.marmix")
    ...     save(clf, path)
    ...     again = load(path)
    >>> bool(np.all(again.predict_proba(X) == clf.predict_proba(X)))
    True
    """
    header, arrays = _encoded(model, about)
    advice = "pass overwrite=True to replace it, or give another path"
    with one_file(path, overwrite, advice=advice, pipes=False) as part:
        with open(part, "wb") as file:
            write(file, _members(header, arrays))
        try:
            _read(part)
        except ContainerError as error:
            raise ValueError(f"this {type(model).__name__} cannot be saved: {error}") from error


def load(path: str | os.PathLike[str]) -> Any:
    """The model in a file that `save` wrote.

    Everything is checked before it is used: sizes, checksums, types, shapes, and that the parts belong together. A file that was
    cut short, edited, or made up raises `ContainerError`, a ValueError that says what is wrong. Nothing in a file is ever run.
    """
    return _read(Path(path))[0]


def describe(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What a file says of its model, checked as `load` does.

    Returns
    -------
    dict
        `format`, `format_version`, `written_by` (versions of marmix, numpy and scikit-learn), `class`, `classes`, `features`
        (a list of `name` and `dtype` each), `about`, and `sizes`: bytes of the `file` and of its `arrays`, by name.
    """
    return _read(Path(path))[1]


def _encoded(model: Any, about: Mapping[str, Any] | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """What model.json will hold, but for its list of arrays; and the arrays."""
    state = state_of(model)
    check_is_fitted(model)
    encoder = Encoder()
    own = encoder.encode(state)
    header = {
        "format": "marmix",
        "format_version": FORMAT_VERSION,
        "written_by": {
            "marmix": sys.modules["marmix"].__version__,  # which imports this file, and cannot be imported by it
            "numpy": np.__version__,
            "scikit-learn": sklearn.__version__,
        },
        **input_of(model),
        "about": _plain_json({} if about is None else about),
        "model": own,
    }
    return header, encoder.arrays


def _plain_json(about: Mapping[str, Any]) -> dict[str, Any]:
    try:
        same = json.loads(json.dumps(dict(about), allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"about must be plain JSON (dicts, lists, text, numbers, None): {error}") from None
    if same != about:
        raise ValueError("about must be plain JSON: dicts with text as keys, lists, text, numbers, None.")
    return dict(same)


def _members(header: dict[str, Any], arrays: dict[str, Any]) -> Iterator[tuple[str, list[bytes]]]:
    model = written(header | {"arrays": {name: array_entry(array) for name, array in arrays.items()}})
    yield CHECKSUM, [checksum(model)]
    yield MODEL, [model]
    for name, array in arrays.items():
        yield f"arrays/{name}.npy", array_parts(array)


def _read(path: Path) -> tuple[Any, dict[str, Any]]:
    """The model and its description."""
    if not stat.S_ISREG(path.stat().st_mode):  # a pipe would wait for ever
        raise ContainerError(f"{os.fspath(path)!r} is no file: give the path of a saved model.")
    with open(path, "rb") as file:
        try:
            with np.errstate(all="ignore"):
                return _opened(Archive(file, os.fstat(file.fileno()).st_size))
        except ContainerError as error:
            raise ContainerError(f"{os.fspath(path)!r}: {error}") from error.__cause__


def _opened(archive: Archive) -> tuple[Any, dict[str, Any]]:
    text = archive.model()
    header = parse(text)
    if not isinstance(header, dict) or header.get("format") != "marmix":
        raise ContainerError("this is a zip file, but no saved model of marmix.")
    _check_version(header)
    keys = {"format", "format_version", "written_by", "class", "classes", "features", "about", "model", "arrays"}
    if set(header) != keys or not isinstance(header["arrays"], dict) or not isinstance(header["about"], dict):
        raise ContainerError("model.json does not have the parts that a saved model has.")
    decoder = Decoder(archive.arrays(header["arrays"]), len(text))
    state = decoder.decode(header["model"])
    decoder.finish()
    try:
        model = estimator_of(state)
        described = input_of(model)
    except ContainerError:
        raise
    except Exception as error:  # whatever a made-up value does to code that takes it for a sound one
        raise ContainerError(f"the file does not describe a model: {str(error)[:200]}") from error
    if any(header[key] != value for key, value in described.items()):
        raise ContainerError("what model.json says of features and classes is not what its model says.")
    sizes = {name: member.size for name, member in archive.members.items() if name not in (MODEL, CHECKSUM)}
    names = {f"arrays/{name}.npy": name for name in header["arrays"]}
    out = {key: value for key, value in header.items() if key not in ("model", "arrays")}
    return model, out | {"sizes": {"file": archive.size, "arrays": {names[name]: size for name, size in sizes.items()}}}


def _check_version(header: dict[str, Any]) -> None:
    version, by = header.get("format_version"), header.get("written_by")
    if not isinstance(by, dict) or not all(isinstance(value, str) for value in by.values()):
        raise ContainerError("model.json does not say what wrote it.")
    if type(version) is not int or version < 1:
        raise ContainerError("model.json has no version of its format.")
    if version > FORMAT_VERSION:
        wrote = by.get("marmix", "of a later version")[:20]
        raise ContainerError(
            f"the file has version {version} of the format, written by marmix {wrote}. This is marmix "
            f"{sys.modules['marmix'].__version__}, which knows versions up to {FORMAT_VERSION}: upgrade marmix."
        )
