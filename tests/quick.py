"""What makes fits and reports small in a short run: few candidates, small rivals, few draws, figures that are not drawn."""

import base64
import os

from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from marmix import MARLogisticRegression
from marmix.selection.candidates import default_candidates

_PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII="
)
_FILES = {"png": _PIXEL, "svg": b'<svg xmlns="http://www.w3.org/2000/svg"/>'}


def few(*args, kind="auto", **kwargs):
    """One candidate of each model, in place of `default_candidates`."""
    ends = ["C=1, ignored", "C=1, mechanism", "tied, ignored", "tied, mechanism", "full, mechanism"]
    ends += {"boosting": ["weight 0.03"], "kernel": ["kernel, ignored"]}.get(kind, [])
    grid = default_candidates(*args, kind=kind, **kwargs).items()
    return {
        name: model
        for name, model in grid
        if name.endswith(tuple(ends)) and not {"of", "Student", "quadratic"} & set(name.split())
    }


def two(*args, **kwargs):
    """Two logistic regressions, in place of `default_candidates`."""
    return {"ignored": MARLogisticRegression(link=None), "modelled": MARLogisticRegression(n_init=1)}


def small_fits(patch, tiny=False):
    """`marmix fit` compares one candidate of each model, with rivals of a few trees and few draws; if tiny, two and one rival."""
    rivals = {"logistic regression": LogisticRegression(), "random forest": RandomForestClassifier(10, random_state=0)}
    if tiny:
        del rivals["random forest"]
    patch.setattr("marmix.journey.fit.default_candidates", two if tiny else few)
    patch.setattr("marmix.selection.comparison.default_rivals", lambda *args: rivals)
    patch.setattr("marmix.evaluation.forests._TREES", 5 if tiny else 30)
    patch.setattr("marmix.journey.findings._DRAWS", 20)


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
