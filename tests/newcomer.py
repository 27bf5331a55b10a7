"""Types what a page tells a newcomer to type, in an empty folder: ``python tests/newcomer.py PAGE ... [--long]``.

PAGE is a Markdown file, or ``help`` for the examples of the help pages. Python blocks share one namespace; a block of text
after one is what it prints. Prints what was tried and what went wrong, as JSON. Fits are small unless the run is long.
"""

import argparse
import ast
import contextlib
import io
import json
import math
import re
import shlex
import sys
import tomllib
import traceback
import warnings
from contextlib import redirect_stderr, redirect_stdout
from importlib.metadata import entry_points
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import pytest
from quick import small_fits, two, undrawn_figures
from sklearn.datasets import load_digits

import marmix
from marmix.cli import main, parser_of_all
from marmix.datasets import make_mar_mixture
from marmix.datasets.hard import HardRows

ROOT = Path(__file__).parent.parent
NUMBER = re.compile(r"(?<![\w.])[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")
EXTRAS = set(tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"])
PROGRAMS = ("$", "marmix", "pip", "python", "python3", "git", "cd", ".venv/bin/")


def blocks(text):
    """Fenced blocks of a Markdown page with their options: `python`, `printed` right after it, `command`."""
    end = None  # of a Python block
    for fence in re.finditer(r"^```([^\n]*)\n(.*?)^```[ ]*$", text, re.S | re.M):
        kind, lines = fence[1].strip("{}"), fence[2].splitlines()
        options = [lines.pop(0) for _ in range(len(lines)) if lines and re.match(r":\w+:", lines[0])]
        if kind == "python":
            yield "python", options, "\n".join(lines)
        elif kind in ("terminal", "console", "bash", "sh") or (not kind and fence[2].startswith(PROGRAMS)):
            commands = [line for line in re.split(r"(?<!\\)\n", "\n".join(lines)) if line.strip()]
            typed = [line for line in commands if line.startswith("$ ")] or commands  # the rest is what they print
            yield "command", options, [line.removeprefix("$ ") for line in typed]
        elif end is not None and not text[end : fence.start()].strip():
            yield "printed", options, "\n".join(lines)
        end = fence.end() if kind == "python" else None


def options_of(script):
    """A parser with the arguments that a script adds to its own, as far as they are literals."""
    parser = argparse.ArgumentParser(exit_on_error=False)
    for node in ast.walk(ast.parse(script.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "add_argument":
            words = {k.arg: k.value for k in node.keywords if k.arg in ("action", "nargs", "choices")}
            literal = {k: v.value for k, v in words.items() if isinstance(v, ast.Constant)}
            if isinstance(words.get("choices"), ast.List):
                literal["choices"] = ast.literal_eval(words["choices"])
            parser.add_argument(*(part.value for part in node.args), **literal)
    return parser


class Newcomer:
    """Runs blocks, and keeps the failures."""

    def __init__(self, page, long):
        self.page, self.long, self.names = page, long, {"__name__": "__main__"}
        self.tried, self.failures, self.printed = [], [], ""

    def read(self, text):
        """Type what the blocks of a page hold."""
        for kind, options, content in blocks(text):
            if kind == "python":
                self.attempt(content, lambda code=content: self.python(code))
            elif kind == "command":
                code = next((int(option.split()[1]) for option in options if option.startswith(":exit:")), 0)
                for line in content:
                    self.attempt(line, lambda line=line, code=code: self.command(line, code))
            else:
                self.attempt(content, lambda text=content: compare(self.printed, text, exact=self.long))
        for line in re.findall(r"(?<!`)`(python\s+(?:-m\s+benchmarks\b|benchmarks/|docs/)[^`]*)`", text):
            self.attempt(line, lambda line=line: self.command(line))

    def attempt(self, what, action):
        self.tried.append(what)
        try:
            action()
        except (Exception, SystemExit):
            self.failures.append(f"{what}\n{traceback.format_exc()}")

    def python(self, code):
        self.printed = ""
        with redirect_stdout(io.StringIO()) as out:
            exec(compile(code, "block", "exec"), self.names)
        self.printed = out.getvalue()

    def command(self, line, expected=0):
        for part in line.split("&&"):
            words = shlex.split(part, comments=True)
            program = words[0].rpartition("/")[2]
            if words[1:3] == ["-m", "marmix"]:
                program, words = "marmix", words[2:]
            if program == "marmix":
                self.marmix(words[1:], expected)
            elif program == "pip":
                asked = ",".join(extra for word in words for extra in re.findall(r"\[(.*)\]", word))
                assert set(filter(None, asked.split(","))) <= EXTRAS, f"no such extra: {asked}"
            elif words[1:2] == ["-m"] and not (ROOT / words[2]).is_dir() and find_spec(words[2].partition(".")[0]):
                pass
            elif program in ("python", "python3"):
                script, words = (f"{words[2]}/__main__.py", words[3:]) if words[1] == "-m" else (words[1], words[2:])
                assert (ROOT / script).is_file(), f"no file {script}"
                options_of(ROOT / script).parse_args(words)
            else:
                installed = find_spec(program) or program in entry_points(group="console_scripts").names
                assert program in ("cd", "git") or installed, f"no program {program}"

    def marmix(self, words, expected=0):
        options = parser_of_all().parse_args(words)
        if not self.long and words[0] == "demo":
            words = [*words, "--splits", "0"]  # no scoreboard
        data = getattr(options, "data", None)
        if data and not Path(data).exists() and data.endswith(".csv"):
            write_rows(data, getattr(options, "id", None), options.label)
        printed = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")  # some commands write bytes
        with redirect_stdout(printed), redirect_stderr(printed):
            code = main(words)
        printed.seek(0)
        assert code == expected, f"exit code {code}\n{printed.read()}"
        for option, name in pairwise(words):
            assert option not in ("--out", "--plot") or code or Path(name).exists(), f"{name} was not written"


def write_rows(path, identifier, label):
    """Write a table that has these columns and two features; some labels are missing."""
    rows = make_mar_mixture(120, rate=0.4, random_state=0, as_frame=True)
    table = rows.data.assign(**{label: rows.target.map({0: "no", 1: "yes"})})
    if identifier:
        table.insert(0, identifier, [f"row {i}" for i in table.index])
    table.to_csv(path, index=False)


def compare(printed, shown, *, exact):
    """Compare what was printed with what is shown: numbers up to 2 %; in a short run, of small fits, the first word of a line."""
    ours, theirs = ([line.rstrip() for line in text.strip().splitlines()] for text in (printed, shown))
    if not exact:
        begins = {line.split()[0] for line in ours if line}
        unlike = [line for line in theirs if re.match(r" {0,2}[A-Za-z]", line) and line.split()[0] not in begins]
        assert not unlike, f"no line begins as {unlike[0]!r} does:\n{printed}"
        return
    assert len(ours) == len(theirs), f"{len(ours)} lines were printed, {len(theirs)} are shown:\n{printed}"
    for one, other in zip(ours, theirs, strict=True):
        assert words(one) == words(other), f"printed: {one}\nshown:   {other}"
        for a, b in zip(NUMBER.findall(one), NUMBER.findall(other), strict=True):
            a, b = (float(number.replace(",", "")) for number in (a, b))
            assert math.isclose(a, b, rel_tol=0.02, abs_tol=0.011), f"printed: {one}\nshown:   {other}"


def words(line):
    """The text between the numbers of a line, without the spaces that align them."""
    return [" ".join(part.split()) for part in NUMBER.split(line)]


def fewer_digits():
    """A part of the digits, in place of `marmix.datasets.hard.digits`."""
    images, labels = load_digits(return_X_y=True)
    return HardRows.of("some digits", images[:400], labels[:400] % 2, images[:400])


def read(page, long):
    """Read a page, and print what came of it."""
    newcomer = Newcomer(page, long)
    if page == "help":
        import help_examples

        help_examples.prepare(Path())
        for line in help_examples.examples():
            if not help_examples.expensive(line):  # test_help runs those
                newcomer.attempt(line, lambda line=line: newcomer.marmix(help_examples.words(line)))
    else:
        newcomer.read(Path(page).read_text(encoding="utf-8"))
    print(json.dumps({"marmix": marmix.__file__, "tried": newcomer.tried, "failures": newcomer.failures}))


def read_all(*pages, long):
    """Read pages one after the other, each in a folder of its own."""
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("ignore")
        if not long:
            small_fits(patch, tiny=True)
            undrawn_figures(patch)
            patch.setattr("marmix.selection.comparison.default_candidates", two)
            patch.setattr("marmix.datasets.hard.digits", fewer_digits)
        for number, page in enumerate(pages):
            folder = Path(f"page-{number}").absolute()
            folder.mkdir()
            with contextlib.chdir(folder):
                read(page, long)


if __name__ == "__main__":
    read_all(*(page for page in sys.argv[1:] if page != "--long"), long="--long" in sys.argv)
