"""The page that compares marmix with other tools: its code runs, and the models that it calls the same are the same."""

import ast
import re
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit, logsumexp, xlogy
from scipy.stats import multivariate_normal

from marmix import MARGaussianMixture, MARKernelClassifier
from marmix.datasets import make_mar_mixture

PAGE = Path(__file__).parent.parent / "docs" / "comparison.md"


def packages(code):
    """Names of the packages that a block imports."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield (node.module if isinstance(node, ast.ImportFrom) else node.names[0].name).partition(".")[0]


@pytest.mark.filterwarnings("ignore::marmix.BoundaryWarning")
def test_the_python_of_the_comparison_runs_and_prints_what_the_page_shows(capsys, monkeypatch):
    candidates = {str(link): MARGaussianMixture(link=link) for link in ("logit", None)}  # quicker than all of them
    monkeypatch.setattr("marmix.selection.comparison.default_candidates", lambda *size, **options: candidates)
    monkeypatch.setitem(MARKernelClassifier.__init__.__kwdefaults__, "n_landmarks", 20)
    monkeypatch.setitem(MARKernelClassifier.__init__.__kwdefaults__, "cv", 2)
    page = PAGE.read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.M | re.S)
    namespace = {}
    runs = [code for code in blocks if all(find_spec(name) for name in packages(code))]
    assert len(runs) >= 10
    for code in runs:
        exec(code, namespace)
    shown = re.findall(r"^```text\n(.*?)^```", page, re.M | re.S)
    assert capsys.readouterr().out == "".join(shown)


@pytest.mark.parametrize(("covariance", "uncertainty"), [("full", "log-entropy"), ("tied", "discriminant")])
def test_gmmsslm_fits_one_of_our_likelihoods(covariance, uncertainty):
    """Its formula: logit q = xi_0 + xi_1 log H, or the squared log-odds if two classes have one covariance."""
    rows = make_mar_mixture(150, random_state=0)
    X, y = rows.data, rows.target
    clf = MARGaussianMixture(covariance_type=covariance, measure=uncertainty, link="logit").fit(X, y)
    covariances = np.broadcast_to(clf.covariances_, (2, 2, 2))
    scores = np.column_stack(
        [
            np.log(weight) + multivariate_normal(mean, matrix).logpdf(X)
            for weight, mean, matrix in zip(clf.weights_, clf.means_, covariances, strict=True)
        ]
    )
    missing, total = y < 0, logsumexp(scores, axis=1)
    tau = np.exp(scores - total[:, None])
    u = (scores[:, 0] - scores[:, 1]) ** 2 if covariance == "tied" else np.log(-xlogy(tau, tau).sum(axis=1))
    q = expit(clf.alpha_[0] + clf.alpha_[1] * u)
    ignorable = np.where(missing, total, scores[np.arange(len(y)), np.maximum(y, 0)]).sum()
    full = ignorable + np.where(missing, np.log(q), np.log1p(-q)).sum()
    assert clf.loglik_ == pytest.approx(full, abs=1e-8)
