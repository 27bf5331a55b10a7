"""List the benchmarks, run small versions of them again, and say which figures moved.

    python -m benchmarks --list                 the scripts, with their questions, and what is recorded of them
    python -m benchmarks [NAME ...]             run recorded commands, all of them by default, and compare the figures
    python -m benchmarks NAME --record          run them and replace what is recorded
    python -m benchmarks --compare OLD NEW      compare two files, and run nothing

A record is a file of `benchmarks/recorded`: the tables of a small run with its command, version, date and machine. Any script
makes one with `--json FILE`. A figure has moved if it differs by more than two standard errors of the difference, and by more
than the share that its table states. Exit code: 1 if a figure moved or is missing, or a script failed.
"""

import argparse
import ast
import json
import math
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
RECORDED = HERE / "recorded"


def figures(record):
    """(Table, row, column) -> (value, standard error, tolerance) of the figures of a record."""
    found = {}
    for table in record["tables"]:
        keys, columns = table["keys"], table["columns"]
        for row in table["rows"]:
            name = ", ".join(str(cell) for cell in row[:keys])
            for column, cell in zip(columns[keys:], row[keys:], strict=True):
                value, error = cell if isinstance(cell, list) else (cell, None)
                if column not in table["ignored"] and isinstance(value, int | float):
                    found[table["title"], name, column] = value, error or 0.0, table["within"]
    return found


def compare(old, new):
    """Rows (table, row, column, recorded, now, verdict) of two records; the verdict is same, close, MOVED, MISSING or new."""
    before, after = figures(old), figures(new)
    rows = []
    for name in before | after:
        if name not in after or name not in before:
            verdict = "new" if name in after else "MISSING"
        else:
            (a, error, within), (b, other, _) = before[name], after[name]
            bound = max(2.0 * math.hypot(error, other), within * abs(a))
            verdict = "same" if a == b else "close" if abs(a - b) <= bound + 1e-9 else "MOVED"
        rows.append((*name, before.get(name, ("",))[0], after.get(name, ("",))[0], verdict))
    return rows


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))


def run(record):
    """What a recorded command finds now, or None if it fails."""
    _, script, *words = shlex.split(record["command"])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "figures.json"
        command = [sys.executable, str(HERE.parent / script), *words, "--json", str(path)]
        paths = [os.path.abspath(name) for name in os.environ.get("PYTHONPATH", "").split(os.pathsep) if name]
        env = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "PYTHONIOENCODING": "utf-8"}
        failed = subprocess.run(command, cwd=folder, env=env, stdout=subprocess.DEVNULL).returncode
        return None if failed else path.read_text(encoding="utf-8")


def print_list():
    """The scripts with their questions, and the recorded commands."""
    records = {path.stem: read(path) for path in sorted(RECORDED.glob("*.json"))}
    for path in sorted(HERE.glob("*.py")):
        if path.stem != "__main__":
            print(f"{path.name}: {ast.get_docstring(ast.parse(path.read_text(encoding='utf-8'))).splitlines()[0]}")
            for name, record in records.items():
                if record["command"].split()[1] == f"benchmarks/{path.name}":
                    print(f"    {name}, {record['cpu_seconds']} CPU seconds, {record['date']}: {record['command']}")


def print_moved(rows):
    """The figures that moved, and how many there are of each kind."""
    for *name, before, after, verdict in rows:
        if verdict in ("MOVED", "MISSING", "new"):
            print(f"    {verdict}: {' | '.join(name)}: {before} -> {after}")
    counts = {
        verdict: sum(row[-1] == verdict for row in rows) for verdict in ("same", "close", "MOVED", "MISSING", "new")
    }
    print("    " + ", ".join(f"{n} {verdict}" for verdict, n in counts.items() if n), flush=True)
    return counts["MOVED"] + counts["MISSING"]


def main(argv=None):
    """Run what the arguments ask for, and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="records to run again")
    parser.add_argument("--list", action="store_true", help="list the scripts and run nothing")
    parser.add_argument("--record", action="store_true", help="replace the records")
    parser.add_argument("--compare", nargs=2, type=Path, metavar=("OLD", "NEW"), help="compare two files")
    args = parser.parse_args(argv)
    if args.list:
        print_list()
        return 0
    if args.compare:
        return int(print_moved(compare(*map(read, args.compare))) > 0)
    trouble = 0
    for path in [RECORDED / f"{name}.json" for name in args.names] or sorted(RECORDED.glob("*.json")):
        old = read(path)
        print(f"{path.stem}, about {old['cpu_seconds']} CPU seconds: {old['command']}", flush=True)
        text = run(old)
        if text is None:
            print("    FAILED")
        trouble += 1 if text is None else print_moved(compare(old, json.loads(text)))
        if args.record and text is not None:
            path.write_text(text, encoding="utf-8")
    return int(trouble > 0)


if __name__ == "__main__":
    sys.exit(main())
