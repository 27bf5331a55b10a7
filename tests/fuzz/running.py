"""Cases made from seeds, and the program run on them."""

import argparse
import io
import itertools
import os
import random
import tempfile
import time
import traceback
import unicodedata
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest
from quick import undrawn_figures

from marmix.cli import main as marmix

SUBJECTS = ("tables", "models", "arguments", "terminal", "arrays")


class Subject(NamedTuple):
    """A kind of hostile input."""

    prepare: Callable[[Path], Any]  # makes sound input once, in a folder
    attempt: Callable[
        [Any, random.Random, Path], str
    ]  # tries one case and names its outcome; raises if a property fails
    cases: int  # in the short form
    outcomes: frozenset[str]  # those that the short form must have


def subject_of(name: str) -> Subject:
    """The subject of this name."""
    return import_module(f"fuzz.{name}").SUBJECT


class CaseError(AssertionError):
    """A case whose property does not hold; the message says how to run it again."""


@contextmanager
def quick():
    """Commands whose figures are not drawn, without lines of progress, and models that do not warn."""
    with (
        patch("marmix.journey.progress._EVERY", 1e6),
        pytest.MonkeyPatch.context() as figures,
        warnings.catch_warnings(),
    ):
        undrawn_figures(figures)
        warnings.simplefilter("ignore")
        yield


def attempt(name: str, sound: Any, seed: int, folder: Path) -> str:
    """Try the case of a seed in a folder that is emptied before, and return its outcome."""
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    try:
        return subject_of(name).attempt(sound, random.Random(f"{name} {seed}"), folder)
    except Exception as error:
        raise CaseError(f"{error}\nRun it again: python -m tests.fuzz {name} --seed {seed} --cases 1") from error


class Ran(NamedTuple):
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str


def run(words: list[str]) -> Ran:
    """Run the program, and check what holds of every run."""
    raw = io.BytesIO(), io.BytesIO()
    out, err = (io.TextIOWrapper(stream, encoding="utf-8") for stream in raw)
    with redirect_stdout(out), redirect_stderr(err), patch("sys.stdin", io.StringIO()):
        try:
            code = marmix(words)
        except SystemExit as ended:  # wrong arguments, or --help
            code = int(ended.code or 0)
        out.flush()
        err.flush()
    ran = Ran(code, *(stream.getvalue().decode("utf-8") for stream in raw))
    case = f"marmix {words!r}\nexit code {ran.code}: {ran.err}"
    assert ran.code in (0, 1, 2, 3), case
    assert "unexpected" not in ran.err, case
    assert "Traceback" not in ran.err or "--debug" in words, case
    copied = words[:1] == ["predict"] and not any(word.startswith("--o") for word in words)
    for text in (ran.err, "" if copied else ran.out):  # rows that go to standard output are copied as they are
        odd = {char for char in text if unicodedata.category(char) == "Cc" and char not in "\n\t"}
        assert not odd, f"{sorted(odd)} in what is printed by {case}\n{text!r}"
    if ran.code in (1, 2):
        assert ran.err.strip(), case
        assert len(ran.err.splitlines()) <= 2 or "before the fit" in ran.err or "--debug" in words, case
        assert copied or not ran.out, case
    return ran


def main(arguments: list[str] | None = None) -> int:
    """Try cases until the time is up; print the failures, each with the command that repeats it, and counts of outcomes."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=main.__doc__)
    parser.add_argument("subjects", nargs="*", metavar="subject", help=f"{', '.join(SUBJECTS)} (default: all)")
    parser.add_argument("--minutes", type=float, default=1.0, help="for all subjects together (default 1)")
    parser.add_argument("--seed", type=int, help="seed of the first case; the next has the next (default: random)")
    parser.add_argument("--cases", type=int, help="number of cases of each subject, in place of --minutes")
    options = parser.parse_args(arguments)
    subjects = options.subjects or list(SUBJECTS)
    if unknown := set(subjects) - set(SUBJECTS):
        parser.error(f"{unknown.pop()!r} is not one of {', '.join(SUBJECTS)}")
    first = random.SystemRandom().randrange(2**32) if options.seed is None else options.seed
    failures = 0
    with tempfile.TemporaryDirectory() as place, quick():
        for name in subjects:
            kept, folder = Path(place, name), Path(place, "case")
            kept.mkdir()
            folder.mkdir(exist_ok=True)
            os.chdir(folder)
            sound, outcomes, wrong = subject_of(name).prepare(kept), Counter[str](), list[str]()
            end = time.monotonic() + 60.0 * options.minutes / len(subjects)
            for seed in itertools.count(first):
                done = seed - first >= options.cases if options.cases is not None else time.monotonic() > end
                if done:
                    break
                try:
                    outcomes[attempt(name, sound, seed, folder)] += 1
                except CaseError as error:
                    outcomes["FAILED"] += 1
                    wrong.append(str(error))
                    print(f"FAILED: {''.join(traceback.format_exception(error.__cause__)[-3:])}{error}\n", flush=True)
            os.chdir(place)
            counts = ", ".join(f"{count:,} {outcome}" for outcome, count in sorted(outcomes.items()))
            print(f"{name}: {sum(outcomes.values()):,} cases from seed {first}: {counts}", flush=True)
            failures += len(wrong)
    return min(failures, 1)
