"""The help pages: what they say is complete, fits the terminal, and works when it is typed."""

import argparse
import re

import help_examples
import pytest

from marmix.cli import main, parser_of_all

PARSERS = {parser.prog: parser for parser in help_examples.parsers()}
ORDER = ("column", "missing", "question", "the model", "answer", "output", "reading", "general")  # as a user needs them


def options(parser):
    """The arguments that a help page explains."""
    return [action for action in parser._actions if not isinstance(action, argparse._SubParsersAction)]


@pytest.mark.parametrize("columns", [70, 80, 100, 300])
@pytest.mark.parametrize("parser", PARSERS.values(), ids=PARSERS)
def test_a_page_fits_the_terminal_and_wraps_nothing_that_is_typed(parser, columns, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = parser.format_help().splitlines()
    typed = {f"    {command}" for _, command in parser.examples}
    assert typed <= set(lines)
    assert max(len(line) for line in lines if line not in typed) <= min(columns, 100)
    assert max(map(len, typed)) <= 80


@pytest.mark.parametrize("parser", PARSERS.values(), ids=PARSERS)
def test_a_page_has_a_short_usage_a_summary_named_groups_examples_and_exit_codes(parser):
    text = parser.format_help()
    usage, _, summary, *_ = text.splitlines()
    assert re.fullmatch(rf"usage: {parser.prog} \S.*", usage)
    for action in options(parser):
        if action.required:
            assert (action.metavar if not action.option_strings else action.option_strings[-1]) in usage
    assert summary.endswith(".")
    assert not re.search("^(positional arguments|options):", text, re.M)
    headings = re.findall(r"^(\S.*):$", text, re.M)
    assert headings[headings.index("general") :][:3] == ["general", "examples", "exit codes"]
    for _, command in parser.examples:
        assert " ".join(["marmix", *help_examples.words(command)]).startswith(parser.prog)
    assert {0, 1, 2} <= set(parser.exits)


def test_groups_come_in_the_same_order_on_every_page():
    for parser in PARSERS.values():
        titles = [group.title for group in parser._action_groups if group._group_actions]
        places = [[word in title for word in ORDER].index(True) for title in titles if any(w in title for w in ORDER)]
        assert places == sorted(places), titles


def test_defaults_are_stated_in_one_way_and_are_true():
    for parser in PARSERS.values():
        for action in options(parser):
            text = parser._get_formatter()._expand_help(action)
            assert "default" not in text.partition("(default: ")[0], text
            stated = re.search(r"\(default: ([^ )]+)\)$", text)
            if stated and not isinstance(action.default, list) and action.default is not None:
                assert stated[1] in (str(action.default), "copy")
            if isinstance(action.default, str | int | float) and not isinstance(action.default, bool):
                assert "(default: " in text or action.default == argparse.SUPPRESS, action.option_strings


def test_the_first_page_lists_every_command_and_related_commands_exist():
    listed = re.findall(r"^  ([a-z]+)  +\S", PARSERS["marmix"].format_help(), re.M)
    assert [f"marmix {name}" for name in listed] == list(PARSERS)[1:]
    for parser in PARSERS.values():
        assert {f"marmix {name}" for name in parser.also} <= set(PARSERS) - {parser.prog}


def test_python_may_colour_help_pages_but_ours_have_no_control_characters():
    assert not any(parser.color for parser in PARSERS.values())


@pytest.mark.parametrize("line", help_examples.examples())
def test_an_example_is_a_command_that_the_program_takes(line):
    assert parser_of_all().parse_args(help_examples.words(line)).run


@pytest.mark.long
@pytest.mark.parametrize("line", list(filter(help_examples.expensive, help_examples.examples())))
def test_an_example_that_takes_minutes_runs_as_it_stands(line, tmp_path, monkeypatch, capsys):
    """The others run from the wheel, in test_newcomer."""
    monkeypatch.chdir(tmp_path)
    assert main(help_examples.words(line)) == 0, capsys.readouterr().err
