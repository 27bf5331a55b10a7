"""MAGIC: the scatterplot matrix of four features."""

from typing import Any

import numpy as np
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_predict

from marmix.datasets import load_magic
from marmix.displays.drawing import BLUE, ORANGE, canvas
from marmix.inference.tables import Table
from marmix.study.blocks import Block, Claim, Item, Page, Picture, Sheet
from marmix.study.magic import COLUMNS, hiding_posterior, rows
from marmix.study.pieces import Found, Piece
from marmix.study.plan import Plan
from marmix.study.summaries import FAILS, HOLDS

AUC, POINTS = "magic-pairs/boundaries", "magic-pairs/points"
SHOWN, BINS = 2500, 40
CLASSES = {"gamma": BLUE, "hadron": ORANGE}
BETTER, OVERLAP = 0.02, 0.95  # AUC by which a free boundary must be better, and below which classes overlap


def pieces(plan: Plan) -> list[Piece]:
    """How far a linear boundary gets, and what is drawn: the page itself needs no data."""
    return [Piece(AUC, boundaries), Piece(POINTS, points)]


def boundaries(rng: np.random.Generator) -> dict[str, float]:
    """Cross-fitted AUC of a linear, a quadratic and a free boundary, with every label."""
    X, y = rows()
    linear = cross_val_predict(LogisticRegression(), X, y, method="predict_proba")
    quadratic = cross_val_predict(QuadraticDiscriminantAnalysis(), X, y, method="predict_proba")
    free = hiding_posterior("boosting")
    found = {"logistic regression": linear, "one Gaussian a class": quadratic, "gradient boosting": free}
    return {name: float(roc_auc_score(y, p[:, 1])) for name, p in found.items()}


def points(rng: np.random.Generator) -> dict[str, Any]:
    """Some rows in their own units, and histograms of all of them between the outermost 0.2 %."""
    data = load_magic(columns=list(COLUMNS))
    X, y = data.data, data.target
    chosen = rng.permutation(len(y))[:SHOWN]
    ends = [np.quantile(column, [0.002, 0.998]) for column in X.T]
    edges = [np.linspace(low, high, BINS + 1) for low, high in ends]
    density = [
        [np.histogram(X[y == k, j], edges[j], density=True)[0].tolist() for k in (0, 1)] for j in range(len(COLUMNS))
    ]
    return {
        "X": X[chosen].tolist(),
        "y": y[chosen].tolist(),
        "edges": [e.tolist() for e in edges],
        "density": density,
        "n": len(y),
    }


def page(plan: Plan, found: Found) -> Page:
    """The scatterplot matrix, and how far boundaries get."""
    auc = found[AUC]
    free, linear = auc["gradient boosting"], auc["logistic regression"]
    claim = Claim(
        "The MAGIC classes overlap, and a linear boundary is not enough (scatterplot matrix).",
        HOLDS if free - linear > BETTER and free < OVERLAP else FAILS,
        "With every label, cross-fitted, the four features give an AUC of "
        + ", ".join(f"{value:.3f} by {name}" for name, value in auc.items())
        + f". 'Not enough' is taken as {BETTER} less than a free boundary, 'overlap' as below {OVERLAP}.",
    )
    table = Table(
        "How far boundaries get with every label", ["AUC, 5-fold"], list(auc), [[f"{v:.3f}"] for v in auc.values()]
    )
    records = [{"boundary": name, "auc": value} for name, value in auc.items()]
    blocks: list[Block] = [_picture(found[POINTS]), Sheet("magic-pairs", table, records)]
    return Page("magic-pairs", ITEM.title, [claim], blocks)


def _picture(drawn: dict[str, Any]) -> Picture:
    X, y = np.array(drawn["X"]), np.array(drawn["y"])
    size = len(COLUMNS)
    figure, axes = canvas(7.0, 6.6, size, size, sharex="col")
    for i, (row_name, row_unit) in enumerate(COLUMNS.items()):
        for j, (name, unit) in enumerate(COLUMNS.items()):
            ax, edges = axes[i, j], drawn["edges"]
            if j > i:
                ax.set_axis_off()
                continue
            for k, (label, colour) in enumerate(CLASSES.items()):
                if i == j:
                    ax.stairs(drawn["density"][j][k], edges[j], color=colour, linewidth=1.1, label=label)
                else:
                    ax.scatter(
                        X[y == k, j], X[y == k, i], s=2.0, color=colour, alpha=0.35, linewidths=0, rasterized=True
                    )
                    ax.set_ylim(edges[i][0], edges[i][-1])
            ax.set_xlim(edges[j][0], edges[j][-1])
            ax.set_xlabel(f"{name}\n({unit})" if i == size - 1 else "")
            ax.set_ylabel("density" if i == j else f"{row_name} ({row_unit})" if j == 0 else "")
            if i == j:
                ax.set_yticks([])
            elif j > 0:
                ax.set_yticklabels([])
    handles, labels = axes[0, 0].get_legend_handles_labels()
    axes[0, 2].legend(handles, labels, loc="upper center", fontsize=9)
    figure.align_labels()
    caption = (
        f"The four features of the paper: {len(y)} of {drawn['n']:,} events in the scatterplots, all of them in the "
        "histograms; the outermost 0.2 % on each side are not shown."
    )
    return Picture("magic-pairs", caption, figure)


ITEM = Item("magic-pairs", "MAGIC: scatterplot matrix of four features", pieces, page, magic=True)
