"""Files that appear complete or not at all; the package writes to disk only through this module."""

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

    They are written to a private hidden folder, next to the target or in it, and moved when the `with` block ends. If it ends
    with an exception, nothing is left behind and existing files are unchanged.

    Parameters
    ----------
    folder : path
        Created if it does not exist; its parent must exist.
    files : sequence of str
        Names of the files, all of which must be written. They are moved in this order: if the program is killed meanwhile, the
        first of them are in place, and none of the files that they replace.
    force : bool, default=False
        Whether to replace existing files of these names. Other files in the folder are not touched.
    obsolete : sequence of str, default=()
        Names of files that would contradict the new ones: removed with `force`, an error without.
    advice : str, default="give another --out, or --force to replace {}"
        Ends the error message about existing files; ``{}`` becomes "it" or "them".

    Attributes
    ----------
    scratch : Path
        A folder for temporary files, deleted at the end.

    Raises
    ------
    OSError
        On entry, if one of the files exists, the parent does not, or the folder cannot be written.
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
            reason = f"{self._part.parent} cannot be written ({error.strerror})"
            raise OSError(f"{reason}: give another folder with --out.") from None
        return self

    def path(self, name: str) -> Path:
        """Path at which to write one of the files."""
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
        """Move all files to their places, or none of them."""
        if self._new and not self.folder.exists():
            os.rename(self._ready, self.folder)  # atomic
            return
        if len(self.files) == 1 and not self._obsolete:
            os.replace(self._ready / self.files[0], self.folder / self.files[0])  # atomic
            return
        replaced = [name for name in (*self._obsolete, *self.files) if os.path.lexists(self.folder / name)]
        moves = [(self.folder / name, self._old / name) for name in reversed(replaced)]
        moves += [(self._ready / name, self.folder / name) for name in self.files]
        started: list[tuple[Path, Path]] = []
        try:
            for source, target in moves:
                started.append((source, target))
                os.replace(source, target)
        except BaseException:
            for source, target in reversed(started):
                with suppress(FileNotFoundError):
                    os.replace(target, source)
            raise

    def _clear(self) -> None:
        """Remove the hidden folder, unless it holds replaced files that could not be restored."""
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
    """Yield a path to write to; the file appears at `path` when the `with` block ends without an exception.

    Errors, `force` and `advice` are as in `Output`. With `pipes`, a pipe or a device at `path` is written directly.
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
    """Write a file, replacing an existing one."""
    with one_file(path, force=True, pipes=False) as part:
        part.write_bytes(content.encode() if isinstance(content, str) else content)


def _to_disk(path: Path) -> None:
    """Wait until a file's content is on disk, so that after a power failure no name is left without its content."""
    handle = os.open(path, os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
