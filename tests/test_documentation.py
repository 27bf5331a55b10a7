"""The site says all there is: every public name, command and option; its links lead somewhere, its commands are real."""

import ast
import importlib
import inspect
import os
import re
import shlex
import shutil
import subprocess
import sys
import zlib
from importlib.util import find_spec
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline

import marmix
from marmix import MARGaussianMixture
from marmix.cli import parser_of_all
from marmix.datasets import make_mar_mixture
from marmix.tables import Preparation

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
MODULES = ("marmix", "marmix.persistence", "marmix.datasets", "marmix.plotting", "marmix.evaluation", "marmix.io",
           "marmix.objectives", "marmix.tables",
           *["marmix.torch"] * bool(find_spec("torch")))  # fmt: skip
RESULTS = (  # of methods, functions and fits
    "audit.AuditResult", "audit.AuditedClassifier",
    "inference.bootstrap.Bootstrap", "inference.hypotheses.GoodnessOfFit",
    "inference.hypotheses.HypothesisTest", "inference.imputation.Imputations", "inference.imputation.Pooled",
    "inference.intervals.Boundary", "inference.intervals.Curve", "inference.intervals.ImputedLabels",
    "inference.intervals.Interval", "inference.profile.Profile", "inference.tables.Table",
)  # fmt: skip
WITHOUT_PAGE = {  # described in the overview
    "marmix.__version__",
    "marmix.persistence.load",  # marmix.load
    "marmix.persistence.save",  # marmix.save
}
CLASSES = (
    marmix.MARGaussianMixture,
    marmix.MARStudentMixture,
    marmix.MARLogisticRegression,
    marmix.MARKernelClassifier,
    marmix.MARBoostingClassifier,
    marmix.MARClassifierCV,
    marmix.Inference,
)
WRITTEN = [page for page in DOCS.rglob("*.md") if not {"_build", "auto_examples"} & set(page.parts)]


def public_names():
    """Every name that a module offers; where it has no list of them, what it defines."""
    for module in map(importlib.import_module, MODULES):
        for name in getattr(module, "__all__", None) or vars(module):
            own = hasattr(module, "__all__") or getattr(vars(module)[name], "__module__", "") == module.__name__
            if own and (name == "__version__" or not name.startswith("_")):
                yield f"{module.__name__}.{name}"


def public_methods():
    """Methods and properties of the estimators and of `Inference` that are marmix's own; not scikit-learn's, nor its requests.

    The docstring of a class lists its fitted attributes, whose names end in an underscore.
    """
    for cls in CLASSES:
        for name, member in inspect.getmembers(cls):
            home = next(base for base in cls.__mro__ if name in vars(base))
            if (
                home.__module__.startswith("marmix")
                and not name.startswith(("_", "set_"))
                and not name.endswith("_")
                and (callable(member) or isinstance(member, property))
            ):
                yield f"marmix.{cls.__name__}.{name}"


def commands(parser, prefix="marmix"):
    """Every command with the names of its arguments and options."""
    yield prefix, [o for a in parser._actions for o in a.option_strings if o not in ("-h", "--help")]
    for action in parser._actions:
        if isinstance(action.choices, dict) and action.dest == "command":
            for name, inner in action.choices.items():
                yield from commands(inner, f"{prefix} {name}")


def blocks(kind):
    """What stands in blocks of this kind, with the page."""
    for page in WRITTEN:
        for text in re.findall(rf"^```{kind}\n((?:(?!```).*\n)*)```", page.read_text(encoding="utf-8"), re.M):
            yield page.name, text


def pages_of_names():
    """Every public name that has a page of its own, with what it names."""
    for path in [*public_names(), *(f"marmix.{name}" for name in RESULTS)]:
        if path not in WITHOUT_PAGE:
            module, _, name = path.rpartition(".")
            yield path, getattr(importlib.import_module(module), name)


def section(obj, title):
    """A section of a docstring."""
    match = re.search(rf"^{title}\n-+\n(.*?)(?=^[A-Z][A-Za-z ]+\n---|\Z)", inspect.getdoc(obj), re.S | re.M)
    return match[1] if match else ""


PAGES = dict(pages_of_names())
NO_EXCEPTIONS = [path for path, obj in PAGES.items() if not (inspect.isclass(obj) and issubclass(obj, Exception))]


@pytest.mark.parametrize("path", NO_EXCEPTIONS)
def test_every_public_name_documents_its_parameters_and_has_an_example_and_a_see_also(path):
    obj = PAGES[path]
    documented = [cls for cls in getattr(obj, "__mro__", [obj]) if cls.__module__.startswith("marmix")]
    listed = "".join(section(one, title) for one in documented for title in ("Parameters", "Attributes"))
    entries = [re.split(r" :(?: |$)", line)[0] for line in listed.splitlines() if re.match(r"[\w*]", line)]
    names = {name.strip("* ") for entry in entries for name in entry.split(",")}
    parameters = {name for name in inspect.signature(obj).parameters if not name.startswith("_")}
    assert parameters <= names
    assert ">>> " in section(obj, "Examples")
    assert section(obj, "See Also")


