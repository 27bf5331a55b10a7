"""`marmix fit` on a large CSV file: time, and memory as a multiple of the data once they are parsed.

Parsed data are the features and the label as eight bytes each. Memory is the peak of the resident set (Linux), in all, and above
that of the program with its libraries loaded and nothing done: a fit of 100 x 10 rows. The peer is pandas, which reads the same
file and does nothing else with it.

    python benchmarks/journey.py [--rows 1000000] [--features 10] [--model auto]
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from marmix.datasets import make_mar_mixture

RUN = """
import json, resource, sys, time
from marmix.cli import main
begin = time.perf_counter()
code = main(sys.argv[1:])
seconds = time.perf_counter() - begin
print(json.dumps([code, seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))
"""
PANDAS = """
import json, resource, sys, time
import pandas as pd
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
begin = time.perf_counter()
frame = pd.read_csv(sys.argv[1])
seconds = time.perf_counter() - begin
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps([0, seconds, peak, before]))
"""


def run(script, *arguments):
    """The exit code, seconds and peak, in megabytes, of a process."""
    command = [sys.executable, "-c", script, *map(str, arguments)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, encoding="utf-8")
    answer = json.loads(done.stdout.splitlines()[-1])
    assert answer[0] in (0, 3), done.stderr
    return answer[1:]


def fit(folder, rows, features, model):
    """Simulate rows, fit them, and measure the fit."""
    data = folder / f"{rows}x{features}.csv"
    drawn = make_mar_mixture(rows, n_features=features, at_least=2, random_state=0, as_frame=True).frame
    drawn.rename(columns={"target": "label"}).to_csv(data, index=False)
    out = folder / f"out{rows}x{features}"
    return data, run(RUN, "fit", data, "--label", "label", "--model", model, "--out", out, "--quiet")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=10)
    parser.add_argument("--model", default="auto")
    args = parser.parse_args()
    parsed = 8 * args.rows * (args.features + 1) / 2**20
    with tempfile.TemporaryDirectory() as folder:
        _, (_, libraries) = fit(Path(folder), 100, 10, args.model)
        data, (seconds, peak) = fit(Path(folder), args.rows, args.features, args.model)
        reading, most, before = run(PANDAS, data)
        print(
            f"{args.rows:,} x {args.features} rows, {data.stat().st_size / 2**20:.0f} MB of CSV, {parsed:.0f} MB parsed\n"
        )
    print("| | seconds | peak, MB | above its libraries, MB | times the parsed data |")
    print("|---|---|---|---|---|")
    for name, time, own, base in (
        (f"marmix fit --model {args.model}", seconds, peak, libraries),
        ("pandas.read_csv alone", reading, most, before),
    ):
        print(f"| {name} | {time:.1f} | {own:.0f} | {own - base:.0f} | {(own - base) / parsed:.2f} |")
    print(f"\nmarmix fit takes {seconds / reading:.1f} times as long as reading the file with pandas.")


if __name__ == "__main__":
    main()
