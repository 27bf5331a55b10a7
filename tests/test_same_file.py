"""A file that is read several times is the same each time, or it is refused."""

import gzip
import os
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import marmix.io
from marmix import MARGaussianMixture
from marmix.cli import main
from marmix.io import to_memmap
from marmix.tables import cells, open_table
from marmix.tables.reading import Watch

pa = pytest.importorskip("pyarrow")
feather = pytest.importorskip("pyarrow.feather")
pq = pytest.importorskip("pyarrow.parquet")

NAMES = ["a", "b", "y"]


def rows(n=40, first=0.5):
    labels = ["yes", "no", "", "yes"] * n
    return [[first if i == 0 else i * 0.25, i % 7, labels[i]] for i in range(n)]


def as_csv(path, table):
    path.write_text("\n".join(",".join(map(str, row)) for row in [NAMES, *table]) + "\n", encoding="utf-8")


def as_gzip(path, table):
    as_csv(path.with_suffix(".plain"), table)
    path.write_bytes(gzip.compress(path.with_suffix(".plain").read_bytes(), mtime=0))


def arrow_table(table):
    return pa.table(dict(zip(NAMES, map(list, zip(*table, strict=True)), strict=True)))


def as_excel(path, table):
    book = pytest.importorskip("openpyxl").Workbook()
    for row in [NAMES, *table]:
        book.active.append(row)
    book.save(path)


WRITERS = {
    ".csv": as_csv,
    ".csv.gz": as_gzip,
    ".parquet": lambda path, table: pq.write_table(arrow_table(table), path),
    ".feather": lambda path, table: feather.write_feather(arrow_table(table), path),
    ".xlsx": as_excel,
}
CHANGES = {
    "another number": lambda table: rows(first=7.5),
    "rows swapped": lambda table: [table[1], table[0], *table[2:]],
    "a row more": lambda table: [*table, table[0]],
    "a row less": lambda table: table[:-1],
    "gone": None,
}


def put(path, kind, table):
    """Write a table, whatever was there."""
    path.unlink()
    if table is not None:
        WRITERS[kind](path, table)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", WRITERS)
def test_a_second_pass_over_a_changed_file_is_refused(kind, change, tmp_path):
    path = tmp_path / f"rows{kind}"
    WRITERS[kind](path, rows())
    table = open_table(path)
    first = [batch.to_pydict() for batch in table.batches(["b", "y"])]
    assert [batch.to_pydict() for batch in table.batches(["b", "y"])] == first
    put(path, kind, CHANGES[change] and CHANGES[change](rows()))
    with pytest.raises(ValueError, match="changed while it was read"):
        list(table.batches())
    with pytest.raises(ValueError, match="changed while it was read"):
        table.digest()


@pytest.mark.parametrize("kind", [".csv", ".parquet"])
def test_a_change_that_hides_its_time_and_size_is_refused_as_soon_as_it_is_read(kind, tmp_path):
    path = tmp_path / f"rows{kind}"
    WRITERS[kind](path, rows())
    table, state = open_table(path), path.stat()
    list(table.batches(["a"]))
    changed = path.with_name(f"other{kind}")
    WRITERS[kind](changed, rows(first=1.5))
    with open(path, "r+b") as file:
        file.write(changed.read_bytes())
        assert file.tell() == state.st_size
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    if kind == ".parquet":
        assert [batch.to_pydict() for batch in table.batches(["b"])]  # not this column
    with pytest.raises(ValueError, match="changed while it was read"):
        list(table.batches(["a"]))


def test_a_change_during_a_pass_is_refused_at_the_next_batch_and_before_an_error_that_it_causes(tmp_path):
    path = tmp_path / "rows.csv"
    as_csv(path, rows(60_000))
    batches = open_table(path).batches(["a", "b"])
    next(batches)
    with open(path, "a", encoding="utf-8") as file:
        file.write("1,2,3,4,5,6\n")
    with pytest.raises(ValueError, match="changed while it was read"):
        list(batches)


