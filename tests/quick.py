"""What makes fits and reports small in a short run: few candidates, folds and rivals, and figures that are not drawn."""

import base64
import os

from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from marmix import MARLogisticRegression
from marmix.app import analyse, models
from marmix.evaluation import forests
from marmix.selection import comparison
from marmix.selection.candidates import default_candidates, default_rivals

_PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII="
)
_FILES = {"png": _PIXEL, "svg": b'<svg xmlns="http://www.w3.org/2000/svg"/>'}
_USUAL = [  # as users have it
    (models, "default_candidates", default_candidates),
    (comparison, "default_rivals", default_rivals),
    (forests, "_TREES", forests._TREES),
    (analyse, "FOLDS", analyse.FOLDS),
]


def few(*args, kind="auto", **kwargs):
    """One candidate of each model, in place of `default_candidates`."""
    ends = ["C=1, ignored", "C=1, mechanism", "tied, ignored", "tied, mechanism", "full, mechanism"]
    ends += {"boosting": ["weight 0.03"], "kernel": ["kernel, ignored"]}.get(kind, [])
    grid = default_candidates(*args, kind=kind, **kwargs).items()
    return {name: model for name, model in grid if name.endswith(tuple(ends))}


def two(*args, **kwargs):
    """Two logistic regressions, in place of `default_candidates`."""
    return {"ignored": MARLogisticRegression(link=None), "modelled": MARLogisticRegression(n_init=1)}


def small_fits(patch, tiny=False):
    """`marmix fit` compares one candidate of each model in two folds, with small rivals; if tiny, two and one rival."""
    rivals = {"logistic regression": LogisticRegression(), "random forest": RandomForestClassifier(10, random_state=0)}
    if tiny:
        del rivals["random forest"]
    small = (two if tiny else few, lambda *args: rivals, 5 if tiny else 30, 2)
    for (module, name, _), value in zip(_USUAL, small, strict=True):
        patch.setattr(module, name, value)


def usual_fits(patch):
    """`marmix fit` does what it does for users."""
    for module, name, value in _USUAL:
        patch.setattr(module, name, value)


def undrawn_figures(patch):
    """Figures are made but not drawn, which takes most of the time of a report: their files hold one pixel."""
    from matplotlib.figure import Figure

    def savefig(self, file, *, format=None, **options):
        if format is None:
            format = os.fspath(file).rpartition(".")[2]
        if isinstance(file, (str, os.PathLike)):
            with open(file, "wb") as opened:
                opened.write(_FILES[format])
        else:
            file.write(_FILES[format])

    patch.setattr(Figure, "savefig", savefig)
