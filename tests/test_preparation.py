"""Preparation: the same features from every kind of table, and what is no feature left out with its reason."""

import datetime as dt
import io
import json
import math
import re
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from marmix import (
    MARBoostingClassifier,
    MARClassifierCV,
    MARGaussianMixture,
    MARKernelClassifier,
    MARLogisticRegression,
    MARStudentMixture,
    load,
    save,
)
from marmix.tables import Encoder, Preparation
from marmix.tables.cells import as_days, as_numbers, as_text

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

REAL = st.floats(-1e150, 1e150)  # larger numbers are left out
COLUMNS = {
    "real": st.none() | REAL,
    "whole": st.none() | st.integers(-(2**63), 2**63 - 1),
    "flag": st.none() | st.booleans(),
    "word": st.none() | st.sampled_from(["b", "a", "c d", "ü", "x=1"]),
    "when": st.none() | st.dates(dt.date(1900, 1, 1), dt.date(2090, 1, 1)),
}


@st.composite
def tables(draw):
    """Typed columns, of which the first rows keep each from being constant."""
    n = draw(st.integers(1, 12))
    first = {
        "real": [0.5, -1.5],
        "whole": [1, 2],
        "flag": [True, False],
        "word": ["b", "a"],
        "when": [dt.date(2020, 1, 5), dt.date(2021, 2, 3)],
    }
    kinds = {"real": pa.float64(), "whole": pa.int64(), "flag": pa.bool_(), "word": pa.string(), "when": pa.date32()}
    more = {name: draw(st.lists(cells, min_size=n, max_size=n)) for name, cells in COLUMNS.items()}
    return pa.table({name: pa.array(first[name] + more[name], kinds[name]) for name in COLUMNS})


def through_parquet(table):
    file = io.BytesIO()
    pq.write_table(table, file)
    return pq.read_table(io.BytesIO(file.getvalue()))


KINDS = {
    "text": lambda table: pa.table({name: as_text(table[name]) for name in table.column_names}),
    "chunks": lambda table: pa.Table.from_batches(table.to_batches(max_chunksize=3)),
    "pandas nullable": lambda table: table.to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get),
    "polars": pl.from_arrow,
    "polars categories": lambda table: pl.from_arrow(table).cast({"word": pl.Categorical}),
    "parquet": through_parquet,
    "record batch": lambda table: table.combine_chunks().to_batches()[0],
}


@given(tables(), st.sampled_from(["median", "drop"]))
def test_the_same_data_give_the_same_features_whatever_they_are_stored_in(table, impute):
    fitted = Preparation(impute=impute).fit(table)
    matrix, counts = fitted.transform_counted(table)
    for kind, convert in KINDS.items():
        other = Preparation(impute=impute).fit(convert(table))
        plain = [[{**column, "format": ""} for column in each.columns_] for each in (other, fitted)]
        assert plain[0] == plain[1], kind
        features, kind_counts = fitted.transform_counted(convert(table))
        assert features.tobytes() == matrix.tobytes(), kind
        assert kind_counts == counts, kind


@pytest.mark.parametrize("kind", ["dict", "pandas", "pandas categories"])
def test_every_kind_of_table_gives_these_features(kind):
    frame = pd.DataFrame(
        {
            "real": [0.5, None, 2.5, 1.0],
            "whole": [1, 2, None, 4],
            "flag": [True, None, False, True],
            "word": ["b", "a", None, "b"],
        }
    )
    table = {
        "dict": {name: frame[name].to_numpy() for name in frame},
        "pandas": frame,
        "pandas categories": frame.astype({"word": "category"}),
    }[kind]
    fitted = Preparation().fit(table)
    assert fitted.get_feature_names_out().tolist() == ["real", "whole", "flag", "word=b"]
    expected = [[0.5, 1, 1, 1], [1.0, 2, 1, 0], [2.5, 2, 0, 1], [1.0, 4, 1, 1]]
    np.testing.assert_array_equal(fitted.transform(table), expected)
    assert [column["kind"] for column in fitted.columns_] == ["number", "number", "boolean", "category"]
    assert [column["fill"] for column in fitted.columns_] == [1.0, 2.0, "true", "b"]
    assert [column["missing"] for column in fitted.columns_] == [1, 1, 1, 1]


# Numbers

CELLS = st.one_of(
    st.from_regex(r"\A[+-]?[0-9]{0,5}\.?[0-9]{0,20}([eE][+-]?[0-9]{1,3})?\Z"),
    st.text("0123456789+-.eEinfatyNAx_ \t?", max_size=8),
    REAL.map(repr),
    st.integers().map(str),
)