@pytest.mark.parametrize("seed", range(3))
def test_checksums_do_not_depend_on_how_rows_are_split(seed):
    rng = np.random.default_rng(seed)
    n = 50
    nulls = rng.random(n) < 0.3
    texts = ["" if rng.random() < 0.2 else "x" * int(rng.integers(5)) for _ in range(n)]
    columns = [
        pa.array(texts),
        pa.array(texts, mask=nulls),
        pa.array(texts).dictionary_encode(),
        pa.array(rng.normal(size=n)),
        pa.array(rng.integers(0, 9, n), mask=nulls),
        pa.array(rng.integers(0, 9, n).astype(np.float16), mask=nulls),
        pa.array(nulls),
        pa.array(rng.integers(0, 9, n), pa.timestamp("s"), mask=nulls),
        pa.array([[1, 2]] * n, mask=nulls),
        pa.nulls(n),
    ]
    ends = [0, *sorted(rng.integers(0, n, 4).tolist()), n]
    for column in columns:
        whole = cells.checksum(column, 0, (0, 0, 0))
        parts = (0, 0, 0)
        for start, end in pairwise(ends):
            parts = cells.checksum(column.slice(start, end - start), start, parts)
        assert parts == whole
        if column.null_count not in (0, n):
            assert whole != cells.checksum(column.slice(1), 0, (0, 0, 0))


def test_cells_that_join_to_the_same_text_have_different_checksums():
    assert (
        len({cells.checksum(pa.array(texts), 0, (0, 0, 0)) for texts in (["ab", "c"], ["a", "bc"], ["abc", ""])}) == 3
    )


@pytest.mark.parametrize("kind", [".csv", ".csv.gz", ".parquet", ".feather", "folder"])
def test_conversion_refuses_a_file_that_changes_and_leaves_nothing(kind, tmp_path, monkeypatch):
    source = path = tmp_path / f"rows{kind}"
    if kind == "folder":
        source.mkdir()
        path, kind = source / "part.parquet", ".parquet"
        WRITERS[kind](source / "rest.parquet", rows())
    WRITERS[kind](path, rows())
    numbers = marmix.io._kept

    def change(*arguments):
        os.utime(path, ns=(1, 1))
        return numbers(*arguments)

    monkeypatch.setattr(marmix.io, "_kept", change)
    with pytest.raises(ValueError, match="changed while it was read"):
        to_memmap(source, tmp_path / "rows.npy", columns=["a", "b"], progress=False)
    assert not list(tmp_path.glob("*.npy*"))


@pytest.mark.parametrize(
    "command",
    [
        "fit rows.csv --label y --out out",
        "predict model.marmix rows.csv --out out.csv",
        "evaluate model.marmix rows.csv --label y",
        "report model.marmix rows.csv --label y --out out.html",
        "sensitivity model.marmix rows.csv --label y --plot out.png",
    ],
)
def test_every_command_refuses_a_file_that_changes_and_writes_nothing(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1], 30)
    X = rng.normal(size=(60, 2)) + 2.0 * truth[:, None]
    y = np.where(rng.random(60) < 0.4, -1, truth)
    names = np.array(["", "no", "yes"], dtype=object)[y + 1]
    as_csv(Path("rows.csv"), [[*map(str, x), name] for x, name in zip(X, names, strict=True)])
    frame = pytest.importorskip("pandas").DataFrame(X, columns=NAMES[:2])
    model = MARGaussianMixture(covariance_type="tied").fit(frame, np.where(y < 0, None, names))
    marmix.save(model, "model.marmix")
    compared = Watch.compared

    def change(self, batches, **options):
        for batch in compared(self, batches, **options):
            yield batch
            os.utime("rows.csv", ns=(1, 1))

    monkeypatch.setattr(Watch, "compared", change)
    assert main([*command.split(), "--quiet"]) == 1
    assert "rows.csv changed while it was read" in capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} == {"rows.csv", "model.marmix"}
