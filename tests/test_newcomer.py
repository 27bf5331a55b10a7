"""What the pages tell a newcomer to type works with the wheel: README, quickstart, and the examples of every help page."""

import json

import newcomer
import pytest
from packaged import ROOT

PAGES = ("README.md", "docs/quickstart.md", "help")


def test_what_a_newcomer_types_works(clean_python, tmp_path, long):
    pages = [page if page == "help" else ROOT / page for page in PAGES]
    printed = clean_python(ROOT / "tests" / "newcomer.py", *pages, *["--long"] * long, cwd=tmp_path)
    results = [json.loads(line) for line in printed.splitlines()[-len(PAGES) :]]
    for page, result in zip(PAGES, results, strict=True):
        assert result["marmix"].startswith(str(clean_python.site))
        assert len(result["tried"]) >= 3, page
        assert not result["failures"], f"{page}\n" + "\n\n".join(result["failures"])


PAGE = """
```console
$ pip install "marmix[cli]"
Successfully installed
```

```{python}
print("a word,", 2.0, "numbers", 3)
```

```text
a word,   2.01 numbers 3
```

```
marmix predict model.marmix new.csv \\
  --out labels.csv
```

```{terminal}
:exit: 2
marmix fit
```

```
other text
```
"""


def test_the_blocks_of_a_page_are_told_apart():
    assert list(newcomer.blocks(PAGE)) == [
        ("command", [], ['pip install "marmix[cli]"']),
        ("python", [], 'print("a word,", 2.0, "numbers", 3)'),
        ("printed", [], "a word,   2.01 numbers 3"),
        ("command", [], ["marmix predict model.marmix new.csv \\\n  --out labels.csv"]),
        ("command", [":exit: 2"], ["marmix fit"]),
    ]


@pytest.mark.parametrize(
    ("shown", "failures"),
    [
        ("a word,   2.01 numbers 3", (0, 0)),
        ("a word,   2.51 numbers 3", (0, 1)),
        ("a word,   2.01 figures 3", (0, 1)),
        ("another,   2.01 numbers 3", (1, 1)),
        ("a word,   2.01 numbers 3\nand more", (1, 1)),
    ],
)
def test_what_is_printed_is_compared_with_what_is_shown(shown, failures):
    page = f"```python\nprint('a word,', 2.0, 'numbers', 3)\n```\n\n```text\n{shown}\n```\n"
    for long, number in enumerate(failures):
        reader = newcomer.Newcomer("page", bool(long))
        reader.read(page)
        assert len(reader.failures) == number, reader.failures


@pytest.mark.parametrize(
    "line",
    [
        "pip install 'marmix[nothing]'",
        "python benchmarks/nothing.py",
        "python benchmarks/fit.py --nothing",
        "python -m nothing",
        "python -m benchmarks --nothing",
        "marmix nothing",
    ],
)
def test_a_command_that_cannot_work_is_a_failure(line, capsys):
    reader = newcomer.Newcomer("page", False)
    reader.attempt(line, lambda: reader.command(line))
    assert len(reader.failures) == 1


def test_commands_within_a_sentence_are_tried():
    reader = newcomer.Newcomer("page", False)
    reader.read("Run `python benchmarks/fit.py --nothing`, `python -m\nbenchmarks --list` or `python -m benchmarks`.")
    assert (len(reader.tried), len(reader.failures)) == (3, 1)
