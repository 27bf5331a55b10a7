"""Files that appear complete or not at all; the package writes to disk only through this module."""

import hashlib
import os
import re
import shutil
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self
from unicodedata import normalize

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["Output", "one_file"]

_ADVICE = "give another --out, or --force to replace {}"
_HIDDEN = re.compile(r"\.marmix-([0-9a-f]{16})(\.lock|-[0-9]+-[0-9a-f]{8,32})")
_PAUSES = (0.01, 0.05, 0.2)  # seconds; another run may hold a lock for a moment, to see whether its owner is alive


class Output:
    r"""A folder of files that appear together when all are written, and that one run at a time may write.

    They are written to a private hidden folder, next to the target or in it, and moved when the `with` block ends. If
    it ends with an exception, nothing is left behind and existing files are unchanged. If the program is killed, the
    next output to the same place removes the hidden folder, and undoes a move that was not complete.

    Parameters
    ----------
    folder : path
        Created if it does not exist; its parent must exist.
    files : sequence of str
        Names of the files, all of which must be written.
    force : bool, default=False
        Whether to replace existing files of these names. Other files in the folder are not touched.
    obsolete : sequence of str, default=()
        Names of files that would contradict the new ones: removed with `force`, an error without.
    sources : sequence of paths, default=()
        Files that are being read, which are never replaced.
    advice : str, default="give another --out, or --force to replace {}"
        Ends the error message about existing files; ``{}`` becomes "it" or "them".

    Attributes
    ----------
    scratch : Path
        A folder for temporary files, deleted at the end.

    Raises
    ------
    OSError
        On entry, if one of the files exists or is being written by another run, the parent does not exist, or the
        folder cannot be written.

    See Also
    --------
    one_file : The same for a single file.
    RowWriter : Write rows of a table to such a file.

    Examples
    --------
    Nothing is there until both files are complete:

    >>> import tempfile
    >>> from pathlib import Path
    >>> from marmix.tables import Output
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     results = Path(folder, "results")
    ...     with Output(results, ["labels.csv", "notes.txt"]) as output:
    ...         _ = output.path("labels.csv").write_text("row,label\n1,a\n")
    ...         _ = output.path("notes.txt").write_text("One row.\n")
    ...         print(results.exists())
    ...     print(sorted(path.name for path in results.iterdir()))
    False
    ['labels.csv', 'notes.txt']
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        files: Sequence[str],
        *,
        force: bool = False,
        obsolete: Sequence[str] = (),
        sources: Sequence[str | os.PathLike[str]] = (),
        advice: str = _ADVICE,
    ):
        self.folder, self.files, self.force = Path(folder), list(files), force
        self._obsolete, self._sources, self._advice = list(obsolete), list(sources), advice
        self._locks = _Locks()

    def __enter__(self) -> Self:
        self._part = Path()
        try:
            self._check()
            place = self._lock()
            self._check()
            _remove_dead(place, self._locks.handles)
            # short, for Windows
            part = place / f"{next(iter(self._locks.handles)).stem}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
            self.scratch, self._ready, self._old = (part / name for name in ("scratch", "new", "old"))
            self._part = part
            # files that are moved on Windows keep its permissions
            part.mkdir(mode=0o700 if os.name == "posix" else 0o777)
            for folder in (self.scratch, self._ready, self._old):
                folder.mkdir()
        except BaseException as error:
            self._clear()
            if not isinstance(error, OSError) or error.errno is None:
                raise
            where = self.folder if self.folder.exists() else self.folder.absolute().parent
            raise OSError(f"{where} cannot be written ({error.strerror}): give another folder with --out.") from None
        return self

    def path(self, name: str) -> Path:
        """Return the path at which to write one of the files.

        Parameters
        ----------
        name : str
            One of `files`.

        Returns
        -------
        Path
            In the hidden folder; the file is moved when the `with` block ends.

        Raises
        ------
        ValueError
            If it is not one of the files of this output.
        """
        if name not in self.files:
            raise ValueError(f"{name} is not one of the files of this output: {', '.join(self.files)}.")
        return self._ready / name

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                for name in self.files:
                    _to_disk(self._ready / name)
                self._check()
                self._move()
                shutil.rmtree(self._old, ignore_errors=True)
        finally:
            self._clear()

    def _check(self) -> None:
        paths = [self.folder / name for name in (*self.files, *self._obsolete)]
        for link in (self.folder, *paths):
            if link.is_symlink() and not link.exists():
                raise FileExistsError(f"{link} is a link to {os.readlink(link)}, which does not exist: remove it.")
        if self.folder.exists() and not self.folder.is_dir():
            raise NotADirectoryError(f"{self.folder} is a file, where a folder is to be made: give another --out.")
        if not self.folder.absolute().parent.is_dir():
            raise FileNotFoundError(f"there is no folder {self.folder.absolute().parent}: make it first.")
        for path in filter(os.path.lexists, paths):
            if path.is_dir() and not path.is_symlink():
                raise FileExistsError(
                    f"{path} exists and is a folder, where a file is to be written: give another path."
                )
            if any(os.path.exists(source) and path.samefile(source) for source in self._sources):
                raise FileExistsError(f"{path} is the file that is read, and is not overwritten: give another path.")
            if not self.force:
                advice = self._advice.format("it" if len(self.files) == 1 else "them")
                raise FileExistsError(f"{path} exists: {advice}.")

    def _lock(self) -> Path:
        """Lock the files, or the name of the folder if it does not exist; returns the folder with the locks."""
        while True:
            self._new = not self.folder.exists()
            place = self.folder.absolute().parent if self._new else self.folder
            names = [self.folder.absolute().name] if self._new else [*self.files, *self._obsolete]
            self._locks.take(place, names, self.folder)
            if self._new == (not self.folder.exists()):
                return place
            self._locks.release()

    def _move(self) -> None:
        """Move all files to their places, or none of them."""
        if self._new:
            with suppress(OSError):  # somebody has made the folder, and it is not empty
                os.rename(self._ready, self.folder)  # atomic
                return
            self._locks.take(self.folder, self.files, self.folder)
        elif len(self.files) == 1 and self.force and not self._obsolete:
            os.replace(self._ready / self.files[0], self.folder / self.files[0])  # atomic
            return
        try:
            if not self._new:
                _write_names(self._part, self.files)
            for name in () if self._new else (*reversed(self.files), *self._obsolete):
                if os.path.lexists(self.folder / name):
                    os.replace(self.folder / name, self._old / name)
            for name in self.files:
                _link(self._ready / name, self.folder / name)
        except BaseException as error:
            _undo(self._part, self.folder, self.files)
            if isinstance(error, FileExistsError):
                raise FileExistsError(f"{self.folder} has got other files meanwhile: give another path.") from None
            raise

    def _clear(self) -> None:
        """Remove the hidden folder, unless it holds replaced files that could not be restored, and the locks."""
        if self._part.name:
            for folder in (self.scratch, self._ready):
                shutil.rmtree(folder, ignore_errors=True)
            with suppress(OSError):
                self._old.rmdir()
            if not self._old.exists():
                shutil.rmtree(self._part, ignore_errors=True)
        self._locks.release()


@contextmanager
def one_file(
    path: str | os.PathLike[str],
    force: bool = False,
    *,
    sources: Sequence[str | os.PathLike[str]] = (),
    advice: str = _ADVICE,
    pipes: bool = True,
) -> Iterator[Path]:
    """Yield a path to write to; the file appears at `path` when the `with` block ends without an exception.

    Parameters
    ----------
    path : path
        The file. With `pipes`, a pipe or a device, such as ``/dev/stdout``, is written directly.
    force : bool, default=False
        Whether to replace an existing file.
    sources : sequence of paths, default=()
        Files that are being read, which are never replaced.
    advice : str, default="give another --out, or --force to replace {}"
        Ends the error message about an existing file.
    pipes : bool, default=True
        Whether pipes and devices are allowed.

    Yields
    ------
    Path
        Where to write.

    Raises
    ------
    OSError
        As in `Output`.

    See Also
    --------
    Output : Several files that appear together.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from marmix.tables import one_file
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with one_file(Path(folder, "note.txt")) as path:
    ...         _ = path.write_text("Complete, or not there at all.")
    ...     print(Path(folder, "note.txt").read_text())
    Complete, or not there at all.
    """
    path = Path(path)
    if pipes and path.exists() and (not (path.is_file() or path.is_dir()) or str(path.parent) in ("/dev", "/dev/fd")):
        yield path
        return
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder, where a file is to be written: give another path.")
    if not path.absolute().parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.absolute().parent}: make it first.")
    with Output(path.parent, (path.name,), force=force, sources=sources, advice=advice) as output:
        yield output.path(path.name)


def _to_disk(path: Path) -> None:
    """Wait until a file's content is on disk, so that after a power failure no name is left without its content."""
    handle = os.open(path, os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _link(source: Path, target: Path) -> None:
    """Give a file a second name, at which nothing may exist."""
    try:
        os.link(source, target)
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        if os.path.lexists(target):
            raise FileExistsError(target) from None
        os.rename(source, target)


def _write_names(part: Path, names: Sequence[str]) -> None:
    """Write down which files a move brings, for the next run if this one is killed."""
    draft = part / "scratch" / "names"
    draft.write_bytes(os.fsencode("\0".join(names)))
    _to_disk(draft)
    os.replace(draft, part / "names")


def _undo(part: Path, folder: Path, names: Sequence[str]) -> None:
    """Take back the files of a move that was not complete, and restore those that it replaced."""
    for name in names:
        with suppress(FileNotFoundError):
            if not (part / "new" / name).exists():
                os.replace(folder / name, part / "new" / name)
            elif (folder / name).samefile(part / "new" / name):
                os.unlink(folder / name)
    for file in (part / "old").iterdir():
        if not os.path.lexists(folder / file.name):
            os.replace(file, folder / file.name)


# Locks: the operating system lifts them when their process ends. Where it has none, the hidden file itself is the lock.


class _Locks:
    """The locks that a run holds: handles of hidden files."""

    def __init__(self) -> None:
        self.handles: dict[Path, int] = {}

    def take(self, place: Path, names: Sequence[str], subject: Path) -> None:
        """Lock names in a folder; OSError if another run has one of them."""
        for path in [_lock_of(place, name) for name in names]:
            handle = _locked(path)
            for pause in _PAUSES:
                if handle is None:
                    time.sleep(pause)
                    handle = _locked(path)
            if handle is None:
                owners = [entry.name.split("-")[2] for entry in place.glob(f"{path.stem}-*")]
                process = f" (process {owners[0]})" if owners else ""
                free = "" if fcntl else f", or remove {path} if no run is left"
                raise OSError(
                    f"{subject} is being written by another run{process}: wait for it to end{free}, or write elsewhere."
                )
            self.handles[path] = handle

    def release(self) -> None:
        while self.handles:
            _unlock(*self.handles.popitem())


def _lock_of(place: Path, name: str) -> Path:
    """The hidden file that stands for a name in a folder, the same for all spellings that a file system may take for one."""
    key = os.fsencode(normalize("NFC", name).casefold())
    return place / f".marmix-{hashlib.sha256(key).hexdigest()[:16]}.lock"


def _locked(path: Path) -> int | None:
    """Create and lock a file; returns its handle, or None if another run has it."""
    while True:
        new, handle = True, -1
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        except FileExistsError:
            new = False
            with suppress(FileNotFoundError):  # its owner has just removed it
                handle = os.open(path, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
        if handle < 0:
            continue
        try:
            if fcntl:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if (fcntl or new) and os.path.samestat(os.fstat(handle), os.lstat(path)):
                return handle
        except FileNotFoundError:
            pass
        except OSError as error:  # another has it, or the file system has no locks
            if new and not isinstance(error, BlockingIOError):
                return handle
            os.close(handle)
            return None
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)
        if not fcntl:
            return None


def _unlock(path: Path, handle: int) -> None:
    if not fcntl:
        os.close(handle)  # an open file cannot be removed on Windows
    with suppress(OSError):
        os.unlink(path)
    if fcntl:
        os.close(handle)


def _remove_dead(place: Path, own: dict[Path, int]) -> None:
    """Remove what killed runs of this user left in a folder: free locks, and hidden folders whose lock is free or own."""
    user = os.fstat(next(iter(own.values()))).st_uid
    locks: dict[Path, list[Path]] = {}
    for entry in os.scandir(place):
        with suppress(OSError):  # another run has just removed it
            if _HIDDEN.fullmatch(entry.name) and entry.stat(follow_symlinks=False).st_uid == user:
                parts = locks.setdefault(place / f"{entry.name[:24]}.lock", [])
                if not entry.name.endswith(".lock") and entry.is_dir(follow_symlinks=False):
                    parts.append(Path(entry.path))
    for lock, parts in locks.items():
        with suppress(OSError):  # not a lock of a run, or of another user
            handle = own[lock] if lock in own else _locked(lock)
            if handle is None:
                continue
            for part in parts:
                with suppress(OSError):
                    _finish(part, place)
            if lock not in own:
                _unlock(lock, handle)


def _finish(part: Path, place: Path) -> None:
    """Remove the hidden folder of a killed run; if its move was not complete, undo it first."""
    if (part / "names").exists() and (part / "old").exists():
        files = os.listdir(part / "new") if (part / "new").exists() else None
        if files is None or not all(_same(part / "new" / name, place / name) for name in files):
            (part / "new").mkdir(exist_ok=True)
            _undo(part, place, [] if files is None else os.fsdecode((part / "names").read_bytes()).split("\0"))
            if any((part / "old").iterdir()):
                return  # a file has the name of one that was replaced
    shutil.rmtree(part, ignore_errors=True)


def _same(path: Path, other: Path) -> bool:
    return other.exists() and path.samefile(other)
