"""What programs written for marmix 0.1 use is still there; what has another name warns."""

import importlib
import inspect
import re
import warnings
from pathlib import Path

import pytest

import marmix
from marmix.cli import parser_of_all

LINES = (Path(__file__).parent / "data" / "public-0.1.txt").read_text(encoding="utf-8").splitlines()[1:]
NAMES = [line for line in LINES if re.fullmatch(r"marmix(\.\w+)+(\(.*\))?", line)]
FITS = [re.split(r"\(\)\.fit | ", line) for line in LINES if "().fit " in line]
COMMANDS = [line for line in LINES if line.startswith("marmix ")]
RENAMED = {"marmix.inference.Counts": "marmix.inference.Criteria"}


def named(name):
    """What a dotted name means: the longest part of it that is a module, and attributes from there."""
    parts = name.split(".")
    for i in range(len(parts), 0, -1):
        try:
            thing = importlib.import_module(".".join(parts[:i]))
        except ImportError:
            continue
        for part in parts[i:]:
            thing = getattr(thing, part)
        return thing
    raise AttributeError(name)


def test_the_list_of_0_1_is_read_whole():
    assert len(NAMES) + len(FITS) + len(COMMANDS) == len(LINES) == 203


@pytest.mark.parametrize("line", NAMES)
@pytest.mark.filterwarnings("ignore:marmix:FutureWarning")
def test_a_name_of_0_1_takes_the_arguments_that_it_took(line):
    name, signature, parameters = line.partition("(")
    thing = named(name)
    if not signature:
        return
    today = {p.name: p for p in inspect.signature(thing).parameters.values() if p.name != "self"}
    any_keyword = any(p.kind is p.VAR_KEYWORD for p in today.values())
    by_position = [p.name for p in today.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    positional, _, keyword = parameters.rstrip(")").partition("*")
    positional = re.findall(r"\w+", positional)
    assert by_position[: len(positional)] == positional
    assert any_keyword or set(re.findall(r"\w+", keyword)) <= set(today)
    required = {
        p.name for p in today.values() if p.default is p.empty and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)
    }
    assert required <= set(re.findall(r"\w+", parameters))  # nothing new must be given


@pytest.mark.parametrize("fit", FITS, ids=lambda fit: fit[0])
def test_a_fitted_estimator_has_the_attributes_of_0_1(fit, two):
    name, *attributes = fit
    arguments = {"estimators": {"one": marmix.MARLogisticRegression()}, "cv": 2} if name.endswith("CV") else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", marmix.BoundaryWarning)
        model = named(name)(**arguments).fit(two.X, two.y)
    assert [attribute for attribute in attributes if not hasattr(model, attribute)] == []


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_of_0_1_has_its_arguments_and_options(line):
    _, command, words = re.fullmatch(r"(marmix) ?([a-z]*) (.*)", line).groups()
    parser = parser_of_all()
    if command:
        parser = next(a.choices for a in parser._actions if a.dest == "command")[command]
    today = {word for a in parser._actions for word in a.option_strings or [a.dest.upper()]}
    assert set(words.split()) <= today


@pytest.mark.parametrize(("before", "today"), RENAMED.items())
def test_an_old_name_is_the_new_one_and_says_so(before, today):
    with pytest.warns(FutureWarning, match=rf"{re.escape(today)}.* 0\.4") as caught:
        assert named(before) is named(today)
    assert [warning.filename for warning in caught] == [__file__]
    module, _, name = before.rpartition(".")
    with pytest.warns(FutureWarning, match=re.escape(today)) as caught:
        exec(compile(f"from {module} import {name}", "program.py", "exec"))
    assert "program.py" in [warning.filename for warning in caught]


def test_a_name_that_never_was_is_missing_as_usual():
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        named("marmix.inference.Nothing")
