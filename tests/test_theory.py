"""The theory agrees with closed forms, published numbers, an independent reference and simulation."""

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import chi2, norm

from marmix import BoundaryWarning, MARGaussianMixture, MARLogisticRegression, Mechanism
from marmix.theory import (
    GaussianClasses,
    bayes_error,
    excess_risk,
    label_budget,
    mechanism_at_rate,
    missing_rate,
    relative_efficiency,
    unlabelled_efficiency,
)
from marmix.theory.description import described
from marmix.theory.integrals import Coefficients, Integrals
from marmix.theory.rules import computed, mean_over

REGIMES = ("complete", "mcar", "modelled", "ignored", "unlabelled")

THREE = {
    "weights": [0.35, 0.35, 0.30],
    "means": [[-1.5, 0.0], [1.5, 0.0], [0.0, 2.0]],
    "covariances": [[[1.0, 0.3], [0.3, 0.7]], [[0.8, -0.2], [-0.2, 1.2]], [[1.3, 0.4], [0.4, 0.8]]],
}
ENTROPY = Mechanism("entropy", (-2.5583, 4.0))


def two(distance=2.0, weight=0.5, d=1, axes=None):
    """Two classes with a common covariance, `distance` apart along the first of d features; then x -> axes x."""
    means = np.zeros((2, d))
    means[:, 0] = -distance / 2, distance / 2
    axes = np.eye(d) if axes is None else axes
    return GaussianClasses([weight, 1 - weight], means @ axes.T, axes @ axes.T, covariance_type="tied")


def structured(covariance_type, turn=None, shift=0.0):
    """Three classes in the plane with this covariance structure, after x -> turn x + shift."""
    turn = np.eye(2) if turn is None else turn
    full = np.array(THREE["covariances"])
    means = np.array(THREE["means"]) @ turn.T + shift
    if covariance_type in ("full", "tied"):
        covariances = turn @ (full if covariance_type == "full" else full.mean(axis=0)) @ turn.T
    else:
        diagonal = np.einsum("kii->ki", full)
        covariances = diagonal * np.diag(turn) ** 2
        covariances = covariances if covariance_type == "diag" else diagonal.mean(axis=1) * turn[0, 0] ** 2
    return GaussianClasses(THREE["weights"], means, covariances, covariance_type)


def assert_agree(first, second, factor=1.0):
    """Check that two computed numbers differ by no more than `factor` times their errors."""
    assert abs(first.value - second.value) <= factor * (first.error + second.error)


# Published numbers.


@pytest.mark.parametrize(("distance", "percent"), [(1.0, 0.51), (1.5, 3.24), (2.0, 10.08), (2.5, 21.40), (3.0, 35.89)])
def test_an_unlabelled_row_is_worth_what_the_literature_says(distance, percent):
    result = unlabelled_efficiency(two(distance))
    assert result.error < 1e-8
    assert 100 * result.value == pytest.approx(percent, abs=0.01)


def test_three_normals_have_the_published_coefficients():
    classes = GaussianClasses(**THREE)
    mechanism = mechanism_at_rate(classes, Mechanism("entropy", (0.0, 4.0)), 0.30)
    assert mechanism.alpha[0] == pytest.approx(-2.5583, abs=5e-4)
    result = relative_efficiency(classes, mechanism)
    assert result.rate.value == pytest.approx(0.30, abs=1e-6)
    published = {"complete": 1.5581, "mcar": 2.0541, "modelled": 1.3645}
    for regime, value in published.items():
        assert result.coefficients[regime].value == pytest.approx(value, rel=0.003)
        assert result.coefficients[regime].error < 1e-3


# Closed forms.


