"""A report in headless Chromium: opening it, and what must be true of every report that is opened."""

import csv
import io
import json
import re
import shutil
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
# What the policy forbids is said in the console, where `open_page` collects it.
WATCH = """addEventListener("securitypolicyviolation", (e) => console.error("forbidden:", e.violatedDirective, e.blockedURI))"""


@contextmanager
def browsing():
    """A browser; skips the tests where Chromium or playwright is absent."""
    api = pytest.importorskip("playwright.sync_api", reason="browser tests need playwright: pip install playwright")
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        pytest.skip("browser tests need Chromium: apt-get install chromium")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Opened:
    """A page, and what went wrong in it so far."""

    page: Any
    problems: list[str] = field(default_factory=list)

    @property
    def data(self):
        """What the page's script was given."""
        return json.loads(self.page.locator("#data").text_content())


@contextmanager
def open_page(browser, path, **options):
    """The page at a path, with its problems: errors, warnings, dialogs, windows, and requests for anything but itself."""
    with browser.new_context(accept_downloads=True, **options) as context:
        context.add_init_script(WATCH)
        context.set_default_timeout(300_000)  # a busy machine is no error
        page = context.new_page()
        opened = Opened(page)
        report = opened.problems.append
        page.on("console", lambda message: report(f"console: {message.type}: {message.text}"))
        page.on("pageerror", lambda error: report(f"error: {error}"))
        page.on("popup", lambda window: report(f"window: {window.url}"))
        page.on("dialog", lambda dialog: (report(f"dialog: {dialog.message}"), dialog.dismiss()))
        address = path.as_uri()
        embedded = ("data:", "blob:")
        page.on(
            "request",
            lambda r: None if r.url == address or r.url.startswith(embedded) else report(f"request: {r.url[:200]}"),
        )
        page.goto(address)
        yield opened


def check_quiet(opened):
    """Nothing went wrong, nothing was asked of the network, and every picture is there."""
    page = opened.page
    assert opened.problems == []
    assert page.evaluate("[...document.images].every((image) => image.complete && image.naturalWidth > 0)")
    assert page.evaluate("[...document.images].every((image) => image.alt && image.width && image.height)")
    assert (
        page.evaluate("performance.getEntriesByType('resource').filter((e) => !/^(data|blob):/.test(e.name)).length")
        == 0
    )
    assert page.evaluate("document.scripts.length") == 2


