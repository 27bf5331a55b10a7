"""Compute tables and figures of the paper; without names, list them."""

import argparse
import os
from collections.abc import Callable
from pathlib import Path

import joblib
import numpy
import scipy
import sklearn
from matplotlib import rc_context

import marmix
from paper import figures, magic, measures, proportion, shape, tables
from paper.drawing import STYLE
from paper.pages import Found, Page, index
from paper.runs import SIZES, Run

ITEMS: dict[str, tuple[str, Callable[[Run], Found]]] = {
    "fig-approximation": ("Entropy against the squared margin", figures.approximation),
    "fig-simulation": ("A simulated sample with 70 % of the labels missing", figures.simulation),
    "table-1": ("Table I: two Gaussian classes, 70 % of the labels missing", tables.table_1),
    "fig-roc": ("ROC curves of the three estimators of Table I", tables.roc_figure),
    "fig-missing-proportion": ("AUC against the proportion of missing labels", proportion.page),
    "table-2": ("Table II: Gamma, Beta and Laplace classes", tables.table_2),
    "magic-pairs": ("MAGIC: scatterplot matrix of four features", magic.pairs),
    "magic-thresholds": ("MAGIC: precision, recall and accuracy by threshold, 70 % missing", magic.thresholds),
    "magic-missing-proportion": ("MAGIC: mean AUC at 50 to 90 % missing", magic.proportions),
    "measures": ("Squared margin or entropy? Likelihood, LogLoss and time", measures.two_classes),
    "four-classes": ("Beyond the paper: four classes, which uncertainty?", measures.four_classes),
    "shape": ("Beyond the paper: is the Aranda-Ordaz shape identified, and does it pay?", shape.page),
}
VERSIONS = ", ".join(
    f"{library.__name__} {library.__version__}".replace("sklearn", "scikit-learn")
    for library in (marmix, numpy, scipy, sklearn)
)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser("python -m paper", description=__doc__)
    parser.add_argument(
        "names",
        nargs="*",
        default="list",
        metavar="NAME",
        choices=("list", "all", *ITEMS),
        help="items, 'all' or 'list'",
    )
    parser.add_argument("--size", choices=SIZES, default="small", help="a few samples, or all of them (default: small)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the random numbers (default: 0)")
    parser.add_argument("--jobs", type=int, default=joblib.cpu_count(), help="processes (default: one per core)")
    parser.add_argument("--out", type=Path, default=Path("paper-pages"), help="folder for pages (default: paper-pages)")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "marmix", "paper").expanduser()
    parser.add_argument("--cache", type=Path, default=cache, help=f"folder for finished results (default: {cache})")
    options = parser.parse_args(arguments)
    if "list" in options.names:
        print("\n".join(f"{name:26}{title}" for name, (title, _) in ITEMS.items()))
        return
    # results of other versions are not mixed with these
    memory = joblib.Memory(options.cache / VERSIONS.replace(", ", "-").replace(" ", "-"), verbose=0)
    run = Run(options.size, options.seed, options.jobs, memory)
    options.out.mkdir(parents=True, exist_ok=True)
    command = f"python -m paper {{}} --size {run.size} --seed {run.seed} --out {options.out}"
    pages = []
    with rc_context(STYLE):
        for name in ITEMS if "all" in options.names else options.names:
            page = Page(name, ITEMS[name][0], *ITEMS[name][1](run))
            page.write(options.out, command.format(name))
            pages.append(page)
            for claim in page.claims:
                print(f"{claim.verdict}: {claim.sentence}")
    if "all" in options.names:
        facts = f"Size {run.size}, seed {run.seed}; {VERSIONS}."
        if run.size == "small":
            facts = (
                f"Preliminary: the small size has few samples, and its verdicts may change at the full size. {facts}"
            )
        text = index(pages, command.format("all"), facts)
        (options.out / "index.md").write_text(text, encoding="utf-8")
    print(options.out)


if __name__ == "__main__":
    main()
