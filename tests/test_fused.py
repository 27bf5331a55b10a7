"""The fused kernels against `block_sums` on NumPy: on a CUDA device where there is one, else in Triton's interpreter."""

import os

import numpy as np
import pytest

from marmix.core.covariance import WideFull, structure
from marmix.core.gaussian import Gaussians, GaussianScores
from marmix.core.likelihood import Block, block_sums
from marmix.core.linear import LinearScores
from marmix.core.measures import MEASURES
from marmix.core.mechanism import Mechanism

torch = pytest.importorskip("torch", reason="the fused kernels need torch")
if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # before triton is loaded
pytest.importorskip("triton", reason="the fused kernels need triton")

from marmix.engines import fused  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
TILE = 256
FUSED = [name for name, measure in MEASURES.items() if measure.fused]
KINDS = ["full", "wide full", "tied", "diag", "linear", "quadratic"]


@pytest.fixture(autouse=True)
def _short_programs(monkeypatch):
    """Few tiles per program, because the interpreter also iterates over empty ones."""
    if DEVICE == "cpu":
        monkeypatch.setattr(fused, "ROWS", {2: (TILE, 4, 1), 1000: (TILE // 4, 4, 2)})
        monkeypatch.setattr(fused, "MOMENTS", {16: (TILE, 1, 1), 32: (16, 1, 2), 64: (16, 4, 2)})


class Rows:
    """Random sorted rows, a score model and its parameters."""

    def __init__(self, kind="full", classes=2, d=3, n=200, labelled=0.4, weighted=False, seed=0):
        rng = np.random.default_rng(seed)
        self.x = rng.normal(size=(d, n))
        self.cuts = [0, *np.cumsum(rng.multinomial(round(labelled * n), np.full(classes, 1 / classes))).tolist()]
        self.weight = rng.uniform(0.5, 2.0, size=n) if weighted else None
        if kind in ("linear", "quadratic"):
            degree = 1 if kind == "linear" else 2
            self.model = LinearScores(d, classes, degree, np.inf, np.zeros(d), np.ones(d))
            self.theta = rng.normal(size=(self.model.vectors, self.model.n_features()))
        else:
            form = WideFull(d) if kind == "wide full" else structure(kind, d)
            self.model = GaussianScores(form, [1] * classes, 1e-6)
            roots = 0.3 * rng.normal(size=(classes, d, d)) + np.eye(d)
            covariances = form.project(roots @ np.swapaxes(roots, 1, 2), np.ones(classes))
            log_pi = np.log(rng.dirichlet(np.full(classes, 5.0)))
            self.theta = Gaussians(log_pi, rng.normal(size=(classes, d)), form.factor(covariances, 1e-6))

    def plain(self, mechanism, ignorable=True, tempering=1.0):
        block = Block(self.x, self.cuts, self.weight)
        with np.errstate(all="ignore"):
            return block_sums(block, self.model, self.model.prepare(self.theta), mechanism, ignorable, tempering)

    def fused(self, mechanism, ignorable=True, tempering=1.0, wide=None):
        prepared, weight = _there(self.model.prepare(self.theta)), None if self.weight is None else _there(self.weight)
        block = Block(_there(self.x), self.cuts, weight)
        with np.errstate(all="ignore"):
            return fused.fused_sums(block, self.model, prepared, mechanism, ignorable, tempering, wide)


def _there(array):
    return torch.as_tensor(np.ascontiguousarray(array), device=DEVICE)


def _arrays(sums):
    parts = (sums.ignorable, sums.missing, sums.alpha, sums.shape, sums.share, sums.moments.by_component)
    return [part.cpu().numpy() if isinstance(part, torch.Tensor) else np.asarray(part) for part in parts]


def assert_same(computed, expected, rtol=1e-12):
    """Every sum to `rtol` of itself, and every moment to `rtol` of the largest.

    The slope in the shape is a difference, whose terms are as large as the slope in eta.
    """
    computed, expected = _arrays(computed), _arrays(expected)
    rounding = 1e-15 * np.abs(expected[2]).max(initial=0.0)
    for a, b, atol in zip(computed[:-1], expected[:-1], (0.0, 0.0, 0.0, rounding, 0.0), strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)
    np.testing.assert_allclose(computed[-1], expected[-1], rtol=rtol, atol=rtol * np.abs(expected[-1]).max())


def check(rows, mechanism, ignorable=True, tempering=1.0):
    expected = rows.plain(mechanism, ignorable, tempering)
    for wide in (False, True):
        assert_same(rows.fused(mechanism, ignorable, tempering, wide), expected)


def mechanism_of(measure="margin", alpha=(0.3, -2.0), shape=0.7, share=0.1):
    return Mechanism(measure, alpha, shape, share, free_shape=True, free_share=share > 0.0)


@pytest.mark.parametrize(("measure", "classes"), [("gini", 2), ("entropy", 3), ("margin", 5)])
def test_both_forms_compute_block_sums(measure, classes):
    check(Rows(classes=classes, weighted=True, seed=classes), mechanism_of(measure), tempering=0.6)


@pytest.mark.parametrize("kind", KINDS)
def test_every_score_model_has_its_own_moments(kind):
    check(Rows(kind, 2 if kind == "linear" else 3), mechanism_of())


@pytest.mark.parametrize("d", [1, 15, 16, 33])
def test_any_number_of_features_is_padded_to_a_tile(d):
    rows = Rows("full" if d < 33 else "diag", d=d, n=40)
    assert_same(rows.fused(mechanism_of(), wide=False), rows.plain(mechanism_of()))


def test_many_features_take_the_form_of_matrix_products():
    rows = Rows("diag", d=fused._MOST_FEATURES + 1, n=40)
    default, wide = rows.fused(mechanism_of()), rows.fused(mechanism_of(), wide=True)
    assert all(np.array_equal(a, b) for a, b in zip(_arrays(default), _arrays(wide), strict=True))
    assert_same(default, rows.plain(mechanism_of()))


@pytest.mark.parametrize(("shape", "share"), [(0.0, 0.2), (1e-3, 0.0), (0.7, 0.2), (50.0, 0.2)])
def test_every_shape_and_share(shape, share):
    check(Rows(), mechanism_of(alpha=(6.0, -9.0), shape=shape, share=share))


@pytest.mark.parametrize(("ignorable", "kind"), [(True, "full"), (False, "linear")])
def test_joint_and_conditional_likelihoods_with_and_without_their_ignorable_part(kind, ignorable):
    check(Rows(kind, 3, weighted=True), mechanism_of("entropy"), ignorable)


@pytest.mark.parametrize("kind", ["full", "linear"])
def test_without_a_mechanism_only_the_ignorable_part_is_left(kind):
    rows = Rows(kind, 3)
    check(rows, None)
    assert rows.fused(None).missing == 0.0


@pytest.mark.parametrize("n", [1, TILE - 1, TILE, TILE + 1])
def test_rows_need_not_fill_a_tile(n):
    check(Rows(n=n), mechanism_of())


@pytest.mark.parametrize("labelled", [0.0, 1.0])
def test_all_or_no_labels_may_be_missing(labelled):
    check(Rows(labelled=labelled, n=60), mechanism_of())


@pytest.mark.parametrize("empty", [0, 2])
def test_a_class_may_have_no_labelled_row(empty):
    rows = Rows(classes=3, n=60)
    counts = np.diff(rows.cuts)
    counts[empty] = 0
    rows.cuts = [0, *np.cumsum(counts).tolist()]
    check(rows, mechanism_of())


def test_blocks_of_rows_add_up(monkeypatch):
    monkeypatch.setattr(fused, "_BLOCK_G", 1)  # blocks are 4096 rows then
    monkeypatch.setattr(fused, "_BLOCK_WIDE", 1)
    check(Rows(n=4096 + 300, weighted=True, labelled=0.95), mechanism_of())


# Extremes, one row at a time, because a sum would hide all but the largest terms. With two classes the score of the second is the
# feature.


def _one_row(score, labelled, classes=2):
    rows = Rows("linear", classes, d=1, n=1, labelled=float(labelled))
    if classes == 2:
        rows.theta = np.array([[0.0, 1.0]])
    else:
        rows.theta = np.array([[0.0, 0.0], [0.0, 1.0], [-3.0, 0.5]])
    rows.x = np.array([[score]])
    return rows


@pytest.mark.parametrize(("shape", "share"), [(0.0, 0.0), (1e-3, 0.0), (1.0, 0.0), (100.0, 0.0), (0.7, 0.05)])
@pytest.mark.parametrize("labelled", [True, False])
def test_the_link_is_accurate_for_eta_from_minus_to_plus_800(shape, share, labelled):
    for eta in (-800.0, -400.0, -6.0, 5.0, 500.0, 800.0):
        rows, mechanism = _one_row(0.8, labelled), mechanism_of(alpha=(eta, 2.0), shape=shape, share=share)
        assert_same(rows.fused(mechanism, wide=True), rows.plain(mechanism))


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("measure", FUSED)
def test_the_measures_are_accurate_for_certain_rows_and_near_ties(measure, classes):
    ties = (-1e-3, 1e-9, 1e-150) if measure == "margin" else ()
    for score in (-1400.0, -700.0, -37.0, 0.3, 20.0, 700.0, *ties):
        rows = _one_row(score, False, classes)
        assert_same(rows.fused(mechanism_of(measure), wide=True), rows.plain(mechanism_of(measure)))


@pytest.mark.parametrize(("measure", "tied"), [("margin", [0, 2]), ("margin", [0, 1, 2]), ("entropy", [0, 1, 2])])
def test_classes_may_tie(measure, tied):
    rows = Rows("linear", 3, n=20)
    rows.theta[tied] = rows.theta[tied[0]]
    rows.theta[tied, 0] += 4.0  # they lead in many rows, and follow in others
    check(rows, mechanism_of(measure))


@pytest.mark.parametrize(
    ("model", "mechanism"),
    [
        (GaussianScores(structure("spherical", 2), [1, 1], 1e-6), None),
        (GaussianScores(structure("full", 2), [2, 1], 1e-6), None),
        *((Rows(n=4).model, Mechanism(name)) for name, measure in MEASURES.items() if not measure.fused),
        (Rows(n=4).model, Mechanism(lambda log_tau: log_tau[:, 0])),
        (Rows(n=4).model, Mechanism(alpha=(0.0, 1.0, 2.0))),
        (Rows(n=4).model, Mechanism(label=(0.0, 1.0))),
    ],
)
def test_unsupported_models_and_mechanisms_are_refused(model, mechanism):
    assert not fused.supports(model, mechanism)
    x = torch.zeros((2, 4), dtype=torch.float64, device=DEVICE)
    with pytest.raises(ValueError, match="use block_sums"):
        fused.fused_sums(Block(x, [0, 1, 2]), model, x, mechanism)


def test_rows_must_be_contiguous_and_in_double_precision():
    model = Rows(n=4).model
    x = torch.zeros((3, 4), dtype=torch.float64, device=DEVICE)
    assert fused.supports(model, None, x)
    assert not fused.supports(model, None, x.float())
    assert not fused.supports(model, None, x.new_zeros((4, 3)).T)
    if DEVICE == "cuda":
        assert not fused.supports(model, None, x.cpu())
