"""Outputs: whole or not at all; rows as they were, with columns added; formulas detected and escaped."""

import contextlib
import csv
import errno
import io
import os
import stat
import subprocess
import sys
import tempfile
import threading
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marmix import outputs
from marmix.tables import Output, RowWriter, one_file, open_table
from marmix.tables.writing import csv_lines, formulas, neutralised, six_digits, write_table

pa = pytest.importorskip("pyarrow")

FILES = ("a.csv", "b.json")
LINKS = pytest.mark.posix_only("symbolic links without a privilege")


def everything(folder):
    """All files below a folder, with what they hold."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def write_all(output, text="new"):
    for name in FILES:
        output.path(name).write_text(f"{text} {name}", encoding="utf-8")


def test_a_new_folder_appears_with_all_files(tmp_path):
    with Output(tmp_path / "out", FILES) as output:
        write_all(output)
        (output.scratch / "features.npy").write_bytes(b"large")
        assert not (tmp_path / "out").exists()
    assert everything(tmp_path) == {"out/a.csv": b"new a.csv", "out/b.json": b"new b.json"}
    assert os.listdir(tmp_path) == ["out"]


def test_a_folder_that_is_there_keeps_its_other_files(tmp_path):
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    with Output(tmp_path, FILES) as output:
        write_all(output)
    assert everything(tmp_path) == {"a.csv": b"new a.csv", "b.json": b"new b.json", "notes.txt": b"mine"}


def test_files_that_are_there_are_replaced_only_by_force(tmp_path):
    (tmp_path / "b.json").write_text("old", encoding="utf-8")
    with pytest.raises(FileExistsError, match=r"b\.json exists: .*--force"), Output(tmp_path, FILES):
        raise AssertionError
    assert everything(tmp_path) == {"b.json": b"old"}
    with Output(tmp_path, FILES, force=True) as output:
        write_all(output)
        assert (tmp_path / "b.json").read_text(encoding="utf-8") == "old"
    assert everything(tmp_path) == {"a.csv": b"new a.csv", "b.json": b"new b.json"}


def write_and_fail(folder, error):
    with Output(folder, FILES, force=True) as output:
        write_all(output)
        (output.scratch / "part").write_text("x", encoding="utf-8")
        raise error


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("there", [True, False])
def test_an_exception_leaves_nothing_and_touches_nothing(tmp_path, error, there):
    out = tmp_path / "out"
    if there:
        out.mkdir()
        (out / "a.csv").write_text("old", encoding="utf-8")
    before = everything(tmp_path)
    with pytest.raises(error):
        write_and_fail(out, error)
    assert everything(tmp_path) == before
    assert out.exists() == there


def test_a_file_that_was_not_written_undoes_all(tmp_path):
    for name in FILES:
        (tmp_path / name).write_text(f"old {name}", encoding="utf-8")
    with pytest.raises(FileNotFoundError), Output(tmp_path, FILES, force=True) as output:
        output.path("a.csv").write_text("new", encoding="utf-8")
    assert everything(tmp_path) == {name: f"old {name}".encode() for name in FILES}
    assert sorted(os.listdir(tmp_path)) == sorted(FILES)


def interrupt(monkeypatch, step, error):
    """Make `error` end the given step of a move: names are written down, two files go out of the way, two into place."""
    steps = 0

    def counted(function):
        def interrupted(*paths):
            nonlocal steps
            function(*paths)
            steps += 1
            if steps == step:
                raise error

        return interrupted

    for name in ("replace", "rename", "link"):
        monkeypatch.setattr(os, name, counted(getattr(os, name)))


def write_until(folder, force, step, error, monkeypatch):
    """Write the files, ended by an error at a step of the moves, or before them at step 0."""
    with Output(folder, FILES, force=force) as output:
        write_all(output)
        (output.scratch / "large").write_text("x", encoding="utf-8")
        if not step:
            raise error
        interrupt(monkeypatch, step, error)


@pytest.mark.parametrize("step", [1, 2, 3, 4, 5])
def test_an_interruption_while_files_are_moved_undoes_all(tmp_path, monkeypatch, step):
    for name in FILES:
        (tmp_path / name).write_text(f"old {name}", encoding="utf-8")
    before = everything(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        write_until(tmp_path, True, step, KeyboardInterrupt, monkeypatch)
    assert everything(tmp_path) == before


def without_links(*paths):
    raise OSError(errno.EOPNOTSUPP, "no links")


class Killed(BaseException):
    """Ends a run as a kill does: nothing is cleared."""


@pytest.mark.parametrize("links", [True, False])
@pytest.mark.parametrize(
    ("there", "step"), [*((True, step) for step in range(6)), *((False, step) for step in range(4))]
)
def test_what_a_killed_run_leaves_is_cleaned_by_the_next_one_in_the_folder(tmp_path, monkeypatch, there, step, links):
    """The files are those of before, or all new ones if the run was killed after the last step."""
    if not links:
        monkeypatch.setattr(os, "link", without_links)
    for name in FILES if there else ():
        (tmp_path / name).write_text(f"old {name}", encoding="utf-8")
    before = everything(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(outputs, "_undo", lambda *paths: None)
        patch.setattr(Output, "_clear", lambda self: [os.close(handle) for handle in self._locks.handles.values()])
        with pytest.raises(Killed):
            write_until(tmp_path, there, step, Killed, patch)
    assert len(os.listdir(tmp_path)) > len(before)
    with one_file(tmp_path / "other") as part:
        part.write_text("x", encoding="utf-8")
    (tmp_path / "other").unlink()
    complete = step == (5 if there else 3)
    assert everything(tmp_path) == ({name: f"new {name}".encode() for name in FILES} if complete else before)
    assert set(os.listdir(tmp_path)) == set(everything(tmp_path))


def test_a_file_that_got_the_name_of_a_replaced_one_meanwhile_stays_and_the_replaced_one_is_kept(tmp_path, monkeypatch):
    (tmp_path / "a.csv").write_text("old", encoding="utf-8")
    with monkeypatch.context() as patch:
        patch.setattr(outputs, "_undo", lambda *paths: None)
        patch.setattr(Output, "_clear", lambda self: [os.close(handle) for handle in self._locks.handles.values()])
        with pytest.raises(Killed):
            write_until(tmp_path, True, 2, Killed, patch)
    (tmp_path / "a.csv").write_text("other", encoding="utf-8")
    with one_file(tmp_path / "b") as part:
        part.write_text("x", encoding="utf-8")
    assert (tmp_path / "a.csv").read_text(encoding="utf-8") == "other"
    assert [path.read_text(encoding="utf-8") for path in tmp_path.glob(".marmix-*/old/a.csv")] == ["old"]


@pytest.mark.parametrize("kind", [pytest.param("link", marks=LINKS), "folder", "of another user"])
def test_a_hidden_file_that_is_no_lock_of_ours_is_left_alone(tmp_path, monkeypatch, kind):
    """Everybody may write to some folders, such as /tmp."""
    path = tmp_path / ".marmix-0123456789abcdef.lock"
    if kind == "link":
        path.symlink_to(tmp_path / "absent")
    elif kind == "folder":
        path.mkdir()
    else:
        path.touch()
        opened = os.open

        def denied(file, *arguments, **options):
            if Path(file) == path:
                raise PermissionError(errno.EACCES, "Permission denied", str(file))
            return opened(file, *arguments, **options)

        monkeypatch.setattr(os, "open", denied)
    with one_file(tmp_path / "a.csv") as part:
        part.write_text("x", encoding="utf-8")
    assert sorted(os.listdir(tmp_path)) == [path.name, "a.csv"]


@pytest.mark.posix_only("users")
def test_two_users_write_different_files_of_one_folder_at_a_time():
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o1777)
        with one_file(folder / "a.csv") as part:
            part.write_text("x", encoding="utf-8")
            os.seteuid(1234)
            try:
                with one_file(folder / "b.csv") as other:
                    other.write_text("y", encoding="utf-8")
            finally:
                os.seteuid(0)
        assert everything(folder) == {"a.csv": b"x", "b.csv": b"y"}


# Enters an output, says so, and ends when it may or is killed; the module needs no other.
WRITER = f"""
import runpy, sys
Output = runpy.run_path({outputs.__file__!r})["Output"]
with Output(sys.argv[1], sys.argv[2:], force=True) as output:
    for name in sys.argv[2:]:
        output.path(name).write_text("theirs")
    print("in", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def writer():
    """Start another process that writes files to a folder, and wait until it has begun."""
    with contextlib.ExitStack() as running:

        def start(*words):
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
            process = running.enter_context(
                subprocess.Popen([sys.executable, "-c", WRITER, *words], text=True, **pipes, encoding="utf-8")
            )
            running.callback(process.kill)
            assert process.stdout.readline() == "in\n"
            return process

        yield start


@pytest.mark.posix_only("locks that end with their process")
@pytest.mark.parametrize("there", [True, False])
def test_one_run_at_a_time_writes_a_folder_and_the_folder_of_a_live_one_is_left_alone(tmp_path, writer, there):
    out = tmp_path / "out"
    if there:
        out.mkdir()
    process = writer(str(out), *FILES)
    hidden = set(os.listdir(out if there else tmp_path))
    for force in (True, False):
        with pytest.raises(OSError, match=f"another run .process {process.pid}"), Output(out, FILES, force=force):
            raise AssertionError
    (out if there else tmp_path).joinpath("mine").write_text("x", encoding="utf-8")
    with one_file((out if there else tmp_path) / "mine", force=True) as part:  # another file of the folder
        part.write_text("y", encoding="utf-8")
    assert set(os.listdir(out if there else tmp_path)) == hidden | {"mine"}
    process.communicate("end\n")
    assert process.returncode == 0
    assert (out / FILES[0]).read_text(encoding="utf-8") == (out / FILES[1]).read_text(encoding="utf-8") == "theirs"
    with pytest.raises(FileExistsError), Output(out, FILES):
        raise AssertionError
    process = writer(str(out), *FILES)
    process.kill()
    process.wait()
    with Output(out, FILES, force=True) as output:
        write_all(output)
    assert {name for name in os.listdir(out) if name != "mine"} == set(FILES)
    assert (out / FILES[0]).read_text(encoding="utf-8") == "new a.csv"


@pytest.mark.parametrize(
    "kind",
    [
        "itself",
        pytest.param("symbolic link", marks=LINKS),
        "hard link",
        pytest.param("link to the source", marks=LINKS),
    ],
)
def test_a_source_is_never_replaced(tmp_path, kind):
    source, target = tmp_path / "source", tmp_path / "a.csv"
    if kind == "itself":
        source = tmp_path / "." / "x" / ".." / "a.csv"
        (tmp_path / "x").mkdir()
        target.write_text("mine", encoding="utf-8")
    elif kind == "link to the source":
        target.write_text("mine", encoding="utf-8")
        source.symlink_to(target)
    else:
        source.write_text("mine", encoding="utf-8")
        (target.symlink_to if kind == "symbolic link" else target.hardlink_to)(source)
    for force in (True, False):
        for out in (Output(tmp_path, FILES, force=force, sources=[source]), one_file(target, force, sources=[source])):
            with pytest.raises(FileExistsError, match=r"a\.csv is the file that is read"), out:
                raise AssertionError
    assert source.read_text(encoding="utf-8") == target.read_text(encoding="utf-8") == "mine"


def test_a_file_that_somebody_wrote_meanwhile_is_not_replaced(tmp_path):
    def meanwhile():
        with Output(tmp_path, FILES) as output:
            write_all(output)
            (tmp_path / "a.csv").write_text("theirs", encoding="utf-8")

    with pytest.raises(FileExistsError):
        meanwhile()
    assert everything(tmp_path) == {"a.csv": b"theirs"}


def test_places_where_nothing_can_be_written_are_refused_at_once(tmp_path):
    (tmp_path / "file").write_text("x", encoding="utf-8")
    (tmp_path / "a.csv").mkdir()
    for folder, error, message in (
        (tmp_path / "file", NotADirectoryError, "is a file, where a folder is to be made"),
        (tmp_path / "no" / "out", FileNotFoundError, "there is no folder .*: make it first"),
        (tmp_path, FileExistsError, r"a\.csv exists and is a folder"),
    ):
        with pytest.raises(error, match=message), Output(folder, FILES, force=True):
            raise AssertionError


@pytest.mark.posix_only("permissions")
def test_a_folder_without_permission_is_refused(tmp_path):
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    tmp_path.chmod(0o500)
    with pytest.raises(OSError, match=r"cannot be written .Permission denied"), Output(tmp_path / "out", FILES):
        raise AssertionError


def test_only_files_that_were_named_are_written(tmp_path):
    with pytest.raises(ValueError, match=r"c\.txt is not one of the files"), Output(tmp_path / "out", FILES) as output:
        output.path("c.txt")
    assert os.listdir(tmp_path) == []


def test_a_killed_program_leaves_no_file_under_its_name(tmp_path):
    code = (
        f"import os, runpy, sys; Output = runpy.run_path({outputs.__file__!r})['Output']\n"
        "with Output(sys.argv[1], ['a.csv']) as output:\n"
        "    output.path('a.csv').write_text('half'); os._exit(9)\n"
    )
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path / "out")], check=False).returncode == 9
    assert not (tmp_path / "out").exists()


