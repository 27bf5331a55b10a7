"""Figures of a benchmark: scores, tables in Markdown, and JSON that another run is compared with."""

import argparse
import json
import os
import platform
import shlex
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.metrics import roc_auc_score

import marmix

FLOOR = 1e-6  # smallest probability in a log-loss


class Mean(NamedTuple):
    """A mean and its standard error."""

    value: float
    error: float = np.nan


def mean(values):
    """The mean and its standard error, which is NaN for a single value."""
    values = np.asarray(values, dtype=float)
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return Mean(values.mean() if len(values) else np.nan, error)


def ratio(part, total):
    """The ratio of two totals and its standard error over the files."""
    part, total = np.asarray(part, dtype=float), np.asarray(total, dtype=float)
    if not total.sum():
        return Mean(np.nan)
    value = part.sum() / total.sum()
    return Mean(value, np.sqrt(((part - value * total) ** 2).sum()) / total.sum())


def log_losses(y, proba, floor=FLOOR):
    """Minus the log-probability of each true class."""
    p = np.clip(proba, floor, None)
    return -np.log(p[np.arange(len(y)), y] / p.sum(axis=1))


def measures(y, proba):
    """Log-loss, Brier score, AUC (one class against the rest, averaged) and accuracy."""
    hot = np.eye(proba.shape[1])[y]
    auc = roc_auc_score(y, proba[:, 1]) if proba.shape[1] == 2 else roc_auc_score(hot, proba)
    return {
        "log_loss": float(log_losses(y, proba).mean()),
        "brier": float(((proba - hot) ** 2).sum(axis=1).mean()),
        "auc": float(auc),
        "accuracy": float(np.mean(proba.argmax(axis=1) == y)),
    }


def shown(cell, form):
    """A cell of a table as text; empty for NaN and None."""
    if isinstance(cell, Mean):
        error = f" ± {cell.error:{form.lstrip('+')}}" if np.isfinite(cell.error) else ""
        return f"{cell.value:{form}}{error}" if np.isfinite(cell.value) else ""
    if isinstance(cell, str):
        return cell
    return format(cell, form) if cell is not None and np.isfinite(cell) else ""


def plain(cell):
    """A cell as JSON has it: six digits, a mean and its error as a list."""
    if isinstance(cell, Mean):
        return [plain(part) for part in cell]
    if isinstance(cell, float | np.floating):
        return float(f"{cell:.6g}") if np.isfinite(cell) else None
    return cell.item() if isinstance(cell, np.generic) else cell


class Table:
    """A table that is printed row by row.

    `columns` maps names to formats. The first `keys` columns name a row. In comparisons, figures without a standard error may
    differ by the share `within`; those of the columns `ignored`, such as seconds, are not compared.
    """

    def __init__(self, report, title, columns, keys=1, within=0.01, ignored=()):
        self.report, self.columns = report, columns
        self.record = {"title": title, "keys": keys, "within": within, "ignored": list(ignored)}
        self.record |= {"columns": list(columns), "rows": []}

    def add(self, *cells, bold=(), unsigned=False):
        """Print a row, the cells of the columns `bold` in bold type; `unsigned`: no plus signs."""
        if not self.record["rows"]:
            self.report.say("| " + " | ".join(self.columns) + " |", "|" + "---|" * len(self.columns))
        forms = [form.lstrip("+") if unsigned else form for form in self.columns.values()]
        texts = [shown(cell, form) for cell, form in zip(cells, forms, strict=True)]
        texts = [f"**{text}**" if name in bold else text for name, text in zip(self.columns, texts, strict=True)]
        self.report.say("| " + " | ".join(texts) + " |")
        self.record["rows"].append([plain(cell) for cell in cells])


class Report:
    """Everything that a benchmark prints."""

    def __init__(self):
        self.lines, self.tables = [], []

    def say(self, *lines):
        """Print lines."""
        self.lines += lines
        print(*lines, sep="\n", flush=True)

    def table(self, title, columns, *, heading="", **settings):
        """A new table, after an empty line and a heading."""
        self.say(*(["", heading] if heading else []), "")
        self.tables.append(Table(self, title, columns, **settings))
        return self.tables[-1]

    def write(self, path):
        """Write the tables as JSON, if there is a path."""
        if path is None:
            return
        record = {
            "command": shlex.join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *without_json(sys.argv[1:])]),
            "version": marmix.__version__,
            "date": time.strftime("%Y-%m-%d"),
            "machine": f"{platform.platform()}, {os.cpu_count()} cores; Python {platform.python_version()}, "
            + ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", "scikit-learn")),
            "cpu_seconds": round(sum(os.times()[:4])),  # child processes included
            "tables": [],
        }
        lines = ",\n  ".join(
            json.dumps(table.record, ensure_ascii=False) for table in self.tables if table.record["rows"]
        )
        text = json.dumps(record, indent=1, ensure_ascii=False).replace('"tables": []', f'"tables": [\n  {lines}\n ]')
        path.write_text(text + "\n", encoding="utf-8")


def without_json(words):
    """The arguments of a script without the file for its figures."""
    if "--json" not in words:
        return words
    place = words.index("--json")
    return words[:place] + words[place + 2 :]


def parser_of(doc):
    """A parser whose help is the docstring of a script, with the option --json."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the tables as JSON")
    return parser


def read_lines(path, names):
    """Records of a file of JSON lines by the values of these names, the last of each."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return {tuple(record[name] for name in names): record for record in map(json.loads, lines)}


def append_lines(path, records):
    """Append records to a file of JSON lines."""
    with path.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(record) + "\n" for record in records)
