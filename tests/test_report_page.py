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

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reports import FEW, HOSTILE, four_classes, many_classes, picture, two_classes, with_texts

from marmix.journey.scoring import why_uncertain
from marmix.pages import report_html, wording
from marmix.pages.contents import Certainty, Comparison, Estimate, LabelFacts, MissingnessFacts, RowTable
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
    order = ["verdict", "warnings", "classes", "rows", "missingness", "trust", "threshold", "shapes", "sensitivity"]
    order += ["models", "reproduce"]
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
    assert page.count('media="screen and (prefers-color-scheme: dark)"') == 6


def test_a_figure_left_out_says_why_in_its_place():
    contents = four_classes()
    assert contents.notes["roc"] in words(section(report_html(contents), "trust"))
    bare = report_html(replace(contents, figures=[], notes={}))
    assert bare.count("could not be drawn") == 6
    read(bare)


def test_parameters_are_folded_away_those_of_the_mechanism_first():
    page = section(report_html(two_classes()), "models")
    before, folded = page.split("<summary>Parameters of a model (40)</summary>")
    assert "alpha_1" not in before
    mechanism, others = folded.split("Parameters of the classes", 1)
    assert "alpha_1" in mechanism
    assert "\u22124.070" in mechanism
    assert "mean[benign" not in mechanism
    assert "mean[benign" in others


def test_candidates_are_listed_by_weight_with_their_scores():
    contents = two_classes()
    page = section(report_html(contents), "models")
    model, text = contents.findings.model, words(page)
    assert model.name in text
    assert model.rule in text
    rows = [words(row) for row in re.findall(r"<tr>(.*?)</tr>", page)][1:5]
    for row, facts in zip(rows, model.candidates, strict=True):
        assert facts["candidate"] in row
    assert "modelled 0.500 0.142 ± 0.018 20,000" in rows[0]


def test_a_report_on_other_rows_or_of_a_single_model_has_no_table_of_candidates():
    page = section(report_html(four_classes()), "models")
    assert "weights and scores" not in page
    assert "in the average" not in page
    assert "weight 0.50 in the average" in words(section(report_html(two_classes()), "models"))


def test_a_report_without_parameters_says_so():
    findings = replace(two_classes().findings, statistical=None, estimates=[])
    page = report_html(replace(two_classes(), findings=findings))
    read(page)
    assert "Parameters of" not in words(section(page, "models"))


