"""What the documents show is what their scripts print."""

import doctest
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from marmix import missingness
from marmix.classifiers import choice, logistic, mixture

ROOT = Path(__file__).parent.parent


@pytest.mark.slow
def test_the_example_of_one_sided_missingness_prints_what_its_page_shows():
    done = subprocess.run([sys.executable, "docs/one_sided.py"], cwd=ROOT, capture_output=True, text=True, check=True)
    shown = (ROOT / "docs" / "one_sided.md").read_text().split("```\n")[1]
    numbers = [[float(x) for x in re.findall(r"-?\d+\.\d+", text.split("\n\n", 2)[1])] for text in (done.stdout, shown)]
    assert len(numbers[0]) == 15
    np.testing.assert_allclose(*numbers, atol=0.011)
    losses = [float(x) for x in re.findall(r"log-loss (\d\.\d+)", done.stdout)]
    assert losses[1] > losses[0] + 0.05  # the symmetric mechanism misleads
    p_values = [float(x) for x in re.findall(r"no difference: (\S+)", done.stdout)]
    assert p_values[0] < 1e-3 < 0.05 < p_values[1]  # and the check shows it


@pytest.mark.filterwarnings("ignore::marmix.BoundaryWarning")
@pytest.mark.parametrize("module", [mixture, logistic, choice, missingness])
def test_examples_in_docstrings_print_what_they_show(module):
    found = doctest.testmod(module)
    assert found.attempted > 0
    assert found.failed == 0