@given(st.lists(CELLS, min_size=1, max_size=8))
def test_text_is_a_number_where_python_says_so(cells):
    numbers = as_numbers(pa.array(cells))
    for i, cell in enumerate(cells):
        try:
            value = float(cell) if "_" not in cell else math.nan
        except ValueError:
            value = math.nan
        if numbers.missing[i]:
            assert cell.strip() in ("", "NA", "NaN", "nan", "?")
        elif not math.isfinite(value):
            assert numbers.odd[i] or numbers.formatted[i]
        else:
            assert (numbers.values[i], math.copysign(1, numbers.values[i])) == (value, math.copysign(1, value))
        assert math.isnan(numbers.values[i]) == (numbers.missing[i] or numbers.odd[i])


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["25 %", "30%", "-5 %", "7"], [25, 30, -5, 7]),
        (["$5", "€ 6.50", "7 €", "8"], [5, 6.5, 7, 8]),
        (["1,234.5", "2,345", "12,34,567", "7"], [1234.5, 2345, 1234567, 7]),
        (["1.234,5", "1.234.567", "3"], [1234.5, 1234567, 3]),
        (["1 234", "1'234.5", "1\u202f234,5", "2"], [1234, 1234.5, 1234.5, 2]),
        (["1,5", "1,234", "-,5", "2"], [1.5, 1.234, -0.5, 2]),
        (["12,345", "1,000", "999"], [12345, 1000, 999]),
    ],
)
def test_numbers_as_people_write_them_are_numbers_and_said(cells, values):
    fitted = Preparation().fit({"a": cells})
    np.testing.assert_array_equal(fitted.transform({"a": cells})[:, 0], values)
    assert f"{cells[0]!r}, read as {values[0]:g}" in fitted.notes_[0]


def test_a_comma_means_in_later_rows_what_it_meant_in_the_fit():
    fitted = Preparation().fit({"a": ["1,5", "2,25"], "b": ["1,500", "2"]})
    np.testing.assert_array_equal(fitted.transform({"a": ["1,234"], "b": ["1,234"]}), [[1.234, 1234.0]])


def fit(**columns):
    return Preparation().fit(columns)


def test_minus_one_is_a_number_and_markers_are_missing():
    fitted = fit(a=["-1", "NA", "3", "?", " ", "null", "None", "N/A", "NaN"])
    assert fitted.columns_ == [{"name": "a", "kind": "number", "levels": [], "fill": 1.0, "missing": 7}]


STRAYS = {
    "a typing error": ([*"123456789", "abc"], "'abc' in data row 10"),
    "infinity": (["1", "inf", "2", "3", "4"], "'inf' in data row 2"),
    "typed infinity": ([1.0, -math.inf, 2.0, 3.0, 4.0], "'-inf' in data row 2"),
    "overflow": (["1", "1e999", "2", "3", "4"], "'1e999' in data row 2"),
    "several": (["1", "<5", "2", "n.d.", *map(str, range(3, 15))], "'<5' in data row 2, 'n.d.' in data row 4"),
    "no date": (["2020-01-01", "soon", "2020-01-03", "2020-01-04", "2020-03-05"], "'soon' in data row 2"),
}


@pytest.mark.parametrize("case", STRAYS)
def test_a_few_other_cells_are_missing_and_said(case):
    cells, words = STRAYS[case]
    fitted = fit(a=cells)
    (note, *_) = fitted.notes_
    assert words in note
    strays = words.count("data row")
    assert fitted.columns_[0]["missing"] == strays
    _, counts = fitted.transform_counted({"a": cells, "b": cells})
    assert (counts.unseen, counts.missing, len(counts.blank)) == ({}, {}, strays)


def test_a_column_with_fewer_numbers_is_one_of_categories():
    fitted = fit(a=["1", "2", "3", "x", "1", "x"])
    assert (fitted.columns_[0]["levels"], fitted.columns_[0]["fill"]) == (["1", "2", "3", "x"], "1")


# Dates

DAYS = [dt.date(2020, 1, 5), dt.date(2020, 3, 31), dt.date(2021, 12, 24), dt.date(1969, 7, 20)]


