"""The report in a browser: quiet, usable by keys, in the dark, on a phone and on paper; hostile text stays text."""

from types import SimpleNamespace

import pytest
from browsing import (
    browsing,
    check_contrast,
    check_dark,
    check_keyboard,
    check_narrow,
    check_print,
    check_quiet,
    open_page,
)
from reports import HOSTILE, many_classes, two_classes, with_texts

from marmix.app.page import report_html
from marmix.cli import main
from marmix.datasets import make_mar_mixture

REPORTS = {"two classes": two_classes, "hostile texts": lambda: with_texts(HOSTILE)}
ROUTINE = ["two classes", pytest.param("hostile texts", marks=pytest.mark.long)]


@pytest.fixture(scope="module")
def browser():
    with browsing() as started:
        yield started


@pytest.fixture(scope="module", params=ROUTINE)
def report(request, tmp_path_factory):
    contents = REPORTS[request.param]()
    return contents, written(contents, tmp_path_factory.mktemp("report") / "report.html")


def written(contents, path):
    path.write_text(report_html(contents), encoding="utf-8")
    return path


def test_a_report_loads_without_an_error_or_a_request(browser, report):
    with open_page(browser, report[1]) as opened:
        check_quiet(opened)


def test_a_report_is_readable_in_the_dark_on_a_phone_and_on_paper(browser, report):
    with open_page(browser, report[1]) as opened:
        check_dark(opened)
        check_narrow(opened)
        check_print(opened)
        check_quiet(opened)


@pytest.mark.parametrize("n", [30, *(pytest.param(n, marks=pytest.mark.long) for n in (3, 12))])
def test_a_report_on_many_classes_with_long_names_fits_on_a_phone_and_on_ten_sheets(n, browser, tmp_path):
    contents = many_classes(n, "class {}" if n == 12 else "a rather long name of class number {}")
    with open_page(browser, written(contents, tmp_path / "report.html")) as opened:
        check_narrow(opened)
        check_print(opened)
        check_quiet(opened)


def test_everything_can_be_reached_and_used_by_keys(browser, report):
    with open_page(browser, report[1]) as opened:
        check_keyboard(opened)
        check_quiet(opened)


def test_hostile_text_is_shown_as_it_is_and_does_nothing(browser, tmp_path):
    path = written(with_texts(HOSTILE), tmp_path / "report.html")
    with open_page(browser, path) as opened:
        page = opened.page
        assert page.evaluate("window.broken") is None
        seen = page.evaluate("document.body.textContent")
        named = page.locator("#classes tbody th").all_text_contents()
        for text in HOSTILE:
            if len(text) <= 60 and text.isprintable():
                assert text in seen
        assert "x" * 59 + "…" in named
        assert page.locator("img, svg").count() == 3  # a figure and two ranges
        check_quiet(opened)


@pytest.fixture
def many_rows(tmp_path):
    folder = tmp_path
    options = {"n_features": 4, "n_classes": 3, "rate": 0.5, "random_state": 0, "as_frame": True}
    make_mar_mixture(100_000, **options).frame.to_csv(folder / "rows.csv", index=False)
    fit = ["fit", str(folder / "rows.csv"), "--label", "target", "--model", "logistic"]
    assert main([*fit, "--out", str(folder / "out"), "--quiet"]) == 0
    return SimpleNamespace(folder=folder / "out")


@pytest.mark.filterwarnings("ignore::marmix.BoundaryWarning")
@pytest.mark.parametrize("run", ["demonstration", pytest.param("many_rows", marks=pytest.mark.long)])
def test_a_report_that_the_program_wrote_does_what_a_report_must(run, browser, request):
    path = request.getfixturevalue(run).folder / "report.html"
    assert path.stat().st_size < 3_000_000
    with open_page(browser, path) as opened:
        check_quiet(opened)
        check_keyboard(opened)
        check_contrast(opened)
        check_dark(opened)
        check_narrow(opened)
        check_print(opened)
        check_quiet(opened)
        assert opened.page.locator("main *").count() < 20_000
