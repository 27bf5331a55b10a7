"""A report in headless Chromium: opening it, and what must be true of every report that is opened."""

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
    assert page.evaluate("document.scripts.length") == 0


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
    """On a phone nothing but a table or a command in its own box is wider than the screen."""
    page = opened.page
    before = page.viewport_size
    page.set_viewport_size({"width": width, "height": 740})
    unfold = "(open) => document.querySelectorAll('details').forEach((one) => (one.open = open))"
    page.evaluate(unfold, True)
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    wide = page.evaluate(
        "[...document.body.querySelectorAll('*')].filter((node) => !node.closest('.scroll > *, pre > *, .unseen, .skip, svg')"
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
    assert not page.locator("nav, details:not(.on-paper)").filter(visible=True).count()
    folded = page.locator("details.on-paper > :not(summary)")
    assert all(one.bounding_box()["height"] > 0 for one in folded.all())
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