@pytest.mark.parametrize("path", PAGES)
def test_formulas_and_code_in_docstrings_are_marked(path):
    lines = inspect.getdoc(PAGES[path]).splitlines()
    for before, blank, line in zip(lines, lines[1:], lines[2:], strict=False):
        if not blank and re.match(r"    +\S", line) and not before.startswith(" "):
            assert re.search(r"^\.\. |::$", before), f"{before!r} is not followed by `.. math::` or `::`"


def test_every_command_of_the_program_is_used_on_a_page():
    used = "".join(text for kind in (r"\{terminal\}", "console") for _, text in blocks(kind))
    used += "".join(page.read_text(encoding="utf-8") for page in WRITTEN if page.parent.name in ("guide", "study"))
    for name, _ in commands(parser_of_all()):
        assert name in used


def test_the_commands_on_the_pages_are_ones_that_the_program_takes(capsys):
    found = [
        command
        for kind in (r"\{terminal\}", "console")
        for _, text in blocks(kind)
        for command in re.findall(r"\bmarmix [^|>)\n]+", text.replace("\\\n", " "))
        if not command.startswith("marmix-")
    ]
    assert len(found) > 10
    for command in found:
        try:
            assert callable(parser_of_all().parse_args(shlex.split(command)[1:]).run)
        except SystemExit:
            pytest.fail(f"{command}: {capsys.readouterr().err}")


def test_what_the_pages_and_examples_import_from_marmix_is_there():
    sources = {f"{page}, {i}": text for i, (page, text) in enumerate(blocks(r"(?:python|\{python\})"))}
    sources |= {script.name: script.read_text(encoding="utf-8") for script in (DOCS / "examples").rglob("*.py")}
    assert len(sources) > 15
    for where, text in sources.items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and node.module.startswith("marmix"):
                module = importlib.import_module(node.module)
                assert all(hasattr(module, name.name) for name in node.names), where


QUICK = ("choice", "features", "imputation", "inference", "mechanism", "next_rows", "saving", "votes")
SLOW = ("boosting", "estimators", "evaluation", "networks", "pipelines", "report", "scale", "sensitivity")


@pytest.mark.filterwarnings("ignore::marmix.BoundaryWarning")
@pytest.mark.parametrize("page", [*QUICK, *(pytest.param(page, marks=pytest.mark.long) for page in SLOW)])
def test_the_python_of_the_guide_runs(page, tmp_path, monkeypatch):
    """With rows and a model where commands of the page would have made them, and without a GPU or a cluster."""
    if page == "networks":
        pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    rows = make_mar_mixture(100, at_least=5, random_state=0)
    table = pd.DataFrame(rows.data, columns=rows.feature_names)
    table.to_csv("rows.csv", index=False)
    model = make_pipeline(Preparation(), MARGaussianMixture()).fit(table, rows.target)
    marmix.save(model, Path("results").mkdir() or "results/model.marmix")
    names, run_by_the_site = {}, set(blocks(r"\{python\}"))
    for block in blocks(r"(?:python|\{python\})"):
        needs = re.findall(r"^(?:import|from) (skl2onnx|lightgbm|xgboost)", block[1], re.M)
        if block[0] == f"{page}.md" and (needs or block in run_by_the_site) and all(map(find_spec, needs)):
            exec(block[1], names)
    plt.close("all")
    assert len(names) > 3


def test_every_page_of_the_guide_with_python_is_run_by_a_test_or_needs_its_commands():
    pages = {page for page, _ in blocks(r"\{python\}")}
    with_commands = {page for page, _ in blocks(r"\{terminal\}")}
    assert pages - with_commands == {f"{page}.md" for page in (*QUICK, *SLOW)} - with_commands


def test_every_link_leads_to_a_page_or_file():
    scripts = (DOCS / "examples").rglob("plot_*.py")
    examples = {script.relative_to(DOCS / "examples").with_suffix(".rst").as_posix() for script in scripts}
    for page in WRITTEN:
        for target in re.findall(
            r"\]\(([^)#]+)", re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
        ):
            path = (page.parent / target).resolve()
            _, gallery, example = path.as_posix().partition("/auto_examples/")
            there = example in examples | {"index.rst"} if gallery else path.exists()
            assert there or target.startswith("https://"), f"{page.name}: {target}"


def test_every_page_is_in_the_table_of_contents_of_its_folder():
    for index in (DOCS / "index.md", *(DOCS / folder / "index.md" for folder in ("guide", "maths", "api"))):
        trees = re.findall(r"^```\{toctree\}\n(.*?)^```", index.read_text(encoding="utf-8"), re.S | re.M)
        entries = {line.split("<")[-1].rstrip(">") for tree in trees for line in tree.splitlines()}
        pages = {page.stem for end in ("md", "rst") for page in index.parent.glob(f"*.{end}")} - {"index"}
        assert pages <= entries, index


