"""How the site is built: `python -m sphinx -W -b html docs docs/_build/html`, without a network."""

import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

import matplotlib

import marmix

matplotlib.use("agg")
warnings.filterwarnings("ignore", category=marmix.BoundaryWarning)  # examples speak of notes where they matter

project = "marmix"
author = "The marmix developers"
copyright = author
version = release = marmix.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinx_gallery.gen_gallery",
    "executed",
]
exclude_patterns = ["_build", "_ext", "_templates", "examples"]
templates_path = ["_templates"]
default_role = "py:obj"
highlight_language = "none"
smartquotes = False  # quoted names are Python's

myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3

autodoc_typehints = "none"  # docstrings name the types
autosummary_generate = ["api/index.md"]
toc_object_entries_show_parents = "hide"
napoleon_google_docstring = False
napoleon_custom_sections = [("Attributes", "params_style")]  # several names may share an entry
napoleon_use_param = False
napoleon_use_rtype = False

sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "auto_examples",
    "within_subsection_order": "ExampleTitleSortKey",
    "only_warn_on_example_error": False,  # the build fails
    "backreferences_dir": "auto_examples/backreferences",  # for ``.. minigallery:: marmix.MARGaussianMixture``
    "doc_module": ("marmix",),
    "download_all_examples": False,
    "write_computation_times": False,
    "show_memory": False,
    "show_signature": False,
    "remove_config_comments": True,
    "ignore_repr_types": r"marmix\.plotting\..*|matplotlib\..*",
    "image_srcset": ["2x"],
    "thumbnail_size": (400, 280),
}

html_theme = "furo"
html_title = f"marmix {version}"
html_static_path = ["_static"]
html_extra_path = ["sample_report.html"]
html_css_files = ["marmix.css"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0072b2", "color-brand-content": "#0072b2"},
    "dark_css_variables": {"color-brand-primary": "#56b4e9", "color-brand-content": "#56b4e9"},
}


def leave_out(app, what, name, member, skip, options):
    """Leave out methods and properties that are not marmix's own: scikit-learn has its own pages."""
    code = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
    ours = (getattr(code, "__module__", None) or "").startswith("marmix")
    return None if ours and not name.startswith("set_") else True


def setup(app):
    """Register the choice of members."""
    app.connect("autodoc-skip-member", leave_out)