def test_one_file_is_there_when_it_is_whole(tmp_path):
    path = tmp_path / "rows.csv"
    with one_file(path) as part:
        part.write_text("new", encoding="utf-8")
        assert not path.exists()
    assert everything(tmp_path) == {"rows.csv": b"new"}
    with pytest.raises(FileExistsError, match=r"rows\.csv exists: .*--force to replace it"), one_file(path):
        raise AssertionError
    with pytest.raises(KeyboardInterrupt), one_file(path, force=True):
        raise KeyboardInterrupt
    assert everything(tmp_path) == {"rows.csv": b"new"}
    with one_file(path, force=True) as part:
        part.write_text("newer", encoding="utf-8")
    assert everything(tmp_path) == {"rows.csv": b"newer"}
    with pytest.raises(IsADirectoryError, match="is a folder"), one_file(tmp_path, force=True):
        raise AssertionError
    with pytest.raises(FileNotFoundError, match="there is no folder"), one_file(tmp_path / "no" / "rows.csv"):
        raise AssertionError


@LINKS
def test_a_planted_link_is_never_followed(tmp_path):
    """A link under the name of the output is refused, or replaced itself; the file that it names stays as it was."""
    precious, link = tmp_path / "precious", tmp_path / "rows.csv"
    precious.write_text("mine", encoding="utf-8")
    link.symlink_to(precious)
    with pytest.raises(FileExistsError), one_file(link):
        raise AssertionError
    with one_file(link, force=True) as part:
        part.write_text("new", encoding="utf-8")
    assert not link.is_symlink()
    assert link.read_text(encoding="utf-8") == "new"
    assert precious.read_text(encoding="utf-8") == "mine"


