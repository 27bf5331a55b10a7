"""The pictures of the README and the sample report, made from real data.

    python docs/pictures.py claims      docs/claims.png: what labelled rows claim, what is true, what marmix says
    python docs/pictures.py report      docs/sample_report.html, the report of `marmix demo`, and its picture docs/report.png

Needs the extra `cli`; the picture of the report also needs playwright and Chromium (the extra `test`, `apt install chromium`).
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import marmix
from marmix import MARClassifierCV
from marmix.datasets import load_odd_digits
from marmix.plotting.drawing import BLACK, BLUE, ORANGE
from marmix.selection.candidates import default_rivals

DOCS = Path(__file__).parent
IMAGES = 32  # of either kind, drawn at random


def claims(path):
    """Draw labelled and unlabelled digits, and wrong labels of classifiers: claimed, true, and estimated by marmix."""
    digits = load_odd_digits()
    X, y, truth, hidden = digits.data, digits.target, digits.target_true, digits.missing
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf = MARClassifierCV().fit(X, y)
        scoreboard = marmix.report(clf, X, y).findings.scoreboard
        imputed = {"marmix": clf.transduction_[hidden]}
        for name, rival in default_rivals().items():
            imputed[name] = make_pipeline(StandardScaler(), rival).fit(X[~hidden], y[~hidden]).predict(X[hidden])
    figure = plt.figure(figsize=(9.6, 3.7), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=(1.0, 1.55))
    show_images(left, digits)
    ax = right.subplots()
    print("wrong imputed labels   claimed   true   marmix says")
    for at, row in enumerate(scoreboard):
        true, said = np.sum(imputed[row.name] != truth[hidden]), row.wrong
        print(
            f"{row.name:21} {row.claimed_wrong:9.0f} {true:6.0f}   {said.value:.0f} ({said.low:.0f} to {said.high:.0f})"
        )
        ax.plot([said.low, said.high], [at, at], color=BLUE, linewidth=7, alpha=0.35, solid_capstyle="butt")
        ax.plot(said.value, at, "|", color=BLUE, markersize=15, markeredgewidth=2.5)
        ax.plot(row.claimed_wrong, at, "D", color=ORANGE, markersize=8)
        ax.plot(true, at, "o", color=BLACK, markersize=8)
    words = {"labelled rows claim": ("D", ORANGE), "true": ("o", BLACK), "marmix says, 95 % interval": ("|", BLUE)}
    for name, (marker, colour) in words.items():
        ax.plot([], [], marker, color=colour, markersize=9, markeredgewidth=2.0, label=name)
    ax.set_yticks(range(len(scoreboard)), [row.name for row in scoreboard])
    ax.set_ylim(len(scoreboard) - 0.5, -0.5)
    ax.set_title(f"Wrong labels of {hidden.sum():,} images: odd or even?", loc="left", fontsize=11, pad=10)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="x", alpha=0.25)
    ax.legend(
        loc="upper center", bbox_to_anchor=(0.42, -0.1), ncols=3, frameon=False, columnspacing=1.2, handletextpad=0.3
    )
    figure.savefig(path, dpi=160)


def show_images(figure, digits):
    """Draw some labelled images, and below them some unlabelled ones."""
    rng = np.random.default_rng(0)
    groups = {
        "labelled: clear": np.flatnonzero(~digits.missing),
        "not labelled: harder": np.flatnonzero(digits.missing),
    }
    parts = figure.subfigures(2, 1)
    for part, (words, rows) in zip(parts, groups.items(), strict=True):
        part.suptitle(f"{len(rows):,} {words}", fontsize=11)
        for ax, i in zip(part.subplots(4, 8).flat, rng.choice(rows, IMAGES, replace=False), strict=True):
            ax.imshow(digits.data[i].reshape(8, 8), cmap="gray_r", interpolation="nearest")
            ax.set_axis_off()


def report(page, picture):
    """Run `marmix demo` on mammographic masses, keep its report, and photograph the upper part of it."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "marmix", "demo", "--quiet", "--out", "marmix-demo"]
        subprocess.run(command, cwd=folder, check=True)
        shutil.copy(Path(folder) / "marmix-demo" / "report.html", page)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as tools:
        browser = tools.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        view = browser.new_page(viewport={"width": 1100, "height": 800}, device_scale_factor=1.5)
        view.goto(page.resolve().as_uri())
        view.screenshot(path=picture)
        browser.close()


def main():
    """Make what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["claims", "report"])
    if parser.parse_args().what == "claims":
        claims(DOCS / "claims.png")
    else:
        report(DOCS / "sample_report.html", DOCS / "report.png")


if __name__ == "__main__":
    main()
