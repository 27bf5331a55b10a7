"""The page of a report, without a browser: its policy, order, numbers, and escaped text."""

import base64
import json
import re
import struct
from dataclasses import replace
from hashlib import sha256
from html import unescape
from html.parser import HTMLParser
from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reports import HOSTILE, four_classes, picture, two_classes, with_texts

from marmix.pages import report_html, wording
from marmix.pages.contents import Certainty, Comparison, Estimate, LabelFacts, MissingnessFacts, RowTable, ScoreFacts
from marmix.pages.sections import cell_text

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
    "contents", [two_classes(), four_classes(), with_texts(HOSTILE)], ids=["two", "four", "hostile"]
)
def test_the_page_needs_nothing_but_itself_and_allows_nothing_else(contents):
    page = report_html(contents)
    reader = read(page)
    policy = next(value for tag, name, value in reader.attributes if tag == "meta" and "default-src" in (value or ""))
    (css,), (js, *rest) = reader.inside["style"], [t for t in reader.inside["script"] if not t.startswith("{")]
    assert rest == []
    assert policy == (
        f"default-src 'none'; img-src data:; style-src {hashed(css)}; script-src {hashed(js)}; "
        "base-uri 'none'; form-action 'none'"
    )
    assert not {"link", "iframe", "object", "embed", "base", "form"} & {tag for tag, _ in reader.tags}
    assert not any(name == "style" or name.startswith("on") for _, name, _ in reader.attributes)
    refers = [
        value for _, name, value in reader.attributes if name in ("href", "src", "srcset", "action", "poster", "data")
    ]
    assert all(value.startswith(("#", "data:image/png;base64,")) for value in refers)
    assert {value[1:] for value in refers if value.startswith("#")} <= set(reader.ids)
    assert len(reader.ids) == len(set(reader.ids))


def test_style_and_script_reach_for_nothing_and_never_write_html():
    css, js = (files("marmix.pages").joinpath(name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    assert not re.search(r"https?:|url\(|@import", css + js)
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|Function\(|fetch|XMLHttp|import\(", js
    )
    assert not re.search(r"localStorage|sessionStorage|cookie|indexedDB|location", js)


def test_the_sections_stand_in_the_order_of_the_questions():
    page = report_html(two_classes())
    order = ["found", "models", "missingness", "uncertainty", "classes", "trust", "sensitivity"]
    order += ["threshold", "rows", "parameters", "warnings", "reproduce"]
    assert re.findall(r'<section id="(\w+)"', page) == order
    assert re.findall(r'<li><a href="#(\w+)">', page) == order


@given(st.lists(st.text(max_size=40), min_size=3, max_size=3))
def test_no_text_changes_the_structure_of_the_page(texts):
    plain = read(report_html(with_texts(["a", "b", "c"])))
    assert read(report_html(with_texts(texts))).tags == plain.tags


def test_text_can_be_written_as_utf_8_and_is_short():
    page = report_html(with_texts(HOSTILE))
    page.encode()
    body, data = page.split('<script type="application/json"')
    longest = max(re.findall(r"x+", re.sub(r'<code id="command">.*?</code>', "", body, flags=re.S)), key=len)
    assert len(longest) < 1200
    assert "x" * 10_000 in data  # for the download
    assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\u2028]", data)


@given(
    st.lists(
        st.lists(
            st.none() | st.text(max_size=20) | st.integers() | st.floats(allow_nan=False, allow_infinity=False),
            min_size=2,
            max_size=2,
        ),
        max_size=5,
    )
)
def test_the_script_is_given_the_rows_as_they_are(rows):
    contents = replace(two_classes(), figures=[], next_rows=RowTable(["a", "b"], [True, False], rows, of=9))
    block = re.search(r'id="data">(.*?)</script>', report_html(contents), re.S).group(1)
    assert not set("<>&\u2028\u2029") & set(block)
    given = json.loads(block)["table"]["rows"]
    for row, values in zip(rows, given, strict=True):
        for cell, value in zip(row, values, strict=True):
            beyond = isinstance(cell, int) and abs(cell) >= 2**53
            assert value == (str(cell) if beyond else cell)


def test_what_is_not_a_number_is_empty():
    nan = float("nan")
    contents = two_classes()
    one = replace(contents.thresholds[0], precision=[nan] * 101)
    table = RowTable(["a"], [True], [[nan], [float("inf")], [2.0]], of=3)
    page = report_html(replace(contents, thresholds=[one], next_rows=table))
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.S).group(1))
    assert data["table"]["rows"] == [[None], [None], [2.0]]
    assert data["table"]["shown"] == [[""], [""], ["2"]]
    assert data["thresholds"][0]["precision"] == [None] * 101
    assert not re.search(r"\bnan\b", words(section(page, "threshold")))


