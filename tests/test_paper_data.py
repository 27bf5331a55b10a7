"""The paper's real data sets: local or downloaded files, with their checksums verified."""

import hashlib
import os
from pathlib import Path

import numpy as np
import pytest

from paper import datasets
from paper.datasets import load_gastro, load_magic

CONTENT = b"".join(b"%d.5," % i * 10 + b"gh"[i % 2 : i % 2 + 1] + b"\n" for i in range(6))


@pytest.fixture
def shared(monkeypatch):
    """Set MARMIX_DATA to the folder of the real files."""
    folder = Path(os.environ.get("MARMIX_SHARED", "/nowhere")) / "data"
    if not (folder / "magic04.data").exists():
        pytest.skip("MARMIX_SHARED does not name a folder with data/magic04.data")
    monkeypatch.setenv("MARMIX_DATA", str(folder))


@pytest.fixture
def fake(monkeypatch):
    """A small file in place of MAGIC's, and a network that has it; the addresses asked for."""
    asked = []

    def fetch_file(address, folder, name, sha256):
        asked.append(address)
        (folder / name).write_bytes(CONTENT)
        return folder / name

    monkeypatch.setattr(datasets, "MAGIC_SHA256", hashlib.sha256(CONTENT).hexdigest())
    monkeypatch.setattr(datasets, "fetch_file", fetch_file)
    return asked


@pytest.mark.usefixtures("shared")
def test_magic_has_its_rows_and_columns():
    data = load_magic(download_if_missing=False)
    assert data.data.shape == (19020, 10)
    assert np.bincount(data.target).tolist() == [12332, 6688]
    assert data.data[0, [0, 8]].tolist() == [28.7967, 40.092]
    X, y = load_magic(columns=["fAlpha", "fLength"], return_X_y=True)
    np.testing.assert_array_equal(X, data.data[:, [8, 0]])
    np.testing.assert_array_equal(y, data.target)


@pytest.mark.usefixtures("shared")
def test_gastro_has_labels_where_endoscopists_agree_and_they_are_right():
    data = load_gastro()
    labelled = data.target >= 0
    assert np.bincount(data.target[labelled]).tolist() == [4, 31]
    np.testing.assert_array_equal(data.target[labelled], data.target_true[labelled])
    assert np.bincount(data.target_true).tolist() == [21, 55]
    np.testing.assert_allclose(data.data.mean(axis=0), 0.0, atol=1e-15)
    np.testing.assert_allclose((data.data**2).sum(axis=0), 1.0, rtol=1e-14)


def test_a_file_that_is_not_there_is_downloaded_once_into_the_folder_of_the_environment(tmp_path, fake, monkeypatch):
    monkeypatch.setenv("MARMIX_DATA", str(tmp_path / "new"))
    for _ in range(2):
        assert load_magic().target.tolist() == [0, 1, 0, 1, 0, 1]
    assert fake == [datasets.MAGIC_FILE]
    assert load_magic(data_home=tmp_path / "other").data.shape == (6, 10)
    assert [path.name for path in (tmp_path / "other").iterdir()] == ["magic04.data"]


def test_without_file_or_network_the_error_says_what_to_do(tmp_path, fake, monkeypatch):
    def refused(*_):
        raise OSError("no network here")

    monkeypatch.setattr(datasets, "fetch_file", refused)
    for load, words in (
        (lambda: load_magic(data_home=tmp_path), ["no network here", "dataset/159"]),
        (lambda: load_magic(data_home=tmp_path, download_if_missing=False), ["not downloaded"]),
        (lambda: load_gastro(data_home=tmp_path), ["dataset/408"]),
    ):
        with pytest.raises(OSError, match="MARMIX_DATA") as caught:
            load()
        assert all(word in str(caught.value) for word in (str(tmp_path), *words))


@pytest.mark.parametrize(("load", "name"), [(load_magic, "magic04.data"), (load_gastro, "gastro.csv")])
def test_a_file_of_another_content_is_refused_and_left_alone(load, name, tmp_path):
    (tmp_path / name).write_bytes(CONTENT)
    with pytest.raises(ValueError, match="SHA-256"):
        load(data_home=tmp_path)
    assert (tmp_path / name).read_bytes() == CONTENT