@pytest.mark.parametrize("weight", [0.5, 0.2])
@pytest.mark.parametrize("d", [1, 2, 4])
def test_the_bayes_error_of_two_classes_with_a_common_covariance_is_a_normal_tail(weight, d):
    distance, odds = 1.7, np.log(weight / (1 - weight))
    exact = weight * norm.cdf(-distance / 2 - odds / distance) + (1 - weight) * norm.cdf(
        -distance / 2 + odds / distance
    )
    axes = np.random.default_rng(0).normal(size=(d, d))
    result = bayes_error(two(distance, weight, d, axes))
    assert result.value == pytest.approx(exact, rel=1e-8)


@pytest.mark.parametrize("d", [1, 2, 3, 6])
def test_the_bayes_error_of_concentric_classes_is_that_of_two_radii(d):
    classes = GaussianClasses([0.5, 0.5], np.zeros((2, d)), [1.0, 4.0], covariance_type="spherical")
    radius = d * np.log(4.0) / 0.75  # squared, where the densities are equal
    exact = 0.5 * (chi2.sf(radius, d) + chi2.cdf(radius / 4.0, d))
    result = bayes_error(classes)
    assert abs(result.value - exact) <= (3.0 if d > 2 else 1.0) * result.error
    assert result.error < 1e-3 * exact


def test_bayes_errors_keep_their_digits_where_classes_hardly_overlap():
    assert bayes_error(two(14.0)).value == pytest.approx(norm.cdf(-7.0), rel=1e-9)


@pytest.mark.parametrize("distance", [1.0, 2.0, 3.0])
def test_linear_discriminant_analysis_of_one_feature_has_its_closed_form(distance):
    # n Var(boundary) = 1 + 4 / distance^2, and the risk bends by distance phi(distance / 2) / 2
    exact = 0.5 * norm.pdf(distance / 2) * distance * (1.0 + 4.0 / distance**2)
    assert excess_risk(two(distance)).value == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("d", [2, 3, 5])
def test_with_equal_priors_every_noise_feature_costs_as_much_as_the_first(d):
    axes = np.random.default_rng(1).normal(size=(d, d))
    single, several = excess_risk(two(2.0)).value, excess_risk(two(2.0, d=d, axes=axes))
    assert abs(several.value - d * single) <= (3.0 if d > 2 else 1.0) * several.error
    assert several.error < 1e-3 * several.value


def test_quadratic_discriminant_analysis_in_simulation_has_the_excess_risk_of_the_theory():
    pi, mu, sd, n, repeats = np.array([0.4, 0.6]), np.array([0.0, 2.0]), np.array([1.0, 1.5]), 40_000, 100_000
    rng = np.random.default_rng(0)
    first = rng.binomial(n, pi[0], size=repeats)
    counts = np.array([first, n - first])
    means = mu[:, None] + sd[:, None] / np.sqrt(counts) * rng.normal(size=(2, repeats))
    variances = sd[:, None] ** 2 * rng.chisquare(counts - 1) / counts

    def risk(weights, means, variances):
        """Risk of the rule with these parameters; the second class, of larger variance, is outside an interval."""
        a = -0.5 / variances
        b = means / variances
        c = np.log(weights) - 0.5 * np.log(variances) - 0.5 * means**2 / variances
        a, b, c = a[0] - a[1], b[0] - b[1], c[0] - c[1]
        root = np.sqrt(b * b - 4 * a * c)
        low, high = (-b + root) / (2 * a), (-b - root) / (2 * a)
        inside = norm.cdf((high - mu[:, None]) / sd[:, None]) - norm.cdf((low - mu[:, None]) / sd[:, None])
        return pi[0] * (1 - inside[0]) + pi[1] * inside[1]

    best = risk(pi[:, None], mu[:, None], sd[:, None] ** 2)[0]
    classes = GaussianClasses(pi, mu[:, None], sd[:, None, None] ** 2)
    assert bayes_error(classes).value == pytest.approx(best, rel=1e-9)
    excess = 2 * n * (risk(counts / n, means, variances) - best)
    error = excess.std() / np.sqrt(repeats)
    assert error < 0.006 * excess.mean()
    assert abs(excess.mean() - excess_risk(classes).value) < 3 * error