@LINKS
def test_a_link_to_nothing_is_refused_at_once(tmp_path):
    (tmp_path / "out").symlink_to(tmp_path / "absent")
    (tmp_path / "a.csv").symlink_to("a.csv")  # to itself
    for folder in (tmp_path / "out", tmp_path):
        with (
            pytest.raises(FileExistsError, match=r"is a link to .*, which does not exist"),
            Output(folder, FILES, force=True),
        ):
            raise AssertionError
    assert sorted(os.listdir(tmp_path)) == ["a.csv", "out"]


@pytest.mark.posix_only("permissions")
def test_only_the_user_may_enter_the_folder_of_unfinished_files(tmp_path):
    with Output(tmp_path, FILES) as output:
        write_all(output)
        (hidden,) = (path for path in tmp_path.iterdir() if path.is_dir())
        assert stat.S_IMODE(hidden.stat().st_mode) == 0o700
    with Output(tmp_path / "out", FILES) as output:
        write_all(output)
    (tmp_path / "other").mkdir()
    modes = {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("out", "other")}
    assert len(modes) == 1


@pytest.mark.posix_only("named pipes")
def test_a_pipe_is_written_as_it_is(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    with one_file(pipe) as path:
        path.write_text("rows", encoding="utf-8")
    reader.join()
    assert read == [b"rows"]
    assert pipe.is_fifo()


TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=6)
NASTY = TEXT | st.sampled_from(['"', ",", "\n", "\r\n", 'a"b', "=1+1", "", " ", "-5", "@x", "\t", "-cmd"])


