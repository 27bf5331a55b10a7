"""The page on which the rows of an audit are labelled, in Chromium, by keys alone."""

import csv
import json

import numpy as np
import pytest
from browsing import CONTRASTS, browsing, open_page

from marmix.app.audit import KEYS, LABEL, NOTE, labelling_page

ROWS = [
    [f"note {i} <b>bold</b>", f"{i / 3:.2f}", "</script><script>alert(1)</script>" if i == 1 else ""]
    for i in range(300)
]
COLUMNS = [("what was said", "text"), ("size (cm)", "feature"), ("site", "feature")]
CLASSES = ["benign", 'odd, "one"', "malignant"]
WIDTHS = np.linspace(0.3, 0.05, 300).tolist()


@pytest.fixture(scope="module")
def browser():
    with browsing() as one:
        yield one


@pytest.fixture
def path(tmp_path):
    ids = ("id, of the row", [f"a{i}" for i in range(len(ROWS))])
    page = labelling_page("plan 1", ids, CLASSES, COLUMNS, ROWS, widths=WIDTHS, title="Twelve <i>tumours</i>")
    (tmp_path / "audit.html").write_text(page, encoding="utf-8")
    return tmp_path / "audit.html"


NAME = """(() => {
  const one = document.activeElement;
  return (one.ariaLabel || one.textContent || one.labels[0].textContent).trim();
})()"""


SLOWLY = "{ let now = Date.now(); Date.now = () => (now += 1000); }"  # a second passes between any two answers


def press(page, *keys):
    page.evaluate(SLOWLY)
    for key in keys:
        page.keyboard.press(key)


def title(page):
    return page.locator("#title").text_content()


def downloaded(page):
    with page.expect_download() as waiting:
        page.locator("#download").focus()
        press(page, "Enter")
    assert waiting.value.suggested_filename == "audit-labels.csv"
    with waiting.value.path().open(encoding="utf-8-sig", newline="") as file:
        return list(csv.reader(file, strict=True))


def test_from_the_first_key_to_the_download(browser, path):
    with open_page(browser, path) as opened:
        page = opened.page
        assert title(page) == "Row 1 of 300"
        assert page.locator("#shown p").text_content() == ROWS[0][0]
        assert page.locator("dd").all_text_contents() == ["0.00", "\u2013"]
        assert page.get_by_text("Look each row up").is_visible()
        press(page, "1", "3")
        assert f"{100 * WIDTHS[1]:.0f}\u00a0%" in page.locator("#width").text_content()
        press(page, "0", "2", "u", "3")  # the fourth is undone and answered again
        assert title(page) == "Row 5 of 300"
        assert page.locator("#said").text_content() == "malignant. Row 5 of 300"  # read aloud
        assert page.locator("#count").text_content() == "4 of 300 answered"
        assert "malignant" in page.locator("#undo").text_content()
        assert page.locator("#width").text_content() == ""  # nobody could tell a row, which is no label
        press(page, "n", *"not 1, sure", "Enter", "2")  # keys are letters in the note
        press(page, "ArrowLeft", "ArrowLeft", "1", "ArrowRight", "x")  # another answer; no key
        assert title(page) == "Row 7 of 300"
        page = page.context.new_page()  # nothing is lost
        page.goto(path.as_uri())
        assert title(page) == "Row 6 of 300"
        expected = [
            ["id, of the row", LABEL, NOTE],
            ["a0", CLASSES[0], ""],
            ["a1", CLASSES[2], ""],
            ["a2", "?", ""],
        ]
        expected += [["a3", CLASSES[0], ""], ["a4", CLASSES[1], "not 1, sure"]]
        assert downloaded(page) == expected
        assert opened.problems == []


def test_every_row_can_be_answered_and_the_end_says_so(browser, path):
    with open_page(browser, path) as opened:
        page = opened.page
        page.evaluate(SLOWLY)
        page.evaluate("for (let i = 0; i < 299; i += 1) dispatchEvent(new KeyboardEvent('keydown', { key: '1' }))")
        assert title(page) == "Row 300 of 300"
        press(page, "3")
        assert page.locator("#done").is_visible()
        press(page, "1", "0", "n")  # nothing left
        rows = downloaded(page)[1:]
        assert [row[1] for row in rows] == ["benign"] * 299 + ["malignant"]
        press(page, "u")
        assert title(page) == "Row 300 of 300"
        assert page.locator("#count").text_content() == "299 of 300 answered"


