"""The directives `python` and `terminal`: code and commands that are run when the page is built, with what they print and draw.

The blocks of a page share one namespace and one folder, empty at first::

    ```{python}
    from marmix.datasets import load_tumours

    load_tumours(as_frame=True).frame.to_csv("rows.csv")
    ```

    ```{terminal}
    marmix fit rows.csv --label target --out results
    ```

As in an interactive session, the value of the last expression is shown, and so are open matplotlib figures. An exception is a
warning, and so is a command that ends with another exit code than `exit` (0). `first` and `last` keep so many lines of what a
command prints. ``-D run_pages=0`` shows code and commands without running them.
"""

import ast
import base64
import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

NAMESPACES: dict[str, dict[str, Any]] = {}
MARMIX = 'marmix() { "$MARMIX_PYTHON" -m marmix "$@"; }\n'  # of the Python that builds the page


def folder_of(app: Sphinx, page: str) -> Path:
    """The folder in which the code and the commands of a page run."""
    return Path(app.doctreedir) / "run" / page.replace("/", "-")


def begin(app: Sphinx, page: str, source: list[str]) -> None:
    """Begin a page with an empty folder and no names."""
    NAMESPACES[page] = {"__name__": "__main__"}
    shutil.rmtree(folder_of(app, page), ignore_errors=True)
    if app.config.run_pages:
        folder_of(app, page).mkdir(parents=True)


class Python(SphinxDirective):
    """Python code, what it prints, and what it draws."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """Run the code, and show it."""
        source = "\n".join(self.content)
        blocks: list[nodes.Node] = [nodes.literal_block(source, source, language="python")]
        if self.config.run_pages:
            printed = self._printed(source)
            if printed:
                classes = ["printed"] if "  " in printed else ["printed", "sentence"]  # tables are not wrapped
                blocks.append(nodes.literal_block(printed, printed, language="none", classes=classes))
            blocks += _figures()
        for block in blocks:
            self.set_source_info(block)
        return blocks

    def _printed(self, source: str) -> str:
        page, names, printed = self.env.docname, NAMESPACES[self.env.docname], io.StringIO()
        try:
            with contextlib.chdir(folder_of(self.env.app, page)), contextlib.redirect_stdout(printed):
                body = ast.parse(source).body
                last = body.pop() if isinstance(body[-1], ast.Expr) else None
                exec(compile(ast.Module(body, []), page, "exec"), names)
                value = last and eval(compile(ast.Expression(last.value), page, "eval"), names)
                if value is not None and not type(value).__module__.startswith(("matplotlib", "marmix.plotting")):
                    print(repr(value))
        except Exception:
            self.state_machine.reporter.warning(f"{source}\n{traceback.format_exc()}", line=self.lineno)
        return printed.getvalue().rstrip()


def _figures() -> list[nodes.Node]:
    """Open matplotlib figures as images, described by their titles and axes."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    images: list[nodes.Node] = []
    for number in pyplot.get_fignums() if pyplot else ():
        figure, picture = pyplot.figure(number), io.BytesIO()
        figure.savefig(picture, format="png", dpi=144, bbox_inches="tight")
        axes = [ax for ax in figure.axes if ax.get_xlabel() or ax.get_title()]
        text = "; ".join(f"{ax.get_title()} {ax.get_ylabel()} against {ax.get_xlabel()}".strip() for ax in axes)
        data = base64.b64encode(picture.getvalue()).decode()
        images.append(nodes.image(uri=f"data:image/png;base64,{data}", alt=text, classes=["figure"]))
        pyplot.close(figure)
    return images


class Terminal(SphinxDirective):
    """Commands, one a line (a backslash continues it on the next), and what they print."""

    has_content = True
    option_spec = {  # noqa: RUF012  docutils asks for a class attribute
        "exit": directives.nonnegative_int,
        "first": directives.nonnegative_int,
        "last": directives.nonnegative_int,
    }

    def run(self) -> list[nodes.Node]:
        """Run the commands, and show them."""
        shown: list[str] = []
        for command in re.split(r"(?<!\\)\n", "\n".join(self.content)):
            shown.append(f"$ {command}")
            if self.config.run_pages:
                shown += self._printed(command)
        text = "\n".join(shown)
        block = nodes.literal_block(text, text, language="console", classes=["terminal"])
        self.set_source_info(block)
        return [block]

    def _printed(self, command: str) -> list[str]:
        done = subprocess.run(
            ["sh", "-c", MARMIX + command],
            cwd=folder_of(self.env.app, self.env.docname),
            env=os.environ | {"MARMIX_PYTHON": sys.executable, "COLUMNS": "100", "NO_COLOR": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
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


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directives."""
    app.add_config_value("run_pages", True, "env", [bool])
    app.add_directive("python", Python)
    app.add_directive("terminal", Terminal)
    app.connect("source-read", begin)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