@pytest.mark.parametrize(
    "form",
    ["%Y-%m-%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%b-%Y", "%d %B %Y", "%B %d, %Y", "%Y/%m/%d", "%d. %b %Y"],
)
def test_dates_however_they_are_written_are_their_days_month_and_weekday(form):
    table = {"when": [day.strftime(form) for day in DAYS]}
    expected = [[(day - dt.date(1970, 1, 1)).days, day.month, day.isoweekday()] for day in DAYS]
    fitted = Preparation().fit(table)
    assert fitted.get_feature_names_out().tolist() == ["when (days)", "when (month)", "when (weekday)"]
    np.testing.assert_array_equal(fitted.transform(table), expected)
    np.testing.assert_array_equal(fitted.transform({"when": pa.array(DAYS)}), expected)
    assert any("'when' holds dates" in note for note in fitted.notes_)
    assert fitted.transform_counted({"when": ["", "never"]})[1].blank == (0, 1)


def test_dates_as_whole_numbers_are_dates_if_there_are_enough():
    days = [dt.date(2020, 1, 1) + dt.timedelta(37 * i) for i in range(30)]
    for cells in ([int(day.strftime("%Y%m%d")) for day in days], [day.strftime("%Y%m%d") for day in days]):
        np.testing.assert_array_equal(
            Preparation().fit_transform({"when": cells}), Preparation().fit_transform({"when": pa.array(days)})
        )
    assert fit(when=[20200101, 20200202]).columns_[0]["kind"] == "number"


@pytest.mark.parametrize(
    ("cells", "days"),
    [
        (["2020-01-01 06:00", "2020-01-01T12:00:00.5Z"], [18262.25, 18262.5 + 0.5 / 86400]),
        (["06:00", "18:00:00"], [0.25, 0.75]),
        (["1:00:00 AM", "12:30:00 pm"], [1 / 24, 12.5 / 24]),
        (pa.array([dt.datetime(2020, 1, 1, 6), None]), [18262.25, math.nan]),
        (pa.array([dt.time(6), dt.time(18)]), [0.25, 0.75]),
        (["2020-05", "2021-06"], [18383.0, 18779.0]),
        (["1:10", "1:20"], [math.nan, math.nan]),
    ],
)
def test_times_are_shares_of_a_day(cells, days):
    np.testing.assert_allclose(as_days(pa.array(cells)).values, days, rtol=1e-12)


def test_what_two_formats_fit_is_said_and_kept_for_later_rows():
    fitted = fit(when=["1/2/2020", "3/4/2020", "5/6/2021"])
    assert any("rather than" in note for note in fitted.notes_)
    american = fit(when=["1/2/2020", "3/14/2020", "5/6/2021"])
    assert fitted.transform({"when": ["1/2/2020"]})[0, 1] == 2
    assert american.transform({"when": ["1/2/2020"]})[0, 1] == 1


def test_parts_of_dates_that_do_not_vary_are_no_features():
    fitted = fit(when=["2020-01-06", "2020-01-13", "2020-01-20"])
    assert fitted.get_feature_names_out().tolist() == ["when (days)"]
    with pytest.raises(ValueError, match="same value, '2020-01-06'"):
        fit(when=["2020-01-06", "2020-01-06"])


# Categories, and what is left out


def test_truth_is_read_however_it_is_capitalised_and_as_a_number_later():
    fitted = fit(a=["True", "FALSE", "true", ""])
    assert fitted.columns_ == [
        {"name": "a", "kind": "boolean", "levels": ["false", "true"], "fill": "true", "missing": 1}
    ]
    np.testing.assert_array_equal(fitted.transform({"a": ["TRUE", "False", "1", "0.0"]}), [[1], [0], [1], [0]])
    np.testing.assert_array_equal(fitted.transform({"a": [1, 0]}), [[1], [0]])


LEFT_OUT = {
    "a constant": (["x", "x "] * 15, "same value, 'x', in every row"),
    "nothing": (["", "NA"] * 15, "no value"),
    "a constant number": ([3.0] * 30, "same value, '3', in every row"),
    "a constant truth": ([True, None, True] * 10, "same value, 'true', in every filled cell"),
    "many words": ([f"w{i}" for i in range(30)], r"more than 20 different texts .'w0', 'w1', 'w2'"),
    "lists": (pa.array([[i] for i in range(30)]), "holds list"),
    "numbers too large": ([10.0**300, *range(29)], "other units"),
    "last digits": ([1e9 + 1e-6 * (i % 2) for i in range(30)], "last digits"),
}


