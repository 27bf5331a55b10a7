"""`marmix.torch`: the mechanism as a loss for networks."""

import numpy as np
import pytest

from marmix import Mechanism
from marmix.core.measures import MEASURES

torch = pytest.importorskip("torch", reason="marmix.torch needs PyTorch")
from marmix.torch import MissingnessLoss  # noqa: E402

torch.set_num_threads(1)  # batches are small: threads would only wait for each other

CASES = [(name, classes) for name, measure in MEASURES.items() for classes in (2, 3) if measure.admits(classes)]
DEVICES = ["cpu"] + ["cuda"] * torch.cuda.is_available()


def batch(classes=3, n=12, seed=0, dtype=torch.float64):
    rng = np.random.default_rng(seed)
    targets = rng.integers(classes, size=n)
    targets[rng.uniform(size=n) < 0.5] = -1
    logits = torch.tensor(2.0 * rng.normal(size=(n, classes)), dtype=dtype, requires_grad=True)
    return logits, torch.tensor(targets), torch.tensor(rng.uniform(0.5, 2.0, size=n), dtype=dtype)


def loss_with(alpha=(0.3, -0.8), **options):
    loss = MissingnessLoss(missing_rate=0.5, **options)
    with torch.no_grad():
        loss.alpha.copy_(torch.tensor(alpha))
    return loss.double()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("measure", "classes"), CASES)
def test_the_loss_is_cross_entropy_plus_the_terms_of_the_mechanism(measure, classes, weighted):
    logits, targets, weight = batch(classes)
    w = weight if weighted else None
    loss = loss_with(measure=measure, mechanism_weight=0.4)
    value = loss(logits, targets, w)
    value.backward()
    s, z = logits.detach().numpy(), targets.numpy()
    v = weight.numpy() if weighted else np.ones(len(z))
    log_tau = s - np.logaddexp.reduce(s, axis=1, keepdims=True)
    terms = Mechanism(measure, tuple(loss.alpha.tolist())).terms(s, z < 0, sample_weight=v)
    labels = np.where(z < 0, 0.0, -log_tau[np.arange(len(z)), z]) * v
    assert value.item() == pytest.approx((labels.sum() - 0.4 * terms.loglik.sum()) / v.sum(), rel=1e-12)
    by_labels = (np.exp(log_tau) - np.eye(classes)[z]) * (v * (z >= 0))[:, None]
    np.testing.assert_allclose(logits.grad, (by_labels - 0.4 * terms.gradient) / v.sum(), rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("link", [{"link": "logit"}, {"link": "cloglog"}, {"link": "aranda-ordaz", "shape": 0.3}])
@pytest.mark.parametrize(("measure", "classes"), CASES)
def test_gradients_in_logits_and_alpha_pass_gradcheck(measure, classes, link):
    logits, targets, weight = batch(classes)
    loss = loss_with(measure=measure, **link)

    def function(logits, alpha):
        return torch.func.functional_call(loss, {"alpha": alpha}, (logits, targets, weight))

    alpha = loss.alpha.detach().clone().requires_grad_()
    assert torch.autograd.gradcheck(function, (logits, alpha), eps=1e-6, atol=1e-7)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("measure", "classes"), CASES)
def test_single_precision_differs_by_its_rounding_only(measure, classes, device):
    logits, targets, weight = batch(classes, n=200)
    results = []
    for dtype, where in ((torch.float64, "cpu"), (torch.float32, device)):
        s = logits.detach().to(device=where, dtype=dtype).requires_grad_()
        loss = loss_with(measure=measure).to(device=where, dtype=dtype)
        value = loss(s, targets.to(where), weight.to(where))
        value.backward()
        assert value.dtype == s.grad.dtype == dtype
        results.append([value.item(), s.grad.cpu().double().numpy(), loss.alpha.grad.cpu().double().numpy()])
    for double, single in zip(*results, strict=True):
        np.testing.assert_allclose(single, double, rtol=1e-5, atol=1e-5 * np.abs(double).max())


