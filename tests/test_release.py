"""What is released is whole, small and says the truth: wheel, sdist, metadata, extras, the base install, CI."""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email import message_from_string
from importlib.metadata import PackageNotFoundError, version
from pathlib import PurePosixPath

import pathspec
import pytest
import yaml
from packaged import ROOT, built, run
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

import marmix

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXTRAS = PROJECT["optional-dependencies"]
PYTHONS = [c.rsplit(" ", 1)[1] for c in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", c)]
WORKFLOW = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))


def files_of_the_repository(*folders):
    """Files of these folders that git does not ignore, and the documents of the top folder."""
    ignored = pathspec.GitIgnoreSpec.from_lines((ROOT / ".gitignore").read_text(encoding="utf-8").splitlines())
    paths = [path for folder in folders for path in (ROOT / folder).rglob("*")] + list(ROOT.glob("*.md"))
    names = {path.relative_to(ROOT).as_posix() for path in paths if path.is_file()}
    return {name for name in names if not ignored.match_file(name)}


@pytest.fixture(scope="module")
def in_wheel(packages):
    with zipfile.ZipFile(packages.wheel) as archive:
        return set(archive.namelist())


@pytest.fixture(scope="module")
def in_sdist(packages):
    with tarfile.open(packages.sdist) as archive:
        return {member.name.partition("/")[2] for member in archive if member.isfile()}


@pytest.fixture(scope="module")
def metadata(packages):
    with zipfile.ZipFile(packages.wheel) as archive:
        return message_from_string(archive.read(f"marmix-{marmix.__version__}.dist-info/METADATA").decode("utf-8"))


