"""The pictures and the printed output of the README, and the sample report, made from real data.

    python docs/pictures.py claims      docs/claims.png: what labelled rows claim, what biopsies say, what marmix says
    python docs/pictures.py report      docs/sample_report.html and docs/audit.png: report and labelling page of `marmix demo`
    python docs/pictures.py readme      the output below the code in README.md

Needs the extra `cli`, and pandas for the README; the picture of the labelling page also needs playwright and Chromium (the extra
`test`, `apt install chromium`).
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from marmix import Audit, MARClassifierCV
from marmix.datasets import load_mammography
from marmix.evaluation.verdict import counts
from marmix.plotting.drawing import BLACK, BLUE, GREEN, ORANGE

DOCS = Path(__file__).parent
README = DOCS.parent / "README.md"
ROWS = 20  # of the audit
WIDTH = 100  # of the README's output


def claims(path):
    """Draw the wrong labels that classifiers claim, that marmix expects before and after an audit, and that biopsies count."""
    masses = load_mammography()
    X, y, truth, missing = masses.data, masses.target, masses.target_true, masses.missing
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf = MARClassifierCV(rivals=True).fit(X, y)
    audit = Audit(clf, X, y, n=ROWS, random_state=0)
    result = audit.record(truth[audit.rows])
    it, n = clf.selection_, int(missing.sum())
    fig, ax = plt.subplots(figsize=(9.0, 3.6), layout="constrained")
    names = [*it.rivals, "marmix, no audit", f"marmix, {ROWS} rows audited"]
    print(f"{'wrong imputed labels':32} {'said':24} true")
    for at, (name, rival) in enumerate(it.rivals.items()):
        claimed = n * np.mean(it.rows.probas[name][~missing].argmax(axis=1) != y[~missing])
        wrong = np.sum(rival.predict(X[missing]) != truth[missing])
        print(f"{name:32} {claimed:<24.0f} {wrong}")
        ax.plot(claimed, at, "D", color=ORANGE, markersize=8)
        ax.annotate(f"{claimed:.0f}", (claimed, at), (0, 8), textcoords="offset points", ha="center")
        truly(ax, wrong, at)
    at = len(it.rivals)
    before, hidden, after = clf.verdict_.wrong, clf.verdict_.hidden, result.remaining
    ax.hlines(at, hidden.low, hidden.high, color=BLUE, linewidth=2.0)
    ax.hlines(at, before.low, before.high, color=BLUE, linewidth=10, alpha=0.4)
    ax.hlines(at + 1, after.low, after.high, color=GREEN, linewidth=10, alpha=0.45)
    true = [np.sum((labels != truth)[missing]) for labels in (clf.transduction_, result.transduction)]
    for row, (said, wrong) in enumerate(zip((before, after), true, strict=True)):
        print(f"{names[at + row]:32} {counts(said):24} {wrong}")
        truly(ax, wrong, at + row)
    keys = {
        "labelled rows claim": {"marker": "D", "color": ORANGE, "lw": 0, "ms": 8},
        "biopsies say": {"marker": "o", "color": BLACK, "lw": 0, "ms": 9},
        "marmix, if labels are missing because rows are hard": {"color": BLUE, "alpha": 0.4, "lw": 8},
        "or also for a hidden reason, odds up to threefold": {"color": BLUE, "lw": 2},
        "marmix, whatever the reason": {"color": GREEN, "alpha": 0.45, "lw": 8},
    }
    for label, style in keys.items():
        ax.plot([], [], label=label, **style)
    ax.set(yticks=range(len(names)), yticklabels=names, ylim=(len(names) - 0.5, -0.5))
    ax.set_xlim(left=0)
    ax.set_title(f"Wrong labels among {n} masses that the radiologist left open", loc="left", fontsize=12, pad=10)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(axis="y", length=0, labelsize=10)
    ax.grid(axis="x", alpha=0.25)
    ax.set_axisbelow(True)
    fig.legend(loc="outside lower center", ncols=2, frameon=False, columnspacing=1.6)
    fig.savefig(path, dpi=160)


def truly(ax, wrong, at):
    """Draw a true number of wrong labels."""
    ax.plot(wrong, at, "o", color=BLACK, markersize=9)
    ax.annotate(f"{wrong}", (wrong, at), (0, 8), textcoords="offset points", ha="center", fontweight="bold")


def report(page, picture):
    """Run `marmix demo` on mammographic masses, keep its report, and photograph its labelling page."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "marmix", "demo", "--quiet", "--out", "marmix-demo"]
        subprocess.run(command, cwd=folder, check=True)
        shutil.copy(Path(folder) / "marmix-demo" / "report.html", page)
        from playwright.sync_api import sync_playwright

        with sync_playwright() as tools:
            browser = tools.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            view = browser.new_page(viewport={"width": 900, "height": 540}, device_scale_factor=1.5)
            view.goto((Path(folder) / "marmix-demo" / "audit.html").as_uri())
            for key in "1212":
                view.keyboard.press(key)
            view.screenshot(path=picture)
            browser.close()


def readme(path):
    """Run the README's code, and put what it prints below it."""
    text = path.read_text(encoding="utf-8")
    code = re.search(r"```python\n(.*?)```\n\n```text\n(.*?)```", text, re.S)
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", code[1]], cwd=folder, check=True, capture_output=True, text=True
        )
    lines = [textwrap.fill(line, WIDTH, subsequent_indent="  ") for line in done.stdout.splitlines()]
    printed = "\n".join(line.rstrip() for line in lines)
    path.write_text(text[: code.start(2)] + printed + "\n" + text[code.end(2) :], encoding="utf-8")


def main():
    """Make what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["claims", "report", "readme"])
    what = parser.parse_args().what
    if what == "claims":
        claims(DOCS / "claims.png")
    elif what == "report":
        report(DOCS / "sample_report.html", DOCS / "audit.png")
    else:
        readme(README)


if __name__ == "__main__":
    main()