# An independent reference for two normals with a common variance, by differences of the densities.


class Reference:
    """Excess risk from the scores of all outcomes (label 0, label 1, none) of a row, by differences in the parameters."""

    def __init__(self, theta, alpha, slack=1.0):
        self.theta, self.alpha, self.slack = np.array(theta), np.array(alpha), slack  # theta: weight, means, variance
        self.x = np.linspace(-14.0, 14.0, 5601)
        self.step = self.x[1] - self.x[0]

    def parts(self, theta):
        weight, first, second, variance = theta
        joint = np.array([weight, 1 - weight])[:, None] * norm.pdf(
            self.x, np.array([first, second])[:, None], np.sqrt(variance)
        )
        tau = joint / joint.sum(axis=0)
        entropy = -np.sum(tau * np.log(np.maximum(tau, 1e-300)), axis=0)
        return np.maximum(joint, 1e-300), entropy

    def q(self, theta, alpha):
        return self.slack * expit(alpha[0] + alpha[1] * self.parts(theta)[1])

    def scores(self, function, at):
        """Derivatives (m, ...) of a function by central differences."""
        steps = 1e-4 * np.eye(len(at))
        return np.array([(function(at + step) - function(at - step)) / 2e-4 for step in steps])

    def information(self, modelled, q=None):
        q = self.q(self.theta, self.alpha) if q is None else q * np.ones_like(self.x)
        joint = self.parts(self.theta)[0]
        outcomes = [(lambda j: j[0], (1 - q) * joint[0]), (lambda j: j[1], (1 - q) * joint[1])]
        outcomes.append((lambda j: j.sum(axis=0), q * joint.sum(axis=0)))
        total = 0.0
        for i, (density, probability) in enumerate(outcomes):

            def loglik(at, i=i, density=density):
                theta, alpha = at[:4], at[4:]
                value = np.log(density(self.parts(theta)[0]))
                if not modelled:
                    return value
                q_here = self.q(theta, alpha)
                return value + np.log(q_here if i == 2 else 1 - q_here)

            at = np.concatenate([self.theta, self.alpha]) if modelled else self.theta
            score = self.scores(loglik, at)
            total = total + (score * probability * self.step) @ score.T
        return total

    def coefficient(self, modelled=False, q=None):
        def boundary(theta):
            weight, first, second, variance = theta
            return 0.5 * (first + second) + variance * np.log(weight / (1 - weight)) / (second - first)

        weight, first, second, variance = self.theta
        by_theta = self.scores(boundary, self.theta)
        place = boundary(self.theta)
        height = weight * norm.pdf(place, first, np.sqrt(variance))
        bend = height * (second - first) / variance
        inverse = np.linalg.inv(self.information(modelled, q))[:4, :4]
        return bend * by_theta @ inverse @ by_theta


REFERENCE = Reference((0.4, -1.0, 1.3, 1.2), (-1.5, 3.0))
CLASSES = GaussianClasses([0.4, 0.6], [[-1.0], [1.3]], [[1.2]], covariance_type="tied")
MECHANISM = Mechanism("entropy", (-1.5, 3.0))


@pytest.mark.parametrize("regime", REGIMES)
def test_every_regime_agrees_with_a_reference_written_out_by_hand(regime):
    rate = missing_rate(CLASSES, MECHANISM).value
    options = {
        "complete": {"q": 0.0},
        "mcar": {"q": rate},
        "modelled": {"modelled": True},
        "ignored": {},
        "unlabelled": {"q": 1.0},
    }[regime]
    result = excess_risk(CLASSES, MECHANISM, labels=regime)
    assert result.value == pytest.approx(REFERENCE.coefficient(**options), rel=1e-5)
    assert result.error < 1e-7 * result.value


