"""The page of the study: one file that needs no other, and text that stays text."""

import re
from html.parser import HTMLParser
from importlib.resources import files

from marmix.displays.drawing import canvas
from marmix.inference.tables import Table
from marmix.study import run
from marmix.study.magic import NOT_REPRODUCED
from marmix.study.pages import (
    READING,
    VERDICT_CLASSES,
    Claim,
    Heading,
    Page,
    Paragraph,
    Picture,
    Sheet,
    as_markdown,
    claims_table,
    index_html,
)
from marmix.study.summaries import FAILS, HOLDS, MIXED, MOSTLY_NOT, PARTLY, UNDECIDED


class Reader(HTMLParser):
    """Tags, what they refer to, and the text between them."""

    def __init__(self):
        super().__init__()
        self.tags, self.refers, self.meta, self.text, self.open = [], [], [], "", []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.refers += [value for name, value in attrs if name in ("href", "src", "srcset", "action", "data", "poster")]
        self.meta += [dict(attrs)] if tag == "meta" else []
        if tag not in ("meta", "img"):
            self.open.append(tag)
        assert not any(name.startswith("on") for name, _ in attrs)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def read(page):
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert reader.open == []
    return reader


def test_the_page_needs_nothing_but_itself(tmp_path):
    run(["fig-approximation", "fig-simulation"], tmp_path, quiet=True)
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    reader = read(page)
    assert reader.tags.count("img") == 2
    assert not {"script", "link", "iframe", "object", "embed", "base", "form"} & set(reader.tags)
    images = [r for r in reader.refers if r.startswith("data:image/png;base64,")]
    anchors = [r for r in reader.refers if r.startswith("#")]
    assert (len(images), anchors) == (2, ["#fig-approximation", "#fig-simulation"])
    assert len(reader.refers) == 4
    assert all(f'id="{anchor[1:]}"' in page for anchor in anchors)
    without_images = re.sub(r"base64,[A-Za-z0-9+/=]+", "", page)
    assert not re.search(r"https?:|//|url\(|@import", without_images)
    (policy,) = [m["content"] for m in reader.meta if m.get("http-equiv") == "Content-Security-Policy"]
    assert policy.startswith("default-src 'none'")


def test_every_word_of_a_verdict_has_a_colour_and_is_told_in_how_to_read_it():
    words = {HOLDS, PARTLY, MIXED, MOSTLY_NOT, FAILS, UNDECIDED}
    assert words | {NOT_REPRODUCED} == set(VERDICT_CLASSES)
    for word in words:
        html = index_html([Page("name", "t", [Claim("s", word, "e")])], {}, "c", "f")
        assert f"<td class='verdict {VERDICT_CLASSES[word]}'>{word}</td>" in html
        assert {"holds": "differences holds where", "in part": "holds in part where"}.get(word, word) in READING
    css = files("marmix.study").joinpath("page.css").read_text()
    assert all(f".{name}" in css for name in VERDICT_CLASSES.values())


def test_text_is_escaped_wherever_it_stands():
    bad = "<script>&\"'|x"
    figure, _ = canvas(1.0, 1.0)
    table = Table(bad, [bad], [bad], [[bad]], notes=[bad])
    blocks = [Heading(bad), Paragraph(bad), Sheet("s", table, [{"a": 1}]), Picture("p", bad, figure)]
    page = Page("name", bad, [Claim(bad, bad, bad, bad)], blocks)
    html = index_html([page], {"item": bad}, bad, bad)
    reader = read(html)
    assert "<script" not in html
    assert "script" not in reader.tags
    # title twice; claim twice with three cells; details two; heading, paragraph, table with five; caption; and the top with three
    assert reader.text.count(bad) == 2 + 2 * 3 + 2 + 1 + 1 + 5 + 1 + 3
    cells = re.split(r"(?<!\\)\|", claims_table([page]).splitlines()[2])
    assert len(cells) == 5
    assert cells[1].strip() == bad.replace("|", r"\|")
    assert as_markdown(page, "marmix").startswith(f"# {bad}\n\n`marmix`\n")