def test_a_report_without_missing_labels_scores_and_figures():
    contents = two_classes()
    findings = replace(
        contents.findings,
        labels=LabelFacts(569, 0, 0, 0, contents.findings.labels.classes, Certainty(0)),
        verdict=None,
        scoreboard=[],
        confusion=None,
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
    assert "No label is missing" in words(section(page, "verdict"))
    assert 'id="warnings"' not in page
    assert "Not tested" in words(page)
    assert "There is nothing to compare." in words(page)
    assert not re.search(r"\bNone\b(?! of|\.)|\bnan\b", words(re.sub(r"<(script|style).*?</\1>", "", page, flags=re.S)))


def test_the_first_section_has_the_verdict_its_reasons_and_the_scoreboard():
    page = words(section(report_html(two_classes()), "verdict"))
    assert page.startswith("Use with care About 15 of the 212 imputed labels are wrong (8 to 24).")
    for fact in (
        f"{FEW} Label more of them.",
        "Rows 569 Labels given 357 63 % Labels imputed 212 37 % At least 90 % sure 161 76 % of them",
        "marmix this report 95.1 % (93.1 to 96.6) 15 (9 to 24) 0.142 (0.112 to 0.182) 97.8 % 0.077",
        "random forest 93.8 % (91.8 to 95.3) 20 (14 to 29) 0.180 (0.150 to 0.220) 96.5 % 0.115",
        "Yes: the log-loss is lower by 0.038 (0.015 to 0.061) than that of random forest",
    ):
        assert fact in page
    for use, title in wording.VERDICTS.items():
        findings = two_classes().findings
        other = replace(two_classes(), findings=replace(findings, verdict=replace(findings.verdict, use=use)))
        assert words(section(report_html(other), "verdict")).startswith(title)


def test_warnings_that_are_no_reasons_follow_with_what_to_do_and_notes_are_folded():
    page = section(report_html(two_classes()), "warnings")
    seen, notes = page.split("<details", 1)
    assert "Caution The rows are not independent. Give one row per patient." in words(seen)
    assert FEW not in page
    assert "1 note In 12 rows a feature was missing" in words(f"<details{notes}")


def test_each_class_has_its_labels_precision_and_recall_with_intervals():
    page = section(report_html(two_classes()), "classes")
    assert "benign 245 112 95 % (85 to 100) 95 % (85 to 100) 50 % (40 to 56)" in words(page)
    none = words(section(report_html(many_classes(3)), "classes"))
    assert "kind 2 4 0 \u2013 none imputed \u2013 too few labels \u2013 too few labels" in none


@pytest.mark.parametrize("n", [2, 3, 12, 30])
def test_the_confusion_matrix_has_the_expected_numbers_coloured_by_their_share(n):
    contents = many_classes(n)
    page = section(report_html(contents), "classes")
    matrix = re.search(r'<table class="matrix">.*?</table>', page, re.S)[0]
    assert (matrix in page.split("<details")[0]) == (n <= 12)
    counts, facts = contents.findings.confusion, contents.findings.labels.classes
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
    rows = [int(words(row).split()[-3]) for row in re.findall(r"<tr>(.*?)</tr>", listed)[1:]]
    counts = contents.findings.confusion
    apart = sorted((counts[i][j] for i in range(29) for j in range(29) if i != j), reverse=True)
    assert rows == [int(value + 0.5) for value in apart[:12]]
    more = section(report_html(many_classes(35)), "classes")
    assert "The other 5 classes" in words(more)
    assert 'class="matrix"' not in more


def test_the_rows_to_label_come_with_reasons_and_numbers():
    page = words(section(report_html(two_classes()), "rows"))
    assert "expected to be wrong to 5 %, label about 12 of these rows; to 2 %, label about 60." in page
    assert "'benign' (48 %) or 'malignant' (45 %)" in page
    assert "label about" not in words(section(report_html(four_classes()), "rows"))


def test_the_scale_of_uncertainty_is_said_once():
    assert words(report_html(two_classes())).count("Uncertainty runs from 0") == 1


def test_a_result_against_us_is_printed_as_plainly():
    contents = four_classes()
    page = report_html(contents)
    assert words(section(page, "verdict")).startswith("Do not use these labels The fit did not converge")
    assert "Not imputed, features missing 12" in words(section(page, "verdict"))
    missingness = words(section(page, "missingness"))
    assert "No, it made things worse: the log-loss is higher by 0.030 (0.010 to 0.050)" in missingness
    assert "No clear sign" in missingness
    assert "did not converge" in words(section(page, "models"))
    scored = replace(contents.findings, scoreboard=two_classes().findings.scoreboard)
    verdict = words(section(report_html(replace(contents, findings=scored)), "verdict"))
    assert "No, it is worse: the log-loss is higher by 0.038 (0.020 to 0.060)" in verdict


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
    text = words(section(report_html(two_classes()), "sensitivity"))
    assert (
        "twice as likely to lose its label as the other classes, 43 % of all rows would be \u2018 malignant \u2019"
        in text
    )
    assert "7 % of the imputed labels would change" in text
    assert "twice as likely 43 % (37 to 47) 14 % (9 to 18) 7 % (2 to 8)" in text
    assert "1.6 times as likely" in text
    complete = replace(two_classes(), findings=replace(two_classes().findings, sensitivity=None))
    assert "No label is missing" in section(report_html(complete), "sensitivity")


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
    assert "rows seem to lose" in section(report_html(replace(contents, findings=doubtful)), "missingness")
    assert "fails its checks" in wording.missingness_lead(doubtful.missingness)
    assert "fails its checks" not in report_html(contents)


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
