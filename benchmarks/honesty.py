"""Is `marmix fit` as right as it says? Simulated files whose truth is known, and what the summary says of them.

For every setting: wrong imputed labels over those expected, of all and of those called at least 90 % sure; the corrected accuracy
and log-loss less those of the saved model on 20,000 fresh rows, with the share of files within two standard errors; the same for
the accuracy of the labelled rows as they are; the share of files whose missingness is called informative.

    python benchmarks/honesty.py [--files 20]
"""

import argparse
import tempfile
import warnings
from pathlib import Path

import numpy as np

from marmix import load
from marmix.datasets import make_mar_mixture
from marmix.journey import FitOptions, Progress, fit_file
from marmix.tables import open_table
from marmix.tables.writing import write_table

SETTINGS = {
    "Gaussian, 300 rows, 50 % missing": {"n_samples": 300, "rate": 0.5},
    "Gaussian, 1000 rows, 70 % missing": {"n_samples": 1000, "rate": 0.7},
    "Student, 1000 rows, 70 % missing": {"n_samples": 1000, "rate": 0.7, "distribution": "student"},
    "Laplace, 4 features, 1000 rows, 70 % missing": {
        "n_samples": 1000, "rate": 0.7, "distribution": "laplace", "n_features": 4,
    },
    "Gaussian, 3 classes, 1000 rows, 70 % missing": {"n_samples": 1000, "rate": 0.7, "n_classes": 3},
    "Gaussian, 500 rows, 60 % missing completely at random": {"n_samples": 500, "rate": 0.6, "link": None},
}  # fmt: skip
FRESH = 20_000


def one(folder, seed, **setting):
    """What the summary of one file says, and what is true."""
    rows = make_mar_mixture(at_least=5, random_state=seed, **setting)
    columns = {f"x{i}": rows.data[:, i].tolist() for i in range(rows.data.shape[1])}
    write_table(folder / "rows.csv", columns | {"label": ["" if z < 0 else z for z in rows.target.tolist()]})
    options = FitOptions(data=folder / "rows.csv", label="label", out=folder / "out", force=True)
    findings = fit_file(options, Progress(quiet=True))
    written = [row for batch in open_table(folder / "out" / "imputed.csv").batches() for row in batch.to_pylist()]
    lost = rows.target < 0
    wrong = np.array([int(row["marmix_label"]) for row in written])[lost] != rows.target_true[lost]
    sure = np.array([max(float(row[key]) for key in row if key.startswith("marmix_p_")) for row in written])[lost]
    same = {key: value for key, value in setting.items() if key in ("distribution", "n_features", "n_classes")}
    fresh = make_mar_mixture(FRESH, random_state=seed + 10_000, **same)
    proba = load(folder / "out" / "model.marmix").predict_proba({f"x{i}": x for i, x in enumerate(fresh.data.T)})
    true = {
        "accuracy": np.mean(proba.argmax(axis=1) == fresh.target_true),
        "log-loss": -np.log(np.maximum(proba[np.arange(FRESH), fresh.target_true], 1e-300)).mean(),
    }
    out = [wrong.sum(), (1 - sure).sum(), wrong[sure >= 0.9].sum(), (1 - sure[sure >= 0.9]).sum()]
    scores = {score.name: score for score in findings.scores}
    for name, truth in true.items():
        difference = scores[name].value - truth
        out += [difference, abs(difference) <= 2.0 * scores[name].stderr]
    return [*out, scores["accuracy"].plain - true["accuracy"], bool(findings.missingness.informative)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=20)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    print(
        "| files | wrong/expected | sure ones | accuracy | within 2 se | log-loss | within 2 se | plain accuracy | informative |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for name, setting in SETTINGS.items():
        with tempfile.TemporaryDirectory() as folder:
            table = np.array([one(Path(folder), seed, **setting) for seed in range(args.files)], dtype=float)
        wrong, expected, sure, sure_expected = table[:, :4].sum(axis=0)
        accuracy, near, loss, loss_near, plain, informative = table[:, 4:].mean(axis=0)
        print(
            f"| {name} | {wrong / expected:.2f} | {sure / sure_expected:.2f} | {accuracy:+.3f} | {near:.2f} | {loss:+.3f} | "
            f"{loss_near:.2f} | {plain:+.3f} | {informative:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
