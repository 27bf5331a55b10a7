"""CONTRIBUTING.md says what is true: its examples work, and the files and commands it names are there."""

import re
import tomllib
from pathlib import Path

import pytest

from marmix.core.links import LINKS
from marmix.core.measures import MEASURES, posterior

ROOT = Path(__file__).parent.parent
PAGES = {name: (ROOT / name).read_text(encoding="utf-8") for name in ("CONTRIBUTING.md", "SECURITY.md")}


@pytest.fixture
def registered():
    """After the test, records that it added are gone."""
    before = set(LINKS), set(MEASURES)
    yield
    for records, names in zip((LINKS, MEASURES), before, strict=True):
        for name in set(records) - names:
            del records[name]


@pytest.mark.filterwarnings("ignore::marmix.BoundaryWarning")
def test_the_measure_the_link_and_the_score_model_are_added_as_the_page_says(registered):
    names = {"__name__": "contributing"}
    blocks = re.findall(r"^```python\n(.*?)^```", PAGES["CONTRIBUTING.md"], re.M | re.S)
    assert len(blocks) == 4
    for block in blocks:
        exec(compile(block, "CONTRIBUTING.md", "exec"), names)
    np, cubic = names["np"], names["cubic"]
    scores = np.random.default_rng(0).normal(size=(3, 5))
    value, gradient = cubic(posterior(scores))
    np.testing.assert_allclose(value, 1.0 - (posterior(scores).tau ** 3).sum(axis=0), rtol=1e-12)
    for k in range(3):
        step = 1e-6 * np.eye(3)[k][:, None]
        slope = (cubic(posterior(scores + step)).value - cubic(posterior(scores - step)).value) / 2e-6
        np.testing.assert_allclose(gradient[k], slope, atol=1e-9)


def test_a_case_of_bad_input_has_the_fields_that_the_cases_have():
    (block,) = re.findall(r"^```toml\n(.*?)^```", PAGES["CONTRIBUTING.md"], re.M | re.S)
    (case,) = tomllib.loads(block)["case"]
    cases = [
        case
        for path in (ROOT / "tests/data/bad_inputs").glob("*.toml")
        for case in tomllib.loads(path.read_text("utf-8"))["case"]
    ]
    assert any(set(case) == set(other) for other in cases)


@pytest.mark.parametrize("page", PAGES)
def test_every_file_that_a_page_names_is_there(page):
    text = PAGES[page]
    named = re.findall(r"`((?:src|tests|docs|benchmarks)/[\w./-]+|[A-Z]+\.md|\.ci/run)`", text)
    named += re.findall(r"\]\(([\w./]+)\)", text)
    assert len(named) > 4
    for name in named:
        assert (ROOT / name).exists(), name
    assert max(map(len, text.splitlines())) <= 140