@pytest.mark.parametrize("case", LEFT_OUT)
def test_columns_that_say_nothing_are_left_out_with_a_note(case):
    cells, words = LEFT_OUT[case]
    x = np.arange(30.0)
    fitted = fit(x=x, a=cells)
    assert (fitted.features_in(), fitted.feature_names_in_) == (["x"], ["x", "a"])
    (note,) = fitted.notes_
    assert "'a'" in note
    assert re.search(words, note)
    np.testing.assert_array_equal(fitted.transform({"x": x})[:, 0], x)
    with pytest.raises(ValueError, match=f"no column can be used as a feature.*{words}"):
        fit(a=cells)


def test_twenty_levels_are_allowed_and_more_on_request():
    cells = [f"w{i}" for i in range(30)]
    assert len(fit(a=cells[:20]).get_feature_names_out()) == 19
    assert len(Preparation(max_levels=30).fit({"a": cells}).get_feature_names_out()) == 29


def test_an_unseen_level_is_missing_and_is_counted():
    table = {"a": ["u", "v", "u"], "x": [1.0, 2.0, 4.0]}
    later = {"x": ["1", "", "three", "4"], "a": ["u", "w", "", "z"], "more": [0, 0, 0, 0]}
    matrix, counts = Preparation().fit(table).transform_counted(later)
    np.testing.assert_array_equal(matrix, [[0, 1], [0, 2], [0, 2], [0, 4]])
    assert (counts.rows, counts.missing, counts.blank) == (1, {}, (1, 2))
    assert (counts.unseen, counts.examples) == ({"a": 1}, {"a": "z"})
    dropped = Preparation(impute="drop").fit(table)
    np.testing.assert_array_equal(dropped.transform(later), [[0, 1], [np.nan] * 2, [np.nan] * 2, [np.nan, 4]])
    assert [column["fill"] for column in dropped.columns_] == [None, None]


def test_errors_of_a_spreadsheet_are_no_category():
    fitted = fit(a=["red", "#REF!", "blue", "red"])
    assert (fitted.columns_[0]["levels"], fitted.columns_[0]["missing"], len(fitted.notes_)) == (["blue", "red"], 1, 1)


@pytest.mark.parametrize("column", ["x", "site", "when"])
def test_a_footer_is_a_row_without_a_feature_wherever_its_text_is(column):
    n = 40
    table = {"x": [*map(str, range(n)), ""], "site": [*(["north", "south"] * 20), ""]}
    table["when"] = [*(f"2020-{1 + i % 12:02}-03" for i in range(n)), ""]
    sound = fit(**{name: cells[:-1] for name, cells in table.items()})
    table[column][-1] = "Checked by A. B."
    fitted = fit(**table)
    assert fitted.get_feature_names_out().tolist() == sound.get_feature_names_out().tolist()
    matrix, counts = fitted.transform_counted(table)
    assert (counts.blank, counts.rows) == ((n,), 0)
    np.testing.assert_array_equal(matrix[:-1], sound.transform({name: cells[:-1] for name, cells in table.items()}))


# A transformer


def test_columns_that_are_not_there_are_told_with_the_nearest_names():
    with pytest.raises(ValueError, match=r"no column 'wieght'\. Did you mean 'weight'"):
        Preparation(features=["wieght"]).fit({"weight": [1, 2]})
    with pytest.raises(ValueError, match=r"no column 'weight', 'age'\. Did you mean 'Weight'"):
        fit(weight=[1, 2], age=[3, 4]).transform({"Weight": [1, 2], "b": [1, 2]})


def test_features_choose_columns_and_their_order():
    fitted = Preparation(features=["c", "a"]).fit({"a": [1, 2], "b": ["x", "y"], "c": [3, 4]})
    np.testing.assert_array_equal(fitted.transform({"a": [1], "c": [9]}), [[9, 1]])
    for wrong, message in (([], "no column is left"), (["a", "a"], "each column once"), ("a", "each column once")):
        with pytest.raises(ValueError, match=message):
            Preparation(features=wrong).fit({"a": [1, 2]})


def test_wrong_parameters_and_empty_tables_are_refused():
    with pytest.raises(ValueError, match="impute='mean' is not one of 'median', 'drop'"):
        Preparation(impute="mean").fit({"a": [1, 2]})
    with pytest.raises(ValueError, match="no rows"):
        fit(a=pa.array([], pa.float64()))
    for wrong in ("<5", [5]):
        with pytest.raises(ValueError, match="must be a list of texts"):
            Preparation(missing_cells=wrong).fit({"a": [1, 2]})


