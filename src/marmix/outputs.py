"""Files that appear whole or not at all: the one way in which this package writes to disk."""

import os
import shutil
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

__all__ = ["Output", "one_file", "write_whole"]

_ADVICE = "give another --out, or --force to replace {}"


class Output:
    """A folder of files that appear together when all are written.

    They are written in a hidden folder, beside the target or in it, that only this user may enter, and moved when the `with`
    block ends. If it ends by an exception, of any kind, nothing is left behind and what was there is as it was.

    Parameters
    ----------
    folder : path
        Made if it does not exist; its parent must exist.
    files : sequence of str
        Names of the files, every one of which has to be written. They are moved in this order: a program that is killed
        meanwhile leaves the first of them, and none of the files that they replace.
    force : bool, default=False
        Whether to replace such files that exist already. Other files in the folder are left alone.
    obsolete : sequence of str, default=()
        Names of files that would not belong to the new ones: removed with `force`, refused without.
    advice : str, default="give another --out, or --force to replace {}"
        What to do about files that exist, for the error message; ``{}`` is replaced by "it" or "them".

    Attributes
    ----------
    scratch : Path
        A folder for temporary files, deleted at the end.

    Raises
    ------
    OSError
        When it begins: if one of the files exists, the parent does not, or the folder cannot be written.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        files: Sequence[str],
        *,
        force: bool = False,
        obsolete: Sequence[str] = (),
        advice: str = _ADVICE,
    ):
        self.folder, self.files, self.force = Path(folder), list(files), force
        self._obsolete, self._advice = list(obsolete), advice

    def __enter__(self) -> Self:
        self._check()
        self._new = not self.folder.exists()
        self._part = (self.folder.absolute().parent if self._new else self.folder) / f".marmix-{uuid.uuid4().hex}"
        self.scratch, self._ready, self._old = (self._part / name for name in ("scratch", "new", "old"))
        try:
            self._part.mkdir(mode=0o700)
            for folder in (self.scratch, self._ready, self._old):
                folder.mkdir()
        except BaseException as error:
            self._clear()
            if not isinstance(error, OSError):
                raise
            where = self._part.parent
            raise OSError(f"{where} cannot be written ({error.strerror}): give another folder with --out.") from None
        return self

    def path(self, name: str) -> Path:
        """Where to write one of the files."""
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
        if self.folder.exists() and not self.folder.is_dir():
            raise NotADirectoryError(f"{self.folder} is a file, where a folder is to be made: give another --out.")
        if not self.folder.absolute().parent.is_dir():
            raise FileNotFoundError(f"there is no folder {self.folder.absolute().parent}: make it first.")
        for name in (*self.files, *self._obsolete):
            path = self.folder / name
            if path.is_dir() and not path.is_symlink():
                raise FileExistsError(
                    f"{path} exists and is a folder, where a file is to be written: give another path."
                )
            if os.path.lexists(path) and not self.force:
                advice = self._advice.format("it" if len(self.files) == 1 else "them")
                raise FileExistsError(f"{path} exists: {advice}.")

    def _move(self) -> None:
        """Move all files to their places, or none."""
        if self._new and not self.folder.exists():
            os.rename(self._ready, self.folder)  # one step
            return
        if len(self.files) == 1 and not self._obsolete:
            os.replace(self._ready / self.files[0], self.folder / self.files[0])  # one step
            return
        replaced = [name for name in (*self._obsolete, *self.files) if os.path.lexists(self.folder / name)]
        moves = [(self.folder / name, self._old / name) for name in reversed(replaced)]
        moves += [(self._ready / name, self.folder / name) for name in self.files]
        begun: list[tuple[Path, Path]] = []
        try:
            for source, target in moves:
                begun.append((source, target))
                os.replace(source, target)
        except BaseException:
            for source, target in reversed(begun):
                with suppress(FileNotFoundError):
                    os.replace(target, source)
            raise

    def _clear(self) -> None:
        """Remove the hidden folder, unless it holds replaced files that could not be put back."""
        for folder in (self.scratch, self._ready):
            shutil.rmtree(folder, ignore_errors=True)
        with suppress(OSError):
            self._old.rmdir()
        with suppress(OSError):
            self._part.rmdir()


@contextmanager
def one_file(
    path: str | os.PathLike[str], force: bool = False, *, advice: str = _ADVICE, pipes: bool = True
) -> Iterator[Path]:
    """Yield where to write a file, which appears at `path` when the `with` block ends, and not if it ends by an exception.

    Parameters
    ----------
    path : path
    force : bool, default=False
        Whether to replace a file that exists already.
    advice : str
        As in `Output`.
    pipes : bool, default=True
        Whether to write directly to `path` if it is a pipe or a device.

    Raises
    ------
    OSError
        If the file exists, or its folder does not or cannot be written.
    """
    path = Path(path)
    if pipes and path.exists() and not path.is_file() and not path.is_dir():
        yield path
        return
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder, where a file is to be written: give another path.")
    if not path.absolute().parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.absolute().parent}: make it first.")
    with Output(path.parent, (path.name,), force=force, advice=advice) as output:
        yield output.path(path.name)


def write_whole(path: str | os.PathLike[str], content: str | bytes) -> None:
    """Write a file, or replace the one that exists."""
    with one_file(path, force=True, pipes=False) as part:
        part.write_bytes(content.encode() if isinstance(content, str) else content)


def _to_disk(path: Path) -> None:
    """Wait until the content of a file is on the disk: a name must not survive a power failure that its content does not."""
    handle = os.open(path, os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