def test_labelling_the_share_of_the_budget_compensates_for_ignoring_the_mechanism():
    weak = Mechanism("entropy", (-1.5, 2.0))
    answer = label_budget(CLASSES, weak, n=500)
    assert 0.05 < answer.share.value < 0.95
    left = Reference(REFERENCE.theta, weak.alpha, slack=1.0 - answer.share.value)
    assert left.coefficient() == pytest.approx(answer.modelled.value, rel=1e-5)
    assert answer.labels.value == pytest.approx(500 * missing_rate(CLASSES, weak).value * answer.share.value, rel=1e-9)
    assert answer.rows.value == 0.0
    assert f"worth {round(answer.labels.value)} labels" in str(answer)


def test_a_budget_beyond_all_labels_is_counted_in_further_rows():
    answer = label_budget(GaussianClasses(**THREE), ENTROPY, n=1000)
    assert answer.share.value == pytest.approx(1.0)
    assert answer.rows.value == pytest.approx(1000 * (answer.complete.value / answer.modelled.value - 1), rel=1e-6)
    assert f"every label and {round(answer.rows.value)} further labelled rows" in answer.sentence


def test_a_mechanism_without_slope_is_worth_no_label():
    answer = label_budget(CLASSES, Mechanism("entropy", (0.3, 0.0)), n=500)
    assert answer.share.value == pytest.approx(0.0, abs=1e-6)
    assert "less than one label" in answer.sentence


# Identities.


@pytest.mark.parametrize("covariance_type", ["full", "tied", "diag", "spherical"])
def test_a_change_of_axes_changes_nothing(covariance_type):
    turn = {"full": [[1.4, 0.9], [-2.0, 0.7]], "tied": [[0.3, -0.9], [2.0, 5.0]], "diag": [[7.0, 0.0], [0.0, 0.2]]}
    turned = structured(covariance_type, np.array(turn.get(covariance_type, [[3.0, 0.0], [0.0, 3.0]])), 11.0)
    plain = relative_efficiency(structured(covariance_type), ENTROPY)
    moved = relative_efficiency(turned, ENTROPY)
    for regime in REGIMES:
        assert_agree(plain.coefficients[regime], moved.coefficients[regime])
        assert plain.coefficients[regime].error < 1e-3 * plain.coefficients[regime].value
    assert_agree(bayes_error(structured(covariance_type)), bayes_error(turned))


@pytest.mark.parametrize("covariance_type", ["full", "tied", "diag", "spherical"])
def test_a_labelled_row_carries_unit_information_in_the_coordinates_of_the_fit(covariance_type):
    integrals = Integrals(described(structured(covariance_type)), 0, 0)
    for complete in integrals.information("complete"):
        np.testing.assert_allclose(complete, np.eye(len(complete)), atol=1e-7)


def test_relabelling_the_classes_changes_nothing():
    order = [2, 0, 1]
    permuted = GaussianClasses(**{key: np.array(value)[order] for key, value in THREE.items()})
    first, second = relative_efficiency(GaussianClasses(**THREE), ENTROPY), relative_efficiency(permuted, ENTROPY)
    for regime in REGIMES:
        assert first.coefficients[regime].value == pytest.approx(second.coefficients[regime].value, rel=1e-6)


def test_missing_completely_at_random_lies_between_every_label_and_none():
    classes = GaussianClasses(**THREE)
    rates = [excess_risk(classes, labels="mcar", rate=rate).value for rate in (0.0, 0.2, 0.5, 1.0)]
    assert rates[0] == pytest.approx(excess_risk(classes).value, rel=1e-10)
    assert rates[-1] == pytest.approx(excess_risk(classes, labels="unlabelled").value, rel=1e-10)
    assert np.all(np.diff(rates) > 0.1)


def test_a_mechanism_without_slope_is_missingness_completely_at_random():
    classes, flat = GaussianClasses(**THREE), Mechanism("gini", (-0.4, 0.0), shape=0.3)
    rate = missing_rate(classes, flat).value
    assert rate == pytest.approx(1 - (1 + 0.3 * np.exp(-0.4)) ** (-1 / 0.3))
    wanted = excess_risk(classes, labels="mcar", rate=rate).value
    for regime in ("modelled", "ignored", "mcar"):
        assert excess_risk(classes, flat, labels=regime).value == pytest.approx(wanted, rel=1e-8)


@pytest.mark.parametrize("uncertainty", ["margin", "entropy", "log-entropy", "gini", "discriminant"])
def test_modelling_the_mechanism_never_costs_and_estimating_more_of_it_gives_less(uncertainty):
    slope = {"margin": -3.0, "discriminant": -0.3, "log-entropy": 0.8}.get(uncertainty, 3.0)
    classes = two(1.5, weight=0.4)
    fixed = mechanism_at_rate(classes, Mechanism(uncertainty, (0.0, slope), shape=0.6, share=0.1), 0.4)
    free_shape = Mechanism(uncertainty, fixed.alpha, 0.6, 0.1, free_shape=True)
    free_both = Mechanism(uncertainty, fixed.alpha, 0.6, 0.1, free_shape=True, free_share=True)
    costs = [excess_risk(classes, mechanism, labels="modelled").value for mechanism in (fixed, free_shape, free_both)]
    costs.append(excess_risk(classes, fixed, labels="ignored").value)
    assert np.all(np.diff(costs) > -1e-9)
    assert costs[0] < 0.95 * costs[-1]


@pytest.mark.parametrize("rate", [0.15, 0.5, 0.98])
def test_mechanism_at_rate_reaches_the_rate(rate):
    classes = structured("diag")
    mechanism = mechanism_at_rate(classes, Mechanism("margin", (5.0, -2.0), shape=0.4, share=0.1), rate)
    assert missing_rate(classes, mechanism).value == pytest.approx(rate, rel=1e-6)
    assert mechanism.alpha[1:] == (-2.0,)


# Different computations agree.


def excess_of_moved_rule(classes, delta, grid):
    """Risk of the rule at coordinates delta minus the Bayes risk, by brute force on a grid (d, n) with cells of size 1."""
    description = described(classes)
    chart = description.model.chart(description.theta)
    pi, mu = np.exp(description.theta.log_pi), description.theta.mu
    spread = description.model.structure.spread(description.theta.chol, len(mu))
    true = description.model.scores(description.theta, grid)
    moved = description.model.scores(chart.theta(chart.directions @ delta), grid)
    joint = np.zeros_like(true)
    for c, k in enumerate(description.model.owner):
        z = np.linalg.solve(spread[c], grid - mu[c][:, None])
        joint[k] += pi[c] * np.exp(-0.5 * (z**2).sum(axis=0)) / np.linalg.det(spread[c])
    joint /= (2 * np.pi) ** (len(grid) / 2)
    chosen = np.take_along_axis(joint, moved.argmax(axis=0)[None], axis=0)[0]
    return float(np.sum(joint.max(axis=0) - chosen))


SEVERAL = GaussianClasses(
    [0.2, 0.3, 0.3, 0.2],
    [[-2.0], [0.1], [3.0], [1.6]],
    [[[0.5]], [[0.8]], [[0.6]], [[1.0]]],
    component_classes=[0, 1, 0, 1],
)


@pytest.mark.parametrize(
    ("classes", "points"),
    [(SEVERAL, 400_001), (structured("full"), 1401), (structured("diag"), 1401)],
    ids=["several components", "full", "diag"],
)
@pytest.mark.long
def test_the_risk_bends_as_the_curvature_says(classes, points):
    line = np.linspace(-7.0, 7.0, points)
    d = described(classes).d
    grid = line[None] if d == 1 else np.array(np.meshgrid(line, line)).reshape(2, -1)
    cell = (line[1] - line[0]) ** d
    bend = Integrals(described(classes), 0, 0).bend.mean(axis=0)
    delta = bend @ np.random.default_rng(5).normal(size=len(bend))
    delta *= 0.02 / np.sqrt(delta @ bend @ delta)
    both = sum(excess_of_moved_rule(classes, sign * delta, grid) for sign in (1, -1))  # odd orders cancel
    assert both * cell == pytest.approx(delta @ bend @ delta, rel=0.01)


@pytest.mark.long
def test_random_points_agree_with_the_lattice():
    description, parts = described(GaussianClasses(**THREE)), []
    for random in (False, True):
        integrals = Integrals(description, 2, 3)
        integrals.random = random
        have = Coefficients(integrals, ENTROPY, None)
        numbers = [computed(lambda share, name=name, have=have: have.of(name, share), random) for name in REGIMES]
        numbers.append(computed(have.rate, random))
        numbers.append(computed(lambda share, at=integrals: float(mean_over(share, at.error)), random))
        parts.append(numbers)
    for exact, result in zip(*parts, strict=True):
        assert exact.value != result.value
        assert abs(result.value - exact.value) < 3.5 * result.error + exact.error
        assert result.error < 5e-3 * result.value


def test_a_class_of_several_components_that_is_one_gaussian_has_its_bayes_error():
    split = GaussianClasses(
        [0.1, 0.4, 0.5],
        [[0.0, 0.0], [0.0, 0.0], [2.0, 1.0]],
        np.tile(np.eye(2), (3, 1, 1)),
        component_classes=["a", "a", "b"],
    )
    assert bayes_error(split).value == pytest.approx(norm.cdf(-np.sqrt(5.0) / 2), rel=1e-8)


def test_stated_errors_hold_when_the_precision_is_raised():
    classes = GaussianClasses(**THREE)
    for regime in ("complete", "ignored"):
        plain = excess_risk(classes, ENTROPY, labels=regime)
        fine = excess_risk(classes, ENTROPY, labels=regime, rtol=3e-5)
        assert fine.error < 0.5 * plain.error
        assert_agree(plain, fine)


def test_the_same_random_state_gives_the_same_answer():
    classes = two(2.0, d=3)
    assert excess_risk(classes, random_state=1) == excess_risk(classes, random_state=1)
    assert excess_risk(classes, random_state=1) != excess_risk(classes, random_state=2)


# Fits, limits and errors.


@pytest.mark.filterwarnings("ignore::marmix.BoundaryWarning")
@pytest.mark.parametrize("options", [{}, {"mechanism_features": [1]}, {"n_components": {0: 1, 1: 2}}])
def test_a_fit_is_described_by_its_attributes(simulate, options):
    data = simulate(n=600, d=2, seed=3)
    clf = MARGaussianMixture(covariance_type="full", random_state=1, **options).fit(data.X, data.y)
    by_hand = GaussianClasses(
        clf.weights_,
        clf.means_,
        clf.covariances_,
        component_classes=clf.component_classes_,
        mechanism_features=options.get("mechanism_features"),
    )
    for regime in ("ignored", "modelled"):
        fitted = excess_risk(clf, labels=regime)
        assert_agree(fitted, excess_risk(by_hand, clf.mechanism_, labels=regime))
        assert fitted.error < 2e-3 * fitted.value
    # the model's missing rate is near the observed one
    assert missing_rate(clf).value == pytest.approx(data.missing.mean(), abs=0.03)


def test_a_shape_at_its_limit_is_treated_as_known_with_a_warning():
    free, fixed = Mechanism("entropy", (-1.5, 3.0), 0.0, free_shape=True), Mechanism("entropy", (-1.5, 3.0), 0.0)
    with pytest.warns(BoundaryWarning, match="shape at 0"):
        result = excess_risk(CLASSES, free, labels="modelled")
    assert result.value == pytest.approx(excess_risk(CLASSES, fixed, labels="modelled").value, rel=1e-6)


def test_indistinguishable_classes_have_infinite_excess_risk_without_labels():
    assert excess_risk(two(0.02), labels="unlabelled").value == np.inf
    assert unlabelled_efficiency(two(0.02)).value == 0.0
    assert np.isfinite(excess_risk(two(0.02)).value)


def test_a_class_that_leads_everywhere_has_no_boundary():
    classes = GaussianClasses([0.9, 0.1], [[0.0], [0.1]], [[[1.0]], [[0.9]]])
    assert bayes_error(classes).value == pytest.approx(0.1)
    assert excess_risk(classes).value == 0.0
    with pytest.raises(ValueError, match="most probable one everywhere"):
        unlabelled_efficiency(classes)


def test_the_table_shows_every_regime():
    text = str(relative_efficiency(CLASSES, MECHANISM))
    assert all(f"{regime}:" in text for regime in REGIMES)
    without = relative_efficiency(CLASSES, rate=0.25)
    assert list(without.coefficients) == ["complete", "mcar", "unlabelled"]
    assert without.rate.value == 0.25
    assert without.efficiencies["complete"].value == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weights": [0.5, 0.6]}, "sum to 1.1"),
        ({"weights": [1.0]}, "two or more"),
        ({"means": [0.0, 1.0]}, r"shape \(2, d\)"),
        ({"means": [[0.0], [np.nan]]}, "means must be finite"),
        ({"covariances": [[1.0]]}, r"shape \(2, 1, 1\)"),
        ({"covariances": [[[1.0]], [[-1.0]]]}, "positive definite"),
        ({"covariance_type": "round"}, "covariance_type"),
        ({"component_classes": [0, 0]}, "two or more classes"),
        ({"mechanism_features": [1]}, "indices of the 1 features"),
        ({"means": np.zeros((2, 2)), "covariances": [[1, 0.5], [0, 1]], "covariance_type": "tied"}, "symmetric"),
    ],
)
def test_bad_classes_raise(change, message):
    plain = {"weights": [0.5, 0.5], "means": [[0.0], [1.0]], "covariances": [[[1.0]], [[1.0]]]}
    with pytest.raises(ValueError, match=message):
        GaussianClasses(**(plain | change))


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: excess_risk(CLASSES, labels="some"), "is not one of"),
        (lambda: excess_risk(CLASSES, labels="modelled"), "pass a marmix.Mechanism"),
        (lambda: excess_risk(CLASSES, labels="mcar"), "pass a marmix.Mechanism"),
        (lambda: excess_risk(CLASSES, "margin", labels="ignored"), "must be a marmix.Mechanism"),
        (lambda: excess_risk(CLASSES, labels="mcar", rate=1.5), "between 0 and 1"),
        (lambda: excess_risk(CLASSES, MECHANISM, labels="ignored", rate=0.5), "mechanism_at_rate"),
        (lambda: excess_risk(CLASSES, Mechanism(alpha=(0.0, 1.0, 1.0)), labels="ignored"), "must have 2"),
        (lambda: excess_risk(CLASSES, Mechanism(alpha=(-np.inf, 1.0)), labels="ignored"), "not finite"),
        (lambda: relative_efficiency(CLASSES, MECHANISM, rate=0.5), "mechanism or rate"),
        (lambda: mechanism_at_rate(CLASSES, Mechanism(share=0.3), 0.2), "share 0.3"),
        (lambda: label_budget(CLASSES, MECHANISM, n=0), "at least 1"),
        (lambda: bayes_error(CLASSES, rtol=0.0), "rtol"),
        (lambda: bayes_error("classes"), "GaussianClasses"),
    ],
)
def test_bad_arguments_raise(ask, message):
    with pytest.raises(ValueError, match=message):
        ask()


def test_a_model_without_densities_of_the_features_raises(two):
    clf = MARLogisticRegression(link="logit").fit(two.X, two.y)
    with pytest.raises(ValueError, match="no model of the features"):
        bayes_error(clf)
