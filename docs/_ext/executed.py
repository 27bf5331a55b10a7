"""The directive `python`: code that is run when the page is built, with what it prints and draws.

The blocks of a page share one namespace, and the folder of its `terminal` blocks::

    ```{python}
    from marmix.datasets import load_tumours

    load_tumours().target_names
    ```

The value of the last expression is shown as in an interactive session, and so are open matplotlib figures. An exception is a
warning. ``-D terminal_run=0`` shows code without running it.
"""

import ast
import base64
import contextlib
import io
import sys
import traceback
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from terminal import page_folder

NAMESPACES: dict[str, dict[str, Any]] = {}


class Python(SphinxDirective):
    """Python code, what it prints, and what it draws."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """Run the code, and show it."""
        source = "\n".join(self.content)
        blocks: list[nodes.Node] = [nodes.literal_block(source, source, language="python")]
        if self.config.terminal_run:
            printed, figures = self._executed(source)
            if printed:
                classes = ["printed"] if "\n" in printed else ["printed", "sentence"]
                blocks.append(nodes.literal_block(printed, printed, language="none", classes=classes))
            blocks += figures
        for block in blocks:
            self.set_source_info(block)
        return blocks

    def _executed(self, source: str) -> tuple[str, list[nodes.Node]]:
        """What the code prints, and its figures."""
        namespace = NAMESPACES.setdefault(self.env.docname, {"__name__": "__main__"})
        folder = page_folder(self.env.app, self.env.docname)
        folder.mkdir(parents=True, exist_ok=True)
        printed = io.StringIO()
        try:
            with contextlib.chdir(folder), contextlib.redirect_stdout(printed):
                body = ast.parse(source).body
                last = body.pop() if isinstance(body[-1], ast.Expr) else None
                exec(compile(ast.Module(body, []), self.env.docname, "exec"), namespace)
                value = last and eval(compile(ast.Expression(last.value), self.env.docname, "eval"), namespace)
                if value is not None and not type(value).__module__.startswith(("matplotlib", "marmix.plotting")):
                    print(repr(value))
        except Exception:
            self.state_machine.reporter.warning(f"{source}\n{traceback.format_exc()}", line=self.lineno)
        return printed.getvalue().rstrip(), _figures()


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


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.setup_extension("terminal")
    app.add_directive("python", Python)
    app.connect("source-read", lambda app, page, source: NAMESPACES.pop(page, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