def test_what_was_fitted_is_plain_and_enough_to_transform():
    table = {"a": ["1,5", "", "3"], "b": ["x", "y", "x"], "c": [True, False, None], "d": ["1/2/2020", "3/4/2020", ""]}
    fitted = Preparation().fit(table)
    again = Preparation(**fitted.get_params())
    for name, value in vars(fitted).items():
        if name.endswith("_"):
            setattr(again, name, json.loads(json.dumps(value)))
    assert again.transform(table).tobytes() == fitted.transform(table).tobytes()


@pytest.mark.parametrize(
    "column",
    [
        {"name": "a", "kind": "date", "levels": [], "fill": None, "format": ""},
        {"name": "a", "kind": "date", "levels": ["days"], "fill": None},
        {"name": 1, "kind": "number", "levels": [], "fill": None},
        {"name": "a", "kind": "number", "levels": [], "fill": math.inf},
        {"name": "a", "kind": "category", "levels": ["x", "y"], "fill": "z"},
        {"name": "a", "kind": "boolean", "levels": ["no", "yes"], "fill": None},
        "a",
    ],
)
def test_columns_that_no_fit_leaves_are_refused(column):
    fitted = fit(a=[1, 2])
    fitted.columns_ = [column]
    with pytest.raises(ValueError, match="fit again"):
        fitted.get_feature_names_out()


def test_it_is_a_transformer_of_scikit_learn():
    rng = np.random.default_rng(0)
    x = np.where(rng.random(200) < 0.5, 1.0, -1.0)
    table = pd.DataFrame({"x": x + rng.normal(size=200), "group": np.where(rng.random(200) < 0.5, "a", "b")})
    y = np.where(rng.random(200) < 0.3, -1, (x > 0).astype(int))
    parameters = {"features": None, "impute": "drop", "max_levels": 5, "missing_cells": None, "encode": True}
    assert clone(Preparation(**parameters)).get_params() == parameters
    pipeline = make_pipeline(Preparation(), MARLogisticRegression(link="logit")).fit(table, y)
    by_hand = np.column_stack([table["x"], table["group"] == "b"]).astype(float)
    direct = MARLogisticRegression(link="logit").fit(by_hand, y)
    assert pipeline.predict_proba(table).tobytes() == direct.predict_proba(by_hand).tobytes()
    X = rng.normal(size=(10, 3))
    assert Preparation().fit_transform(X).tobytes() == X.tobytes()


@pytest.mark.parametrize("typed", [False, True])
def test_cells_named_as_missing_count_as_empty_ones_in_fit_and_transform(typed):
    empty = {"x": [1.0, None, 4.0, 9.0, None], "c": ["u", "v", None, "v", "u"], "n": [3, 5, None, 7, 11]}
    coded = {"x": ["1", "<5", "4", "9", " n.d. "], "c": ["u", "v", "<5", "v", "u"], "n": [3, 5, -99, 7, 11]}
    if not typed:
        coded["n"] = [str(number) for number in coded["n"]]
    plain, marked = Preparation(), Preparation(missing_cells=["<5", "n.d.", "-99.0"])
    np.testing.assert_array_equal(marked.fit_transform(coded), plain.fit_transform(empty))
    assert marked.columns_ == plain.columns_


# Estimators on frames


ESTIMATORS = [
    MARGaussianMixture(),
    MARStudentMixture(dof=5.0),
    MARLogisticRegression(mechanism_features=["amount"]),
    MARKernelClassifier(C=1.0, gamma=0.2, n_landmarks=20, mechanism_weight=0.3),
    MARBoostingClassifier(n_estimators=10, mechanism_weight=0.1),
    MARClassifierCV(
        estimators={
            "logistic": MARLogisticRegression(mechanism_features=["amount"]),
            "boosting": MARBoostingClassifier(n_estimators=10, mechanism_weight=0.1),
        },
        cv=2,
    ),
]


@pytest.fixture(scope="module")
def mixed():
    """A frame of every kind of column with gaps, and partially missing labels."""
    rng = np.random.default_rng(0)
    n = 240
    amount, city = rng.normal(size=n), rng.choice(["Oslo", "Rome", "Bonn"], n)
    truth = (amount + (city == "Rome") + 0.5 * rng.normal(size=n) > 0.3).astype(int)
    frame = pd.DataFrame(
        {
            "size": np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n)),
            "amount": amount,
            "member": rng.random(n) < 0.5,
            "city": np.where(rng.random(n) < 0.1, None, city),
            "ward": pd.Categorical(rng.choice(["1", "2", "7"], n)),
            "when": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, n), "D"),
        }
    )
    return frame, np.where(rng.random(n) < 0.4 / (1.0 + amount**2), -1, truth)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda estimator: type(estimator).__name__)
