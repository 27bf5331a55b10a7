"""The documents are true: their code runs, their commands and links exist, the site builds without warnings."""

import doctest
import importlib
import inspect
import io
import re
import runpy
import shlex
import shutil
from contextlib import redirect_stderr, redirect_stdout
from importlib.util import find_spec
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import pytest
from quick import small_fits, two, undrawn_figures

import marmix
from marmix.cli import main, parser_of_all
from marmix.core.links import LINKS
from marmix.core.measures import MEASURES

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
TOP = sorted(ROOT.glob("*.md"))
RUN = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", DOCS / "index.md", DOCS / "quickstart.md", DOCS / "comparison.md"]
RUN += sorted((DOCS / "guide").glob("*.md"))
SLOW = ("comparison", "models", "quickstart")
MODULES = ("marmix", "marmix.persistence", "marmix.datasets", "marmix.plotting", "marmix.evaluation", "marmix.io",
           "marmix.objectives")  # fmt: skip
PUBLIC = [f"{module}.{name}" for module in MODULES for name in getattr(importlib.import_module(module), "__all__", ())]
# packages that examples of a module need
OPTIONAL = {
    "marmix.objectives": "lightgbm",
    "marmix.skore": "skore",
    "marmix.torch": "torch",
}
WITH_EXAMPLES = sorted(
    ".".join(path.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__")
    for path in (ROOT / "src").rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
)

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples_in_docstrings_print_what_they_show(name):
    if name in OPTIONAL:
        pytest.importorskip(OPTIONAL[name])
    matplotlib.use("agg")
    results = doctest.testmod(importlib.import_module(name))
    plt.close("all")
    assert results.attempted > 0
    assert results.failed == 0


def blocks(page):
    """Python and commands of a page, with the exit code that a command should have."""
    text = page.read_text(encoding="utf-8")
    for kind, body in re.findall(r"^```(\{python\}|\{terminal\}|python)\n(.*?)^```", text, re.M | re.S):
        if kind == "{terminal}":
            code = int((re.search(r":exit: (\d)", body) or [0, 0])[1])
            body = re.sub(r"^:.*\n", "", body, flags=re.M).replace("\\\n", " ")
            yield from ((line, code) for line in body.splitlines() if line)
        elif kind == "{python}" or page.parent != DOCS / "guide":
            yield body, None


@pytest.fixture
def small(monkeypatch):
    """Fits are small, figures are not drawn, and records that a page adds are gone after it."""
    before = dict(LINKS), dict(MEASURES)
    small_fits(monkeypatch, tiny=True)
    undrawn_figures(monkeypatch)
    monkeypatch.setattr("marmix.selection.comparison.default_candidates", two)
    yield
    for records, old in zip((LINKS, MEASURES), before, strict=True):
        for name in records.keys() - old.keys():
            del records[name]
    plt.close("all")


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=[pytest.mark.long] if page.stem in SLOW else [], id=page.stem) for page in RUN],
)
def test_the_code_and_the_commands_of_a_page_run(page, tmp_path, monkeypatch, small):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    for body, code in blocks(page):
        if code is not None:
            with redirect_stdout(io.TextIOWrapper(io.BytesIO())), redirect_stderr(io.StringIO()) as err:
                assert main(shlex.split(body)[1:]) == code, f"{body}\n{err.getvalue()}"
        elif all(map(find_spec, re.findall(r"^(?:import|from) (\w+)", body, re.M))):
            exec(compile(body, page.name, "exec"), names)


def test_the_commands_of_documents_and_help_pages_are_ones_that_the_program_takes():
    parser = parser_of_all()
    lines = [command for inner in (parser, *parser.commands.values()) for _, command in inner.examples]
    for page in (*TOP, *DOCS.rglob("*.md")):
        for body in re.findall(r"^```console\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S):
            lines += [line[2:] for line in body.splitlines() if line.startswith("$ marmix ")]
    assert len(lines) > 10
    for line in lines:
        assert parser_of_all().parse_args(shlex.split(re.search(r"marmix [^>)]+", line)[0])[1:]).run, line


@pytest.mark.parametrize("page", TOP, ids=lambda page: page.stem)
def test_links_of_the_documents_lead_to_files(page):
    for target in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8")):
        assert target.startswith("https://") or (ROOT / target).exists(), target


@pytest.mark.parametrize("path", PUBLIC)
def test_every_public_name_is_in_the_reference_with_its_parameters(path):
    module, _, name = path.rpartition(".")
    obj = getattr(importlib.import_module(module), name)
    assert re.search(rf"\b{name}\b", (DOCS / "api" / "index.md").read_text(encoding="utf-8"))
    if callable(obj) and not (inspect.isclass(obj) and issubclass(obj, Exception)):
        documented = "\n".join(inspect.getdoc(cls) or "" for cls in getattr(obj, "__mro__", [obj]))
        for parameter in inspect.signature(obj).parameters:
            assert parameter.startswith("_") or re.search(
                rf"^[\w*, ]*\b{parameter}\b[\w*, ]*( :|$)", documented, re.M
            ), parameter


def test_labels_lost_on_one_side_mislead_a_symmetric_mechanism_and_the_check_shows_it(capsys):
    runpy.run_path(str(DOCS / "one_sided.py"), run_name="__main__")
    text = capsys.readouterr().out
    losses = re.findall(r"log-loss (\d\.\d+)", text)
    ignored, symmetric, _ = map(float, losses)
    assert symmetric > ignored + 0.05
    misleading, one_sided = (float(p) for p in re.findall(r"no difference: (\S+)", text))
    assert misleading < 1e-3 < 0.05 < one_sided
    evidence = (DOCS / "evidence.md").read_text(encoding="utf-8")
    assert all(f"| {loss} |" in evidence for loss in losses)


def test_the_sample_report_is_of_this_version():
    assert f"marmix {marmix.__version__}" in (DOCS / "sample_report.html").read_text(encoding="utf-8")


def test_the_site_is_built_without_warnings(tmp_path, monkeypatch, capsys):
    """Without running its examples and commands."""
    for name in ("sphinx", "furo", "myst_parser", "sphinx_gallery"):
        pytest.importorskip(name)
    from sphinx.cmd.build import build_main

    shutil.copytree(DOCS, tmp_path / "docs", ignore=shutil.ignore_patterns("_build", "auto_examples", "generated"))
    for page in TOP:
        shutil.copy(page, tmp_path)
    monkeypatch.chdir(tmp_path)
    options = ("-W", "--keep-going", "-q", "-b", "dummy", "-D", "plot_gallery=0", "-D", "run_pages=0")
    assert build_main([*options, "docs", "out"]) == 0, capsys.readouterr().err