def test_before_answers_are_downloaded_the_browser_asks_and_another_plan_has_none_of_them(browser, path):
    with open_page(browser, path) as opened:
        page, asked = opened.page, "!dispatchEvent(new Event('beforeunload', { cancelable: true }))"
        assert not page.evaluate(asked)
        press(page, "1")
        assert page.evaluate(asked)
        downloaded(page)
        assert not page.evaluate(asked)
        other = path.with_name("other.html")
        other.write_text(path.read_text(encoding="utf-8").replace('"plan 1"', '"plan 2"'), encoding="utf-8")
        page.goto(other.as_uri())
        assert page.locator("#count").text_content() == "0 of 300 answered"


def test_a_key_that_is_held_or_comes_with_the_row_is_no_answer(browser, path):
    with open_page(browser, path) as opened:
        page = opened.page
        page.evaluate("Date.now = () => 5000")
        held = "dispatchEvent(new KeyboardEvent('keydown', { key: '1', repeat: true }))"
        page.evaluate(held)
        assert title(page) == "Row 1 of 300"
        for _ in range(3):
            page.keyboard.press("1")
        assert title(page) == "Row 2 of 300"
        page.evaluate("Date.now = () => 5500")
        page.keyboard.press("1")
        assert title(page) == "Row 3 of 300"


def test_answers_are_deleted_only_after_the_download(browser, path):
    with open_page(browser, path) as opened:
        page = opened.page
        press(page, "ArrowRight", "1")
        assert "Row 1 has no answer" in page.locator("#width").text_content()
        assert page.locator("#forget").is_hidden()
        downloaded(page)
        page.locator("#forget").click()
        page.reload()
        assert page.locator("#count").text_content() == "0 of 300 answered"
        assert "benign" not in page.evaluate("JSON.stringify(localStorage)")


@pytest.mark.parametrize("size", [(1280, 800), (768, 1024), (360, 740)])
def test_it_fits_the_screen_and_can_be_read_light_and_dark(browser, path, size):
    with open_page(browser, path, viewport={"width": size[0], "height": size[1]}) as opened:
        page = opened.page
        press(page, "1", "ArrowLeft")
        for scheme in ("dark", "light"):
            page.emulate_media(color_scheme=scheme)
            assert [words for contrast, words in page.evaluate(CONTRASTS) if contrast < 4.5] == []
        assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
        heights = [button.bounding_box()["height"] for button in page.locator("footer button").all()]
        assert min(heights) >= 44  # for fingers
        assert opened.problems == []


def test_the_tab_key_reaches_every_control_and_each_has_a_name(browser, path):
    with open_page(browser, path) as opened:
        page = opened.page
        controls = page.locator("button:enabled, input:enabled, summary").count()
        for _ in range(controls):
            press(page, "Tab")
            assert page.evaluate(NAME)
            assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
        press(page, "Tab")
        assert page.evaluate("document.activeElement === document.body")


def test_pictures_are_shown_by_their_path(browser, tmp_path):
    picture = '<svg xmlns="http://www.w3.org/2000/svg" width="40" height="30"/>'
    (tmp_path / "a b.svg").write_text(picture)
    page = labelling_page("p", ("row", ["1"]), ["a", "b"], [("scan", "image")], [["a%20b.svg"]])
    (tmp_path / "audit.html").write_text(page, encoding="utf-8")
    with open_page(browser, tmp_path / "audit.html") as opened:
        opened.page.wait_for_function("document.images[0].complete")
        assert opened.page.evaluate("[document.images[0].naturalWidth, document.images[0].alt]") == [
            40,
            "scan of this row",
        ]


def test_many_classes_have_keys_as_long_as_there_are_some():
    page = labelling_page("p", ("row", ["1"]), [f"c{k}" for k in range(40)], [], [[]])
    data = json.loads(page.split('id="data">')[1].split("</script>")[0])
    assert data["keys"] == list(KEYS)
    assert len(set(KEYS) | set("0un")) == len(KEYS) + 3
