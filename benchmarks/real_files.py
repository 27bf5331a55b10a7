"""Files whose labels are really missing: what classifiers claim, what `marmix` says, and what became known later.

- planets: candidates of NASA's Kepler mission that were open in February 2013. Truth: the dispositions of September 2025, of most
  of them. NASA Exoplanet Archive, tables of Kepler objects of interest (public domain).
- mammograms: masses on which a radiologist was undecided. Truth: the biopsy. UCI, doi:10.24432/C53K6Z (CC BY 4.0); the complete
  rows are `load_mammography`.
- photographs: three or five people are drawn from those who looked at each, and they disagree. Truth: the label of CIFAR-10.
  github.com/jcpeterson/cifar-10h (CC BY-NC-SA 4.0).
- lesions: fewer than six of seven endoscopists agree. Truth: histology. UCI, gastrointestinal lesions in regular colonoscopy.

Features of photographs are the logarithms of the class probabilities of a weak network, of `ROWS` photographs drawn by chance.
Files other than `load_mammography` are looked for as `benchmarks/common/rows.py` says (`MARMIX_DATA`, `MARMIX_SHARED`); those
that are not at hand are left out. Truth is the share of wrong labels among rows whose label is missing and whose truth is
known.

**Without an audit**: the share of wrong labels that usual classifiers claim, which is their error on the labelled rows in five
folds, and their share of wrong labels in truth; the same of `MARClassifierCV`, with (a) the 95 % interval if labels are missing
because of the features, (b) the range if the odds of losing the label are also up to three times as high in any class, the state
of its verdict and whether it asks for an audit before anything else, and how many of its intervals of precision and recall of a
class contain the truth.

**With an audit** of 20, 50 and 100 rows, drawn by chance, again and again: means of the share said to be wrong before learning
and its 95 % interval, how often it contains the truth, how often the verdict is "verified", "not verified" and "do not use", and
the share of wrong labels after learning among the rows that nobody checked, with how often its interval holds. The
`MARClassifierCV` that is audited is fitted without the rows whose truth is not known.

    python benchmarks/real_files.py [--draws 20] [--only TEXT] [--figure FILE]
"""

import warnings
from collections import Counter
from pathlib import Path

import numpy as np
from common import tables
from common.rows import unlabelled

from marmix import Audit, MARClassifierCV
from marmix.evaluation.verdict import STATES

ROWS = 3000  # photographs
SIZES = (20, 50, 100)
FILES = {
    "planets": {"name": "planets"},
    "mammograms, 942 rows": {"name": "mammograms"},
    "mammograms, 830 complete rows": {"name": "mammograms, complete"},
    "photographs, 3 people": {"name": "photographs"},
    "photographs, 5 people": {"name": "photographs", "people": 5},
    "lesions": {"name": "lesions"},
}
USUAL = {"logistic regression": "logistic", "random forest": "forest", "gradient boosting": "boosting"}


def read(name, **options):
    """Features, labels and truth of a file, or None where it is not at hand; of photographs some rows."""
    found = unlabelled(name, **options)
    if found is None or name != "photographs":
        return found
    kept = np.random.default_rng(0).permutation(len(found[0]))[:ROWS]
    return tuple(part[kept] for part in found)


def without_audit(X, z, truth):
    """What is claimed, said and true of one file, and the fitted classifier."""
    clf = MARClassifierCV(rivals=True, random_state=0).fit(X, z)
    open_rows, known = z < 0, (z < 0) & (truth >= 0)
    it, verdict, n = clf.selection_, clf.verdict_, int(np.sum(z < 0))
    figures = {"rows": len(z), "labels": len(z) - n, "known": int(known.sum()), "state": verdict.state}
    for name, short in USUAL.items():
        held_out, p = it.rows.probas[name][~open_rows], it.rivals[name].predict_proba(X[known])
        figures[f"{short} claims"] = float(np.mean(held_out.argmax(axis=1) != z[~open_rows]))
        figures[short] = float(np.mean(p.argmax(axis=1) != truth[known]))
    proba = clf.unlabelled_proba(X)
    imputed = proba.argmax(axis=1)
    figures["wrong"] = float(np.mean(imputed[known] != truth[known]))
    for name, interval in (("a", verdict.wrong), ("b", verdict.hidden)):
        figures[name] = [np.nan if end is None else end / n for end in interval]
    hits = []
    for ranges, of in ((it.joint.precision(), imputed[known]), (it.joint.recall(), truth[known])):
        for k, one in enumerate(ranges):
            if one.low is not None and (of == k).any():
                share = np.mean((imputed[known] == truth[known])[of == k])
                hits.append(one.low - 1e-9 <= share <= one.high + 1e-9)
    figures["asked first"] = "yes" if verdict.next.startswith("Before") else ""
    return figures | {"of classes": f"{sum(hits)} of {len(hits)}"}, clf


