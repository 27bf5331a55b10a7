"""Notes of a fit: facts that users should know, as records and as sentences."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from marmix.core.arrays import AnyArray, Array
from marmix.core.charts import LABEL_MAX, SHAPE_MAX
from marmix.core.mechanism import Mechanism

# Difference of two maxima of the log-likelihood that is reported.
MAXIMA_DIFFER = 0.05


class BoundaryWarning(UserWarning):
    """An estimate is at the boundary of its range: shape 0 or infinite, an infinite slope, a collapsed covariance, and so on.

    The message says which one, and what follows; the same sentences are in `notes_` of the estimator. Predictions are usually
    still good, standard errors of that parameter are not. Silence it with
    ``warnings.filterwarnings("ignore", category=marmix.BoundaryWarning)``.
    """


class Note(NamedTuple):
    """A fact about a fit: its code, and values to fill into its sentence. Classes and columns are given by number."""

    code: str
    values: dict[str, Any] = {}  # noqa: RUF012  # never modified


def listed(names: Sequence[Any]) -> str:
    """The first five names, quoted, and the number of further ones."""
    shown = ", ".join(repr(name) for name in names[:5])
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"


def sentence(note: Note, classes: AnyArray, columns: Sequence[str]) -> str:
    """The note as a sentence, with the names of classes and columns."""
    values = dict(note.values)
    if "classes" in values:
        names = classes.tolist()
        values["classes"] = ", ".join(repr(names[k]) for k in values["classes"])
    if "columns" in values:
        values["columns"] = listed([columns[i] for i in values["columns"]])
    return SENTENCES[note.code].format(**values)


SENTENCES = {
    "text": "{text}",
    "missing-texts": "{text} A text that is a class must be named in classes=.",
    # of models saved by 0.2
    "one-sided": "Labels are missing more often where class {classes} is probable than the uncertainty explains.",
    "label-term": "There are signs that labels of class {classes} are missing because of the label itself.",
    "doubtful-labels": "Counted as a class, although it may mean a missing label: {text}. Replace it by None if it does, or name "
    "all classes in classes=.",
    "all-labelled": "Every row has a label: there is no mechanism to estimate, and the fit is fully supervised. If labels should "
    "be missing, a LabelEncoder or a tool that numbers labels has made a class of them: name the classes in classes=.",
    "shape-zero": "The estimated shape is 0, its lower limit (link='cloglog'): the data do not determine the form of the link. "
    "Posteriors are hardly affected; fix the shape or the link to avoid this warning.",
    "shape-infinite": "The estimated shape is at its upper limit, {limit:g}, which stands for infinity: the data do not "
    "determine the form of the link. Posteriors are hardly affected; link='logit' is the simpler choice.",
    "label-limit": "The estimated label term of class {classes} is at its limit, {limit:g} on either side: the fit says that all "
    "labels of a class are missing, or none, and the data do not say how many. Give numbers for delta instead.",
    "separated": "The uncertainty separates labelled from unlabelled rows perfectly, so the slope of the mechanism has no finite "
    "estimate: alpha_ is where the solver stopped.",
    "run-off": "The labelled rows are perfectly separable, and ever larger coefficients fit no worse: without a penalty there "
    "is no finite maximum. Coefficients and alpha_ are where the solver stopped; use a finite C.",
    "maxima": "The likelihood has several maxima: {reached} of {starts} starts that were followed to the end reached the "
    "highest, the others ended up to {short:.3g} below it. A larger n_init may find a higher one.",
    "dependent": "Columns {columns} are linearly dependent, or there are fewer rows than features: covariances are singular, and "
    "log-likelihoods depend on reg_covar. Drop a column, reduce the features (sklearn.decomposition.PCA in a pipeline), or use "
    "covariance_type='diag'.",
    "collapsed": "The covariance of class {classes} collapsed to the limit set by reg_covar={floor:g}: too few or duplicate "
    "rows. Use covariance_type='tied' or 'diag', fewer n_components, or a larger reg_covar.",
    "dof-infinite": "The estimated degrees of freedom of class {classes} are infinite: tails are no heavier than those of a "
    "Gaussian, and MARGaussianMixture is the simpler model.",
    "dof-lowest": "The estimated degrees of freedom of class {classes} are at their lower limit, 1 (a Cauchy distribution): look "
    "for gross outliers, or transform the features.",
    "prior": "Class shares were taken as given: {shares} for {classes}. The probabilities are shifted to agree with them.",
    "left-out": "Left out {candidate!r}: {error}",
    "time-limit": "Left out for lack of time, after the limit of {limit:g} seconds: {candidates}.",
    "failed-folds": "{candidate!r} failed in {failed} of {folds} folds: {error}",
    "no-support": "The features alone explain as well which labels are missing, so that the missing labels do not bear on the "
    "choice of candidates.",
    "boosting-single-label": "Class {classes} has a single labelled row: neither the number of rounds nor the weight of the "
    "mechanism could be chosen on held-out rows, and usual values are used where none are given.",
    "boosting-most-rounds": "The held-out loss still falls after {most} rounds, the most that were tried: raise "
    "max_estimators or learning_rate.",
    "lower-weight": "Fits with mechanism_weight={given:g} do not settle in all folds: {weight:g} is used.",
    "no-boosting": "Gradient-boosted trees are not among the candidates, because LightGBM is not installed: "
    "pip install 'marmix[boost]' adds them. They help most where the boundary between the classes is curved.",
    "single-label": "A class has a single labelled row: candidates could not be compared, and have equal weights.",
}


def all_labelled_notes(any_missing: bool, classes: Any) -> list[Note]:
    """A note if no label is missing and nobody named the classes, so that one of them may stand for missing labels."""
    return [] if any_missing or classes is not None else [Note("all-labelled")]


def mechanism_notes(mechanism: Mechanism | None, loglik_per_row: float) -> Iterator[Note]:
    """Notes on parameters of the mechanism at a limit; `loglik_per_row` is that of the missingness."""
    if mechanism is None or not np.isfinite(mechanism.alpha[0]):  # ignored, or no label is missing
        return
    if mechanism.free_shape and mechanism.shape == 0.0:
        yield Note("shape-zero")
    if mechanism.free_shape and mechanism.shape > 0.999 * SHAPE_MAX:
        yield Note("shape-infinite", {"limit": SHAPE_MAX})
    limited = [k for k, delta in enumerate(mechanism.label) if mechanism.free_label and abs(delta) > 0.999 * LABEL_MAX]
    if limited:
        yield Note("label-limit", {"classes": limited, "limit": LABEL_MAX})
    if loglik_per_row > -1e-3:
        yield Note("separated")


def tail_notes(tail: Array, owner: AnyArray, least: float, most: float) -> Iterator[Note]:
    """Notes on degrees of freedom at a limit, given ``1 / nu`` of each component and its range."""
    infinite, lowest = tail <= 2.0 * least, tail >= 0.999 * most
    if infinite.any():
        yield Note("dof-infinite", {"classes": np.unique(owner[infinite]).tolist()})
    if lowest.any():
        yield Note("dof-lowest", {"classes": np.unique(owner[lowest]).tolist()})


def maxima_notes(maxima: Sequence[float]) -> Iterator[Note]:
    """A note if the maxima reached from several starts differ."""
    best = float(max(maxima, default=0.0))
    reached = sum(float(value) > best - MAXIMA_DIFFER for value in maxima)
    if reached < len(maxima):
        yield Note("maxima", {"reached": reached, "starts": len(maxima), "short": best - float(min(maxima))})


def covariance_notes(dependent: list[int], pivots: Array, owner: AnyArray, floor: float) -> Iterator[Note]:
    """Notes on singular covariances.

    Parameters
    ----------
    dependent : list of int
        Linearly dependent columns.
    pivots : array
        Residual variances of each component; a single row if components share them.
    owner : array
        The class of each component.
    """
    if dependent:
        yield Note("dependent", {"columns": dependent})
        return
    collapsed = np.any(pivots < 1.01 * floor, axis=1)
    if collapsed.any():
        classes = owner if len(collapsed) == 1 else owner[collapsed]
        yield Note("collapsed", {"classes": np.unique(classes).tolist(), "floor": float(floor)})
