"""The help pages: what they say is complete, and works when it is typed."""

import argparse
import re

import help_examples
import pytest

from marmix.cli import main, parser_of_all

PARSERS = {parser.prog: parser for parser in help_examples.parsers()}


@pytest.mark.parametrize("parser", PARSERS.values(), ids=PARSERS)
def test_a_page_has_a_summary_every_option_examples_and_exit_codes(parser):
    lines = parser.format_help().splitlines()
    assert lines[0].startswith(f"usage: {parser.prog} ")
    assert lines[2].endswith(".")
    for words, command in parser.examples:
        assert {f"  {words}", f"    {command}"} <= set(lines)
    assert {0, 1, 2} <= set(parser.exits)
    assert {f"marmix {name}" for name in parser.also} <= set(PARSERS) - {parser.prog}
    for action in parser._actions:
        assert action.help or isinstance(action, argparse._SubParsersAction)


def test_defaults_are_stated_and_true():
    for parser in PARSERS.values():
        for action in parser._actions:
            stated = re.search(r"\(default: ([^ )]+)\)$", (action.help or "") % vars(action))
            if stated and not isinstance(action.default, list) and action.default is not None:
                assert stated[1] in (str(action.default), "copy")
            if isinstance(action.default, str | int | float) and not isinstance(action.default, bool):
                assert "(default: " in action.help or action.default == argparse.SUPPRESS, action.option_strings


@pytest.mark.parametrize("line", help_examples.examples())
def test_an_example_is_a_command_that_the_program_takes(line):
    assert parser_of_all().parse_args(help_examples.words(line)).run


@pytest.mark.long
@pytest.mark.parametrize("line", list(filter(help_examples.expensive, help_examples.examples())))
def test_an_example_that_takes_minutes_runs_as_it_stands(line, tmp_path, monkeypatch, capsys):
    """The others run from the wheel, in test_newcomer."""
    monkeypatch.chdir(tmp_path)
    assert main(help_examples.words(line)) == 0, capsys.readouterr().err
