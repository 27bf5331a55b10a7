"""The page of a report, without a browser: its policy, order, numbers, and escaped text."""

import base64
import re
import struct
from dataclasses import replace
from hashlib import sha256
from html import unescape
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reports import HOSTILE, four_classes, many_classes, picture, two_classes, with_texts

from marmix.app import wording
from marmix.app.findings import Comparison, LabelFacts, MissingnessFacts
from marmix.app.page import SECTIONS, bars, report_html
from marmix.evaluation.joint import Range
from marmix.evaluation.verdict import UNKNOWN

VOID = ("meta", "img", "source", "input")


class Reader(HTMLParser):
    """Tags with their attributes, ids, and the text between them; closes everything that was opened."""

    def __init__(self):
        super().__init__()
        self.tags, self.attributes, self.ids, self.text, self.open, self.inside = [], [], [], "", [], {}

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, tuple(name for name, _ in attrs)))
        self.attributes += [(tag, *pair) for pair in attrs]
        self.ids += [value for name, value in attrs if name == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.inside.setdefault(self.open[-1] if self.open else "", []).append(data)
        self.text += data


def read(page):
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert reader.open == []
    return reader


def hashed(text):
    return f"'sha256-{base64.b64encode(sha256(text.encode()).digest()).decode()}'"


def section(page, key):
    return re.search(rf'<section id="{key}".*?</section>', page, re.S).group()


def words(html):
    """The text of a piece of HTML, its no-break spaces plain."""
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).replace("\u00a0", " ").split())


@pytest.mark.parametrize(
    "contents",
    [two_classes(), four_classes(), many_classes(30), with_texts(HOSTILE)],
    ids=["two", "four", "thirty", "hostile"],
)
def test_the_page_needs_nothing_but_itself_and_allows_nothing_else(contents):
    page = report_html(contents)
    reader = read(page)
    policy = next(value for tag, name, value in reader.attributes if tag == "meta" and "default-src" in (value or ""))
    (css,) = reader.inside["style"]
    assert policy == (
        f"default-src 'none'; img-src data:; style-src {hashed(css)}; base-uri 'none'; form-action 'none'"
    )
    assert not re.search(r"https?:|url\(|@import", css)
    assert not {"link", "iframe", "object", "embed", "base", "form", "script"} & {tag for tag, _ in reader.tags}
    assert not any(name == "style" or name.startswith("on") for _, name, _ in reader.attributes)
    names = ("href", "src", "srcset", "action", "poster", "data")
    refers = [value for _, name, value in reader.attributes if name in names]
    assert all(value.startswith(("#", "data:image/png;base64,")) for value in refers)
    assert {value[1:] for value in refers if value.startswith("#")} <= set(reader.ids)
    assert len(reader.ids) == len(set(reader.ids))
    assert re.findall(r'<section id="(\w+)"', page) == re.findall(r'<li><a href="#(\w+)">', page)
    assert set(re.findall(r'<section id="(\w+)"', page)) | {"warnings", "rivals"} == set(SECTIONS)


@given(st.lists(st.text(max_size=40), min_size=3, max_size=3))
def test_no_text_changes_the_structure_of_the_page(texts):
    plain = read(report_html(with_texts(["a", "b", "c"])))
    assert read(report_html(with_texts(texts))).tags == plain.tags


def test_text_can_be_written_as_utf_8_and_is_short():
    page = report_html(with_texts(HOSTILE))
    page.encode()
    shortened = re.sub(r"<code.*?</code>", "", page, flags=re.S)
    assert max(map(len, re.findall("x+", shortened))) < 1200


def test_figures_keep_their_place_in_both_modes_and_one_left_out_says_why():
    page = report_html(two_classes())
    for dark, tag in ((False, "img"), (True, "source")):
        png = picture("calibration", dark)
        width, height = struct.unpack(">II", png[16:24])
        data = base64.b64encode(png).decode()
        assert re.search(rf'<{tag} [^>]*{re.escape(data)}"[^>]* width="{width}" height="{height}"', page)
    contents = four_classes()
    assert contents.notes["calibration"] in words(section(report_html(contents), "missingness"))
    read(report_html(replace(contents, figures=[], notes={})))


def test_parameters_are_folded_away_and_those_of_light_candidates_are_not_shown():
    contents = two_classes()
    page = section(report_html(contents), "models")
    before, folded = page.split("<summary>Parameters of one of them (40)</summary>")
    assert "alpha_1" not in before
    mechanism, others = folded.split("Parameters of the classes", 1)
    assert "\u22124.070" in mechanism
    assert "mean[benign" not in mechanism
    assert "mean[benign" in others
    rows = [words(row) for row in re.findall(r"<tr>(.*?)</tr>", before, re.S)][1:]
    heavy = [one for one in contents.findings.model.candidates if one["weight"]]
    for row, facts in zip(rows, heavy, strict=True):
        assert facts["candidate"] in row
        assert f"{facts['weight']:.2f} {facts['log_loss']:.3f}" in row
    light = replace(contents.findings, statistical=replace(contents.findings.statistical, weight=0.01))
    assert "alpha_1" not in report_html(replace(contents, findings=light))


def test_a_feature_may_have_the_name_of_a_parameter_of_the_missingness():
    contents = two_classes()
    shape = replace(contents.findings.estimates[0], name="shape", mechanism=False)
    findings = replace(contents.findings, estimates=[shape, *contents.findings.estimates])
    folded = report_html(replace(contents, findings=findings)).split("Parameters of the missingness curve", 1)[1]
    mechanism, others = folded.split("Parameters of the classes", 1)
    assert "shape" not in mechanism
    assert "shape" in others


