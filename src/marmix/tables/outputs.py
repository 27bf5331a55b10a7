"""Outputs that are there whole or not at all."""

import os
import shutil
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self


class Output:
    """A folder of files that appear together when all are written.

    They are written in a hidden folder, beside the target or in it, and moved when the `with` block ends. If it ends by an
    exception, of any kind, nothing is left behind and what was there is as it was.

    Parameters
    ----------
    folder : path
        Made if it is not there; its parent must be.
    files : sequence of str
        Names of the files, every one of which has to be written.
    force : bool, default=False
        Whether to replace such files that are there already. Other files in the folder are left alone.

    Attributes
    ----------
    scratch : Path
        A folder for what is needed on the way, deleted at the end.

    Raises
    ------
    OSError
        When it begins: if one of the files is there, the parent is not, or the folder cannot be written.
    """

    def __init__(self, folder: str | os.PathLike[str], files: Sequence[str], *, force: bool = False):
        self.folder, self.files, self.force = Path(folder), list(files), force

    def __enter__(self) -> Self:
        self._check()
        self._new = not self.folder.exists()
        self._part = (self.folder.absolute().parent if self._new else self.folder) / f".marmix-{uuid.uuid4().hex}"
        self.scratch, self._ready, self._old = (self._part / name for name in ("scratch", "new", "old"))
        try:
            for folder in (self._part, self.scratch, self._ready, self._old):
                folder.mkdir()
        except OSError as error:
            self._clear()
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
                self._check()
                self._move()
        finally:
            self._clear()

    def _check(self) -> None:
        if self.folder.exists() and not self.folder.is_dir():
            raise NotADirectoryError(f"{self.folder} is a file, where a folder is to be made: give another --out.")
        if not self.folder.absolute().parent.is_dir():
            raise FileNotFoundError(f"{self.folder.absolute().parent} is not there: make this folder first.")
        there = [name for name in self.files if os.path.lexists(self.folder / name)]
        folders = [name for name in there if (self.folder / name).is_dir()]
        if folders or (there and not self.force):
            advice = "give another --out" if folders else "give another --out, or --force to replace them"
            raise FileExistsError(f"{self.folder} already has {', '.join(folders or there)}: {advice}.")

    def _move(self) -> None:
        """Move all files to their places, or none."""
        if self._new and not self.folder.exists():
            os.rename(self._ready, self.folder)  # one step
            return
        moved: list[tuple[Path, Path]] = []
        try:
            for name in self.files:
                for source, target in (
                    (self.folder / name, self._old / name),
                    (self._ready / name, self.folder / name),
                ):
                    if target.parent == self.folder or os.path.lexists(source):
                        moved.append((source, target))
                        os.replace(source, target)
        except BaseException:
            for source, target in reversed(moved):
                with suppress(FileNotFoundError):
                    os.replace(target, source)
            raise

    def _clear(self) -> None:
        shutil.rmtree(self._part, ignore_errors=True)


@contextmanager
def one_file(path: str | os.PathLike[str], force: bool = False) -> Iterator[Path]:
    """A file that is there when it is whole.

    Parameters
    ----------
    path : path
        What is no file, such as a pipe, is written as it is.
    force : bool, default=False
        Whether to replace a file that is there already.

    Yields
    ------
    Path
        Where to write it, moved to `path` when the `with` block ends, and deleted if it ends by an exception.

    Raises
    ------
    OSError
        If the file is there, or its folder is not or cannot be written.
    """
    path = Path(path)
    if path.exists() and not path.is_file() and not path.is_dir():
        yield path
        return
    _check_file(path, force)
    part = path.with_name(f".{path.name[:100]}.{uuid.uuid4().hex}.part")
    try:
        try:
            part.touch(exist_ok=False)
        except OSError as error:
            raise OSError(f"{path.parent} cannot be written ({error.strerror}): give another --out.") from None
        yield part
        _check_file(path, force)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def _check_file(path: Path, force: bool) -> None:
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder, where a file is to be written: give another --out.")
    if not path.absolute().parent.is_dir():
        raise FileNotFoundError(f"{path.absolute().parent} is not there: make this folder first.")
    if os.path.lexists(path) and not force:
        raise FileExistsError(f"{path} is there already: give another --out, or --force to replace it.")
