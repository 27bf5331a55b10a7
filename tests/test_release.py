"""What is released is whole, small and says the truth: wheel, sdist, metadata, and the base install."""

import json
import re
import sys
import tarfile
import tomllib
import zipfile
from email import message_from_string

import pytest
import yaml
from packaged import ROOT, run
from packaging.requirements import Requirement

import marmix

EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]


@pytest.fixture(scope="module")
def in_wheel(packages):
    """Names and contents of the wheel's files."""
    with zipfile.ZipFile(packages.wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def files(folder):
    """Files of the package's source that Python did not make."""
    return {path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"}


def test_the_wheel_has_the_package_its_licence_and_nothing_else(in_wheel, packages):
    package = {path.relative_to(ROOT / "src").as_posix() for path in files(ROOT / "src") if "marmix" in path.parts}
    information = {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE"}
    assert in_wheel.keys() == package | {f"marmix-{marmix.__version__}.dist-info/{name}" for name in information}
    assert packages.wheel.stat().st_size < 1_000_000


def test_the_sdist_has_source_paper_tests_and_docs_and_nothing_built(packages):
    with tarfile.open(packages.sdist) as archive:
        names = {member.name.partition("/")[2] for member in archive if member.isfile()}
    assert {"LICENSE", "CITATION.cff", "README.md", "docs/conf.py", "paper/README.md", "tests/conftest.py"} <= names
    assert {path.relative_to(ROOT).as_posix() for path in files(ROOT / "src" / "marmix")} <= names
    assert not [
        name for name in names if re.search(r"(^|/)(_build|auto_examples|__pycache__|dist)/|\.(pyc|whl|so)$", name)
    ]
    assert packages.sdist.stat().st_size < 8_000_000


def test_the_metadata_say_what_it_is(in_wheel):
    metadata = message_from_string(in_wheel[f"marmix-{marmix.__version__}.dist-info/METADATA"].decode("utf-8"))
    assert (metadata["Name"], metadata["Version"]) == ("marmix", marmix.__version__)
    assert metadata["License-Expression"] == "BSD-3-Clause"
    assert set(metadata.get_all("Provides-Extra")) == EXTRAS.keys()
    base = [requirement for requirement in metadata.get_all("Requires-Dist") if "extra ==" not in requirement]
    assert {Requirement(requirement).name for requirement in base} == {"numpy", "scipy", "scikit-learn", "joblib"}
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))["version"] == marmix.__version__


@pytest.mark.long
@pytest.mark.parametrize("extra", ["", "all", "docs", "test"])
def test_an_extra_can_be_installed_from_the_package_index(extra, packages, tmp_path):
    report = tmp_path / "report.json"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--only-binary=:all:"]
    run([*pip, "--report", report, f"{packages.wheel}[{extra}]" if extra else packages.wheel], tmp_path)
    names = {item["metadata"]["name"].lower() for item in json.loads(report.read_text(encoding="utf-8"))["install"]}
    assert {"marmix", "numpy", "scipy", "scikit-learn"} <= names


BASE = """
import json, pathlib, runpy, sys
from importlib.machinery import PathFinder
from importlib.metadata import distribution
from packaging.requirements import Requirement

def needed(name, seen):  # the packages that come with the base install
    if name not in seen:
        seen[name] = distribution(name)
        for text in seen[name].requires or ():
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                needed(requirement.name, seen)
    return seen

packages = needed("marmix", {})
modules = {file.parts[0].partition(".")[0] for package in packages.values() for file in package.files}

class Base(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        spec = super().find_spec(name, path, target)
        place = "" if spec is None else spec.origin or str(spec.submodule_search_locations)
        return None if "-packages" in place and name.partition(".")[0] not in modules else spec

for name in [name for name in sys.modules if name.partition(".")[0] == "packaging"]:
    del sys.modules[name]
sys.meta_path[:] = [finder for finder in sys.meta_path if finder is not PathFinder] + [Base]

import numpy as np
import marmix
from marmix.cli import main

rng = np.random.default_rng(0)
truth = rng.integers(2, size=200)
X = rng.normal(size=(200, 2)) + 2.0 * truth[:, None]
y = np.where(np.abs(X.sum(axis=1) - 2) < 1, -1, truth)
model = marmix.MARGaussianMixture().fit(X, y)
marmix.save(model, "model.marmix")
same = bool((marmix.load("model.marmix").predict_proba(X) == model.predict_proba(X)).all())
code = main(["info", "model.marmix", "--json"])
pathlib.Path("rows.csv").write_text("x,class\\n" + "1,a\\n2,b\\n3,\\n" * 20, encoding="utf-8")
refused = main(["fit", "rows.csv", "--label", "class", "--out", "results"])
sys.argv = ["marmix", "--version"]
try:
    runpy.run_module("marmix", run_name="__main__")
except SystemExit as end:
    assert end.code == 0
print(json.dumps({
    "packages": sorted(packages), "file": marmix.__file__, "same": same, "code": code, "refused": refused,
    "right": float(np.mean(model.predict(X) == truth)),
    "others": sorted({name.partition(".")[0] for name in sys.modules} & {"pandas", "pyarrow", "matplotlib", "lightgbm", "torch"}),
}))
"""


def test_the_base_install_fits_saves_and_loads_with_numpy_scipy_and_scikit_learn_alone(clean_python, tmp_path):
    printed = clean_python("-c", BASE, cwd=tmp_path)
    told = json.loads(printed.splitlines()[-1])
    assert printed.splitlines()[-2] == f"marmix {marmix.__version__}"
    assert {"joblib", "numpy", "scikit-learn", "scipy", "threadpoolctl"} <= set(told["packages"])
    assert not {"pandas", "pyarrow", "matplotlib", "lightgbm", "torch"} & set(told["packages"])
    assert told["others"] == []
    assert told["file"].startswith(str(clean_python.site))
    assert told["same"]
    assert told["right"] > 0.9
    assert (told["code"], told["refused"]) == (0, 1)
    assert "pip install 'marmix[" in printed  # and what is missing is named