def test_cells_are_shown_with_sensible_digits():
    cells = [None, 3, 2024, 3.0, 0.123456, -1234.5678, "0.50", 1e-9]
    assert [cell_text(cell) for cell in cells] == ["", "3", "2024", "3", "0.1235", "-1234.6", "0.50", "1.000e-09"]


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        ("-0.5477419813255", "-0.5477"),
        ("1.2345678901e-05", "1.235e-05"),
        *((cell, cell) for cell in ("17.57", "00123456789012", ".........", "1.0.0.0.0.0.0")),
    ],
)
def test_long_decimals_in_text_are_shortened_in_numeric_columns(cell, text):
    assert cell_text(cell, True) == text
    assert cell_text(cell) == cell


def test_figures_keep_their_place_in_both_modes():
    page = report_html(two_classes())
    for key in ("missingness", "roc"):
        for dark, tag in ((False, "img"), (True, "source")):
            png = picture(key, dark)
            width, height = struct.unpack(">II", png[16:24])
            data = base64.b64encode(png).decode()
            assert re.search(rf'<{tag} [^>]*{re.escape(data)}"[^>]* width="{width}" height="{height}"', page)
    assert page.count('media="screen and (prefers-color-scheme: dark)"') == 5


def test_a_figure_left_out_says_why_in_its_place():
    contents = four_classes()
    assert contents.notes["roc"] in words(section(report_html(contents), "trust"))
    bare = report_html(replace(contents, figures=[], notes={}))
    assert bare.count("could not be drawn") == 6
    read(bare)


def test_many_parameters_are_folded_away_but_not_those_of_the_mechanism():
    page = section(report_html(two_classes()), "parameters")
    first, rest = page.split("<details>", 1)
    assert "alpha_1" in first
    assert "mean[benign" not in first
    assert "mean[benign" in rest
    assert "alpha_1" not in rest
    assert "\u22124.070" in first
    few = section(report_html(four_classes()), "parameters")
    assert "<details>" not in few
    assert "weight[benign]" in few


def test_the_average_comes_first_then_its_candidates_then_the_classifiers_of_labelled_rows():
    contents = two_classes()
    page = section(report_html(contents), "models")
    model, text = contents.findings.model, words(page)
    assert model.name in text
    assert model.rule in text
    assert contents.findings.rival.sentence in text
    rows = [words(row) for row in re.findall(r"<tr>(.*?)</tr>", page)]
    assert rows[1].startswith("Average 0.142 ± 0.018 0.951")
    for row, facts in zip(rows[2:], [*model.candidates, *model.rivals], strict=True):
        assert facts["candidate"] in row
    assert "modelled 0.500 0.142 ± 0.018 0.951 20,000" in rows[2]
    assert [row.startswith("Labelled rows alone") for row in rows[1:]] == [False] * 5 + [True] * 2


def test_a_report_on_other_rows_or_of_a_single_model_has_no_table_of_candidates():
    page = section(report_html(four_classes()), "models")
    assert "<table" not in page
    assert "in the average" not in section(report_html(four_classes()), "parameters")
    assert "weight 0.50 in the average" in words(section(report_html(two_classes()), "parameters"))


def test_a_report_without_parameters_says_so():
    findings = replace(two_classes().findings, statistical=None, estimates=[])
    page = report_html(replace(two_classes(), findings=findings))
    read(page)
    assert "no parameters" in words(section(page, "parameters"))


def test_a_report_without_missing_labels_scores_and_figures():
    contents = two_classes()
    findings = replace(
        contents.findings,
        labels=LabelFacts(569, 0, 0, 0, contents.findings.labels.classes, Certainty(None, 0, 0, None)),
        missingness=MissingnessFacts(None, None, "", "No label is missing, so there is nothing to test.", None, None),
        comparison=Comparison(None, "There is nothing to compare.", None, None, None, None),
        scores=[],
        estimates=[],
        cautions=[],
    )
    empty = replace(
        contents, findings=findings, figures=[], thresholds=[], next_rows=RowTable(["a"], [False], [], of=0)
    )
    page = report_html(empty)
    read(page)
    assert "None of the 569 rows" in words(page)
    assert "Not tested" in words(page)
    assert "Not compared" in words(page)
    assert words(section(page, "warnings")) == "Warnings None."
    assert not re.search(r"\bNone\b(?! of|\.)|\bnan\b", words(re.sub(r"<(script|style).*?</\1>", "", page, flags=re.S)))


def test_the_results_state_the_numbers_of_the_findings():
    page = words(section(report_html(two_classes()), "found"))
    for fact in (
        "Of 569 rows, 212 (37 %) had no label. The model imputed all of them.",
        "about 15 of these",
        "93.1 %",
        "161 have at least 90 %, 98 at least 99 %",
        "fewer than 1 in 1,000 data sets",
        "too optimistic",
        "benign 245 69 % 112 53 % 357",
        "accuracy 0.951 0.931 to 0.971 0.978 higher",
    ):
        assert fact in page
    trust = words(section(report_html(two_classes()), "trust"))
    assert "about 95 of 100 labels right" in trust
    assert "between 93 and 97" in trust


