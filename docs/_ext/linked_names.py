"""Names of public objects in the text of Markdown pages are links to the reference.

`MARClassifierCV`, `marmix.evaluation.log_loss` and `MARClassifierCV.imputed_sets` in backticks lead to their pages, as they do in
docstrings. Other code stays as it is.
"""

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.nodes import make_refnode

NAME = re.compile(r"marmix(\.\w+)+|[A-Z]\w+(\.\w+)?")


class LinkedNames(SphinxPostTransform):
    """Turn inline code that is the name of a documented object into a link."""

    default_priority = 5

    def run(self, **kwargs: Any) -> None:
        """Replace the names of this page."""
        objects = self.env.get_domain("py").objects
        if self.env.doc2path(self.env.docname).suffix != ".md":
            return
        for literal in list(self.document.findall(nodes.literal)):
            text = literal.astext().removesuffix("()")
            if not NAME.fullmatch(text) or isinstance(literal.parent, nodes.reference | nodes.title):
                continue
            names = [text] if text in objects else [name for name in objects if name.endswith(f".{text}")]
            public = min(names, key=len, default=None)
            if public is None or not public.startswith("marmix"):
                continue
            entry = objects[public]
            link = make_refnode(
                self.app.builder, self.env.docname, entry.docname, entry.node_id, literal.deepcopy(), public
            )
            literal.replace_self(link)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the transform."""
    app.add_post_transform(LinkedNames)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
