"""Control characters in names of columns, classes, files and models: none of them reaches the terminal."""

import csv
import os

import numpy as np
from sklearn.pipeline import make_pipeline

from fuzz.running import Subject, run
from marmix import MARLogisticRegression, save
from marmix.tables import Preparation

CONTROLS = [
    "\x1b[31m",
    "\x1b]0;owned\x07",
    "\x1b[2J\x1b[H",
    "\x9b31m",
    "\x08\x08\x08",
    "\x7f",
    "\x85",
    "\r",
    "\x0b",
    "\x1b",
]


def name(rng, kind):
    """A name with control characters in it."""
    return "".join([kind, rng.choice(CONTROLS), rng.choice(["", "b", rng.choice(CONTROLS)])])


def prepare(folder):
    """Rows of two classes, and which of them have a label."""
    rng = np.random.default_rng(0)
    z = np.arange(60) % 2
    return rng.normal(size=(60, 2)) + 2.0 * z[:, None], np.where(rng.random(60) < 0.4, -1, z)


def attempt(sound, rng, folder):
    """Write a table and a model with such names, and run a command that gives a result or an error about them."""
    X, z = sound
    columns, classes = [name(rng, "a"), name(rng, "c")], sorted([name(rng, "n"), name(rng, "y")])
    label, data, model = name(rng, "label"), name(rng, "rows") + ".csv", name(rng, "model")
    with open(data, "w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, quoting=csv.QUOTE_ALL)
        rows.writerow([*columns, label])
        rows.writerows([*x, [*classes, ""][code]] for x, code in zip(X.tolist(), z.tolist(), strict=True))
    about = {"name": name(rng, "name"), "label": label, "id": None, "missing": [name(rng, "missing")], "folds": 2}
    table = dict(zip(columns, X.T, strict=True))
    fit = make_pipeline(Preparation(), MARLogisticRegression()).fit(table, np.array([*classes, None], dtype=object)[z])
    save(fit, model, about=about)
    words = rng.choice(
        [
            ["info", model],
            ["info", data],
            ["info", model, "--json"],
            ["predict", model, data, "--out", name(rng, "out")],
            ["predict", model, data, "--out", model],
            ["predict", data, model],
            ["predict", model, data, "--out", name(rng, "no") + "/out.csv"],
            ["evaluate", model, data, "--label", label],
            ["evaluate", model, data, "--label", name(rng, "absent")],
            ["evaluate", model, data, "--label", columns[0]],
            ["sensitivity", model, data, "--label", label, "--class", name(rng, "absent")],
            [name(rng, "command"), data],
            ["fit", data, "--label", name(rng, "absent"), "--out", "out"],
            ["fit", data, "--label", label, "--out", data, "--folds", "2"],
            ["fit", name(rng, "absent"), "--label", label, "--out", "out"],
            [
                "fit",
                data,
                "--label",
                label,
                "--features",
                *columns,
                "--prevalence",
                f"{name(rng, 'x')}=0.5",
                "--out",
                "out",
            ],
        ]
        + [["report", model, data, "--out", name(rng, "page")]] * (rng.random() < 0.1)
        + [["fit", data, "--label", label, "--model", "logistic", "--folds", "2", "--out", name(rng, "out")]]
        * (rng.random() < 0.1)
    )
    code = run([*words, *["--debug"] * (rng.random() < 0.5)]).code
    assert {data, model} <= set(os.listdir(folder))
    return str(code)


SUBJECT = Subject(prepare, attempt, 20, frozenset({"0", "1"}))