def check_slider(opened, thresholds=None):
    """Wherever the slider stands, moved by keys or by its value, the page says what the arrays hold there.

    `thresholds` are those of the contents; without them, those that the page was given.
    """
    page = opened.page
    entries = opened.data["thresholds"] if thresholds is None else [_as_given(one) for one in thresholds]
    assert entries, "this page has no slider"
    select = page.locator("#positive")
    assert select.count() == (len(entries) > 1)
    slider = page.locator("#cut")
    for k, entry in enumerate(entries):
        if len(entries) > 1:
            select.select_option(str(k))
        last = len(entry["at"]) - 1
        slider.focus()
        page.keyboard.press("Home")
        _says(page, entry, 0)
        if k > 2:
            continue  # the keys were tried with the first classes
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowUp")
        _says(page, entry, 2)
        page.keyboard.press("End")
        _says(page, entry, last)
        page.keyboard.press("ArrowLeft")
        _says(page, entry, last - 1)
        for place in (last // 3, last // 2, 9 * last // 10):
            slider.fill(str(place))
            _says(page, entry, place)


def _as_given(one):
    unlabelled, everything = (one.unlabelled_above, one.unlabelled), (one.all_above, one.all)
    sides = {"unlabelled": unlabelled, "all": everything}
    scores = {"at": one.at, "precision": one.precision, "recall": one.recall, "accuracy": one.accuracy}
    return scores | {key: {"above": above, "of": of} for key, (above, of) in sides.items()}


# All that the page says of the threshold: texts by their ids, shares of the bars, the place of the mark.
SAID = """() => {
  const ids = ["cut-value", "precision", "recall", "accuracy", "unlabelled-above", "unlabelled-below", "all-above", "all-below"];
  const said = Object.fromEntries([...ids, "cut-words"].map((id) => [id, document.getElementById(id).textContent]));
  const width = (node) => node.getBoundingClientRect().width;
  for (const bar of document.querySelectorAll(".bar span")) said[bar.id] = width(bar) / width(bar.parentElement);
  said.mark = Number(document.getElementById("mark").getAttribute("d").match(/^M([\\d.]+) 0V100$/)[1]);
  said.read = document.getElementById("cut").getAttribute("aria-valuetext");
  return said;
}"""


def _says(page, entry, i):
    said = page.evaluate(SAID)
    assert said["cut-value"] == said["read"] == f"{round(100 * entry['at'][i])}\u00a0%"
    assert said["mark"] == pytest.approx(100 * entry["at"][i])
    for key in ("precision", "recall", "accuracy"):
        if entry[key][i] is None:
            assert said[key] == "\u2013"
        else:
            assert abs(float(said[key].removesuffix("\u00a0%")) / 100 - entry[key][i]) <= 0.0005 + 1e-12
        assert f"{key} {said[key]}" in said["cut-words"]
    for key in ("unlabelled", "all"):
        above, of = entry[key]["above"][i], entry[key]["of"]
        assert (said[f"{key}-above"], said[f"{key}-below"]) == (f"{above:,}", f"{of - above:,}")
        assert abs(said[f"{key}-bar"] - (above / of if of else 0.0)) < 0.01


def check_table(opened, columns=None):
    """The table sorts by these columns both ways (None: by all), filters, searches, counts, and downloads what is filtered."""
    page, table = opened.page, opened.data["table"]
    rows = table["rows"]
    assert rows, "this page has no rows"
    for column in range(len(table["columns"])) if columns is None else columns:
        for way in ("ascending", "descending"):
            page.locator("#row-table th button").nth(column).click()
            assert page.locator("#row-table th").nth(column).get_attribute("aria-sort") == way
            assert page.locator(f"#row-table th[aria-sort={way}]").count() == 1
            _check_order(page, table, column, way)
    page.locator("#search").fill("no such words \u2603")
    assert _all_shown(page) == []
    assert page.locator("#shown").text_content() == "No row matches."
    words = next(
        (cell for row in rows for cell in row if isinstance(cell, str) and cell.strip()), str(rows[0][-1])
    ).strip()
    page.locator("#search").fill(words.upper() if words.isascii() else words)
    matches = [i for i, row in enumerate(rows) if any(words.lower() in str(cell).lower() for cell in row)]
    _check_filtered(page, table, matches)
    page.locator("#search").fill("")
    chosen = list(range(len(rows)))
    if table["label"] is not None:
        name = rows[0][table["label"]]
        page.locator("#by-class").select_option(index=1)
        chosen = [i for i in chosen if rows[i][table["label"]] == name]
        _check_filtered(page, table, chosen)
    if table["uncertainty"] is not None:
        values = [_number(row[table["uncertainty"]]) for row in rows]
        numbers = [value for value in values if value is not None]
        page.locator("#doubt").fill("40")
        bound = min(numbers) + (max(numbers) - min(numbers)) * 40 / 100
        chosen = [i for i in chosen if values[i] is not None and values[i] >= bound]
        _check_filtered(page, table, chosen)
        page.locator("#doubt").fill("0")
    if table["label"] is not None:
        page.locator("#by-class").select_option("")
    _check_filtered(page, table, range(len(rows)))


# Places of texts as a dictionary has them, by the browser's own collation.
COLLATED = """([texts, sign]) => {
  const { compare } = new Intl.Collator("en", { numeric: true });
  return [...texts.keys()].sort((a, b) => sign * compare(texts[a], texts[b]) || a - b);
}"""


def _check_order(page, table, column, way):
    """Numbers and texts are in their order, empty cells last, equal ones as they were."""
    cells = [row[column] for row in table["rows"]]
    sign = 1 if way == "ascending" else -1
    if table["numeric"][column]:
        values = [_number(cell) for cell in cells]
        order = sorted(range(len(cells)), key=lambda i: (values[i] is None, sign * (values[i] or 0.0)))
    else:
        order = page.evaluate(COLLATED, [["" if cell is None else str(cell) for cell in cells], sign])
        order.sort(key=lambda i: cells[i] in (None, ""))
    assert [seen[column] for seen in _all_shown(page)] == [table["shown"][i][column] for i in order]


def _check_filtered(page, table, places):
    """These rows are shown, counted and downloaded, and no others."""
    expected = sorted(table["shown"][i] for i in places)
    assert sorted(_all_shown(page)) == expected
    counted = (
        f"{len(expected):,} of {len(table['rows']):,}" if len(expected) < len(table["rows"]) else f"{len(expected):,}"
    )
    if expected:
        assert page.locator("#shown").text_content().startswith(f"{counted} rows; ")
    header, *lines = downloaded(page)
    assert header == [_safe(name) for name in table["columns"]]
    assert sorted(map(_values, lines)) == sorted(_values([_safe(cell) for cell in table["rows"][i]]) for i in places)


def downloaded(page):
    """What "Download as CSV" gives, as Python's csv reads it."""
    with page.expect_download() as waiting:
        page.locator("#download").click()
    download = waiting.value
    assert download.suggested_filename == "rows-to-label.csv"
    text = download.path().read_bytes().decode("utf-8-sig")
    assert text.endswith("\r\n")
    return list(csv.reader(io.StringIO(text, newline=""), strict=True))


def _safe(cell):
    """A cell as the CSV must hold it: no formula, and a number as it is."""
    text = "" if cell is None else str(cell)
    starts = text.lstrip()[:1] in tuple("=+-@") or text[:1] in ("\t", "\r", "\n")
    return f"'{text}" if starts and text and _number(text) is None else text


def _values(line):
    """Cells that compare equal where they are the same number, however written."""
    return tuple(cell if _number(cell) is None else repr(_number(cell)) for cell in line)


def _number(cell):
    try:
        return None if cell is None else float(cell)
    except ValueError:
        return None


def _all_shown(page):
    """Cells of all rows that pass, after asking for more as long as there are more."""
    return page.evaluate(
        "() => { const more = document.getElementById('more'); while (!more.hidden) more.click();"
        " return [...document.querySelectorAll('#row-table tbody tr')].map((row) => [...row.cells].map((c) => c.textContent)); }"
    )


# Text against the first background behind it, for everything that holds text of its own and is seen.
CONTRASTS = """() => {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const channels = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const linear = (c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  const behind = (node) => {
    for (let one = node; one; one = one.parentElement) {
      const colour = channels(getComputedStyle(one).backgroundColor);
      if (colour[3] === 255) return colour;
    }
    return channels(getComputedStyle(document.documentElement).colorScheme.startsWith("dark") ? "black" : "white");
  };
  return [...document.body.querySelectorAll("*")]
    .filter((node) => !["SCRIPT", "NOSCRIPT", "OPTION"].includes(node.tagName) && node.checkVisibility())
    .filter((node) => [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim()))
    .map((node) => {
      const [a, b] = [light(channels(getComputedStyle(node).color)), light(behind(node))];
      return [(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), node.outerHTML.slice(0, 80)];
    });
}"""
# Whether every picture is the one for the scheme; a browser changes them a moment after the scheme.
PICTURES = """(scheme) => [...document.images].every((image) => {
  const wanted = scheme === "dark" ? image.parentElement.querySelector("source").srcset : image.getAttribute("src");
  return image.complete && image.currentSrc === wanted;
})"""
BACKGROUND = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)"


