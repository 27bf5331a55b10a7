"""The scoreboard of `marmix demo`: labels of two real data sets hidden again and again, and who gets them right."""

import warnings
from collections.abc import Sequence
from textwrap import fill
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, cpu_count, delayed
from scipy.stats import t as student
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from marmix.core.arrays import Array
from marmix.datasets.hard import RATE, HardRows, digits, tumours
from marmix.journey.progress import Step
from marmix.selection.average import MARClassifierCV
from marmix.selection.candidates import default_candidates, default_rivals

JOBS = -1  # processes, as in joblib

OURS, IGNORED = "marmix", "marmix, missingness ignored"
MEASURES = {
    "right": ".1%",
    "log-loss": ".3f",
}  # share of hidden labels that are right, and log-loss; how they are printed
_DOUBT = 1e-3  # share of equal probabilities mixed into all, as forests may be certain and wrong


# One where it helps and one where it does not, chosen with seeds from 1000 on. There it also helped on iris and mostly on wine;
# on three of the digits (3, 8, 9) and on 10 or 30 columns of the tumours logistic regression was as good or better.
DATA = (digits, tumours)


def scores(data: HardRows, seed: int) -> dict[str, tuple[float, float]]:
    """The share of the hidden labels that each classifier gets right, and its log-loss there."""
    hidden = data.hidden(seed)
    X, y, partial = data.X, data.y, np.where(hidden, -1, data.y)
    grid = default_candidates(2, *X.shape, n_labelled=int(np.sum(~hidden)), kind="auto")
    ignoring = {name: candidate for name, candidate in grid.items() if candidate.get_params()["link"] is None}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        models: dict[str, Any] = {
            OURS: MARClassifierCV(estimators=grid).fit(X, partial),
            IGNORED: MARClassifierCV(estimators=ignoring).fit(X, partial),
        }
        for name, rival in default_rivals().items():
            models[name] = make_pipeline(StandardScaler(), rival).fit(X[~hidden], y[~hidden])
    table = {}
    for name, model in models.items():
        proba = (1.0 - _DOUBT) * model.predict_proba(X[hidden]) + _DOUBT / 2
        of_truth = proba[np.arange(len(proba)), y[hidden]]
        table[name] = float(np.mean(of_truth > 0.5)), float(-np.log(of_truth).mean())
    return table


class Board(NamedTuple):
    """Scores of classifiers on one data set, over several seeds."""

    title: str
    seeds: list[int]
    hidden: list[int]  # number of hidden labels with each seed
    names: list[str]  # the first one is ours
    table: Array  # (seeds, names, measures)

    def mean(self, name: str, measure: str) -> tuple[float, float]:
        """The mean over the seeds, and its standard error."""
        return _mean(self._column(name, measure))

    def difference(self, name: str, measure: str) -> tuple[float, float]:
        """The mean paired difference of ours and another classifier, and its standard error."""
        return _mean(self._column(self.names[0], measure) - self._column(name, measure))

    def _column(self, name: str, measure: str) -> Array:
        return self.table[:, self.names.index(name), list(MEASURES).index(measure)]

    def verdict(self) -> list[str]:
        """Whom ours is better or worse than by the 95 % interval of the paired difference, a sentence for each measure."""
        far = float(student.ppf(0.975, len(self.seeds) - 1))
        sentences = []
        for measure, sign, words in (("right", 1.0, "Hidden labels right"), ("log-loss", -1.0, "Log-loss")):
            groups: dict[str, list[str]] = {"better than": [], "worse than": [], "not clearly different from": []}
            for name in self.names[1:]:
                mean, error = self.difference(name, measure)
                word = "better than" if sign * mean > far * error else "worse than"
                groups[word if abs(mean) > far * error else "not clearly different from"].append(
                    "ignoring the missingness" if name == IGNORED else name
                )
            text = "; ".join(f"{word} {', '.join(others)}" for word, others in groups.items() if others)
            sentences.append(f"{words}: marmix is {text}.")
        return sentences

    def lines(self) -> list[str]:
        """The board as lines to print."""
        rows = [["", f"right of {np.mean(self.hidden):,.0f}", "difference", "log-loss", "difference"]]
        for name in self.names:
            cells = [name]
            for measure, form in MEASURES.items():
                paired = "" if name == self.names[0] else _spread(self.difference(name, measure), form, "+z")
                cells += [_spread(self.mean(name, measure), form), paired]
            rows.append(cells)
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        table = [
            "  ".join(
                [
                    f"  {first:<{widths[0]}}",
                    *(f"{cell:>{width}}" for cell, width in zip(cells, widths[1:], strict=True)),
                ]
            )
            for first, *cells in rows
        ]
        return [self.title, *(line.rstrip() for line in table), *(_paragraph(text, 2) for text in self.verdict())]

    def as_dict(self) -> dict[str, Any]:
        """The board as plain values."""
        classifiers = {}
        for name in self.names:
            values = {}
            for measure in MEASURES:
                (mean, error), (more, stderr) = self.mean(name, measure), self.difference(name, measure)
                values[measure] = {"mean": mean, "stderr": error, "ours_less_this": more, "difference_stderr": stderr}
            classifiers[name] = values
        return {"data": self.title, "seeds": self.seeds, "hidden": self.hidden, "classifiers": classifiers}


def _mean(values: Array) -> tuple[float, float]:
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))


def _spread(values: tuple[float, float], form: str, sign: str = "") -> str:
    return f"{values[0]:{sign}{form}} +/- {values[1]:{form}}"


def boards(seeds: Sequence[int], step: Step) -> list[Board]:
    """The boards of both data sets."""
    sources = [load() for load in DATA]
    jobs = [(data, seed) for data in sources for seed in seeds]
    n_jobs = min(cpu_count(), len(jobs)) if JOBS < 0 else JOBS
    results = []
    for result in Parallel(n_jobs=n_jobs, return_as="generator")(delayed(scores)(*job) for job in jobs):
        results.append(result)
        step(len(results) / len(jobs))
    names = list(results[0])
    table = np.array([[result[name] for name in names] for result in results])
    table = table.reshape(len(sources), len(seeds), len(names), len(MEASURES))
    return [
        Board(data.title, list(seeds), [int(data.hidden(seed).sum()) for seed in seeds], names, part)
        for data, part in zip(sources, table, strict=True)
    ]


def report(results: Sequence[Board], seconds: float) -> list[str]:
    """The boards as lines to print."""
    seeds = results[0].seeds
    head = (
        f"Scoreboard: labels hidden {len(seeds)} times, with the seeds {seeds[0]} to {seeds[-1]}; means over the seeds +/- "
        f"standard errors. About {100.0 * RATE:.0f} % of the labels are hidden, hard rows first: those that a random forest, "
        "which saw all labels, is unsure of. The usual classifiers are fitted to the labelled rows, as in the report of "
        "'marmix fit'. Differences are paired: marmix less the classifier of the line."
    )
    end = (
        "'Better' and 'worse' are by 95 % intervals of the differences. They are about which labels of these data are hidden, "
        f"not about other data. The scoreboard took {seconds:.0f} s."
    )
    return [_paragraph(head), *(line for board in results for line in ("", *board.lines())), "", _paragraph(end)]


def _paragraph(text: str, indent: int = 0) -> str:
    return fill(text, 100, initial_indent=" " * indent, subsequent_indent=" " * (2 * indent))
