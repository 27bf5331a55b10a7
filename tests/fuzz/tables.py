"""Damaged data files: a message of a line or two and no output, or a result, and never anything else."""

import gzip
import io
import os
import zipfile

import numpy as np
import openpyxl
import pyarrow as pa
from pyarrow import feather
from pyarrow import parquet as pq

from fuzz.running import Subject
from marmix.tables import LabelColumn, Output, Preparation, RowWriter, open_table

ROWS = [
    ["id", "x", "group", "label"],
    *([f"p{i}", f"{i * 0.37 - 3:.3f}", "abc"[i % 3], ["u", "v", "", "NA"][i % 4]] for i in range(40)),
]
PIECES = [
    *(b'"', b'""', b",", b";", b"\t", b"\n", b"\r", b"\r\n", b"\0", b"\xff", b"\xef\xbb\xbf", b"\xff\xfe", b"\xc3"),
    *b"NA nan inf 1e999 - =cmd() 1,5 2020-01-01 label \\ '".split(),
    *(b"x" * 5000, b"\n\n\n", b"\x00\x00\x00\x00", b"\xff\xff\xff\x7f", b"PAR1", b"PK\x03\x04", b"\x80\x01", b"ARROW1"),
    *b"< > /> &amp; & <c 1e5 99999999 <v>-1</v>".split(),
    *(b' t="n"', b' t="d"', b' s="1"', b' r="A1"'),
]


def table():
    names, *rows = ROWS
    columns = dict(zip(names, zip(*rows, strict=True), strict=True))
    return pa.table(columns | {"x": [float(x) for x in columns["x"]], "when": list(map(list, columns["id"]))})


def text(delimiter):
    return "\n".join(delimiter.join(row) for row in ROWS).encode() + b"\n"


def saved(write):
    file = io.BytesIO()
    write(file)
    return file.getvalue()


def workbook(file):
    book = openpyxl.Workbook()
    for row in ROWS:
        book.active.append([float(cell) if cell.lstrip("-").replace(".", "").isdigit() else cell for cell in row])
    book.save(file)


SOURCES = {
    ".csv": text(","),
    ".tsv": text("\t"),
    ".csv.gz": gzip.compress(text(","), mtime=0),
    ".parquet": saved(lambda file: pq.write_table(table(), file, row_group_size=17)),
    ".arrow": saved(lambda file: feather.write_feather(table(), file, compression="uncompressed")),
    ".feather": saved(lambda file: feather.write_feather(table(), file)),
    ".xlsx": saved(workbook),
}


def mutated(data, rng):
    """A few changes: bits, bytes, pieces put in, cut out, doubled or moved, the end lost."""
    data = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 4, 16])):
        if not data:
            break
        i, j = sorted(rng.randrange(len(data) + 1) for _ in range(2))
        j = min(j, i + rng.choice([1, 4, 64, 10**6]))
        match rng.randrange(8):
            case 0:
                data[i % len(data)] ^= 1 << rng.randrange(8)
            case 1:
                data[i % len(data)] = rng.randrange(256)
            case 2 | 3:
                data[i:i] = rng.choice(PIECES)
            case 4:
                del data[i:j]
            case 5:
                data[i:i] = data[i:j]
            case 6:
                del data[i:]
            case 7:
                data[i : i + 4] = rng.choice(PIECES)
    return bytes(data)


def mutated_inside(data, rng):
    """A workbook, one part of which was changed before it was packed."""
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(file, "w") as new:
        chosen = rng.choice(old.namelist())
        for name in old.namelist():
            part = old.read(name)
            new.writestr(name, mutated(part, rng) if name == chosen else part)
    return file.getvalue()


def journey(path, out):
    """All that is done with a file, without the fit."""
    source = open_table(path)
    label = "label" if "label" in source.names else source.names[-1]
    features = [name for name in source.names if name not in ("id", "when", label)]
    preparation = Preparation(features=features).fit_batches(lambda: source.batches(features))
    labels, X = LabelColumn(label), []
    for batch in source.batches([*features, label]):
        X.append(preparation.transform(batch))
        labels.add(batch.column(label))
    assert np.isfinite(np.concatenate(X)).all()
    assert labels.codes.max() < len(labels.classes)
    added = ["marmix_label", *(f"marmix_p_{name}" for name in labels.classes)]
    with Output(out, ["imputed.csv"]) as output:
        with RowWriter(output.path("imputed.csv"), source.names, added, escape_formulas=True) as writer:
            for batch in source.batches():
                writer.write(batch, [["a"] * batch.num_rows, *np.ones((len(labels.classes), batch.num_rows))])
        assert writer.rows == labels.rows
    return writer.rows


def prepare(folder):
    """The undamaged files, which can be read."""
    for ending, data in SOURCES.items():
        path = folder / f"rows{ending}"
        path.write_bytes(data)
        assert journey(path, folder / f"out{ending}") == 40


def attempt(sound, rng, folder):
    """Read a damaged file and write its rows."""
    ending = rng.choice(list(SOURCES))
    damage = mutated_inside if ending == ".xlsx" and rng.random() < 0.7 else mutated
    path, out = folder / f"rows{ending}", folder / "out"
    path.write_bytes(damage(SOURCES[ending], rng))
    try:
        journey(path, out)
    except (ValueError, OSError) as error:
        message = str(error)
        assert message.count("\n") <= 2, message
        assert 10 < len(message) < 600, message
        assert os.listdir(folder) == [path.name], message
        return "refused"
    assert sorted(os.listdir(folder)) == ["out", path.name]
    assert os.listdir(out) == ["imputed.csv"]
    return "read"


SUBJECT = Subject(prepare, attempt, 120, frozenset({"read", "refused"}))