@given(st.integers(1, 4).flatmap(lambda d: st.lists(st.lists(NASTY, min_size=d, max_size=d), min_size=1, max_size=8)))
def test_lines_are_those_of_the_csv_module(rows):
    columns = [pa.array(cells, pa.string()) for cells in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        file = io.StringIO(newline="")
        csv.writer(file, lineterminator="\r\n").writerow(row)  # so that both characters are quoted
        lines.append(file.getvalue().removesuffix("\r\n") + "\n")
    assert csv_lines(columns).decode() == "".join(lines)
    sliced = [pa.concat_arrays([pa.array(["x"]), column]).slice(1) for column in columns]
    assert csv_lines(sliced) == csv_lines(columns)


@given(st.lists(st.tuples(NASTY, NASTY, st.floats(0, 1)), min_size=1, max_size=8))
def test_what_was_written_is_read_again_cell_by_cell(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("rows")
    first, second, p = zip(*rows, strict=True)
    batch = pa.record_batch({"id": pa.array(first), "b,c": pa.array(second)})
    with RowWriter(folder / "rows.csv", ["id", "b,c"], ["marmix_p"]) as writer:
        writer.write(batch.slice(0, 3), [np.array(p[:3])])
        writer.write(batch.slice(3), [np.array(p[3:])])
    assert writer.rows == len(rows)
    table = pa.Table.from_batches(open_table(folder / "rows.csv").batches()).to_pydict()
    assert table["id"] == list(first)
    assert table["b,c"] == list(second)
    np.testing.assert_allclose([float(cell) for cell in table["marmix_p"]], p, rtol=5.1e-6)


def test_typed_columns_and_added_ones_are_written_for_people(tmp_path):
    batch = pa.record_batch({"n": [1, None], "x": [0.5, 2.0], "yes": [True, None], "word": ["a,b", None]})
    with RowWriter(tmp_path / "rows.csv", batch.schema.names, ["label", "code", "p"]) as writer:
        writer.write(batch, [np.array(["u", ""], dtype=object), np.array([3, 4]), np.array([1 / 3, np.nan])])
    assert (tmp_path / "rows.csv").read_bytes() == (
        b'n,x,yes,word,label,code,p\n1,0.5,true,"a,b",u,3,0.333333\n,2,,,,4,\n'
    )


def test_an_open_file_is_written_and_left_open():
    file = io.BytesIO()
    with RowWriter(file, ["a"], ["b"]) as writer:
        writer.write(pa.record_batch({"a": ["ü"]}), [["x"]])
    assert file.getvalue().decode() == "a,b\nü,x\n"


def test_names_that_are_there_already_are_refused():
    with pytest.raises(ValueError, match="has already 'marmix_label': give another --prefix"):
        RowWriter("rows.csv", ["a", "marmix_label"], ["marmix_label", "marmix_p"])
    with pytest.raises(ValueError, match="two columns would have the name 'p_missing'"):
        RowWriter("rows.csv", ["a"], ["p_missing", "p_missing"])
    assert not Path("rows.csv").exists()


@given(st.lists(st.floats(), min_size=1, max_size=20))
def test_numbers_have_six_significant_digits(values):
    for value, text in zip(values, six_digits(np.array(values)).to_pylist(), strict=True):
        if np.isnan(value):
            assert text == ""
        elif np.isinf(value):
            assert float(text) == value
        else:
            exact = float(f"{value:.6g}")
            assert float(text) == pytest.approx(value, rel=5.00001e-6, abs=0) or float(text) == exact
            digits = text.lstrip("-").split("e")[0].replace(".", "").strip("0")
            assert len(digits) <= 6


def test_probabilities_are_written_short():
    values = np.array([0.0, 1.0, 0.5, 0.1 + 0.2, 1 / 3, 1e-9, 0.99999999, 1.23456789e-25])
    assert six_digits(values).to_pylist() == ["0", "1", "0.5", "0.3", "0.333333", "1e-9", "1", "1.23457e-25"]


RUN = [
    "=cmd|' /C calc'!A0",
    "=1+1",
    "+1+1",
    "-1+1",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "\n=1",
    "-x",
    "--1",
    "-2,5",
    "+1e",
    "=",
    "@",
]
HARMLESS = ["", "+", "a", "1", "-1", "+1.5", "-.5", "-5.", "-1e-5", "+2E10", "-", "a=1", " -1", "\u22121 ", "'=1", "ü"]


def test_cells_that_a_spreadsheet_would_run_are_found():
    assert formulas(pa.array(RUN)).all()
    assert not formulas(pa.array(HARMLESS)).any()
    assert formulas(pa.array(["a", "=1", "", "@"]).slice(1)).tolist() == [True, False, True]


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


def test_formulas_are_counted_and_made_plain_text_only_if_asked(tmp_path):
    batch = pa.record_batch({"=name": ["=1+1", "-5"], "b": ["x", "@y"]})
    label = np.array(["=class", "a"], dtype=object)
    texts = {}
    for escape in (False, True):
        with RowWriter(tmp_path / "rows.csv", ["=name", "b"], ["-p_=class"], escape_formulas=escape) as writer:
            writer.write(batch, [label])
        assert writer.formulas == 5
        texts[escape] = (tmp_path / "rows.csv").read_text(encoding="utf-8")
    assert texts[False] == "=name,b,-p_=class\n=1+1,x,=class\n-5,@y,a\n"
    assert texts[True] == "'=name,b,'-p_=class\n'=1+1,x,'=class\n-5,'@y,a\n"


@given(st.lists(NASTY, max_size=10))
def test_what_was_neutralised_begins_like_no_formula(cells):
    text = pa.array(cells, pa.string())
    escaped = neutralised(text, formulas(text))
    assert not formulas(escaped).any()
    assert [
        cell.removeprefix("'") if odd else cell for cell, odd in zip(escaped.to_pylist(), formulas(text), strict=True)
    ] == cells


def test_a_table_is_written_with_all_digits(tmp_path):
    write_table(tmp_path / "rows.csv", {"x": [0.1, 2 / 3], "label": ["", 1]})
    assert (tmp_path / "rows.csv").read_bytes() == b"x,label\n0.1,\n0.6666666666666666,1\n"
