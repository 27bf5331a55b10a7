"""Command lines made from the parser's declarations, with hostile values: a result, or an error that leaves nothing behind."""

import argparse

from fuzz.models import fitted_by_program
from fuzz.running import Subject, run
from fuzz.tables import ROWS
from marmix.cli import parser_of_all

# fmt: off
TEXTS = [
    "", " ", "-", "--", "-1", "x", "a=b", "=0.5", "label", "label ", "group", "marmix_", "NA", "u", "a,b", "#", "~", "*", ".",
    "..", "\0", "a\0b", "\x1b[31m", "\x9b2J", "\r", "\u202e", "\ud800", "{}", "{0}", "%s", "%(x)s", "\\", "'", '"', "é" * 200,
    "x" * 5000, "../up", "no/such/folder", "$HOME", "`id`", "<b>", "utf-8", "utf_7", "tab", "\t", ";",
]
NUMBERS = [
    "0", "1", "2", "3", "-1", "2.5", "0.5", "1e3", "nan", "inf", "-inf", "1_0", "\uff11", "\u0663", "99999999999999999999",
    "0x10",
]
# fmt: on
# What an argument of this name usually is, so that a line gets past the parser now and then.
USUAL = {
    "model": ["model.marmix", "rows.csv", "absent.marmix"],
    "data": ["rows.csv", "rows.csv", "rows.csv", "model.marmix", "absent.csv", "."],
    "out": ["out", "new.csv", "rows.csv", "model.marmix", "out/deeper"],
    "label": ["label", "label", "label", "group", "x", "id"],
    "id": ["id", "x"],
    "features": ["x", "group", "id", "label"],
    "exclude": ["id", "x", "label"],
    "votes": ["label", "group"],
    "shares": ["x"],
    "names": ["list", "nothing"],
    "rows": ["2", "50", "300"],
    "folds": ["2", "3"],
    "splits": ["1"],
    "draws": ["2", "5"],
}
LEFT_OUT = {"help", "debug", "size", "jobs", "thorough"}  # debug shows tracebacks; some take long


def prepare(folder):
    """The table of forty rows, its model, and the parsers of the commands; the demo takes a minute, and is left out."""
    model = fitted_by_program()
    commands = next(a for a in parser_of_all()._actions if isinstance(a, argparse._SubParsersAction)).choices
    return model, {name: command for name, command in commands.items() if name != "demo"}


def values(action, rng):
    """Values for an argument: usual ones, those it declares, numbers, or odd ones."""
    pools = [TEXTS, NUMBERS, list(action.choices or []) or TEXTS, [str(action.default)]]
    usual = USUAL.get(action.dest) or [str(choice) for choice in action.choices or []] or NUMBERS
    count = 1 if action.nargs is None else rng.choice([0, 1, 1, 2, 3])
    return [str(rng.choice(usual if rng.random() < 0.8 else rng.choice(pools))) for _ in range(count)]


def words_of(command, parser, rng):
    """A command line: required arguments nearly always, others now and then."""
    words = []
    for action in parser._actions:
        wanted = action.required or not action.option_strings or (action.dest == "label" and rng.random() < 0.8)
        if action.dest in LEFT_OUT or rng.random() > (0.97 if wanted else 0.08):
            continue
        if action.option_strings:
            words.append(action.option_strings[0])
        if action.nargs != 0:
            words += values(action, rng)
    words += ["--model", "logistic", "--folds", "2"] if command == "fit" else []
    if rng.random() < 0.05:
        words.insert(rng.randrange(len(words) + 1), rng.choice([*TEXTS, "--nothing"]))
    return [command, *words]


def attempt(sound, rng, folder):
    """Run a random command line."""
    model, parsers = sound
    rows = "\n".join(",".join(row) for row in ROWS) + "\n"
    (folder / "rows.csv").write_text(rows, encoding="utf-8")
    (folder / "model.marmix").write_bytes(model)
    command = rng.choice(list(parsers)) if rng.random() < 0.8 else "predict"
    if command == "fit" and rng.random() < 0.5:  # takes the longest
        command = "evaluate"
    words = words_of(command, parsers[command], rng)
    code = run(words).code
    assert (folder / "rows.csv").read_text(encoding="utf-8") == rows, f"{words} changed its input"
    assert (folder / "model.marmix").read_bytes() == model, f"{words} changed the model"
    if code in (1, 2):
        left = {path.name for path in folder.rglob("*")} - {"rows.csv", "model.marmix"}
        assert not left, f"{words} left {left}"
    return f"{command} {code}" if command in ("predict", "fit") else str(code)


SUBJECT = Subject(prepare, attempt, 50, frozenset({"0", "1", "2", "predict 0", "predict 1"}))