def check_contrast(opened):
    """Every text that is seen stands out from what is behind it by 4.5 at least."""
    contrasts = opened.page.evaluate(CONTRASTS)
    assert len(contrasts) > 50
    assert [words for contrast, words in contrasts if contrast < 4.5] == []


def check_dark(opened):
    """In the dark the page is dark, its pictures are the dark ones, and its text can be read; by day it is light again."""
    page = opened.page
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme=scheme)
        page.wait_for_function(PICTURES, arg=scheme)
        background = page.evaluate(BACKGROUND)
        assert max(background) < 60 if scheme == "dark" else min(background) > 240
        check_contrast(opened)


def check_narrow(opened, width=360):
    """On a phone nothing but a table in its own box is wider than the screen."""
    page = opened.page
    before = page.viewport_size
    page.set_viewport_size({"width": width, "height": 740})
    unfold = "(open) => document.querySelectorAll('details').forEach((one) => (one.open = open))"
    page.evaluate(unfold, True)
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    wide = page.evaluate(
        "[...document.body.querySelectorAll('*')].filter((node) => !node.closest('.scroll > *, .unseen, .skip, svg')"
        " && node.checkVisibility() && node.getBoundingClientRect().right > document.documentElement.clientWidth + 0.5)"
        ".map((node) => node.outerHTML.slice(0, 80))"
    )
    assert wide == []
    page.evaluate(unfold, False)
    page.set_viewport_size(before)