@pytest.mark.parametrize(("measure", "classes"), CASES)
def test_torch_computes_on_other_devices_what_numpy_does_on_the_host(measure, classes, monkeypatch):
    logits, targets, weight = batch(classes)
    results = []
    for devices in (("cpu",), ()):
        monkeypatch.setattr("marmix.torch._NUMPY_DEVICES", devices)
        loss = loss_with(measure=measure)
        value = loss(logits, targets, weight)
        results.append([t.detach().numpy() for t in (value, *torch.autograd.grad(value, (logits, loss.alpha)))])
    for host, device in zip(*results, strict=True):
        np.testing.assert_allclose(device, host, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("measure", [name for name, measure in MEASURES.items() if measure.only_classes is None])
def test_huge_logits_give_finite_losses_and_gradients(measure, dtype):
    logits = torch.tensor([[1e4, -1e4, 0.0], [-1e4, 1e4, 1e4], [0.0, 0.0, 0.0], [1e4, 1e4, 1e4]], dtype=dtype)
    for targets in ([0, 1, 2, -1], [1, -1, -1, 0], [-1, -1, -1, -1]):
        s = logits.clone().requires_grad_()
        loss = loss_with(alpha=(0.0, 0.01 * MEASURES[measure].slope), measure=measure)
        value = loss(s, torch.tensor(targets))
        value.backward()
        assert torch.isfinite(value)
        assert torch.isfinite(s.grad).all()
        assert torch.isfinite(loss.alpha.grad).all()


def test_a_row_of_weight_two_is_the_row_twice():
    logits, targets, _ = batch()
    loss, index = loss_with(), torch.tensor([0, 0, *range(1, 12)])
    weight = torch.ones(12, dtype=torch.float64)
    weight[0] = 2.0
    assert loss(logits, targets, weight).item() == pytest.approx(loss(logits[index], targets[index]).item(), rel=1e-12)


def test_without_weight_the_loss_is_cross_entropy_over_all_rows():
    logits, targets, _ = batch()
    loss = MissingnessLoss(mechanism_weight=0.0)
    expected = torch.nn.functional.cross_entropy(logits, targets, ignore_index=-1, reduction="sum") / len(targets)
    value = loss(logits, targets)
    value.backward()
    assert value.item() == pytest.approx(expected.item(), rel=1e-12)
    assert loss.alpha.grad is None


@pytest.mark.parametrize("link", ["logit", "cloglog", "aranda-ordaz"])
def test_the_start_predicts_the_missing_rate_and_leaves_the_network_alone(link):
    logits, targets, _ = batch(n=50)
    loss = MissingnessLoss(link=link)
    value = loss(logits, targets)
    by_mechanism = torch.autograd.grad(value, logits)[0]
    by_labels = torch.autograd.grad(MissingnessLoss(mechanism_weight=0.0)(logits, targets), logits)[0]
    np.testing.assert_array_equal(by_mechanism, by_labels)
    rate = (float((targets < 0).sum()) + 0.5) / 51
    np.testing.assert_allclose(loss.missing_proba(logits.detach()), rate, rtol=1e-6)
    given = MissingnessLoss(link=link, missing_rate=0.8)
    given(logits, targets)
    np.testing.assert_allclose(given.missing_proba(logits.detach()), 0.8, rtol=1e-6)


@pytest.mark.parametrize("train_alpha", [True, False])
def test_profile_sets_the_estimates_of_the_mechanism(train_alpha):
    truth = Mechanism("entropy", (-1.0, 3.0))
    rng = np.random.default_rng(0)
    scores = 2.0 * rng.normal(size=(3000, 3))
    targets = np.where(rng.uniform(size=3000) < truth.missing_proba(scores), -1, 0)
    loss = MissingnessLoss(link="aranda-ordaz", mcar_share=True, train_alpha=train_alpha).double()
    mechanism = loss.profile(torch.tensor(scores), torch.tensor(targets))
    expected = Mechanism.from_link("aranda-ordaz", None, "entropy", True).profile(scores, targets < 0)
    for name in ("alpha", "shape", "share"):
        np.testing.assert_allclose(getattr(mechanism, name), getattr(expected, name), rtol=1e-8)
    np.testing.assert_allclose(loss.missing_proba(torch.tensor(scores)), mechanism.missing_proba(scores), rtol=1e-12)
    assert len(list(loss.parameters())) == train_alpha


def test_a_user_measure_is_differentiated():
    def largest(log_tau):
        return np.exp(log_tau).max(axis=1)

    logits, targets, _ = batch()
    loss = loss_with(measure=largest)
    assert torch.autograd.gradcheck(lambda s: loss(s, targets), (logits,), eps=1e-6, atol=1e-6)


@pytest.mark.parametrize("shape", [(2,), (3, 1)])
@pytest.mark.parametrize("place", [0, 1])
def test_one_value_per_row_is_asked_for(shape, place):
    given = [torch.tensor([0, 1, -1]), torch.ones(3)]
    given[place] = torch.zeros(shape, dtype=given[place].dtype)
    with pytest.raises(ValueError, match="one value per row"):
        MissingnessLoss()(torch.zeros(3, 2), *given)
