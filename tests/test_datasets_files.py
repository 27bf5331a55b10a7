"""load_magic and load_gastro: local or downloaded files, with their checksums verified."""

import hashlib
import http.server
import io
import os
import threading
import zipfile
from pathlib import Path

import numpy as np
import pytest

from marmix.datasets import files, load_gastro, load_magic

try:
    import pandas as pd
except ImportError:
    pd = None

needs_pandas = pytest.mark.skipif(pd is None, reason="pandas is not installed")


@pytest.fixture
def shared(monkeypatch):
    """Set MARMIX_DATA to the folder of the real files."""
    folder = Path(os.environ.get("MARMIX_SHARED", "/nowhere")) / "data"
    if not (folder / "magic04.data").exists():
        pytest.skip("MARMIX_SHARED does not name a folder with data/magic04.data")
    monkeypatch.setenv("MARMIX_DATA", str(folder))


@pytest.fixture
def fake(monkeypatch):
    """Content of a small file in place of MAGIC's, without a source."""
    content = b"".join(b"%d.5," % i * 10 + b"gh"[i % 2 : i % 2 + 1] + b"\n" for i in range(6))
    monkeypatch.setattr(files, "MAGIC", files.MAGIC._replace(sha256=hashlib.sha256(content).hexdigest(), addresses=()))
    monkeypatch.setenv("no_proxy", "*")
    return content


class Server(http.server.ThreadingHTTPServer):
    """Serves `pages` and records the requests."""

    def __init__(self, pages):
        self.pages, self.requests = pages, []
        super().__init__(("127.0.0.1", 0), Handler)


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.requests.append(self.path)
        page = self.server.pages.get(self.path.removeprefix("/"))
        self.send_response(200 if page is not None else 404)
        self.end_headers()
        self.wfile.write(page or b"")

    def log_message(self, *args):
        pass


@pytest.fixture
def serve(monkeypatch, fake):
    """A function that serves pages on this machine and makes them the sources of MAGIC, in this order."""
    servers = []

    def start(**pages):
        server = Server(pages)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        servers.append(server)
        addresses = tuple(f"http://127.0.0.1:{server.server_port}/{name}" for name in pages)
        monkeypatch.setattr(files, "MAGIC", files.MAGIC._replace(addresses=addresses))
        return server

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def zipped(content, name="magic04.data"):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("magic04.names", "about")
        archive.writestr(name, content)
    return buffer.getvalue()


@pytest.mark.usefixtures("shared")
def test_magic_is_read_from_the_folder_in_the_environment():
    data = load_magic(download_if_missing=False)
    assert data.data.shape == (19020, 10)
    assert np.bincount(data.target).tolist() == [12332, 6688]
    assert data.target_names == ["gamma", "hadron"]
    first = [28.7967, 16.0021, 2.6449, 0.3918, 0.1982, 27.7004, 22.011, -8.2027, 40.092, 81.8828]
    assert data.data[0].tolist() == first
    some = load_magic(columns=["fAlpha", "fLength"])
    np.testing.assert_array_equal(some.data, data.data[:, [8, 0]])
    assert some.feature_names == ["fAlpha", "fLength"]
    assert 0 <= data.data[:, 8].min() < data.data[:, 8].max() <= 90  # degrees


@pytest.mark.usefixtures("shared")
def test_gastro_has_labels_where_endoscopists_agree_and_they_are_right():
    data = load_gastro()
    assert data.data.shape == (76, 4)
    labelled = data.target >= 0
    assert np.bincount(data.target[labelled]).tolist() == [4, 31]
    np.testing.assert_array_equal(data.target[labelled], data.target_true[labelled])
    assert np.bincount(data.target_true).tolist() == [21, 55]
    np.testing.assert_allclose(data.data.mean(axis=0), 0.0, atol=1e-15)
    np.testing.assert_allclose((data.data**2).sum(axis=0), 1.0, rtol=1e-14)
    lines = (Path(os.environ["MARMIX_DATA"]) / "gastro.csv").read_text(encoding="utf-8").splitlines()[1:]
    assert all(f"{float(x):.15g}" == x for line in lines for x in line.split(",")[:4])
    X, y = load_gastro(return_X_y=True)
    np.testing.assert_array_equal(X, data.data)
    np.testing.assert_array_equal(y, data.target)


@pytest.mark.usefixtures("shared")
@needs_pandas
def test_real_data_come_as_frames_too():
    data = load_gastro(as_frame=True)
    assert data.frame.columns.tolist() == [*data.feature_names, "target"]
    assert (data.target == -1).sum() == 41
    assert isinstance(data.target_true, pd.Series)
    assert data.target_true.index.equals(data.frame.index)
    assert data.target_true.tolist() == load_gastro().target_true.tolist()
    X, y = load_magic(columns=["fSize"], as_frame=True, return_X_y=True)
    assert X.columns.tolist() == ["fSize"]
    assert y.name == "target"