def test_a_result_against_us_is_printed_as_plainly():
    page = words(section(report_html(four_classes()), "found"))
    assert "it made things worse No evidence that modelling the missingness helps here." in page
    assert "No clear sign" in page
    assert "12 rows not, because features are missing" in page
    assert "No, it is worse" in page
    assert "did not converge" in words(section(report_html(four_classes()), "parameters"))


def test_a_comparison_that_cannot_be_told_is_no_verdict():
    findings = four_classes().findings
    for helped, verdict in ((None, "Cannot be told"), (False, "No, it made things worse")):
        assert wording.help_verdict(replace(findings.comparison, helped=helped)) == verdict
    assert wording.rival_verdict(replace(findings.rival, better=None)) == "Cannot be told"
    assert wording.help_verdict(Comparison.none("Nothing to compare.")) == "Not compared"


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.0, "0 %"),
        (1.0, "100 %"),
        (0.9999, "> 99 %"),
        (0.0001, "< 1 %"),
        (0.994, "99 %"),
        (0.376, "38 %"),
        (None, "\u2013"),
    ],
)
def test_a_share_is_0_or_100_percent_only_where_it_is(share, text):
    assert words(wording.percent(share)) == text


@given(st.floats(0.0, 1.0), st.integers(0, 2))
def test_a_share_in_percent_is_near_the_share(share, decimals):
    text = words(wording.percent(share, decimals))
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
    facts = MissingnessFacts(p < 0.05, p, "score test", "", None, None)
    assert often in wording.chance(facts)


def test_the_lead_follows_the_direction_of_the_curve():
    hard = MissingnessFacts(True, 0.01, "", "", toss_up=0.8, certain=0.1)
    assert wording.missingness_lead(hard).startswith("Hard rows")
    easy = replace(hard, toss_up=0.1, certain=0.8)
    assert wording.missingness_lead(easy).startswith("Easy rows")
    assert wording.missingness_lead(replace(hard, informative=False)).startswith("There is no clear sign")


def test_the_sentence_on_the_correction_follows_its_direction():
    better, equal = (
        ScoreFacts("accuracy", 0.9, 0.01, 0.88, 0.92, 0.95, "higher"),
        ScoreFacts("AUC", 0.9, 0.01, 0.88, 0.92, 0.9, "higher"),
    )
    worse = ScoreFacts("log-loss", 0.2, 0.01, 0.18, 0.22, 0.3, "lower")
    assert "agree" in wording.correction([equal])
    for scores, words in (
        ([better, equal], (True, False)),
        ([worse, equal], (False, True)),
        ([worse, better], (True, True)),
    ):
        sentence = wording.correction(scores).split("Here")[1]
        assert ("optimistic" in sentence, "pessimistic" in sentence) == words


def test_numbers_have_a_true_minus_and_thousands_separators():
    assert wording.figure(-1234567.8) == "\u22121,234,568"
    assert wording.figure(-0.5) == "\u22120.5000"
    assert wording.figure(None) == wording.figure(float("nan")) == "\u2013"
    assert wording.is_mechanism(Estimate("alpha[age]", 0.0, None, None, None))
    assert not wording.is_mechanism(Estimate("mean[0, age]", 0.0, None, None, None))


def test_the_page_of_500_rows_is_small():
    rows = [[f"{i}", *[i / (j + 3) for j in range(19)]] for i in range(500)]
    table = RowTable([f"column {j}" for j in range(20)], [False] + [True] * 19, rows, of=100_000)
    page = report_html(replace(four_classes(), figures=[], next_rows=table))
    assert len(page) < 600_000


def test_the_section_on_sensitivity_has_a_sentence_a_table_and_the_tipping_points():
    page = report_html(two_classes())
    section = re.search(r'<section id="sensitivity".*?</section>', page, re.S)[0].replace("\u00a0", " ")
    text = re.sub(r"<[^>]+>", "", section)
    assert "twice as likely to lose its label as the other classes, 42.7 % of all rows would be malignant" in text
    assert "13.6 % of the imputed labels would be wrong instead of 12.1 %" in text
    assert section.count("<tr>") == 6  # a head and five odds ratios
    assert "42.7 % (37.0 % to 47.0 %)" in text
    assert "1.6 times as likely" in text
    complete = replace(two_classes(), findings=replace(two_classes().findings, sensitivity=None))
    assert "No label is missing" in re.search(r'<section id="sensitivity".*?</section>', report_html(complete), re.S)[0]


def test_doubts_about_the_mechanism_take_the_place_of_verdicts():
    contents = two_classes()
    findings = contents.findings
    doubtful = replace(
        findings,
        missingness=replace(findings.missingness, doubts=["Labels are missing on one side."]),
        comparison=replace(findings.comparison, helped=None),
    )
    assert wording.informative_verdict(findings.missingness) == wording.help_verdict(findings.comparison) == "Yes"
    assert wording.informative_verdict(doubtful.missingness) == "Doubtful"
    assert wording.help_verdict(doubtful.comparison) == "Cannot be told"
    caution = wording.doubts(doubtful.missingness)
    assert "checks fail" in caution
    assert caution in report_html(replace(contents, findings=doubtful))
    assert "checks fail" not in report_html(contents)