PAPER = 695  # pixels between the margins of a sheet of A4
TOO_WIDE = """[...document.querySelectorAll("table")].filter((table) => table.checkVisibility())
  .filter((table) => table.getBoundingClientRect().width > table.closest(".scroll").getBoundingClientRect().width + 1)
  .map((table) => table.caption.textContent)"""


def check_print(opened):
    """Paper is light, has no controls, the first rows, only folds that matter and tables that fit; at most ten sheets."""
    page = opened.page
    before = page.viewport_size
    page.set_viewport_size({"width": PAPER, "height": 1000})
    page.emulate_media(media="print", color_scheme="dark")
    assert not page.locator("#slider, #tools, #copy, #more, nav, details:not(.on-paper)").filter(visible=True).count()
    if page.locator(".static").count():
        assert page.locator(".static table").is_visible()
    folded = page.locator("details.on-paper > :not(summary)")
    assert all(one.bounding_box()["height"] > 0 for one in folded.all())
    rows = page.locator("#row-table tbody tr")
    assert rows.filter(visible=True).count() == min(15, rows.count())
    assert min(page.evaluate(BACKGROUND)) > 240
    assert page.evaluate(
        "[...document.querySelectorAll('h2, h3')].every((h) => getComputedStyle(h).breakAfter === 'avoid')"
    )
    assert page.evaluate(TOO_WIDE) == []
    check_contrast(opened)
    page.set_viewport_size(before)
    assert 1 <= len(re.findall(rb"/Type\s*/Page\b", page.pdf(prefer_css_page_size=True))) <= 10
    page.emulate_media(media="screen", color_scheme="light")


def check_keyboard(opened):
    """Every control is reached by the Tab key, first the link that skips to the findings, and shows that it has the focus."""
    page = opened.page
    page.reload()  # the Tab key starts at the top
    wanted = page.evaluate(
        "[...document.querySelectorAll('a, button, input, select, summary')].filter((node) => node.checkVisibility()).length"
    )
    reached = []
    for _ in range(3 * wanted):
        page.keyboard.press("Tab")
        tag, outlined = page.evaluate(
            "[document.activeElement.tagName, getComputedStyle(document.activeElement).outlineStyle !== 'none']"
        )
        if tag == "BODY":
            break
        if tag in ("A", "BUTTON", "INPUT", "SELECT", "SUMMARY"):
            reached.append(page.evaluate("document.activeElement.textContent.trim() || document.activeElement.id"))
            assert outlined
    assert "Skip" in reached[0]
    assert len(reached) == wanted
