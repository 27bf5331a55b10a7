"""Which members of a class its page of the reference shows."""

from typing import Any

from sphinx.application import Sphinx

# Classes whose other methods serve the fits.
SHOWN = {
    "Mechanism": {"from_link", "measure", "missing_proba", "profile", "terms"},
    "MissingnessLoss": {"forward", "mechanism", "missing_proba", "profile"},
    "MissingnessObjective": {"init_score", "lightgbm", "losses", "profile", "terms", "xgboost"},
}


def leave_out(app: Sphinx, what: str, name: str, member: Any, skip: bool, options: Any) -> bool | None:
    """Leave out all but methods and properties of marmix: its docstring lists fitted attributes, scikit-learn has its own pages."""
    code = member.fget if isinstance(member, property) else getattr(member, "func", member)
    code = getattr(code, "__func__", code)
    home, _, _ = getattr(code, "__qualname__", "").rpartition(".")
    ours = home and callable(code) and (getattr(code, "__module__", None) or "").startswith("marmix")
    shown = ours and name in SHOWN.get(home, {name}) and name != "get_params" and not name.startswith("set_")
    return None if shown else True


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the choice of members."""
    app.connect("autodoc-skip-member", leave_out)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
