"""The pages of the reference: which members a class shows, and names as links."""

import re
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

# Classes whose other methods serve the fits.
SHOWN = {
    "Mechanism": {"from_link", "measure", "missing_proba", "profile", "terms"},
    "MissingnessLoss": {"forward", "mechanism", "missing_proba", "profile"},
    "MissingnessObjective": {"init_score", "lightgbm", "losses", "profile", "terms", "xgboost"},
}


def leave_out(app: Sphinx, what: str, name: str, member: Any, skip: bool, options: Any) -> bool | None:
    """Leave out all but methods and properties of marmix: fitted attributes are listed, scikit-learn has its own pages."""
    code = member.fget if isinstance(member, property) else getattr(member, "func", member)
    code = getattr(code, "__func__", code)
    home, _, _ = getattr(code, "__qualname__", "").rpartition(".")
    ours = home and callable(code) and (getattr(code, "__module__", None) or "").startswith("marmix")
    shown = ours and name in SHOWN.get(home, {name}) and name not in ("get_params", "get_metadata_routing")
    return None if shown and not name.startswith("set_") and not name.endswith("_") else True


def link_types(app: Sphinx, what: str, path: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Mark classes of the overview in "name : type", and where returned, as code, which makes links of them."""
    listed = re.findall(
        r"^   ~?(?:\w+\.)*([A-Z]\w+)$", Path(app.srcdir, "api", "index.md").read_text(encoding="utf-8"), re.M
    )
    classes = re.compile(rf"(?<![\w`.])(?:{'|'.join(listed)})(?![\w`.])")
    for at, line in enumerate(lines):
        name, colon, kind = line.partition(" : ")
        if colon and re.match(r"[\w*]", name):
            lines[at] = name + colon + classes.sub(r"`\g<0>`", kind)
        elif lines[max(at - 2, 0) : at] == ["Returns", "-------"]:
            lines[at] = classes.sub(r"`\g<0>`", line)


def split_see_also(app: Sphinx, what: str, path: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Give each of several names before a colon a line, as napoleon reads one name a line."""
    if "See Also" not in lines:
        return
    start = lines.index("See Also") + 2
    end = next((at for at in range(start, len(lines)) if not lines[at]), len(lines))
    entries = [line.partition(" : ") for line in lines[start:end]]
    lines[start:end] = [f"{name}{colon}{text}" for names, colon, text in entries for name in names.split(", ")]


def find_class(app: Sphinx, env: BuildEnvironment, node: pending_xref, contents: nodes.Node) -> nodes.Element | None:
    """Link a class that is named without its module."""
    target = node.get("reftarget", "")
    if node.get("refdomain") != "py" or not target[:1].isupper():
        return None
    objects = env.domains.python_domain.objects
    paths = [path for path, entry in objects.items() if path.endswith(f".{target}") and not entry.aliased]
    if len(paths) != 1:
        return None
    return env.domains.python_domain.resolve_xref(
        env, node["refdoc"], app.builder, node["reftype"], paths[0], node, contents
    )


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the choice of members, and the links before napoleon reads docstrings."""
    app.connect("autodoc-skip-member", leave_out)
    app.connect("autodoc-process-docstring", link_types, priority=400)
    app.connect("autodoc-process-docstring", split_see_also, priority=400)
    app.connect("missing-reference", find_class)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
