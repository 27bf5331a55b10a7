"""What the documents show is what their scripts print."""

import doctest
import importlib
import io
import re
import runpy
import shutil
import warnings
from contextlib import redirect_stdout
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest

import marmix

ROOT = Path(__file__).parent.parent


def printed(script):
    """What a script prints, run in this process."""
    with redirect_stdout(io.StringIO()) as out, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runpy.run_path(str(script), run_name="__main__")
    return out.getvalue()


def test_the_example_of_one_sided_missingness_prints_what_its_page_shows():
    text = printed(ROOT / "docs" / "one_sided.py")
    shown = (ROOT / "docs" / "one_sided.md").read_text(encoding="utf-8").split("```\n")[1]
    numbers = [[float(x) for x in re.findall(r"-?\d+\.\d+", one.split("\n\n", 2)[1])] for one in (text, shown)]
    assert len(numbers[0]) == 15
    np.testing.assert_allclose(*numbers, atol=0.011)
    losses = [float(x) for x in re.findall(r"log-loss (\d\.\d+)", text)]
    assert losses[1] > losses[0] + 0.05  # the symmetric mechanism misleads
    p_values = [float(x) for x in re.findall(r"no difference: (\S+)", text)]
    assert p_values[0] < 1e-3 < 0.05 < p_values[1]  # and the check shows it


def test_the_example_of_inference_prints_what_its_page_shows(tmp_path):
    script = tmp_path / "inference.py"  # it draws its figure beside itself
    shutil.copy(ROOT / "docs" / "inference.py", script)
    shown = (ROOT / "docs" / "guide" / "inference.md").read_text(encoding="utf-8")
    shown = re.search(r"^```\nParameters of the fit\n.*?^```", shown, re.M | re.S)[0]
    numbers = [[float(x) for x in re.findall(r"-?\d+\.\d+", text)] for text in (printed(script), shown)]
    assert len(numbers[0]) > 150
    np.testing.assert_allclose(*numbers, rtol=0.02, atol=0.011)
    assert script.with_suffix(".png").stat().st_size > 10_000


SOURCES = [path for path in (ROOT / "src").rglob("*.py") if ">>> " in path.read_text(encoding="utf-8")]
WITH_EXAMPLES = sorted(".".join(path.relative_to(ROOT / "src").with_suffix("").parts) for path in SOURCES)
OPTIONAL = {"marmix.objectives": "lightgbm", "marmix.torch": "torch"}  # packages that examples of a module need


@pytest.mark.filterwarnings("ignore::marmix.BoundaryWarning")
@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples_in_docstrings_print_what_they_show(name):
    if name in OPTIONAL:
        pytest.importorskip(OPTIONAL[name])
    matplotlib.use("agg")
    figures = set(plt.get_fignums())
    results = doctest.testmod(importlib.import_module(name.removesuffix(".__init__")))
    assert results.attempted > 0
    assert results.failed == 0
    assert set(plt.get_fignums()) <= figures  # examples close their own


def test_the_evidence_quotes_the_paper_s_page():
    section = (
        (ROOT / "docs" / "evidence.md").read_text(encoding="utf-8").split("## The paper, checked")[1].split("\n## ")[0]
    )
    quoted = re.findall(r"^\| (.+?) \| \*\*(.+?)\*\* \|$", section, re.M)
    page = (ROOT / "docs" / "study" / "index.md").read_text(encoding="utf-8")
    assert len(quoted) == 6
    for claim, verdict in quoted:
        assert f"| {claim} | **{verdict}** |" in page
    command = re.search(r"^`(python -m paper .+)`$", page, re.M).group(1)
    assert command in section


def test_every_link_of_the_paper_s_pages_leads_to_a_file():
    folder = ROOT / "docs" / "study"
    for page in folder.glob("*.md"):
        for target in re.findall(r"\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
            assert (folder / target).is_file(), f"{page.name}: {target}"


def test_the_sample_report_is_of_this_version():
    page = (ROOT / "docs" / "sample_report.html").read_text(encoding="utf-8")
    assert f"marmix {marmix.__version__}" in page
