"""`marmix fit` on a large CSV file: time, and memory as a multiple of the data once they are parsed.

Parsed data are the features and the label as eight bytes each. Memory is the peak of the resident set (Linux), in all, and above
that of the program with its libraries loaded and nothing done: a fit of 100 x 10 rows. The peer is pandas, which reads the same
file and does nothing else with it.

    python benchmarks/journey.py [--rows 1000000] [--features 10] [--model auto]

takes two minutes on two cores.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from common import tables

from marmix.datasets import make_mar_mixture

PEAK = """
import json, sys, time
def peak():  # of this program alone, unlike ru_maxrss, which begins with that of the program that started it
    with open("/proc/self/status", encoding="utf-8") as file:
        return int(next(line for line in file if line.startswith("VmHWM")).split()[1]) / 1024
"""
RUN = f"""{PEAK}
from marmix.cli import main
begin = time.perf_counter()
code = main(sys.argv[1:])
print(json.dumps([code, time.perf_counter() - begin, peak()]))
"""
PANDAS = f"""{PEAK}
import pandas as pd
before, begin = peak(), time.perf_counter()
frame = pd.read_csv(sys.argv[1])
print(json.dumps([0, time.perf_counter() - begin, peak(), before]))
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
    make_mar_mixture(rows, n_features=features, as_frame=True, random_state=0).frame.to_csv(data, index=False)
    out = folder / f"out{rows}x{features}"
    return data, run(RUN, "fit", data, "--label", "target", "--model", model, "--out", out, "--quiet")


def main():
    parser = tables.parser_of(__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=10)
    parser.add_argument("--model", default="auto")
    args = parser.parse_args()
    parsed, report = 8 * args.rows * (args.features + 1) / 2**20, tables.Report()
    with tempfile.TemporaryDirectory() as folder:
        _, (_, libraries) = fit(Path(folder), 100, 10, args.model)
        data, (seconds, peak) = fit(Path(folder), args.rows, args.features, args.model)
        reading, most, before = run(PANDAS, data)
        size = data.stat().st_size / 2**20
    report.say(f"{args.rows:,} x {args.features} rows, {size:.0f} MB of CSV, {parsed:.0f} MB parsed")
    columns = {"program": "", "seconds": ".1f", "peak, MB": ".0f", "above its libraries, MB": ".0f"}
    columns |= {"times the parsed data": ".2f"}
    table = report.table("memory", columns, within=0.2, ignored=["seconds"])
    name = f"marmix fit --model {args.model}"
    table.add(name, seconds, peak, peak - libraries, (peak - libraries) / parsed)
    table.add("pandas.read_csv alone", reading, most, most - before, (most - before) / parsed)
    report.write(args.json)


if __name__ == "__main__":
    main()
