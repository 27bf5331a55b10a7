"""The directive `terminal`: commands that are run when the page is built, with what they print.

Every page has a folder of its own, empty at first, in which its commands run one after the other::

    ```{terminal}
    marmix demo
    head -n 3 marmix-demo/imputed.csv
    ```

A command that ends with another exit code than `exit` (0) is a warning. `first` and `last` keep so many lines of what is printed.
``-D terminal_run=0`` shows commands without running them.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

# `marmix` is the one of the Python that builds the page, installed or not.
PREAMBLE = 'marmix() { "$MARMIX_PYTHON" -m marmix "$@"; }\n'
LONGEST = 180  # seconds


class Terminal(SphinxDirective):
    """Commands, one a line, and what they print."""

    has_content = True
    option_spec = {  # noqa: RUF012  docutils asks for a class attribute
        "exit": directives.nonnegative_int,
        "first": directives.nonnegative_int,
        "last": directives.nonnegative_int,
    }

    def run(self) -> list[nodes.Node]:
        """Run the commands, and show them."""
        shown: list[str] = []
        for command in _commands(self.content):
            shown.append(f"$ {command}")
            if self.config.terminal_run:
                shown += self._printed(command)
        text = "\n".join(shown)
        block = nodes.literal_block(text, text, language="console", classes=["terminal"])
        self.set_source_info(block)
        return [block]

    def _printed(self, command: str) -> list[str]:
        folder = page_folder(self.env.app, self.env.docname)
        folder.mkdir(parents=True, exist_ok=True)
        settings = {"MARMIX_PYTHON": sys.executable, "COLUMNS": "100", "NO_COLOR": "1"}
        done = subprocess.run(
            ["sh", "-c", PREAMBLE + command],
            cwd=folder,
            env=os.environ | settings,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LONGEST,
            check=False,
            encoding="utf-8",
        )
        if done.returncode != self.options.get("exit", 0):
            self.state_machine.reporter.warning(
                f"{command!r} ended with exit code {done.returncode}:\n{done.stdout}{done.stderr}", line=self.lineno
            )
        lines = (done.stdout + (done.stderr if done.returncode else "")).rstrip().splitlines()  # progress is not shown
        first, last = self.options.get("first"), self.options.get("last")
        if first is not None and len(lines) > first:
            return [*lines[:first], "..."]
        if last is not None and len(lines) > last:
            return ["...", *lines[-last:]]
        return lines


def _commands(content: Any) -> list[str]:
    """Commands, which a backslash at the end of a line continues on the next."""
    return [command for command in re.split(r"(?<!\\)\n", "\n".join(content)) if command.strip()]


def page_folder(app: Sphinx, page: str) -> Path:
    """The folder in which the commands and the code of a page run."""
    return Path(app.doctreedir) / "terminal" / page.replace("/", "-")


def _empty(app: Sphinx, page: str, source: list[str]) -> None:
    """Begin a page in an empty folder."""
    shutil.rmtree(page_folder(app, page), ignore_errors=True)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_config_value("terminal_run", True, "env", [bool])
    app.add_directive("terminal", Terminal)
    app.connect("source-read", _empty)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
