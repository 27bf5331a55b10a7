"""The page of a report, without a browser: its policy, order, numbers, and escaped text."""

import base64
import json
import re
import struct
from dataclasses import replace
from hashlib import sha256
from html import unescape
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reports import HOSTILE, four_classes, many_classes, picture, two_classes, with_texts

from marmix.app import wording
from marmix.app.findings import Certainty, Comparison, Interval, LabelFacts, MissingnessFacts, RowTable
from marmix.app.page import SECTIONS, cell_text, report_html
from marmix.app.predictions import why_uncertain

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
    (css,), (js, *rest) = reader.inside["style"], [t for t in reader.inside["script"] if not t.startswith("{")]
    assert rest == []
    assert policy == (
        f"default-src 'none'; img-src data:; style-src {hashed(css)}; script-src {hashed(js)}; "
        "base-uri 'none'; form-action 'none'"
    )
    assert not re.search(r"https?:|url\(|@import", css + js)
    assert not {"link", "iframe", "object", "embed", "base", "form"} & {tag for tag, _ in reader.tags}
    assert not any(name == "style" or name.startswith("on") for _, name, _ in reader.attributes)
    names = ("href", "src", "srcset", "action", "poster", "data")
    refers = [value for _, name, value in reader.attributes if name in names]
    assert all(value.startswith(("#", "data:image/png;base64,")) for value in refers)
    assert {value[1:] for value in refers if value.startswith("#")} <= set(reader.ids)
    assert len(reader.ids) == len(set(reader.ids))
    assert re.findall(r'<section id="(\w+)"', page) == re.findall(r'<li><a href="#(\w+)">', page)
    assert set(re.findall(r'<section id="(\w+)"', page)) | {"warnings"} == set(SECTIONS)


@given(st.lists(st.text(max_size=40), min_size=3, max_size=3))
def test_no_text_changes_the_structure_of_the_page(texts):
    plain = read(report_html(with_texts(["a", "b", "c"])))
    assert read(report_html(with_texts(texts))).tags == plain.tags


def test_text_can_be_written_as_utf_8_and_is_short():
    page = report_html(with_texts(HOSTILE))
    page.encode()
    body, data = page.split('<script type="application/json"')
    shortened = re.sub(r'<code id="command">.*?</code>|sha256 <code>.*?</code>', "", body, flags=re.S)
    assert max(map(len, re.findall("x+", shortened))) < 1200
    assert "x" * 10_000 in data  # for the download
    assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\u2028]", data)


