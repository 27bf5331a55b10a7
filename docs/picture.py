"""Draw docs/missingness.png, the picture of the README: `python docs/picture.py` (needs the extra `plot`)."""

import warnings
from collections.abc import Callable
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from marmix import BoundaryWarning, MARGaussianMixture

SEED, ROWS = 0, 300
MEANS = np.array([[-1.0, -0.4], [1.0, 0.4]])
COVARIANCE = np.array([[1.0, -0.3], [-0.3, 1.0]])
ALPHA = (5.7, -6.0)  # P(missing) = expit(5.7 - 6 margin^2), which hides 70 % of the labels

# Okabe and Ito's colours, told apart by colour-blind readers; markers and dashes say the same without colour.
BLUE, ORANGE, GREEN, PURPLE, GREY = "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#B0B0B0"


def simulate(rng: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of two Gaussian classes, their labels, and the labels with the missing ones at -1."""
    y = rng.integers(2, size=rows)
    X = MEANS[y] + rng.multivariate_normal(np.zeros(2), COVARIANCE, size=rows)
    missing = rng.random(rows) < expit(ALPHA[0] + ALPHA[1] * np.tanh(0.5 * log_odds(X)) ** 2)
    return X, y, np.where(missing, -1, y)


def log_odds(X: np.ndarray) -> np.ndarray:
    """The true log-odds of class 1."""
    return X @ np.linalg.solve(COVARIANCE, MEANS[1] - MEANS[0])


def boundaries(ax: plt.Axes, X: np.ndarray, y: np.ndarray, fits: dict[str, Callable[[np.ndarray], np.ndarray]]) -> None:
    """Rows with and without labels, and where each classifier changes its mind."""
    ax.scatter(*X[y == -1].T, s=11, color=GREY, linewidth=0, label=f"no label ({np.mean(y == -1):.0%} of rows)")
    ax.scatter(*X[y == 0].T, s=20, color=BLUE, marker="o", linewidth=0, label="labelled, class 0")
    ax.scatter(*X[y == 1].T, s=24, color=ORANGE, marker="^", linewidth=0, label="labelled, class 1")
    grid = np.stack(np.meshgrid(np.linspace(-4.4, 4.4, 300), np.linspace(-3.4, 3.4, 300)), axis=-1)
    looks = (("black", "-", 1.6), (PURPLE, "--", 2.0), ("0.35", ":", 2.0), (GREEN, "-", 2.2))
    for (name, score), (colour, dashes, width) in zip(fits.items(), looks, strict=True):
        values = score(grid.reshape(-1, 2)).reshape(grid.shape[:2])
        ax.contour(*np.moveaxis(grid, -1, 0), values, [0.0], colors=[colour], linestyles=[dashes], linewidths=[width])
        ax.plot([], [], color=colour, linestyle=dashes, linewidth=width, label=name)
    ax.set(xlim=(-4.4, 4.4), ylim=(-3.4, 3.4), xlabel="$x_1$", ylabel="$x_2$", title="Where labels are missing")
    handles, labels = ax.get_legend_handles_labels()  # three kinds of rows, then the lines: a column each
    handles.insert(3, plt.Line2D([], [], linestyle=""))
    labels.insert(3, "")
    ax.legend(handles, labels, loc="upper center", bbox_to_anchor=(0.48, -0.17), ncols=2, frameon=False)


def missing_rate(ax: plt.Axes, clf: MARGaussianMixture, X: np.ndarray, y: np.ndarray) -> None:
    """The fitted probability of a missing label, and its rate in groups of rows with Wilson's 95 % interval."""
    margin = np.sqrt(clf.uncertainty(X))
    groups = np.argsort(margin).reshape(6, -1)
    size, rate, z = groups.shape[1], np.mean(y[groups] == -1, axis=1), 1.96
    centre = (rate + z**2 / (2 * size)) / (1 + z**2 / size)
    half = z * np.sqrt(rate * (1 - rate) / size + (z / (2 * size)) ** 2) / (1 + z**2 / size)
    at = np.linspace(0.0, 1.0, 200)
    ax.plot(at, expit(ALPHA[0] + ALPHA[1] * at**2), "-", color="black", linewidth=1.6, label="truth")
    ax.plot(at, clf.mechanism_.missing_proba_of(at**2), color=GREEN, linewidth=2.2, label="fitted, with the classifier")
    ax.vlines(margin[groups].mean(axis=1), centre - half, centre + half, color="0.3", linewidth=1.4)
    ax.plot(
        margin[groups].mean(axis=1), rate, "o", color="0.3", label=f"observed in groups of {size} rows, 95 % interval"
    )
    ax.set(xlim=(0, 1.02), ylim=(0, 1.04), title="Why they are missing")
    ax.set(xlabel="margin of the row (0 = a toss-up, 1 = certain)", ylabel="P(label missing)")
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.17), frameon=False)


def main() -> None:
    """Fit, draw, and print what the picture cannot show."""
    X, _, y = simulate(np.random.default_rng(SEED), ROWS)
    logistic = LogisticRegression().fit(X[y >= 0], y[y >= 0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BoundaryWarning)
        ignoring = MARGaussianMixture(covariance_type="tied", link=None).fit(X, y)
        clf = MARGaussianMixture(covariance_type="tied", link="aranda-ordaz", uncertainty="margin").fit(X, y)
    fits = {
        "true boundary": log_odds,
        "logistic, labelled rows": logistic.decision_function,
        "mixture, mechanism ignored": ignoring.decision_function,
        "mixture with mechanism": clf.decision_function,
    }
    fresh, truth, _ = simulate(np.random.default_rng(SEED + 1), 100_000)
    for name, score in fits.items():
        tau = expit(score(fresh))
        print(f"{name:27} log-loss {log_loss(truth, tau):.3f}   error {np.mean((tau > 0.5) != truth):.3f}")
    print("fitted mechanism: alpha", clf.alpha_.round(2), "shape", round(clf.shape_, 2), *clf.notes_)
    plt.rcParams.update({"font.size": 10.5, "axes.spines.top": False, "axes.spines.right": False})
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 4.9), width_ratios=(1.15, 1.0), layout="constrained")
    boundaries(left, X, y, fits)
    missing_rate(right, clf, X, y)
    figure.savefig(Path(__file__).with_name("missingness.png"), dpi=130)


if __name__ == "__main__":
    main()
