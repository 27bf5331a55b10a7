"""Outputs: whole or not at all; rows as they were, with columns added; formulas detected and escaped."""

import csv
import io
import os
import subprocess
import sys
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marmix.app.reading import Table, csv_lines, formulas, neutralised, read, six_digits, write_rows
from marmix.outputs import new_files, one_file

pa = pytest.importorskip("pyarrow")

FILES = ("a.csv", "b.json")
LINKS = pytest.mark.posix_only("symbolic links without a privilege")


def everything(folder):
    """All files below a folder, with what they hold."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def write_all(part):
    for name in FILES:
        (part / name).write_text(f"new {name}", encoding="utf-8")


NEW = {name: f"new {name}".encode() for name in FILES}


def test_a_new_folder_appears_with_all_files(tmp_path):
    with new_files(tmp_path / "out", FILES) as part:
        write_all(part)
        assert not (tmp_path / "out").exists()
    assert everything(tmp_path) == {f"out/{name}": content for name, content in NEW.items()}
    assert os.listdir(tmp_path) == ["out"]


def test_files_that_are_there_are_replaced_only_by_force_and_others_stay(tmp_path):
    old = {"b.json": b"old", "notes.txt": b"mine"}
    for name, content in old.items():
        (tmp_path / name).write_bytes(content)
    with pytest.raises(FileExistsError, match=r"b\.json exists: .*--force"), new_files(tmp_path, FILES):
        raise AssertionError
    assert everything(tmp_path) == old
    with new_files(tmp_path, FILES, force=True) as part:
        write_all(part)
        assert (tmp_path / "b.json").read_bytes() == b"old"
    assert everything(tmp_path) == old | NEW
    assert set(os.listdir(tmp_path)) == {*old, *NEW}


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("there", [True, False])
def test_an_exception_leaves_nothing_and_touches_nothing(tmp_path, error, there):
    def fail():
        with new_files(out, FILES, force=True) as part:
            write_all(part)
            raise error

    out = tmp_path / "out"
    if there:
        out.mkdir()
        (out / "a.csv").write_text("old", encoding="utf-8")
    before = everything(tmp_path)
    with pytest.raises(error):
        fail()
    assert everything(tmp_path) == before
    assert out.exists() == there
    assert os.listdir(tmp_path) == ["out"] * there


def test_a_program_ended_by_a_signal_leaves_no_file_under_its_name(tmp_path):
    code = (
        "import os, sys; from marmix.outputs import new_files\n"
        "with new_files(sys.argv[1], ['a.csv']) as part:\n"
        "    (part / 'a.csv').write_text('half'); os._exit(9)\n"
    )
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path / "out")], check=False).returncode == 9
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("kind", ["itself", pytest.param("symbolic link", marks=LINKS), "hard link"])
def test_a_source_is_never_replaced(tmp_path, kind):
    source, target = tmp_path / "source", tmp_path / "a.csv"
    if kind == "itself":
        source = target
    source.write_text("mine", encoding="utf-8")
    if kind != "itself":
        (target.symlink_to if kind == "symbolic link" else target.hardlink_to)(source)
    for out in (new_files(tmp_path, FILES, force=True, sources=[source]), one_file(target, True, sources=[source])):
        with pytest.raises(FileExistsError, match=r"a\.csv is the file that is read"), out:
            raise AssertionError
    assert source.read_text(encoding="utf-8") == "mine"


def test_places_where_nothing_can_be_written_are_refused_at_once(tmp_path):
    (tmp_path / "file").write_text("x", encoding="utf-8")
    (tmp_path / "a.csv").mkdir()
    for folder, error, message in (
        (tmp_path / "file", NotADirectoryError, "is a file, where a folder is to be made"),
        (tmp_path / "no" / "out", FileNotFoundError, "there is no folder .*: make it first"),
        (tmp_path, FileExistsError, r"a\.csv is a folder"),
    ):
        with pytest.raises(error, match=message), new_files(folder, FILES, force=True):
            raise AssertionError


@LINKS
def test_links_are_never_followed(tmp_path):
    precious, link = tmp_path / "precious", tmp_path / "rows.csv"
    precious.write_text("mine", encoding="utf-8")
    link.symlink_to(precious)
    with pytest.raises(FileExistsError), one_file(link):
        raise AssertionError
    with one_file(link, force=True) as part:
        part.write_text("new", encoding="utf-8")
    assert not link.is_symlink()
    assert (link.read_text(encoding="utf-8"), precious.read_text(encoding="utf-8")) == ("new", "mine")


# Rows

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=6)
NASTY = TEXT | st.sampled_from(['"', ",", "\n", "\r\n", 'a"b', "=1+1", "", " ", "-5", "@x", "\t", "-cmd"])


def table_of(**columns):
    return Table(Path("rows.csv"), pa.table(columns))


@given(st.integers(1, 4).flatmap(lambda d: st.lists(st.lists(NASTY, min_size=d, max_size=d), min_size=1, max_size=8)))
def test_lines_are_those_of_the_csv_module(rows):
    columns = [pa.array(cells, pa.string()) for cells in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        file = io.StringIO(newline="")
        csv.writer(file, lineterminator="\r\n").writerow(row)  # so that both characters are quoted
        lines.append(file.getvalue().removesuffix("\r\n") + "\n")
    assert csv_lines(columns) == "".join(lines)


@given(st.lists(st.tuples(NASTY, NASTY, st.floats(0, 1)), min_size=1, max_size=8))
def test_what_was_written_is_read_again_cell_by_cell(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("rows") / "rows.csv"
    first, second, p = zip(*rows, strict=True)
    write_rows(path, table_of(**{"id": first, "b,c": second}), {"p": np.array(p)})
    table = read(path, delimiter=",", decimal=".")
    assert table.text("id").to_pylist() == list(first)
    assert table.text("b,c").to_pylist() == list(second)
    np.testing.assert_allclose([float(cell) for cell in table.text("p").to_pylist()], p, rtol=5.1e-6)


def test_typed_columns_and_added_ones_are_written_for_people_into_an_open_file():
    table = table_of(n=[1, None], x=[0.5, 2.0], yes=[True, None], word=["a,b", None])
    added = {"label": np.array(["u", ""], dtype=object), "code": np.array([3, 4]), "p": np.array([1 / 3, np.nan])}
    file = io.BytesIO()
    write_rows(file, table, added)
    assert file.getvalue() == b'n,x,yes,word,label,code,p\n1,0.5,true,"a,b",u,3,0.333333\n,2,,,,4,\n'


def test_many_rows_are_written_in_their_order(tmp_path):
    n = 2**17 + 3
    write_rows(tmp_path / "rows.csv", table_of(i=np.arange(n)), {"j": np.arange(n)})
    lines = (tmp_path / "rows.csv").read_text(encoding="utf-8").splitlines()
    assert lines == ["i,j", *(f"{i},{i}" for i in range(n))]


def test_names_and_cells_that_cannot_be_written_are_refused(tmp_path):
    with pytest.raises(ValueError, match="the name 'b'"):
        write_rows(tmp_path / "rows.csv", table_of(a=[1], b=[2]), {"b": np.array([1.0])})
    path = tmp_path / "in.csv"
    path.write_bytes("a,b\n1,ü\n".encode("cp1252"))
    with pytest.raises(ValueError, match="'Ω' cannot be written in cp1252"):
        write_rows(tmp_path / "rows.csv", read(path), {"p_Ω": np.array([1.0])})


@given(st.lists(st.floats(), min_size=1, max_size=20))
def test_numbers_have_six_significant_digits(values):
    for value, text in zip(values, six_digits(np.array(values)).to_pylist(), strict=True):
        if np.isnan(value):
            assert text == ""
        elif np.isinf(value):
            assert float(text) == value
        else:
            assert float(text) == pytest.approx(value, rel=5.00001e-6, abs=0) or float(text) == float(f"{value:.6g}")
            assert len(text.lstrip("-").split("e")[0].replace(".", "").strip("0")) <= 6


def test_probabilities_are_written_short():
    values = np.array([0.0, 1.0, 0.5, 0.1 + 0.2, 1 / 3, 1e-9, 0.99999999, 1.23456789e-25])
    assert six_digits(values).to_pylist() == ["0", "1", "0.5", "0.3", "0.333333", "1e-9", "1", "1.23457e-25"]


# Formulas

RUN = ["=cmd|' /C calc'!A0", "+1+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "-x", "--1", "-2,5", "+1e", "=", "@"]
HARMLESS = ["", "+", "a", "1", "-1", "+1.5", "-.5", "-5.", "-1e-5", "+2E10", "-", "a=1", " -1", "\u22121 ", "'=1", "ü"]


def test_cells_that_a_spreadsheet_would_run_are_found():
    assert formulas(pa.array(RUN)).all()
    assert not formulas(pa.array(HARMLESS)).any()
    assert formulas(pa.array(["-2,5", "-2.5"]), ",").tolist() == [False, True]


def test_blanks_and_every_form_of_a_sign_that_unicode_normalises_are_found():
    letters = [letter for letter in map(chr, range(0x10000)) if not "\ud800" <= letter <= "\udfff"]
    plain = {letter: unicodedata.normalize("NFKC", letter)[:1] for letter in letters}
    signs = [letter for letter in letters if plain[letter] in ("=", "+", "-", "@", "\u2212")]
    blanks = [letter for letter in letters if letter.isspace() or unicodedata.category(letter) in ("Cc", "Cf", "Zs")]
    blanks.remove("\0")
    assert {"\uff1d", "\uff0b", "\uff0d", "\uff20"} <= set(signs)
    assert formulas(pa.array([f"{sign}cmd" for sign in signs])).all()
    assert formulas(pa.array([f"{blank}=1" for blank in blanks] + [f"{blank} \uff1d1" for blank in blanks])).all()
    others = [letter for letter in letters if letter not in {*signs, *"\t\r\n"}]
    assert not formulas(pa.array([f"{letter}1" for letter in others])).any()


def test_formulas_are_counted_and_made_plain_text_only_if_asked():
    table = table_of(**{"=name": ["=1+1", "-5"], "b": ["x", "@y"]})
    texts = {}
    for escape in (False, True):
        file = io.BytesIO()
        added = {"-p_=class": np.array(["=class", "a"], dtype=object)}
        assert write_rows(file, table, added, escape_formulas=escape) == 5
        texts[escape] = file.getvalue().decode()
    assert texts[False] == "=name,b,-p_=class\n=1+1,x,=class\n-5,@y,a\n"
    assert texts[True] == "'=name,b,'-p_=class\n'=1+1,x,'=class\n-5,'@y,a\n"


@given(st.lists(NASTY, max_size=10))
def test_what_was_neutralised_begins_like_no_formula(cells):
    text = pa.array(cells, pa.string())
    which = formulas(text)
    escaped = neutralised(text, which)
    assert not formulas(escaped).any()
    assert [
        cell.removeprefix("'") if odd else cell for cell, odd in zip(escaped.to_pylist(), which, strict=True)
    ] == cells