@pytest.mark.skipif(shutil.which("sh") is None, reason="commands on pages are run by sh")
def test_the_code_of_a_page_is_run_in_one_namespace_and_in_the_folder_of_its_commands(tmp_path):
    pytest.importorskip("myst_parser")
    (tmp_path / "conf.py").write_text(
        f'import sys\nsys.path.insert(0, r"{DOCS / "_ext"}")\nextensions = ["myst_parser", "executed"]\n',
        encoding="utf-8",
    )
    blocks = (
        ("python", 'open("file.txt", "w").write("written")\nx = 6'),
        ("terminal", "cat file.txt"),
        ("python", 'print("seen")\n7 * x'),
        ("python", "1 / 0"),
    )
    page = "# Page\n\n" + "\n\n".join(f"```{{{kind}}}\n{code}\n```" for kind, code in blocks)
    (tmp_path / "index.md").write_text(page, encoding="utf-8")

    def build(*options):
        command = [sys.executable, "-m", "sphinx", "-q", "-E", "-b", "text", *options, ".", "out"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, encoding="utf-8", check=True)
        return (tmp_path / "out" / "index.txt").read_text(encoding="utf-8"), done.stderr

    text, warned = build()
    assert "$ cat file.txt\n   written" in text
    assert "seen\n   42" in text
    assert "index.md:" in warned
    assert "ZeroDivisionError" in warned
    text, warned = build("-D", "terminal_run=0")
    assert "7 * x" in text
    assert "42" not in text
    assert not warned


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built from a copy without running examples and commands, and without the theme, which takes half of the time."""
    missing = [name for name in ("sphinx", "furo", "myst_parser", "sphinx_gallery") if find_spec(name) is None]
    if missing:
        pytest.skip(f"needs the extra docs: no {', '.join(missing)}")
    folder = tmp_path_factory.mktemp("site")
    left_out = shutil.ignore_patterns(
        "_build", "auto_examples", "generated", "*.sqlite", "*.svg", "index.html", "__pycache__"
    )
    shutil.copytree(DOCS, folder / "docs", ignore=left_out)
    for name in ("CHANGELOG.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md"):
        shutil.copy(ROOT / name, folder)
    with open(folder / "docs" / "conf.py", "a", encoding="utf-8") as settings:
        settings.write('\nhtml_theme = "basic"\nhtml_theme_options = {}\n')
    command = ("-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "-D", "plot_gallery=0", "-D", "terminal_run=0")
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, *command, "docs", "html"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stderr
    return folder / "html"


def test_the_site_is_built_without_warnings_and_has_every_public_name_command_and_option(site):
    lines = zlib.decompress((site / "objects.inv").read_bytes().split(b"\n", 4)[4]).decode().splitlines()
    entries = {tuple(line.split(" ")[:2]) if ":cmdoption" not in line else line.split(" std:")[0] for line in lines}
    objects = {entry[0] for entry in entries if isinstance(entry, tuple)}
    assert set(public_names()) <= objects
    assert set(public_methods()) - objects <= {f"marmix.{cls.__name__}.get_params" for cls in CLASSES}
    for command, options in commands(parser_of_all()):
        for option in options:
            assert f"{command.replace(' ', '-')}.{option}" in entries


def test_every_public_name_has_a_page_of_its_own_whose_see_also_are_links(site):
    names = {"marmix.evaluation.flexible": "marmix.evaluation.flexible-function"}
    for path, obj in PAGES.items():
        text = (site / "api" / "generated" / f"{names.get(path, path)}.html").read_text(encoding="utf-8")
        assert f'id="{path}"' in text
        assert text.count('class="formula"') >= inspect.getdoc(obj).count(".. math::"), path
        if path in NO_EXCEPTIONS:
            assert '<p class="rubric">Examples</p>' in text, path
            terms = re.findall(r"<dt>(.*?)</dt>", text.split('<div class="admonition seealso">')[1].split("</div>")[0])
            assert terms, path
            assert not [term for term in terms if "<a " not in term and ">sklearn." not in term], path


def test_every_formula_of_the_site_is_drawn(site):
    formulas = sum(page.read_text(encoding="utf-8").count("<math") for page in site.rglob("*.html"))
    assert formulas > 100
    for page in (site / "maths").glob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert "$" not in re.sub(r"<script.*?</script>|<head>.*?</head>", "", text, flags=re.S), page.name
        assert not re.search(r"<munderover>\s*<mi>", text), f"{page.name}: the index of an accented letter is below it"


def test_the_site_asks_the_network_for_nothing(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > 50
    for page in pages:
        loaded = re.findall(
            r"<(?:script|img|iframe|source)[^>]* src=\"([^\"]+)|<link[^>]* href=\"([^\"]+)",
            page.read_text(encoding="utf-8"),
        )
        assert not [one for pair in loaded for one in pair if re.match(r"(https?:)?//", one)], page.name
