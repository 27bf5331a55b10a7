"""The report in a browser: quiet, usable by keys, in the dark, on a phone and on paper; hostile text stays text."""

from dataclasses import replace
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
    check_slider,
    check_table,
    downloaded,
    open_page,
)
from reports import HOSTILE, four_classes, many_classes, two_classes, with_texts

from marmix.app.findings import RowTable
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


def test_the_slider_says_what_the_contents_hold(browser, report):
    with open_page(browser, report[1]) as opened:
        check_slider(opened, report[0].thresholds)
        check_quiet(opened)


def test_each_class_has_its_own_thresholds(browser, tmp_path):
    contents = four_classes()
    with open_page(browser, written(contents, tmp_path / "report.html")) as opened:
        check_slider(opened, contents.thresholds)
        check_quiet(opened)


def test_the_table_sorts_filters_searches_and_downloads(browser, report):
    with open_page(browser, report[1]) as opened:
        check_table(opened)
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
        page = opened.page
        page.locator("#row-table th button").first.focus()
        for way in ("ascending", "descending"):
            page.keyboard.press("Enter")
            assert page.locator("#row-table th").first.get_attribute("aria-sort") == way
        check_quiet(opened)


def test_hostile_text_is_shown_as_it_is_and_does_nothing(browser, tmp_path):
    path = written(with_texts(HOSTILE), tmp_path / "report.html")
    with open_page(browser, path) as opened:
        page = opened.page
        assert page.evaluate("window.broken") is None
        seen = page.evaluate("document.body.textContent")
        named = page.evaluate("[...document.querySelectorAll('#positive option')].map((option) => option.textContent)")
        for text, option in zip(HOSTILE, named, strict=True):
            if len(text) <= 60 and text.isprintable():
                assert text in seen
                assert option == text
        assert "x" * 59 + "…" in named
        assert "x" * 1201 not in page.evaluate("document.querySelector('#rows').textContent")
        assert page.locator("img, svg").count() == 4  # three figures and the curves
        check_quiet(opened)


def test_no_cell_of_the_download_is_a_formula_and_numbers_stay_numbers(browser, tmp_path):
    numbers = [None, -7, -0.25, 10**17 + 1]
    cells = [*HOSTILE, "-1.5e-3", "+4", "\t=1", " =1", "\uff1d1", "-", "- 2", 'it\'s, "so"', *numbers]
    table = RowTable(["=id", "-x"], [False, True], [[cell, 1.0 / 3.0] for cell in cells], of=len(cells))
    path = written(replace(two_classes(), next_rows=table), tmp_path / "report.html")
    with open_page(browser, path) as opened:
        header, *lines = downloaded(opened.page)
        check_quiet(opened)
    assert header == ["'=id", "'-x"]
    for cell, (text, third) in zip(cells, lines, strict=True):
        assert float(third) == 1.0 / 3.0
        if cell is None:
            assert text == ""
        elif not isinstance(cell, str) or cell in ("-1.5e-3", "+4", "-0.5"):
            assert text == str(cell)
        elif cell.strip()[0] in "=+-@\uff1d":
            assert text == f"'{cell}"
        else:
            assert text == cell.encode("utf-16", "surrogatepass").decode("utf-16")


def test_without_script_the_first_rows_and_a_few_thresholds_are_there(browser, report):
    with open_page(browser, report[1], java_script_enabled=False) as opened:
        page = opened.page
        assert page.locator(".static table").is_visible()
        assert not page.locator("#slider, #tools, #copy").filter(visible=True).count()
        assert page.locator("#row-table tbody tr").count() == min(25, len(report[0].next_rows.rows))
        assert opened.problems == []


def test_the_rows_are_the_same_with_and_without_script(browser, report):
    texts = []
    for scripted in (True, False):
        with open_page(browser, report[1], java_script_enabled=scripted) as opened:
            texts.append(opened.page.locator("#row-table td").all_text_contents())
    assert texts[0] == texts[1]


def test_of_a_table_of_500_rows_and_40_columns_only_the_first_are_drawn_until_more_are_asked_for(browser, tmp_path):
    rows = [[f"{i * 7919 % 500} of {j}" for j in range(40)] for i in range(500)]
    table = RowTable([f"column {j}" for j in range(40)], [False] * 40, rows, of=100_000)
    path = written(replace(two_classes(), next_rows=table), tmp_path / "report.html")
    with open_page(browser, path) as opened:
        page = opened.page
        page.locator("#row-table th button").first.click()
        first = page.locator("#row-table tbody td:first-child").all_text_contents()
        assert first == [f"{i} of 0" for i in range(25)]
        page.locator("#more").click()
        assert 25 < page.locator("#row-table tbody tr").count() <= 100
        check_quiet(opened)


def test_the_command_is_copied(browser, report):
    with open_page(browser, report[1], permissions=["clipboard-read", "clipboard-write"]) as opened:
        page = opened.page
        page.locator("#copy").click()
        page.get_by_role("button", name="Copied").wait_for()
        assert page.evaluate("navigator.clipboard.readText()") == page.locator("#command").text_content()
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
        check_slider(opened)
        check_table(opened, columns=(0, 1))
        check_keyboard(opened)
        check_contrast(opened)
        check_dark(opened)
        check_narrow(opened)
        check_print(opened)
        check_quiet(opened)
        assert opened.page.locator("main *").count() < 20_000
