"""`marmix demo`: the files it writes, and existing files that it leaves alone."""

import shlex

import pytest

from marmix.demo.walk import DATA, TRUTH, walk
from marmix.journey import FILES, Progress

pytestmark = [pytest.mark.usefixtures("quick_figures"), pytest.mark.filterwarnings("ignore::marmix.BoundaryWarning")]


@pytest.fixture(scope="module")
def walked(tmp_path_factory, quick_figures):
    folder = tmp_path_factory.mktemp("a folder") / "of mine"
    return walk(folder, 0, Progress(quiet=True))


def test_the_command_in_the_report_names_its_files_as_a_shell_reads_them(walked):
    words = shlex.split(walked.findings.reproduction.command)
    assert words[:3] == ["marmix", "fit", str(walked.folder / DATA)]
    assert words[-2:] == ["--out", str(walked.folder)]


def test_all_files_are_there_and_nothing_else(walked):
    assert sorted(path.name for path in walked.folder.parent.rglob("*")) == sorted(["of mine", DATA, TRUTH, *FILES])


@pytest.mark.parametrize("existing", [DATA, TRUTH, *FILES])
def test_a_file_that_is_there_is_left_alone_and_nothing_is_written_beside_it(existing, tmp_path):
    (tmp_path / existing).write_text("mine", encoding="utf-8")
    with pytest.raises(FileExistsError, match=existing):
        walk(tmp_path, 0, Progress(quiet=True))
    assert [path.name for path in tmp_path.iterdir()] == [existing]
    assert (tmp_path / existing).read_text(encoding="utf-8") == "mine"
