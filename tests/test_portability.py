"""The code makes no assumption that breaks on Windows or macOS: rules over its syntax tree, and what can be simulated here.

Neither system is needed to run this. What only a run there can show is left to such a run.
"""

import ast
import contextlib
import errno
import io
import json
import os
import re
import runpy
import shlex
import subprocess
import sys
import weakref
from pathlib import Path

import help_examples
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from quick import small_fits

import marmix
from marmix import MARLogisticRegression, outputs, terminal
from marmix.cli import main
from marmix.core.files import write_array
from marmix.datasets import make_mar_mixture
from marmix.outputs import Output, one_file

ROOT = Path(__file__).parent.parent


def nodes(source):
    """All nodes of a program, which know their parents; programs in its strings belong to it."""
    listed, waiting = [], [ast.parse(source)]
    waiting[0].parent = None
    while waiting:
        node = waiting.pop()
        listed.append(node)
        children = list(ast.iter_child_nodes(node))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and re.search(r"^import ", node.value, re.M):
            with contextlib.suppress(SyntaxError):
                children = [ast.parse(node.value)]
        for child in children:
            child.parent = node
        waiting += children
    return listed


# Rules: a function that yields those of the nodes that break it.


def dotted(node):
    """A name with its dots, of a module or an attribute; nothing for other expressions."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return getattr(node, "id", "")


def calls(nodes):
    """Calls, with what is before the last dot of what is called, and what is after it."""
    for node in nodes:
        if isinstance(node, ast.Call):
            yield node, *dotted(node.func).rpartition(".")[::2]


def argument(node, place, name, default=None):
    """The constant given for an argument, by place or name; True for what is not constant."""
    given = (
        node.args[place] if len(node.args) > place else next((k.value for k in node.keywords if k.arg == name), None)
    )
    return default if given is None else given.value if isinstance(given, ast.Constant) else True


def named(node, name):
    """The constant given for an argument by name."""
    return argument(node, len(node.args), name)


def text_files(nodes):
    """Calls that open a file as text, with the number of arguments before `encoding` and the mode."""
    for node, owner, name in calls(nodes):
        if name == "read_text":
            yield node, 0, "r"
        elif name == "write_text":
            yield node, 1, "w"
        elif name == "open" and owner in ("", "io"):
            yield node, 3, argument(node, 1, "mode", "r")
        elif name == "open" and owner not in ("os", "Image", "webbrowser", "fragment"):
            yield node, 2, argument(node, 0, "mode", "r")


def no_encoding(nodes):
    for node, place, mode in text_files(nodes):
        if isinstance(mode, str) and set(mode) <= set("rwaxt+") and argument(node, place, "encoding") is None:
            yield node
    for node, owner, _ in calls(nodes):
        if owner == "subprocess" and named(node, "text") is True and named(node, "encoding") is None:
            yield node


def translated_newlines(nodes):
    for node, _, mode in text_files(nodes):
        null = node.args and dotted(node.args[0]) == "os.devnull"
        written = isinstance(mode, str) and set(mode) & set("wax") and "b" not in mode
        if written and not null and named(node, "newline") is None:
            yield node


MODULES = {"fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty"}
NAMES = {
    *(
        f"os.{name}"
        for name in ("fork", "forkpty", "getuid", "geteuid", "getgid", "seteuid", "setuid", "mkfifo", "mknod")
    ),
    *(
        f"os.{name}"
        for name in ("killpg", "setsid", "sched_getaffinity", "uname", "statvfs", "nice", "chown", "symlink")
    ),
    *(f"signal.SIG{name}" for name in ("KILL", "HUP", "ALRM", "PIPE", "STOP", "CONT", "QUIT", "USR1", "USR2", "CHLD")),
    *("signal.alarm", "signal.setitimer", "time.tzset"),
}


def guarded(node):
    """Whether something is used only where it exists: in `try`, under a condition, or in a marked test; or is asked for."""
    while node := node.parent:
        if isinstance(node, ast.Attribute) and node.attr == "exists":
            return True
        if isinstance(node, ast.Try) and any(
            handler.type and re.search("ImportError|AttributeError|OSError", ast.unparse(handler.type))
            for handler in node.handlers
        ):
            return True
        if isinstance(node, ast.With) and "suppress(OSError" in ast.unparse(node.items[0]):
            return True
        if isinstance(node, ast.If | ast.IfExp) and re.search(
            r"os\.name|sys\.platform|hasattr|exists\(", ast.unparse(node.test)
        ):
            return True
        if isinstance(node, ast.FunctionDef) and any(
            re.search("posix_only|LINKS|skipif", ast.unparse(decorator)) for decorator in node.decorator_list
        ):
            return True
    return False


def posix_names(nodes):
    for node in nodes:
        used = isinstance(node, ast.Import) and MODULES & {alias.name for alias in node.names}
        used = used or (isinstance(node, ast.ImportFrom) and node.module in MODULES)
        used = used or (isinstance(node, ast.Attribute) and (dotted(node) in NAMES or node.attr == "symlink_to"))
        if used and not guarded(node):
            yield node


def posix_paths(nodes):
    for node in nodes:
        text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
        if re.match(r"/(dev|proc|tmp|var|etc|usr|home)(/|$)", text) and not guarded(node):
            yield node


def shells(nodes):
    for node in nodes:
        first = node.elts[0] if isinstance(node, ast.List) and len(node.elts) > 1 else None
        if isinstance(first, ast.Constant) and first.value in ("sh", "bash", "zsh"):
            yield node
    for node, owner, name in calls(nodes):
        if f"{owner}.{name}" in ("os.system", "os.popen") or (owner == "subprocess" and named(node, "shell")):
            yield node


def local_customs(nodes):
    for node, owner, name in calls(nodes):
        if owner == "locale" or (name == "strftime" and re.search(r"%(-|[aAbBcxXpZ])", ast.unparse(node))):
            yield node


def forked(nodes):
    for node, _, name in calls(nodes):
        if name in ("get_context", "set_start_method") and "fork" in ast.unparse(node):
            yield node


def renamed(nodes):
    return [node for node, owner, name in calls(nodes) if (owner, name) == ("os", "rename")]


RULES = {
    no_encoding: ("Windows reads and writes text in cp1252 unless told otherwise", "path.read_text()"),
    translated_newlines: ("Windows writes \\r\\n for \\n unless told otherwise", "open(p, 'w', encoding='utf-8')"),
    posix_names: ("Windows does not have it", "import os\nos.getuid()"),
    posix_paths: ("Windows has no such folder, and macOS not all of them", "open('/tmp/rows.csv', 'rb')"),
    shells: ("Windows has no such shell", "subprocess.run(['sh', '-c', 'ls | wc'])"),
    local_customs: ("formats differ between systems and languages", "day.strftime('%-d')"),
    forked: ("Windows cannot fork, and macOS does not by default", "multiprocessing.get_context('fork')"),
    renamed: ("on Windows os.rename fails if the target exists; os.replace does not", "os.rename(a, b)"),
}
MORE_PLANTED = {
    no_encoding: ["open(p)", "p.write_text(x)", "p.open('w')", "subprocess.run(c, text=True)", "open(p, mode='a')"],
    translated_newlines: ["p.write_text(x, encoding='utf-8')", "p.open('a', encoding='utf-8')"],
    posix_names: ["import fcntl", "from resource import getrusage", "signal.SIGKILL", "link.symlink_to(p)"],
    posix_paths: ["Path('/dev/null')", "f('/proc/self/status')"],
    shells: ["os.system('ls')", "subprocess.run('ls', shell=True)"],
    local_customs: ["locale.setlocale(0, '')", "time.strftime('%B')"],
}
FINE = {
    no_encoding: ["open(p, 'rb')", "p.read_text(encoding='utf-8')", "p.read_text('utf-8')", "subprocess.run(c)"],
    translated_newlines: ["p.write_bytes(b)", "open(p, 'w', encoding='utf-8', newline='')", "open(os.devnull, 'w')"],
    posix_names: [
        "n = os.fork() if hasattr(os, 'fork') else 0",
        "with suppress(OSError):\n    os.nice(1)",
        "try:\n    import fcntl\nexcept ImportError:\n    pass",
        "@posix_only\ndef test():\n    os.fork()",
    ],
    posix_paths: ["f(os.devnull)", "if Path('/proc').exists(): pass", "'a/tmp/b'"],
    shells: ["subprocess.run([sys.executable, '-m', 'marmix'])"],
    local_customs: ["day.strftime('%Y-%m-%d')"],
    renamed: ["os.replace(a, b)"],
}
ONLY = {translated_newlines: "src/", renamed: "src/"}  # elsewhere either line ending will do, and nothing is replaced
# files that break a rule, and why they may
EXCEPTIONS = {
    ("src/marmix/outputs.py", renamed): "a folder that exists must not be replaced",
    ("docs/_ext/terminal.py", shells): "the site shows a POSIX shell, and is built with one",
    ("benchmarks/growth.py", posix_paths): "asks Linux for the memory of a process",
    ("benchmarks/growth.py", no_encoding): "asks Linux for the memory of a process",
    ("benchmarks/journey.py", posix_names): "asks for the memory of a process",
    ("benchmarks/memory.py", posix_names): "asks for the memory of a process",
    ("tests/test_release.py", shells): "the script of CI; skipped elsewhere",
    ("tests/test_files.py", posix_paths): "asks Linux for the memory of a process; skipped elsewhere",
    ("tests/test_files.py", no_encoding): "asks Linux for the memory of a process; skipped elsewhere",
    ("tests/test_io.py", posix_paths): "asks Linux for the memory of a process; skipped elsewhere",
    ("tests/test_io.py", no_encoding): "asks Linux for the memory of a process; skipped elsewhere",
    ("tests/test_commands.py", shells): "pipes and closed streams of a shell; skipped elsewhere",
    ("tests/test_commands.py", posix_names): "signals; skipped elsewhere",
    ("tests/test_container_hostile.py", posix_paths): "a path that must not be opened",
    ("tests/test_survey.py", local_customs): "dates as people write them",
}
# Files without these words are not parsed: they cannot break a rule.
WORDS = re.compile(
    rb"open\(|_text\(|text=|\b(" + "|".join([*MODULES, *NAMES, "symlink_to"]).encode() + rb")\b|"
    rb"[\"']/(dev|proc|tmp|var|etc|usr|home)|[\"'](sh|bash|zsh)[\"']|shell=|os\.(system|popen|rename)|strftime|locale|fork"
)


def sources():
    """The programs of this repository by path, this one apart."""
    for top in ("src", "tests", "benchmarks", "docs"):
        for path in sorted((ROOT / top).rglob("*.py")):
            if not {"_build", "auto_examples", Path(__file__).name} & set(path.parts):
                yield path.relative_to(ROOT).as_posix(), path.read_bytes()


def test_no_program_assumes_posix_or_the_conventions_of_one_machine():
    offences, exceptions = [], set()
    for path, source in sources():
        listed = nodes(source) if WORDS.search(source) else []
        for rule, (reason, _) in RULES.items():
            for node in rule(listed) if path.startswith(ONLY.get(rule, "")) else ():
                exceptions.add((path, rule))
                if (path, rule) not in EXCEPTIONS:
                    offences.append(f"{path}:{node.lineno}: {ast.unparse(node)[:80]} ({reason})")
    assert not offences, "\n".join(offences)
    assert exceptions == set(EXCEPTIONS), "an exception is no longer needed"


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_every_rule_finds_what_is_planted_and_nothing_else(rule):
    for program in [RULES[rule][1], *MORE_PLANTED.get(rule, [])]:
        assert list(rule(nodes(program))), program
        assert list(rule(nodes(f"CODE = '''import os\n{program}\n'''"))), program
        assert WORDS.search(program.encode()), program
    for program in FINE.get(rule, []):
        assert not list(rule(nodes(program))), program


def test_names_of_files_are_different_and_allowed_on_every_file_system():
    reserved = {"con", "prn", "aux", "nul", *(f"{name}{i}" for name in ("com", "lpt") for i in range(10))}
    for top in ("src", "tests", "benchmarks", "docs"):
        paths = [path.relative_to(ROOT) for path in (ROOT / top).rglob("*") if "__pycache__" not in path.parts]
        assert len({str(path).casefold() for path in paths}) == len(paths)
        for path in paths:
            assert not re.search(r'[<>:"\\|?*\0-\x1f]|[. ]$', path.name), path
            assert path.name.partition(".")[0].lower() not in reserved, path
            assert len(str(path)) < 150, path  # Windows allows 260 with the folder


def test_a_checkout_on_windows_has_the_same_bytes():
    rules = (ROOT / ".gitattributes").read_text(encoding="utf-8").splitlines()
    assert "* text=auto eol=lf" in rules
    for path in [*(ROOT / "tests" / "data").rglob("*"), *(ROOT / "src").rglob("*.c*"), *(ROOT / "src").rglob("*.js")]:
        if path.is_file() and path.suffix != ".pyc":
            binary = b"\0" in path.read_bytes()[:8000]
            assert binary == (f"*{path.suffix} binary" in rules), path
            assert binary or b"\r\n" not in path.read_bytes(), path


# what Windows has in place of locks, quotes, pipes and encodings


def test_without_locks_of_the_system_a_hidden_file_is_the_lock(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "fcntl", None)
    module = runpy.run_path(outputs.__file__)
    assert module["fcntl"] is None
    monkeypatch.setattr(outputs, "fcntl", None)
    with Output(tmp_path / "out", ["a"]) as output:
        output.path("a").write_bytes(b"first")
        with pytest.raises(OSError, match="another run"), Output(tmp_path / "out", ["a"]):
            raise AssertionError
    assert os.listdir(tmp_path) == ["out"]
    left = outputs._lock_of(tmp_path / "out", "a")
    left.touch()  # by a run that was killed
    with pytest.raises(OSError, match=re.escape(f"remove {left}")), one_file(tmp_path / "out" / "a", force=True):
        raise AssertionError
    left.unlink()
    with one_file(tmp_path / "out" / "a", force=True) as part:
        part.write_bytes(b"second")
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == {"a": b"second"}


WORDS_OF_A_COMMAND = st.lists(st.text(st.sampled_from('ab \\"'), min_size=1), min_size=1)


@given(WORDS_OF_A_COMMAND)
def test_commands_to_paste_are_quoted_for_the_shells_of_the_system(words):
    assert shlex.split(terminal.command_line(words, windows=False)) == words
    line = terminal.command_line(words, windows=True)
    # those of Python, which quotes nothing but blanks, where a word needs no quotes for other reasons
    expected = [
        subprocess.list2cmdline([word + " "])[:-2] + '"' if re.search(r"[^ab]", word) else word for word in words
    ]
    if not any(word.endswith("\\") for word in words):
        assert line == " ".join(expected)


@pytest.mark.parametrize(
    "word", ["my file.csv", r"C:\data\x.csv", "<5", "a&b", "a;b", "a,b", "(a)", "100%", "^", "a|b"]
)
def test_what_a_shell_of_windows_would_read_otherwise_is_in_double_quotes(word):
    assert terminal.command_line(["marmix", word], windows=True) == f'marmix "{word}"'


def test_the_end_of_a_pipe_is_known_by_both_its_names():
    invalid = OSError(errno.EINVAL, "Invalid argument")
    assert terminal._broken_pipe(invalid, windows=True)
    assert not terminal._broken_pipe(invalid, windows=False)
    assert terminal._broken_pipe(BrokenPipeError(), windows=False)
    assert not terminal._broken_pipe(OSError(errno.ENOSPC, "No space left on device"), windows=True)


@pytest.fixture(scope="module")
def rows():
    """A table as text, with a name beyond ASCII, and the bytes of a small model of it."""
    drawn = make_mar_mixture(60, rate=0.4, at_least=5, random_state=0)
    frame = pd.DataFrame(drawn.data.round(3), columns=["größe", "x"])
    labels = np.array(["no", "yes", None], dtype=object)[drawn.target]
    return frame.to_csv(index=False), MARLogisticRegression(n_init=1).fit(frame, labels)


@pytest.fixture
def place(rows, tmp_path):
    """A folder whose name has blanks and letters beyond ASCII, with the model and the table."""
    folder = tmp_path / "Meine Daten, żółw"
    folder.mkdir()
    marmix.save(rows[1], folder / "model.marmix")
    (folder / "rows.csv").write_bytes(rows[0].encode())
    return folder


def test_line_endings_of_windows_change_nothing_but_themselves(rows, place):
    (place / "crlf.csv").write_bytes(rows[0].replace("\n", "\r\n").encode())
    for name in ("rows", "crlf"):
        words = [
            "predict",
            str(place / "model.marmix"),
            str(place / f"{name}.csv"),
            "--out",
            str(place / f"{name}.out"),
        ]
        assert main([*words, "--quiet"]) == 0
    plain, windows = ((place / f"{name}.out").read_bytes() for name in ("rows", "crlf"))
    assert plain.count(b"\r") == 0
    assert plain == windows.replace(b"\r\n", b"\n") != windows


@pytest.mark.parametrize("encoding", ["cp1252", "cp850", "ascii"])
def test_consoles_without_unicode_show_all_that_is_said(encoding, place, monkeypatch):
    for words in (["--help"], ["info", str(place / "model.marmix")], ["predict", str(place / "absent"), "x.csv"]):
        for stream in ("stdout", "stderr"):
            monkeypatch.setattr(sys, stream, io.TextIOWrapper(io.BytesIO(), encoding=encoding))
        with contextlib.suppress(SystemExit):
            main(words)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        said = (sys.stdout.buffer.getvalue() + sys.stderr.buffer.getvalue()).decode(encoding)
        assert said
        assert "unexpected" not in said
        assert ("größe" in said or r"gr\xf6\xdfe" in said) == (words[0] == "info")
        assert (r"\u017c" in said) == (words[0] == "predict")


@pytest.mark.long
def test_a_process_with_the_plainest_locale_reads_and_writes_names_beyond_ascii(place):
    plainest = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "cp1252"}
    command = [sys.executable, "-m", "marmix", "predict", "model.marmix", "rows.csv", "--out", "größe.csv", "--json"]
    done = subprocess.run(command, cwd=place, env=os.environ | plainest, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout.decode("ascii"))["rows"] == 60
    header = (place / "größe.csv").read_text(encoding="utf-8").splitlines()[0]
    assert header.startswith("größe,x,marmix_label,")


# Windows neither moves nor removes a file that is open or mapped.


@pytest.fixture
def mapped(monkeypatch):
    """How many arrays that were made in files are still mapped."""
    maps, usual = [], np.lib.format.open_memmap

    def open_memmap(*arguments, **options):
        array = usual(*arguments, **options)
        maps.append(weakref.ref(array._mmap))
        return array

    monkeypatch.setattr(np.lib.format, "open_memmap", open_memmap)
    return lambda: (len(maps), sum(pages() is not None for pages in maps))


def test_results_in_a_file_are_not_mapped_when_it_is_moved(rows, tmp_path, mapped, monkeypatch):
    move, states = Output._move, []
    monkeypatch.setattr(Output, "_move", lambda self: (states.append(mapped()), move(self)))
    write_array(lambda out: out.__setitem__(slice(None), 7.0), tmp_path / "a.npy", (3, 2), np.float64)
    assert states == [(1, 0)]
    assert (np.load(tmp_path / "a.npy") == 7.0).all()


def test_rows_in_the_scratch_folder_are_not_mapped_when_it_is_removed(tmp_path, mapped, monkeypatch, quick_figures):
    small_fits(monkeypatch, tiny=True)
    monkeypatch.setattr("marmix.journey.rows.IN_MEMORY", 0)
    clear, states = Output._clear, {}

    def cleared(self):
        states[str(self.folder)] = mapped()
        clear(self)

    monkeypatch.setattr(Output, "_clear", cleared)
    help_examples.prepare(tmp_path)
    words = help_examples.words(help_examples.examples()[0])
    monkeypatch.chdir(tmp_path)
    assert main([*words, "--quiet"]) == 0
    made, left = states["results"]
    assert made >= 1
    assert left == 0
