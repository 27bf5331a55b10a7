"""The packages of this checkout, built, and installed in an environment of their own."""

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from types import SimpleNamespace

ROOT = Path(__file__).parent.parent


def built(source, folder):
    """Build the wheel and the sdist of a source tree; return their paths."""
    run([sys.executable, "-m", "hatchling", "build", "--directory", folder], source)
    [wheel], [sdist] = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return SimpleNamespace(wheel=wheel, sdist=sdist)


def installed(wheel, folder):
    """Install a wheel in a new virtual environment; return a function that runs its Python with arguments in a folder.

    Other packages are found where the tests find them: paths in a .pth file are added at the end, and .pth files there,
    such as that of an editable marmix, are not read.
    """
    venv.create(folder, symlinks=os.name != "nt")
    paths = sysconfig.get_paths("venv", {"base": str(folder), "platbase": str(folder)})
    python = Path(paths["scripts"], "python.exe" if os.name == "nt" else "python")
    pip = [sys.executable, "-m", "pip", "--python", python, "install"]
    run([*pip, "--quiet", "--no-deps", "--no-index", "--no-compile", wheel], folder)
    others = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    Path(paths["purelib"], "others.pth").write_text("\n".join(others), encoding="utf-8")

    def clean(*arguments, cwd):
        return run([python, *arguments], cwd)

    clean.site, clean.scripts = Path(paths["purelib"]), Path(paths["scripts"])
    return clean


def run(command, folder):
    """Run a command without this project's source on its path; return what it prints."""
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(word) for word in command],
        cwd=folder,
        env=variables | {"PYTHONNOUSERSITE": "1", "PYTHONIOENCODING": "utf-8", "OMP_NUM_THREADS": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout
