"""The theory agrees with published numbers, closed forms, an independent reference and simulation."""

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import norm

from marmix import Mechanism
from paper.theory import (
    REGIMES,
    GaussianClasses,
    excess_risk,
    mechanism_at_rate,
    missing_rate,
    unlabelled_efficiency,
)

THREE = {
    "weights": [0.35, 0.35, 0.30],
    "means": [[-1.5, 0.0], [1.5, 0.0], [0.0, 2.0]],
    "covariances": [[[1.0, 0.3], [0.3, 0.7]], [[0.8, -0.2], [-0.2, 1.2]], [[1.3, 0.4], [0.4, 0.8]]],
}
ENTROPY = Mechanism("entropy", (-2.5583, 4.0))


def two(distance=2.0, weight=0.5, axes=((1.0,),)):
    """Two classes with a common covariance, `distance` apart along the first of d features; then x -> axes x."""
    axes = np.array(axes)
    means = np.zeros((2, len(axes)))
    means[:, 0] = -distance / 2, distance / 2
    return GaussianClasses([weight, 1 - weight], means @ axes.T, axes @ axes.T, covariance_type="tied")


# Published numbers.


@pytest.mark.parametrize(("distance", "percent"), [(1.0, 0.51), (1.5, 3.24), (2.0, 10.08), (2.5, 21.40), (3.0, 35.89)])
def test_an_unlabelled_row_is_worth_what_the_literature_says(distance, percent):
    assert 100 * unlabelled_efficiency(two(distance)) == pytest.approx(percent, abs=0.01)


def test_three_normals_have_the_published_coefficients():
    classes = GaussianClasses(**THREE)
    mechanism = mechanism_at_rate(classes, Mechanism("entropy", (0.0, 4.0)), 0.30)
    assert mechanism.alpha[0] == pytest.approx(-2.5583, abs=5e-4)
    for regime, value in {"complete": 1.5581, "mcar": 2.0541, "modelled": 1.3645}.items():
        assert excess_risk(classes, mechanism, labels=regime) == pytest.approx(value, rel=0.003)


# Closed forms and simulation.


@pytest.mark.parametrize("distance", [1.0, 2.0, 3.0])
def test_linear_discriminant_analysis_has_its_closed_form(distance):
    # n Var(boundary) = 1 + 4 / distance^2, and the risk bends by distance phi(distance / 2) / 2
    exact = 0.5 * norm.pdf(distance / 2) * distance * (1.0 + 4.0 / distance**2)
    assert excess_risk(two(distance)) == pytest.approx(exact, rel=1e-9)
    # with equal priors a second feature, of noise, costs as much as the first
    assert excess_risk(two(distance, axes=[[1.4, 0.9], [-2.0, 0.7]])) == pytest.approx(2 * exact, rel=1e-6)


def test_quadratic_discriminant_analysis_in_simulation_has_the_excess_risk_of_the_theory():
    pi, mu, sd, n, repeats = np.array([0.4, 0.6]), np.array([0.0, 2.0]), np.array([1.0, 1.5]), 40_000, 100_000
    rng = np.random.default_rng(0)
    first = rng.binomial(n, pi[0], size=repeats)
    counts = np.array([first, n - first])
    means = mu[:, None] + sd[:, None] / np.sqrt(counts) * rng.normal(size=(2, repeats))
    variances = sd[:, None] ** 2 * rng.chisquare(counts - 1) / counts

    def risk(weights, means, variances):
        """Risk of the rule with these parameters; the second class, of larger variance, is outside an interval."""
        a, b = -0.5 / variances, means / variances
        c = np.log(weights) - 0.5 * np.log(variances) - 0.5 * means**2 / variances
        a, b, c = a[0] - a[1], b[0] - b[1], c[0] - c[1]
        root = np.sqrt(b * b - 4 * a * c)
        low, high = (-b + root) / (2 * a), (-b - root) / (2 * a)
        inside = norm.cdf((high - mu[:, None]) / sd[:, None]) - norm.cdf((low - mu[:, None]) / sd[:, None])
        return pi[0] * (1 - inside[0]) + pi[1] * inside[1]

    best = risk(pi[:, None], mu[:, None], sd[:, None] ** 2)[0]
    excess = 2 * n * (risk(counts / n, means, variances) - best)
    error = excess.std() / np.sqrt(repeats)
    assert error < 0.006 * excess.mean()
    assert abs(excess.mean() - excess_risk(GaussianClasses(pi, mu[:, None], sd[:, None, None] ** 2))) < 3 * error


# An independent reference for two normals with a common variance, by differences of the densities.


class Reference:
    """Excess risk from the scores of all outcomes (label 0, label 1, none) of a row, by differences in the parameters."""

    def __init__(self, theta, alpha):
        self.theta, self.alpha = np.array(theta), np.array(alpha)  # theta: weight, means, variance
        self.x = np.linspace(-14.0, 14.0, 5601)

    def joint(self, theta):
        weight, first, second, variance = theta
        means = np.array([first, second])[:, None]
        return np.array([weight, 1 - weight])[:, None] * norm.pdf(self.x, means, np.sqrt(variance)) + 1e-300

    def q(self, theta, alpha):
        tau = self.joint(theta) / self.joint(theta).sum(axis=0)
        return expit(alpha[0] - alpha[1] * np.sum(tau * np.log(tau), axis=0))

    def scores(self, function, at):
        """Derivatives (m, ...) of a function by central differences."""
        return np.array([(function(at + step) - function(at - step)) / 2e-4 for step in 1e-4 * np.eye(len(at))])

    def information(self, modelled, q):
        q = self.q(self.theta, self.alpha) if q is None else q * np.ones_like(self.x)
        joint, total = self.joint(self.theta), 0.0
        at = np.concatenate([self.theta, self.alpha]) if modelled else self.theta
        outcomes = [((0,), (1 - q) * joint[0]), ((1,), (1 - q) * joint[1]), ((0, 1), q * joint.sum(axis=0))]
        for classes, probability in outcomes:

            def loglik(at, classes=classes):
                value = np.log(self.joint(at[:4])[list(classes)].sum(axis=0))
                q_here = self.q(at[:4], at[4:]) if modelled else 0.5
                return value + np.log(q_here if len(classes) == 2 else 1 - q_here)

            score = self.scores(loglik, at)
            total = total + (score * probability * (self.x[1] - self.x[0])) @ score.T
        return total

    def coefficient(self, modelled=False, q=None):
        def boundary(theta):
            weight, first, second, variance = theta
            return 0.5 * (first + second) + variance * np.log(weight / (1 - weight)) / (second - first)

        weight, first, second, variance = self.theta
        by_theta = self.scores(boundary, self.theta)
        height = weight * norm.pdf(boundary(self.theta), first, np.sqrt(variance))
        inverse = np.linalg.inv(self.information(modelled, q))[:4, :4]
        return height * (second - first) / variance * by_theta @ inverse @ by_theta


@pytest.mark.parametrize("regime", REGIMES)
def test_every_regime_agrees_with_a_reference_written_out_by_hand(regime):
    classes = GaussianClasses([0.4, 0.6], [[-1.0], [1.3]], [[1.2]], covariance_type="tied")
    mechanism = Mechanism("entropy", (-1.5, 3.0))
    rates = {"complete": 0.0, "mcar": missing_rate(classes, mechanism), "unlabelled": 1.0}
    reference = Reference((0.4, -1.0, 1.3, 1.2), mechanism.alpha)
    expected = reference.coefficient(regime == "modelled", rates.get(regime))
    assert excess_risk(classes, mechanism, labels=regime) == pytest.approx(expected, rel=1e-5)


# Identities.


@pytest.mark.parametrize("covariance_type", ["full", "tied", "diag", "spherical"])
def test_neither_axes_nor_the_order_of_the_classes_matter(covariance_type):
    full, order = np.array(THREE["covariances"]), [2, 0, 1]

    def classes(turn, order=slice(None)):
        diagonal = np.einsum("kii->ki", full)[order] * np.diag(turn) ** 2
        covariances = {"diag": diagonal, "spherical": diagonal[:, 0], "tied": turn @ full[0] @ turn.T}
        given = covariances.get(covariance_type, turn @ full[order] @ turn.T)
        means = np.array(THREE["means"])[order] @ turn.T + 11.0
        return GaussianClasses(np.array(THREE["weights"])[order], means, given, covariance_type)

    turns = {"full": [[1.4, 0.9], [-2.0, 0.7]], "tied": [[0.3, -0.9], [2.0, 5.0]], "diag": [[7.0, 0.0], [0.0, 0.2]]}
    turned = classes(np.array(turns.get(covariance_type, [[3.0, 0.0], [0.0, 3.0]])))
    for regime in ("complete", "modelled"):
        plain = excess_risk(classes(np.eye(2)), ENTROPY, labels=regime)
        assert excess_risk(turned, ENTROPY, labels=regime) == pytest.approx(plain, rel=1e-3)
        assert excess_risk(classes(np.eye(2), order), ENTROPY, labels=regime) == pytest.approx(plain, rel=1e-6)


def test_missing_completely_at_random_lies_between_every_label_and_none():
    classes = GaussianClasses(**THREE)
    risks = [excess_risk(classes, labels="mcar", rate=rate) for rate in (0.0, 0.2, 0.5, 1.0)]
    assert risks[0] == pytest.approx(excess_risk(classes), rel=1e-10)
    assert risks[-1] == pytest.approx(excess_risk(classes, labels="unlabelled"), rel=1e-10)
    assert np.all(np.diff(risks) > 0.1)


def test_a_mechanism_without_slope_is_missingness_completely_at_random():
    classes, flat = GaussianClasses(**THREE), Mechanism("gini", (-0.4, 0.0), shape=0.3)
    rate = missing_rate(classes, flat)
    assert rate == pytest.approx(1 - (1 + 0.3 * np.exp(-0.4)) ** (-1 / 0.3))
    expected = excess_risk(classes, labels="mcar", rate=rate)
    for regime in ("modelled", "ignored", "mcar"):
        assert excess_risk(classes, flat, labels=regime) == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("measure", ["margin", "entropy", "log-entropy", "gini", "discriminant"])
def test_modelling_the_mechanism_never_costs_and_estimating_more_of_it_gives_less(measure):
    slope = {"margin": -3.0, "discriminant": -0.3, "log-entropy": 0.8}.get(measure, 3.0)
    classes = two(1.5, weight=0.4)
    fixed = mechanism_at_rate(classes, Mechanism(measure, (0.0, slope), shape=0.6, share=0.1), 0.4)
    assert missing_rate(classes, fixed) == pytest.approx(0.4, rel=1e-9)
    free = [{}, {"free_shape": True}, {"free_shape": True, "free_share": True}]
    costs = [excess_risk(classes, Mechanism(measure, fixed.alpha, 0.6, 0.1, **o), labels="modelled") for o in free]
    costs.append(excess_risk(classes, fixed, labels="ignored"))
    assert np.all(np.diff(costs) > -1e-9)
    assert costs[0] < 0.95 * costs[-1]


def test_an_unknown_way_of_labelling_is_refused():
    with pytest.raises(ValueError, match="'some' is not one of 'complete'"):
        excess_risk(two(), labels="some")