def test_the_wheel_has_the_package_its_licence_and_nothing_else(in_wheel):
    package = {name.removeprefix("src/") for name in files_of_the_repository("src") if name.startswith("src/")}
    information = {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE"}
    assert in_wheel == package | {f"marmix-{marmix.__version__}.dist-info/{name}" for name in information}
    assert {"marmix/py.typed", *(f"marmix/app/templates/page.{kind}" for kind in ("html", "css", "js"))} <= in_wheel
    assert {name.rpartition(".")[2] for name in package} == {"py", "css", "js", "typed"}


def test_the_sdist_has_all_that_the_tests_and_the_site_need_and_nothing_built(in_sdist):
    here = files_of_the_repository("src", "paper", "tests", "benchmarks", "docs", ".ci", ".github")
    assert in_sdist == here | {"LICENSE", "CITATION.cff", "pyproject.toml", ".gitignore", ".gitattributes", "PKG-INFO"}
    built_things = re.compile(r"(^|/)(_build|auto_examples|__pycache__|dist|marmix-demo.*)/|\.(pyc|sqlite|whl|gz|so)$")
    assert [name for name in in_sdist if built_things.search(name)] == []


def test_the_packages_are_small(packages):
    assert packages.wheel.stat().st_size < 1_000_000
    assert packages.sdist.stat().st_size < 8_000_000


def test_the_sdist_makes_the_same_wheel(packages, tmp_path):
    with tarfile.open(packages.sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    again = built(tmp_path / f"marmix-{marmix.__version__}", tmp_path / "again")
    assert again.wheel.name == packages.wheel.name
    assert again.wheel.read_bytes() == packages.wheel.read_bytes()


def test_the_metadata_say_what_it_is(metadata):
    assert (metadata["Name"], metadata["Version"]) == ("marmix", marmix.__version__)
    assert (metadata["License-Expression"], metadata["License-File"]) == ("BSD-3-Clause", "LICENSE")
    assert metadata["Summary"] == "Classification when labels are missing for a reason"
    assert set(metadata.get_all("Provides-Extra")) == set(EXTRAS)
    assert SpecifierSet(metadata["Requires-Python"]) == SpecifierSet(f">={PYTHONS[0]}")
    base = [requirement for requirement in metadata.get_all("Requires-Dist") if "extra ==" not in requirement]
    assert {Requirement(requirement).name for requirement in base} == {"numpy", "scipy", "scikit-learn"}


def test_the_long_description_is_the_readme_and_its_links_lead_somewhere(metadata, in_sdist):
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert metadata.get_payload().replace("\r\n", "\n").strip() == README.strip()
    targets = set(re.findall(r"\]\(([^)\s]+)\)", README)) | set(re.findall(r"(?:src|href)=\"([^\"]+)\"", README))
    relative = {target.partition("#")[0] for target in targets if not target.startswith(("https://", "#"))}
    folders = {str(parent) for path in in_sdist for parent in PurePosixPath(path).parents}
    assert relative <= set(in_sdist) | folders


def test_the_version_is_the_same_everywhere(packages):
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == marmix.__version__
    assert packages.wheel.name == f"marmix-{marmix.__version__}-py3-none-any.whl"
    assert packages.sdist.name == f"marmix-{marmix.__version__}.tar.gz"
    first = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M).group(1)
    assert first in (marmix.__version__, "Unreleased")


def test_the_program_is_installed(clean_python):
    [program] = clean_python.scripts.glob("marmix*")
    assert run([program, "--version"], clean_python.scripts).strip() == f"marmix {marmix.__version__}"


@pytest.mark.parametrize("extra", EXTRAS)
def test_every_requirement_of_an_extra_is_met_here_if_it_is_installed(extra):
    for requirement in map(Requirement, EXTRAS[extra]):
        if requirement.name == "marmix":
            assert requirement.extras <= set(EXTRAS) - {extra}
            continue
        assert requirement.specifier, f"{requirement.name} needs a lowest version"
        try:
            assert requirement.specifier.contains(version(requirement.name), prereleases=True)
        except PackageNotFoundError:
            continue


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


def test_ci_runs_on_the_pythons_and_systems_that_the_classifiers_name():
    matrix = WORKFLOW["jobs"]["tests"]["strategy"]["matrix"]
    assert matrix["python"] == PYTHONS
    assert [name.partition("-")[0] for name in matrix["os"]] == ["ubuntu", "macos", "windows"]
    assert "Operating System :: OS Independent" in PROJECT["classifiers"]
    assert WORKFLOW["jobs"]["tests"]["strategy"]["fail-fast"] is False
    others = [
        step["with"]["python-version"] for job in ("docs", "package") for step in WORKFLOW["jobs"][job]["steps"][1:2]
    ]
    assert set(others) <= set(PYTHONS)


def test_ci_runs_the_commands_of_the_readme():
    commands = {step["run"] for job in WORKFLOW["jobs"].values() for step in job["steps"] if "run" in step}
    assert "bash .ci/run" in commands
    assert "<!-- test command -->" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert len(re.findall(r"<!-- test command -->\n```\n(.+)\n```\n<!-- end of test command -->", README)) == 1
    assert "python -m sphinx -W -b html docs docs/_build/html" in commands
    [release] = [command for command in commands if "--long" in command]
    assert all((ROOT / word).is_file() for word in release.split() if word.startswith("tests/"))


@pytest.mark.skipif(
    os.name == "nt" or not shutil.which("git"), reason="needs git, and a bash that is not that of Windows"
)
@pytest.mark.posix_only("bash without Git")
@pytest.mark.parametrize(
    ("system", "printed"),
    [
        ("linux-gnu", "python3 -m venv .venv && .venv/bin/pytest a"),
        ("msys", "python -m venv .venv && .venv/Scripts/pytest a"),
    ],
)
def test_ci_run_types_the_command_of_the_readme_in_a_copy(system, printed, tmp_path):
    repository, programs = tmp_path / "repository", tmp_path / "programs"
    (repository / ".ci").mkdir(parents=True)
    programs.mkdir()
    (programs / "chromium").write_text("#!/bin/sh\n", encoding="utf-8")
    (programs / "chromium").chmod(0o755)  # there is nothing to install
    shutil.copy(ROOT / ".ci" / "run", repository / ".ci")
    command = "echo 'python3 -m venv .venv && .venv/bin/pytest' *.txt"
    readme = f"<!-- test command -->\r\n```\r\n{command}\r\n```\r\n<!-- end of test command -->\r\n"
    (repository / "README.md").write_bytes(readme.encode())
    (repository / "a.txt").touch()
    (repository / "b.txt").touch()
    (repository / ".gitignore").write_text("b.txt\n", encoding="utf-8")
    subprocess.run(["git", "init", "--quiet", repository], check=True)
    variables = os.environ | {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "OSTYPE": system}
    done = subprocess.run(
        ["bash", ".ci/run"], cwd=repository, env=variables, capture_output=True, encoding="utf-8", check=True
    )
    assert done.stdout.splitlines()[-1].replace(".txt", "") == printed  # and what git ignores is not in the copy
