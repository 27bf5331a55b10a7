"""Reports that the program wrote, opened in a browser: of the demonstration, and of a file of 100,000 rows."""

import pytest
from browsing import (
    browsing,
    check_contrast,
    check_dark,
    check_keyboard,
    check_narrow,
    check_print,
    check_quiet,
    check_slider,
    check_table,
    open_page,
)

from marmix.cli import main

pytestmark = pytest.mark.filterwarnings("ignore::marmix.BoundaryWarning")


@pytest.fixture(scope="module")
def browser():
    with browsing() as started:
        yield started


@pytest.fixture(scope="module")
def demo(browser, tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo") / "demo"
    assert main(["demo", "--out", str(folder), "--quiet"]) == 0
    return folder / "report.html"


@pytest.fixture(scope="module")
def large(browser, tmp_path_factory):
    """Three classes, 100,000 rows."""
    folder = tmp_path_factory.mktemp("large")
    rows = ["simulate", "--rows", "100000", "--features", "4", "--classes", "3", "--rate", "0.5"]
    assert main([*rows, "--out", str(folder / "rows.csv"), "--quiet"]) == 0
    fit = ["fit", str(folder / "rows.csv"), "--label", "label", "--model", "logistic", "--folds", "2"]
    assert main([*fit, "--out", str(folder / "out"), "--quiet"]) == 0
    return folder / "out" / "report.html"


@pytest.mark.parametrize("report", ["demo", pytest.param("large", marks=pytest.mark.long)])
def test_a_report_of_the_program_does_what_a_report_must(report, browser, request):
    path = request.getfixturevalue(report)
    assert path.stat().st_size < 3_000_000
    with open_page(browser, path) as opened:
        check_quiet(opened)
        check_slider(opened)
        check_table(opened)
        check_keyboard(opened)
        check_contrast(opened)
        check_dark(opened)
        check_narrow(opened)
        check_print(opened)
        check_quiet(opened)
        assert opened.page.locator("main *").count() < 20_000