def test_unknown_columns_are_refused_before_anything_is_read():
    with pytest.raises(ValueError, match=r"'alpha'.*fLength"):
        load_magic(columns=["alpha"])
    with pytest.raises(ValueError, match="once"):
        load_magic(columns=["fSize", "fSize"])


def test_the_folder_is_the_one_given_then_the_environment_s_then_the_cache(monkeypatch, tmp_path, fake):
    folders = [tmp_path / name for name in ("given", "environment", "xdg/marmix", "home/.cache/marmix")]

    def where():
        with pytest.raises(OSError, match=r"magic04\.data") as caught:
            load_magic(download_if_missing=False)
        return Path(str(caught.value).split(".data")[0]).parent

    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("MARMIX_DATA", raising=False)
    assert where() == folders[3]
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert where() == folders[2]
    monkeypatch.setenv("MARMIX_DATA", str(folders[1]))
    assert where() == folders[1]
    folders[0].mkdir()
    (folders[0] / "magic04.data").write_bytes(fake)
    assert load_magic(data_home=folders[0]).target.tolist() == [0, 1, 0, 1, 0, 1]


def test_a_file_of_another_content_is_refused_and_left_alone(tmp_path, fake):
    path = tmp_path / "magic04.data"
    path.write_bytes(fake.replace(b"\n", b"\r\n"))
    with pytest.raises(ValueError, match=r"SHA-256.*expected.*Delete it"):
        load_magic(data_home=tmp_path)
    assert path.exists()
    (tmp_path / "gastro.csv").write_text("label,truth\n", encoding="utf-8")
    with pytest.raises(ValueError, match="SHA-256"):
        load_gastro(data_home=tmp_path)


def test_without_file_and_network_the_error_says_what_to_do(monkeypatch, tmp_path, fake, serve):
    serve(nothing=None)
    with pytest.raises(OSError, match="404") as caught:
        load_magic(data_home=tmp_path)
    for fact in (str(tmp_path), "archive.ics.uci.edu/dataset/159", "MARMIX_DATA", "data_home"):
        assert fact in str(caught.value)
    assert "\n" not in str(caught.value)
    monkeypatch.setattr(files, "MAGIC", files.MAGIC._replace(addresses=("http://127.0.0.1:9/nobody",)))
    with pytest.raises(OSError, match="not downloaded"):
        load_magic(data_home=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_gastro_is_never_downloaded_and_its_error_says_what_it_is(tmp_path):
    with pytest.raises(OSError, match="no public address") as caught:
        load_gastro(data_home=tmp_path / "folder")
    rebuilt = "features 294, 441, 472 and 486"
    for fact in ("feature_294", "truth", rebuilt, "sum of squares", files.GASTRO.sha256, "dataset/408", "MARMIX_DATA"):
        assert fact in str(caught.value)
    assert not (tmp_path / "folder").exists()
    description = " ".join(files.GASTRO_DESCRIPTION.split())
    assert rebuilt in description
    assert "sum of squares 1" in description


@pytest.mark.parametrize("way", ["zip", "plain", "second source", "zip without the member", "broken zip"])
def test_a_download_is_checked_kept_and_not_repeated(tmp_path, fake, serve, way):
    pages = {
        "zip": {"archive": zipped(fake)},
        "plain": {"file": fake},
        "second source": {"gone": None, "file": fake},
        "zip without the member": {"archive": zipped(fake, "../magic04.data"), "file": fake},
        "broken zip": {"archive": zipped(fake).replace(b"PK\x03\x04", b"PK\x03\x05"), "file": fake},
    }[way]
    server = serve(**pages)
    folder = tmp_path / "new" / "folder"
    data = load_magic(data_home=folder)
    np.testing.assert_array_equal(data.data[:, 3], np.arange(6) + 0.5)
    assert [path.name for path in folder.iterdir()] == ["magic04.data"]
    assert (folder / "magic04.data").read_bytes() == fake
    assert [path.name for path in tmp_path.iterdir()] == ["new"]
    assert len(server.requests) == len(pages)
    load_magic(data_home=folder)
    assert len(server.requests) == len(pages)


def test_a_source_with_another_content_is_refused_and_leaves_nothing(tmp_path, fake, serve):
    serve(archive=zipped(fake + b"more"), file=fake[1:])
    with pytest.raises(OSError, match="SHA-256"):
        load_magic(data_home=tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("page", [lambda content: content, zipped], ids=["plain", "zip"])
def test_a_download_without_end_is_given_up(monkeypatch, tmp_path, fake, serve, page):
    serve(file=page(fake + b"0" * 10_000))
    monkeypatch.setattr(files, "LARGEST", 5_000)
    with pytest.raises(OSError, match="more than 5,000 bytes"):
        load_magic(data_home=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_write_that_fails_leaves_nothing(monkeypatch, tmp_path, fake, serve):
    serve(file=fake)

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        load_magic(data_home=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_no_download_is_tried_where_it_is_not_wanted(tmp_path, fake, serve):
    server = serve(file=fake)
    with pytest.raises(OSError, match="download_if_missing=False"):
        load_magic(data_home=tmp_path, download_if_missing=False)
    assert server.requests == []