@given(
    st.lists(
        st.lists(
            st.none() | st.text(max_size=20) | st.integers() | st.floats(),
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
            assert value == (
                None if isinstance(cell, float) and not np.isfinite(cell) else str(cell) if beyond else cell
            )


@pytest.mark.parametrize(
    ("cell", "is_number", "text"),
    [
        *((None, False, ""), (3, False, "3"), (3.0, False, "3"), (0.123456, False, "0.1235"), (float("nan"), True, "")),
        *(("0.50", True, "0.50"), (1e-9, False, "1.000e-09"), ("-0.5477419813255", True, "-0.5477")),
        *(("-0.5477419813255", False, "-0.5477419813255"), ("00123456789012", True, "00123456789012")),
        ("1.0.0.0.0.0.0", True, "1.0.0.0.0.0.0"),
    ],
)
def test_cells_are_shown_with_sensible_digits(cell, is_number, text):
    assert cell_text(cell, is_number) == text


def test_figures_keep_their_place_in_both_modes_and_one_left_out_says_why():
    page = report_html(two_classes())
    for dark, tag in ((False, "img"), (True, "source")):
        png = picture("roc", dark)
        width, height = struct.unpack(">II", png[16:24])
        data = base64.b64encode(png).decode()
        assert re.search(rf'<{tag} [^>]*{re.escape(data)}"[^>]* width="{width}" height="{height}"', page)
    contents = four_classes()
    assert contents.notes["roc"] in words(section(report_html(contents), "trust"))
    read(report_html(replace(contents, figures=[], notes={})))


def test_parameters_are_folded_away_and_candidates_are_listed_by_weight():
    contents = two_classes()
    page = section(report_html(contents), "models")
    before, folded = page.split("<summary>Parameters of a model (40)</summary>")
    assert "alpha_1" not in before
    mechanism, others = folded.split("Parameters of the classes", 1)
    assert "\u22124.070" in mechanism
    assert "mean[benign" not in mechanism
    assert "mean[benign" in others
    rows = [words(row) for row in re.findall(r"<tr>(.*?)</tr>", before, re.S)][1:5]
    for row, facts in zip(rows, contents.findings.model.candidates, strict=True):
        assert facts["candidate"] in row
    assert "modelled 0.500 0.142 ± 0.018 20,000" in rows[0]
    alone = replace(contents, findings=replace(contents.findings, statistical=None, estimates=[]))
    assert "Parameters of" not in words(section(report_html(alone), "models"))


def test_a_report_without_missing_labels_scores_and_figures():
    contents = two_classes()
    findings = replace(
        contents.findings,
        labels=LabelFacts(569, 0, 0, 0, contents.findings.labels.classes, Certainty(0)),
        **dict.fromkeys(("verdict", "confusion", "sensitivity")),
        **{key: [] for key in ("scoreboard", "scores", "estimates", "cautions")},
        missingness=MissingnessFacts(None, None, "", "No label is missing, so there is nothing to test."),
        comparison=Comparison(None, "There is nothing to compare."),
    )
    empty = replace(
        contents, findings=findings, figures=[], thresholds=[], next_rows=RowTable(["a"], [False], [], of=0)
    )
    page = report_html(empty)
    read(page)
    assert 'id="warnings"' not in page
    assert "There is nothing to compare." in words(page)
    assert not re.search(r"\bNone\b(?! of|\.)|\bnan\b", words(re.sub(r"<(script|style).*?</\1>", "", page, flags=re.S)))


def test_the_first_section_has_the_verdict_its_reasons_with_advice_and_the_scoreboard():
    contents = two_classes()
    page = words(section(report_html(contents), "verdict"))
    findings = contents.findings
    assert page.startswith(f"{wording.verdict_title(findings)} {findings.verdict.reasons[0]}")
    warned = words(section(report_html(contents), "warnings"))
    for caution in findings.cautions:
        where, other = (page, warned) if caution.text in findings.verdict.reasons else (warned, page)
        assert f"{caution.text} {caution.advice}".strip() in where
        assert caution.text not in other
    for row in findings.scoreboard:
        cells = [" ".join(wording.estimate(row.accuracy, "share", 1)), " ".join(wording.estimate(row.wrong, "count"))]
        cells += [" ".join(wording.estimate(row.log_loss, "loss")), wording.percent(row.claimed_accuracy, 1)]
        assert " ".join(cells).replace("\u00a0", " ") in page


@pytest.mark.parametrize("n", [2, 12, 30])
def test_each_class_has_its_numbers_and_the_confusion_matrix_the_expected_ones_coloured_by_their_share(n):
    contents = many_classes(n)
    page = section(report_html(contents), "classes")
    counts, facts = contents.findings.confusion, contents.findings.labels.classes
    for one in facts:
        shares = (one.precision, one.recall, one.share)
        texts = [wording.estimate(share) for share in shares if share.value is not None]
        line = " ".join([one.name, f"{one.given:,}", f"{one.imputed:,}", *(" ".join(pair) for pair in texts)])
        assert line.replace("\u00a0", " ") in words(page)
    matrix = re.search(r'<table class="matrix">.*?</table>', page, re.S)[0]
    assert (matrix in page.split("<details")[0]) == (n <= 12)
    cells = re.findall(r'<td(?: class="(right|wrong)-([1-5])")?>(\d*|\u2013)</td>', matrix.split("<tbody>")[1])
    assert len(cells) == n * n
    for (side, shade, text), (i, j) in zip(cells, [(i, j) for i in range(n) for j in range(n)], strict=True):
        if n - 1 in (i, j):  # the class without numbers
            assert text == "\u2013"
            continue
        assert text == (str(int(counts[i][j] + 0.5)) if counts[i][j] >= 0.5 else "")
        if text:
            assert side == ("right" if i == j else "wrong")
            assert abs(int(shade) - 0.5 - 5.0 * counts[i][j] / facts[j].imputed) <= 0.5 + 1e-9


def test_of_many_classes_the_largest_confusions_are_listed_and_the_least_frequent_classes_folded():
    contents = many_classes(30)
    page = section(report_html(contents), "classes")
    listed = re.search(r"Largest confusions</h3>.*?</table>", page, re.S)[0]
    rows = [int(words(row).split()[-3]) for row in re.findall(r"<tr>(.*?)</tr>", listed, re.S)[1:]]
    counts = contents.findings.confusion
    apart = sorted((counts[i][j] for i in range(29) for j in range(29) if i != j), reverse=True)
    assert rows == [int(value + 0.5) for value in apart[:12]]
    more = section(report_html(many_classes(35)), "classes")
    assert len(re.findall('<th scope="row"', more.split("<details")[0])) == 30
    assert 'class="matrix"' not in more


def test_a_comparison_is_won_lost_or_cannot_be_told():
    findings = four_classes().findings
    lost = findings.comparison
    assert "higher by 0.030 (0.010 to 0.050)" in wording.compared(lost)
    assert wording.compared(replace(lost, helped=None)) == lost.sentence
    won = wording.compared(replace(lost, helped=True, gain=0.03, low=0.01, high=0.05))
    assert "lower by 0.030 (0.010 to 0.050)" in won
    rival = two_classes().findings.rival
    assert rival.name in wording.compared(rival)
    assert len({wording.compared(one).split(":")[0] for one in (rival, lost, replace(rival, better=False))}) == 3


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
    assert often in wording.chance(MissingnessFacts(p < 0.05, p, "score test", ""))


def test_the_lead_follows_the_direction_of_the_curve_and_its_checks():
    hard = MissingnessFacts(True, 0.01, "", "", toss_up=0.8, certain=0.1)
    assert wording.missingness_lead(hard).startswith("Hard rows lose")
    assert wording.missingness_lead(replace(hard, toss_up=0.1, certain=0.8)).startswith("Easy rows lose")
    doubtful = replace(hard, doubts=["Labels are missing on one side."])
    assert "seem to" in wording.missingness_lead(doubtful)
    leads = {wording.missingness_lead(one) for one in (hard, doubtful, replace(hard, informative=False))}
    assert len(leads) == 3
    assert len({wording.informative(one) for one in (hard, doubtful, replace(hard, informative=None))}) == 3


def test_numbers_have_a_true_minus_and_thousands_separators():
    assert wording.figure(-1234567.8) == "\u22121,234,568"
    assert wording.figure(-0.5) == "\u22120.5000"
    assert wording.figure(None) == wording.figure(float("nan")) == "\u2013"
    assert wording.estimate(Interval(1234.4, 1000.0, 2000.6), "count") == ("1,234", "(1,000 to 2,001)")
    assert wording.estimate(Interval(), "count") == ("\u2013", "too few labels")


def test_the_page_of_500_rows_is_small():
    rows = [[f"{i}", *[i / (j + 3) for j in range(19)]] for i in range(500)]
    table = RowTable([f"column {j}" for j in range(20)], [False] + [True] * 19, rows, of=100_000)
    assert len(report_html(replace(four_classes(), figures=[], next_rows=table))) < 600_000


def test_the_section_on_sensitivity_has_the_estimates_at_a_few_odds_ratios_and_the_tipping_points():
    contents = two_classes()
    facts, text = contents.findings.sensitivity, words(section(report_html(contents), "sensitivity"))
    twice = facts.odds_ratio.index(2.0)
    columns = ((facts.share, facts.share_interval), (facts.wrong, facts.wrong_interval))
    cells = [" ".join(wording.estimate(Interval(values[twice], *ends[twice]))) for values, ends in columns]
    assert f"twice as likely {' '.join(cells)}".replace("\u00a0", " ") in text
    assert all(sentence in text for sentence in facts.tipping)


@pytest.mark.parametrize(
    ("proba", "missing", "why"),  # of all rows, 80 % have no label
    [
        ([0.48, 0.45, 0.07], 0.89, "'a' (48 %) or 'b' (45 %)"),
        ([0.3, 0.3, 0.4], 0.91, "'c…c' (40 %), 'a' (30 %) or 'b' (30 %); rarely labelled"),
        ([0.2, 0.7, 0.1], 0.2, "'b' (70 %), maybe 'a' (20 %)"),
    ],
)
def test_a_row_is_worth_labelling_for_the_classes_it_may_belong_to(proba, missing, why):
    reason = why_uncertain(["a", "b", 60 * "c"], np.array(proba), missing, 0.8)
    assert re.sub("c+", "c", reason) == why