def with_audit(clf, X, z, truth, k, n_draws):
    """What audits of k rows say, and what learning from them gives."""
    lost, found, states = z < 0, [], Counter()
    wrong = np.sum(clf.unlabelled_proba(X).argmax(axis=1)[lost] != truth[lost])
    for seed in range(n_draws):
        audit = Audit(clf, X, z, k, random_state=seed)
        result = audit.record(truth[audit.rows])
        others = np.setdiff1d(np.flatnonzero(lost), audit.rows)
        left = np.sum(result.transduction[others] != truth[others])
        said, rest = result.wrong, result.remaining
        states[result.verdict.state] += 1
        found.append(
            [part / lost.sum() for part in said]
            + [said.low <= wrong <= said.high, left / max(len(others), 1), rest.low <= left <= rest.high]
        )
    figures = {"before": wrong / lost.sum(), "figures": np.mean(found, axis=0)}
    return figures | {"states": " / ".join(str(states[state]) for state in STATES)}


def draw(path, said, audited):
    """What is claimed, said and true of each file, in a figure."""
    import matplotlib.pyplot as plt

    names = list(said)
    figure, axes = plt.subplots(figsize=(8.0, 0.75 * len(names) + 1.0), layout="constrained")
    for i, name in enumerate(names):
        facts = said[name]
        for short, marker in zip(USUAL.values(), "osD", strict=True):
            axes.plot(
                facts[f"{short} claims"], i, marker, color="0.55", mfc="none", label=f"{short} claims" if not i else ""
            )
        for key, width, color, label in (
            ("b", 2.0, "tab:blue", "(b) also a hidden reason"), ("a", 7.0, "tab:blue", "(a) missing because of the features"),
        ):  # fmt: skip
            axes.hlines(i - 0.18, *facts[key][1:], lw=width, color=color, alpha=0.55, label=label if not i else "")
        if (name, SIZES[0]) in audited:
            low, high = audited[name, SIZES[0]]["figures"][1:3]
            label = f"{SIZES[0]} rows audited"
            axes.hlines(i + 0.18, low, high, lw=7.0, color="tab:green", alpha=0.55, label=label if not i else "")
        axes.vlines(facts["wrong"], i - 0.38, i + 0.38, color="tab:red", lw=2.0, label="truth" if not i else "")
    axes.set(
        yticks=range(len(names)), yticklabels=names, xlabel="share of imputed labels that are wrong", xlim=(0.0, None)
    )
    axes.invert_yaxis()
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    figure.savefig(path, dpi=150)


def main():
    """Run everything, and print the tables."""
    parser = tables.parser_of(__doc__)
    parser.add_argument("--draws", type=int, default=20, metavar="N", help="audits of each file and size")
    parser.add_argument("--only", default="", metavar="TEXT", help="files whose name contains this")
    parser.add_argument("--figure", type=Path, metavar="FILE", help="draw the figure")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    report, said, audited = tables.Report(), {}, {}
    files = {name: read(**options) for name, options in FILES.items() if args.only in name}
    usual = [column for short in USUAL.values() for column in (f"{short} claims", short)]
    columns = {"file": "", "labels": "d", "missing": "d", "truth known": "d", **dict.fromkeys(usual, ".3f")}
    texts = ["(a)", "(b)", "truth lies in", "state", "audit first", "class figures in (a)"]
    columns |= {"marmix": ".3f"} | dict.fromkeys(texts, "")
    table = report.table("real files", columns, within=0.05, heading="Wrong labels without an audit")
    fits = {}
    for name, file in files.items():
        if file is None:
            continue
        facts, fits[name] = without_audit(*file)
        said[name] = facts
        a, b = (f"{low:.3f} to {high:.3f}" for _, low, high in (facts["a"], facts["b"]))
        where = next((key for key in "ab" if facts[key][1] <= facts["wrong"] <= facts[key][2]), "")
        where = f"({where})" if where else "neither"
        table.add(
            name, facts["labels"], facts["rows"] - facts["labels"], facts["known"], *(facts[column] for column in usual),
            facts["wrong"], a, b, where, facts["state"], facts["asked first"], facts["of classes"],
        )  # fmt: skip
    columns = {"file": "", "audited": "d", "said": ".3f", "interval": "", "covers": ".2f"}
    columns |= {" / ".join(STATES): "", "wrong before": ".3f", "wrong after": ".3f", "covers, after": ".2f"}
    table = report.table("real files, audited", columns, keys=2, within=0.05, heading="With an audit")
    for name, clf in fits.items():
        X, z, truth = files[name]
        kept = (z >= 0) | (truth >= 0)
        if not kept.all():
            X, z, truth = X[kept], z[kept], truth[kept]
            clf = MARClassifierCV(random_state=0).fit(X, z)
        for k in SIZES:
            if k >= said[name]["known"]:
                continue
            audited[name, k] = one = with_audit(clf, X, z, truth, k, args.draws)
            value, low, high, covers, after, holds = one["figures"]
            table.add(name, k, value, f"{low:.3f} to {high:.3f}", covers, one["states"], one["before"], after, holds)
    if args.figure:
        draw(args.figure, said, audited)
    report.write(args.json)


if __name__ == "__main__":
    main()
