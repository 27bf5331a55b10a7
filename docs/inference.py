"""From a fit to what it is worth: standard errors, tests and intervals on real rows whose labels were hidden, hard cases first.

`python docs/inference.py` prints the numbers of docs/guide/inference.md (needs pandas) and draws docs/inference.png
(extra `plot`).
"""

from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.base import clone

from marmix import MARGaussianMixture, compare
from marmix.datasets.hard import tumours
from marmix.plotting import MissingnessDisplay, ProfileDisplay
from marmix.plotting.drawing import BLACK, BLUE, GREY, RED, canvas, legend_below, styled

FEATURES = ["log radius", "log texture"]


def rows():
    """Two features of the breast-cancer rows; a random forest's uncertainty has decided whose label is hidden."""
    data = tumours()
    names = np.array(["benign", "malignant"])[data.y]
    return pd.DataFrame(np.log(data.X[:, :2]), columns=FEATURES), np.where(data.hidden(0), None, names), names


def printed(X, y, truth):
    """Everything that the page shows; returns the fit, its inference and the profile of the shape."""
    clf = MARGaussianMixture(covariance_type="tied", link="logit", measure="margin").fit(X, y)
    result = clf.inference(X, y)
    print(result.summary(), "\n")
    print(result.test_informative(), "\n")
    print(result.test_link("logit"), "\n")
    print(result.test_mechanism(), "\n")
    print(result.goodness_of_fit(), "\n")
    print(result.profile("alpha_1"))
    free = clone(clf).set_params(link="aranda-ordaz").fit(X, y).inference(X, y)
    shape = free.profile("shape", n_points=25)
    print(shape, "\n")
    error = result.bayes_error()
    print(f"Error rate if the model is right: {error.estimate:.3f} ({error.lower:.3f} to {error.upper:.3f})")
    imputed = result.imputed_labels()
    right = imputed.label == truth[imputed.row]
    print(
        f"{len(right)} labels imputed, {right.mean():.1%} of them right; {imputed.settled.sum()} are settled, of which "
        f"{right[imputed.settled].mean():.1%} are right, of the others {right[~imputed.settled].mean():.1%}\n"
    )
    kinds = ("full", "tied", "diag")
    print(compare(*[clone(clf).set_params(covariance_type=kind).fit(X, y) for kind in kinds]), "\n")
    draws = clf.multiple_imputations(X, y, m=50, random_state=0)
    malignant = draws.pool(lambda labels: share(labels == "malignant"))
    low, high = malignant.conf_int()[0]
    print(f"Share of malignant rows, by multiple imputation: {malignant.params[0]:.3f} ({low:.3f} to {high:.3f})")
    among = np.mean([label == "malignant" for label in y if label is not None])
    print(f"  among the labelled rows {among:.3f}, in truth {np.mean(truth == 'malignant'):.3f}")
    return clf, result, shape


def share(is_so):
    """A proportion and its variance."""
    p = np.mean(is_so)
    return p, p * (1.0 - p) / len(is_so)


def drawn(clf, X, y, result, shape, path):
    """The boundary, the missingness curve and the profile of the shape, each with its uncertainty."""
    with styled():
        figure, (left, middle, right) = canvas(10, 3.9, 1, 3)
        boundary = result.decision_boundary()
        z = boundary.log_odds / boundary.error
        left.contourf(boundary.x, boundary.y, z, levels=[-1.96, 1.96], colors=["#F0E442"], alpha=0.6)
        left.contour(boundary.x, boundary.y, boundary.log_odds, levels=[0.0], colors=BLACK, linewidths=1)
        for name, colour, marker in ((None, GREY, "."), ("benign", BLUE, "o"), ("malignant", RED, "^")):
            own = np.array([label == name for label in y])
            size = 10 if name is None else 14
            left.scatter(
                *X[own].to_numpy().T, s=size, c=colour, marker=marker, lw=0, alpha=0.8, label=name or "no label"
            )
        left.set(xlabel=FEATURES[0], ylabel=FEATURES[1], title="The boundary and its 95 % band")
        legend_below(left, columns=3)
        MissingnessDisplay.from_estimator(clf, X, y, inference=result, ax=middle)
        middle.set_title("Missingness")
        ProfileDisplay.from_profile(shape, ax=right)
        right.set_title("What the data say of the shape")
        figure.savefig(path, dpi=150)


if __name__ == "__main__":
    X, y, truth = rows()
    clf, result, shape = printed(X, y, truth)
    try:
        drawn(clf, X, y, result, shape, Path(__file__).with_suffix(".png"))
    except ImportError:
        print("no figure: install the extra `plot`")