def test_every_estimator_takes_a_frame_as_it_is(estimator, mixed, tmp_path):
    if "Boosting" in repr(estimator):
        pytest.importorskip("lightgbm")
    frame, y = mixed
    clf = clone(estimator).fit(frame, y)
    proba = clf.predict_proba(frame)
    assert clf.feature_names_in_.tolist() == list(frame)
    assert clf.n_features_in_ == frame.shape[1]
    np.testing.assert_array_equal(clf.predict_proba(frame[frame.columns[::-1]]), proba)
    for other in (pl.from_pandas(frame), pa.Table.from_pandas(frame)):
        np.testing.assert_array_equal(clf.predict_proba(other), proba)
        np.testing.assert_array_equal(clone(estimator).fit(other, y).predict_proba(frame), proba)
    gaps = frame.assign(city=None, size=np.nan, ward=None)
    unseen = gaps.assign(city="Lima", ward="3")
    np.testing.assert_array_equal(clf.predict_proba(unseen), clf.predict_proba(gaps))
    save(clf, tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(frame), proba)
    assert again.feature_names_in_.tolist() == list(frame)
    if isinstance(estimator, MARClassifierCV):
        return
    X, names = clf.preparation_.transform(frame), clf.preparation_.get_feature_names_out().tolist()
    direct = clone(estimator).set_params(
        **{} if "mechanism_features" not in repr(estimator) else {"mechanism_features": [1]}
    )
    if isinstance(estimator, MARBoostingClassifier):
        direct.set_params(categorical_features=[names.index("city"), names.index("ward")])
    np.testing.assert_array_equal(direct.fit(X, y).predict_proba(X), proba)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_candidates_other_than_trees_see_arrays_with_gaps_encoded(mixed):
    frame, y = mixed
    X = frame[["size", "amount"]].to_numpy()
    clf = MARClassifierCV(estimators={"": MARLogisticRegression()}, cv=2).fit(X, y)
    steps = make_pipeline(Encoder(), StandardScaler(), MARLogisticRegression()).fit(X, y)
    np.testing.assert_allclose(clf.predict_proba(X), steps.predict_proba(X), rtol=1e-6)
    with pytest.raises(ValueError, match="NaN in column"):
        MARLogisticRegression().fit(X, y)


def test_frames_of_numbers_need_no_pyarrow_and_others_say_so(mixed, monkeypatch):
    frame, y = mixed
    numbers = frame[["amount", "member"]]
    for name in [name for name in sys.modules if name.partition(".")[0] == "pyarrow"]:
        monkeypatch.setitem(sys.modules, name, None)
    for table in (numbers, pl.DataFrame({name: numbers[name].to_numpy() for name in numbers})):
        clf = MARLogisticRegression().fit(table, y)
        expected = MARLogisticRegression().fit(numbers.to_numpy(dtype=float), y)
        np.testing.assert_array_equal(clf.predict_proba(table), expected.predict_proba(numbers.to_numpy(dtype=float)))
    with pytest.raises(ImportError, match="pip install"):
        MARLogisticRegression().fit(frame, y)


def test_columns_that_a_fit_leaves_out_are_warned_of(mixed):
    frame, y = mixed
    with pytest.warns(UserWarning, match="'name' has more than 20 different texts") as warned:
        clf = MARLogisticRegression().fit(frame.assign(name=[f"Mr {i}" for i in range(len(frame))]), y)
    assert {one.filename for one in warned} == {__file__}
    np.testing.assert_array_equal(clf.predict_proba(frame), MARLogisticRegression().fit(frame, y).predict_proba(frame))


def test_trees_take_stored_categories_of_any_number(mixed):
    pytest.importorskip("lightgbm")
    frame, y = mixed
    wide = frame[["amount"]].assign(place=pd.Categorical(np.arange(len(frame)) % 30))
    clf = MARBoostingClassifier(n_estimators=3, mechanism_weight=0.0).fit(wide, y)
    assert clf.preparation_.levels() == [0, 30]
    encoder = Encoder(clf.preparation_.levels()).fit(clf.preparation_.transform(wide))
    assert encoder.transform(clf.preparation_.transform(wide)).shape[1] == 1