def test_a_report_without_missing_labels_scores_and_figures():
    contents = two_classes()
    findings = replace(
        contents.findings,
        labels=LabelFacts(569, 0, 0, 0, contents.findings.labels.classes),
        **dict.fromkeys(("verdict", "confusion")),
        **{key: [] for key in ("scoreboard", "estimates", "cautions")},
        missingness=MissingnessFacts(None, None, "", "No label is missing, so there is nothing to test."),
        comparison=Comparison(None, "There is nothing to compare."),
    )
    page = report_html(replace(contents, findings=findings, figures=[]))
    read(page)
    assert 'id="warnings"' not in page
    assert "There is nothing to compare." in words(page)
    assert not re.search(r"\bNone\b(?! of|\.)|\bnan\b", words(re.sub(r"<style.*?</style>", "", page, flags=re.S)))


def test_the_first_section_says_how_many_are_wrong_if_what_and_what_to_do_and_no_caution_is_said_twice():
    contents = two_classes()
    page, it = report_html(contents), contents.findings.verdict
    first = words(section(page, "verdict"))
    assert first.startswith(f"{it.state.capitalize()} {it.sentence}")
    assert "15 (8 to 24)" in first
    assert "6 to 61" in first
    assert f"{it.next[1:]}: {it.command}" in first
    assert all(reason in first for reason in it.reasons)
    for caution in contents.findings.cautions:
        assert f"{caution.text} {caution.advice}".strip() in words(section(page, "warnings"))


def test_both_ranges_are_drawn_on_the_scale_of_all_imputed_labels():
    it = two_classes().findings.verdict
    known, hidden = bars(it)
    for bar, (low, high) in ((known, it.wrong[1:]), (hidden, it.hidden[1:])):
        assert bar.low == pytest.approx(100 * low / it.of)
        assert bar.low + bar.width == pytest.approx(100 * high / it.of)
    assert known.value == pytest.approx(100 * it.wrong.value / it.of)
    assert bars(replace(it, wrong=UNKNOWN, hidden=UNKNOWN)) == []
    assert len(bars(replace(it, hidden=UNKNOWN))) == 1  # after an audit


def test_the_scoreboard_counts_wrong_labels_of_the_same_rows():
    findings = two_classes().findings
    page = words(section(report_html(two_classes()), "rivals"))
    for row in findings.scoreboard:
        cells = [" ".join(wording.estimate(row.wrong, "count")), f"{row.claimed_wrong:,.0f}"]
        cells += [" ".join(wording.estimate(row.log_loss, "loss"))]
        assert " ".join(cells).replace("\u00a0", " ") in page


@pytest.mark.parametrize("n", [2, 12, 30])
def test_each_class_has_its_numbers_and_the_most_frequent_confusions_of_many_are_listed(n):
    contents = many_classes(n)
    page = section(report_html(contents), "classes")
    counts, facts = contents.findings.confusion, contents.findings.labels.classes
    for one in facts:
        shares = (one.precision, one.recall, one.share)
        texts = [wording.estimate(share) for share in shares if share.value is not None]
        line = " ".join([one.name, f"{one.given:,}", f"{one.imputed:,}", *(" ".join(pair) for pair in texts)])
        assert line.replace("\u00a0", " ") in words(page)
    listed = re.search(r"confusions</h3>.*?</table>", page, re.S)
    assert (listed is None) == (n == 2)
    if listed:
        rows = [int(words(row).split()[-1]) for row in re.findall(r"<tr>(.*?)</tr>", listed[0], re.S)[1:]]
        apart = sorted((counts[i][j] for i in range(n - 1) for j in range(n - 1) if i != j), reverse=True)
        assert rows == [int(value + 0.5) for value in apart[:12] if value >= 0.5]


def test_the_least_frequent_of_many_classes_are_folded():
    more = section(report_html(many_classes(35)), "classes")
    assert len(re.findall('<th scope="row"', more.split("<details")[0])) == 30


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.0, "0 %"), (1.0, "100 %"), (0.9999, "> 99 %"), (0.0001, "< 1 %"), (0.994, "99 %"), (None, "\u2013")],
)
def test_a_share_is_0_or_100_percent_only_where_it_is(share, text):
    assert words(wording.percent(share)) == text


@given(st.floats(0.0, 1.0), st.integers(0, 2))
def test_a_share_in_percent_is_near_the_share(share, decimals):
    text = wording.percent(share, decimals).replace("\u00a0", " ")
    stated = float(text.strip("<>% ")) / 100
    assert abs(stated - share) <= 0.01 * 10.0**-decimals + 1e-12
    if text.startswith("<"):
        assert 0.0 < share < stated
    if text.startswith(">"):
        assert stated < share < 1.0


@pytest.mark.parametrize(
    ("p", "often"),
    [(1e-9, "fewer than 1 in 1,000"), (0.02, "about 1 in 50"), (0.4, "about 40 in 100"), (1.0, "about 100 in 100")],
)
def test_a_p_value_is_a_frequency(p, often):
    assert often in wording.missingness(MissingnessFacts(p < 0.05, p, "score test", ""))
    assert wording.missingness(MissingnessFacts(None, p, "", "Not tested.")) == "Not tested."


def test_numbers_have_a_true_minus_and_thousands_separators():
    assert wording.figure(-1234567.8) == "\u22121,234,568"
    assert wording.figure(-0.5) == "\u22120.5000"
    assert wording.figure(None) == wording.figure(float("nan")) == "\u2013"
    assert wording.estimate(Range(1234.4, 1000.0, 2000.6), "count") == ("1,234", "(1,000 to 2,001)")
    assert wording.estimate(UNKNOWN, "count") == ("\u2013", "too uncertain")
