"""Files that appear complete or not at all; the package writes to disk only through this module."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

_ADVICE = "give another --out, or --force to replace {}"


@contextmanager
def new_files(
    folder: str | os.PathLike[str],
    names: Sequence[str],
    *,
    force: bool = False,
    sources: Sequence[str | os.PathLike[str]] = (),
    advice: str = _ADVICE,
) -> Iterator[Path]:
    """Yield a temporary folder for files, which are moved to their folder when the `with` block ends.

    If it ends with an exception, nothing is left behind and existing files are unchanged.

    Parameters
    ----------
    folder : path
        Made if it does not exist; its parent must exist.
    names : sequence of str
        Files that will be written.
    force : bool, default=False
        Whether to replace existing files of these names. Other files in the folder are not touched.
    sources : sequence of paths, default=()
        Files that are being read, which are never replaced.
    advice : str, default="give another --out, or --force to replace {}"
        Ends the error message about existing files; ``{}`` becomes "it" or "them".

    Yields
    ------
    Path
        Where to write the files.

    Raises
    ------
    OSError
        If one of the files exists, the parent does not exist, or the folder cannot be written.
    """
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"{folder} is a file, where a folder is to be made: give another --out.")
    if not folder.absolute().parent.is_dir():
        raise FileNotFoundError(f"there is no folder {folder.absolute().parent}: make it first.")
    for path in (folder / name for name in names):
        if path.is_dir():
            raise FileExistsError(f"{path} is a folder, where a file is to be written: give another path.")
        if path.exists() and any(os.path.exists(source) and path.samefile(source) for source in sources):
            raise FileExistsError(f"{path} is the file that is read, and is not overwritten: give another path.")
        if os.path.lexists(path) and not force:
            raise FileExistsError(f"{path} exists: {advice.format('it' if len(names) == 1 else 'them')}.")
    place = folder if folder.is_dir() else folder.absolute().parent
    try:
        part = TemporaryDirectory(dir=place, prefix=".marmix-")
    except OSError as error:
        raise OSError(f"{place} cannot be written ({error.strerror}): give another folder with --out.") from None
    with part:
        yield Path(part.name)
        folder.mkdir(exist_ok=True)
        for file in list(Path(part.name).iterdir()):
            os.replace(file, folder / file.name)


@contextmanager
def one_file(
    path: str | os.PathLike[str],
    force: bool = False,
    *,
    sources: Sequence[str | os.PathLike[str]] = (),
    advice: str = _ADVICE,
) -> Iterator[Path]:
    """Yield a path to write to; the file appears at `path` when the `with` block ends without an exception.

    Parameters
    ----------
    path : path
        The file.
    force, sources, advice
        As in `new_files`.

    Yields
    ------
    Path
        Where to write.

    Raises
    ------
    OSError
        As in `new_files`.
    """
    path = Path(path)
    with new_files(path.parent, [path.name], force=force, sources=sources, advice=advice) as part:
        yield part / path.name
