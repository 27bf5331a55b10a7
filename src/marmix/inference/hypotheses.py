"""Tests of the mechanism, each with a statistic, reference distribution, p-value and a sentence.

Likelihood ratios (`informative`, `label_term`, `completely_at_random`) have a chi-square reference where the
hypothesis is regular. It is not where a parameter has no meaning under it (the shape, if the uncertainty does not matter); then
the reference is simulated from the fitted hypothesis.

`hausman` compares the fit with the one that ignores the mechanism. Ignoring a mechanism that depends on the features alone is
valid too, only less efficient (for the logistic regression it is the fit to the labelled rows), so the two fits must agree. The
score ``s`` of the ignorable likelihood at the full fit tells, to first order, how far they are apart, and

    s' C^+ s ~ chi-square(rank C),    C = I_ig - I_ig V I_ig

with ``I_ig`` the information of the ignorable likelihood and ``V`` the covariance of the full fit, both expected.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from textwrap import fill
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from scipy.stats import chi2

from marmix.core.arrays import AnyArray, Array
from marmix.core.charts import LABEL_MAX
from marmix.core.mechanism import Mechanism
from marmix.inference.curvature import curvature, expected_outer
from marmix.inference.fitted import Fitted
from marmix.inference.simulation import refit, seed_sequence, simulate
from marmix.inference.tables import number, p_sign

_IGNORED = {"link": None, "shape": None, "mcar_share": False, "mechanism_features": None}  # settings without mechanism
_BETTER = 1e-3  # a gain in log-likelihood that means another maximum, not rounding
_RANK = 1e-3  # smallest share of variance, after scaling, that counts as a direction


@dataclass(frozen=True)
class HypothesisTest:
    """The result of a test, in numbers and in words.

    Attributes
    ----------
    question : str
        What is tested.
    statistic : float
        The test statistic.
    reference : str
        The distribution of the statistic under the hypothesis.
    p_value : float
        Probability of such a statistic or a larger one under the hypothesis.
    sentence : str
        The result in plain English.
    details : dict
        More numbers: log-likelihoods, estimates under the hypothesis, simulated statistics.

    See Also
    --------
    marmix.Inference : its methods `test_informative`, `test_mechanism`, `test_label_term` and `test_mcar` return it.
    marmix.evaluation.missingness_check : observed against fitted rates of missing labels.

    Examples
    --------
    >>> from marmix import MARGaussianMixture
    >>> from marmix.datasets import load_tumours
    >>> rows = load_tumours()
    >>> X, y = rows.data[:, :3], rows.target    # -1 where the label is missing
    >>> result = MARGaussianMixture().fit(X, y).inference(X, y)
    >>> print(result.test_mcar())
    Do missing labels depend on the features (hypothesis: they are missing completely at random)?
      statistic 4.905, reference chi-square(3), p = 0.179
      There is no clear evidence that missing labels depend on the features. A linear regression detects
      one side, not a band around the boundary: see also the test of informative missingness.
    >>> bool(result.test_informative().p_value < 0.001)
    True
    """

    question: str
    statistic: float
    reference: str
    p_value: float
    sentence: str
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def at_floor(self) -> bool:
        """Whether no simulated statistic reached the observed one, so that the p-value is only known to be smaller."""
        simulated = self.details.get("simulated", ())
        return len(simulated) > 0 and self.p_value * (1 + len(simulated)) < 1.5

    def __str__(self) -> str:
        words = fill(self.sentence, 100, initial_indent="  ", subsequent_indent="  ")
        return (
            f"{self.question}\n  statistic {number(self.statistic)}, reference {self.reference}, "
            f"p {p_sign(self.p_value, self.at_floor)}\n{words}"
        )


def _evidence(p_value: float) -> str:
    """The strength of evidence against a hypothesis, in words."""
    if p_value < 0.001:
        return "very strong evidence"
    if p_value < 0.01:
        return "strong evidence"
    if p_value < 0.05:
        return "evidence"
    return "weak evidence" if p_value < 0.1 else "no clear evidence"


# Simulated reference distributions, and warnings about small samples.


def _simulated(
    draw: Callable[[np.random.Generator], float],
    n_resamples: int,
    n_jobs: int | None,
    random_state: Any,
) -> Array:
    """Statistics simulated under the hypothesis by `draw`, without those of samples that could not be fitted."""

    def statistic(seed: np.random.SeedSequence) -> float:
        try:
            return max(draw(np.random.default_rng(seed)), 0.0)
        except ValueError:  # LinAlgError is one
            return np.nan

    seeds = seed_sequence(random_state).spawn(n_resamples)
    simulated = np.array(Parallel(n_jobs=n_jobs)(delayed(statistic)(seed) for seed in seeds))
    simulated = simulated[~np.isnan(simulated)]
    if 2 * len(simulated) < n_resamples:
        raise ValueError(
            f"{n_resamples - len(simulated)} of {n_resamples} simulated samples could not be fitted (often: a class without "
            "labels). Use fewer parameters (covariance_type='tied'), or bootstrap=False."
        )
    return simulated


def _caution(fitted: Fitted, reference: str) -> str:
    """A caution to add if rows or labels are few."""
    return "" if fitted.few_rows is None else f" Caution: only {fitted.few_rows}; {reference} is a rough guide."


def _better_fit(gain: float) -> str:
    """A remark to add if a fit better than the user's was found."""
    if gain < _BETTER:
        return ""
    return f" The test found and used a fit whose log-likelihood is higher by {number(gain)}: fit again with a larger n_init."


# Likelihood ratios.


def informative(
    fitted: Fitted,
    bootstrap: bool | None = None,
    n_resamples: int = 199,
    n_jobs: int | None = None,
    random_state: Any = None,
) -> HypothesisTest:
    """Likelihood-ratio test of alpha_1 = 0, that missingness does not depend on the uncertainty."""
    mechanism = fitted.require_mechanism("this test")
    mechanism.require_no_label_term("the test of informative missingness")
    fitted.require_likelihood("the likelihood ratio")
    settings = {key: fitted.estimator.get_params()[key] for key in _IGNORED}
    rows = fitted.rows
    null = _without_uncertainty(fitted, fitted.estimator, *rows)
    full = max(fitted.loglik, float(refit(null.estimator, *rows, **settings).loglik_))
    statistic = max(2.0 * (full - null.loglik), 0.0)
    p_chi = p_value = float(chi2.sf(statistic, 1))
    irregular = mechanism.free_shape or mechanism.free_share
    reference, simulated = "chi-square(1)", np.empty(0)

    def draw(rng: np.random.Generator) -> float:
        X, z = simulate(null.estimator, fitted.X, rng, missing=0.0)
        z = np.where(rng.uniform(size=len(z)) < null.q(X), -1, z)
        under = _without_uncertainty(fitted, null.estimator, X, z)
        fresh = refit(fitted.estimator, X, z, warm=False)
        near = refit(under.estimator, X, z, **settings)
        return 2.0 * (max(fresh.loglik_, near.loglik_) - under.loglik)

    if bootstrap or (bootstrap is None and (irregular or (fitted.few_rows is not None and fitted.weight is None))):
        if fitted.weight is not None or fitted.copied:
            raise ValueError(
                "a parametric bootstrap draws rows with one label each, without votes or weights: pass bootstrap=False."
            )
        simulated = _simulated(draw, n_resamples, n_jobs, random_state)
        p_value = float((1 + np.sum(simulated >= statistic - 1e-9)) / (1 + len(simulated)))
        reference = f"parametric bootstrap, {len(simulated)} samples"
    what = "labels go missing according to how uncertain the classifier is of a row"
    sentence = f"There is {_evidence(p_value)} that {what}.{_caution(fitted, reference)}"
    if irregular and not len(simulated):
        parameter = "shape" if mechanism.free_shape else "share"
        sentence += f" Caution: the {parameter} has no meaning under the hypothesis, so the chi-square is only a guide."
    return HypothesisTest(
        "Is the missingness informative (hypothesis: it is not, alpha_1 = 0)?",
        statistic,
        reference,
        p_value,
        sentence + _better_fit(full - fitted.loglik),
        {"p_chi2": p_chi, "loglik": full, "loglik_null": null.loglik, "simulated": simulated},
    )


class _Null(NamedTuple):
    """The model in which the uncertainty does not matter: the ignorable fit, and missingness by the covariates alone."""

    estimator: Any
    loglik: float
    q: Callable[[AnyArray], Any]  # probability of a missing label given the features


def _without_uncertainty(
    fitted: Fitted, warm: Any, X: AnyArray, z: AnyArray, weight: Array | None = None, missing: Any = None
) -> _Null:
    """Fit the null model, from `warm` and from scratch, as it too may have several maxima."""
    fits = [refit(warm, X, z, weight, warm=warm_start, **_IGNORED) for warm_start in (True, False)]
    best = max(fits, key=lambda estimator: float(estimator.loglik_))
    mechanism, w = fitted.require_mechanism("this test"), np.ones(len(z)) if weight is None else weight
    missing = z < 0 if missing is None else missing
    unlabelled = float(w[missing].sum())
    rate = unlabelled / float(w.sum())
    if not 0.0 < rate < 1.0:
        raise ValueError("the labels are all given or all missing.")
    covariates = fitted.covariates
    if not covariates.columns:
        by_rate = unlabelled * np.log(rate) + (float(w.sum()) - unlabelled) * np.log1p(-rate)
        return _Null(best, best.loglik_ + float(by_rate), lambda X: rate)
    order = np.argsort(missing, kind="stable")
    drivers, labelled = covariates.enter(X)[:, order], int(np.sum(~missing))
    start = replace(mechanism, alpha=(0.0,) * (1 + len(covariates.columns))).starting(rate)
    null = start.profile_of(drivers, labelled, w[order])
    loglik = best.loglik_ + null.loglik_of(drivers, labelled, w[order])
    return _Null(best, loglik, lambda X: null.missing_proba_of(covariates.enter(X)))


def label_term(fitted: Fitted) -> HypothesisTest:
    """Likelihood-ratio test of delta = 0, that missingness does not depend on the label itself given the features."""
    fitted.require_mechanism("this test")
    fitted.require_likelihood("the likelihood ratio")
    if "delta" not in fitted.estimator.get_params():
        raise ValueError("this test is for MARGaussianMixture and MARLogisticRegression, which have a label term.")

    def fits(warm: Any, *rows: Any) -> tuple[Any, Any]:
        """The best fits without and with label terms, each started from the other and from scratch."""
        null = max((refit(warm, *rows, warm=w, delta=None) for w in (True, False)), key=lambda fit: fit.loglik_)
        free = [refit(null, *rows, warm=w, delta="estimate") for w in (True, False)]
        return null, max(free, key=lambda fit: fit.loglik_)

    null, free = fits(fitted.estimator, *fitted.rows)
    gain = free.loglik_ - fitted.loglik if fitted.estimator.delta == "estimate" else 0.0
    if fitted.estimator.delta == "estimate" and gain <= 0.0:
        free = fitted.estimator
    statistic, df = max(2.0 * (free.loglik_ - null.loglik_), 0.0), len(fitted.classes) - 1

    p_value = float(chi2.sf(statistic, df))
    names = [str(name) for name in fitted.classes.tolist()]
    delta = dict(zip(names, (float(value) for value in free.delta_), strict=True))
    shown = ", ".join(f"{number(value)} for {name}" for name, value in list(delta.items())[1:])
    relies = "densities" if fitted.objective.model.joint else "linear log-odds"
    sentence = (
        f"There is {_evidence(p_value)} that labels go missing because of the label itself (estimated label term: {shown}, "
        f"against {names[0]}). Caution: this relies on the {relies} of the classes being right, which missing labels cannot show."
    )
    if np.abs(free.delta_).max() > 0.999 * LABEL_MAX:
        sentence += " A label term ran to its limit: its estimate means little, and the chi-square is only a guide."
    return HypothesisTest(
        "Do labels go missing because of the label itself (hypothesis: they do not, delta = 0)?",
        statistic,
        f"chi-square({df})",
        p_value,
        sentence + _caution(fitted, f"chi-square({df})") + _better_fit(gain),
        {"delta": delta, "loglik": free.loglik_, "loglik_null": null.loglik_},
    )


def completely_at_random(fitted: Fitted) -> HypothesisTest:
    """Likelihood-ratio test of missing completely at random, by logistic regression of the missing indicator on the features."""
    scale = np.std(fitted.X, axis=0)
    drivers = ((fitted.X - fitted.X.mean(axis=0)) / np.where(scale > 0.0, scale, 1.0)).T.astype(float)
    w = fitted.row_weights
    order = np.argsort(fitted.was_missing, kind="stable")
    labelled = int(np.sum(~fitted.was_missing))
    if labelled in (0, len(order)):
        raise ValueError("no label is missing: there is no missingness to test.")
    rate = float(w[fitted.was_missing].sum() / w.sum())
    flat = float(w.sum()) * (rate * np.log(rate) + (1.0 - rate) * np.log1p(-rate))
    start = Mechanism(alpha=(float(np.log(rate / (1.0 - rate))), *[0.0] * len(drivers)))
    regression = start.profile_of(drivers[:, order], labelled, w[order])
    statistic = max(2.0 * (regression.loglik_of(drivers[:, order], labelled, w[order]) - flat), 0.0)
    df = int(np.linalg.matrix_rank(drivers, tol=1e-8 * np.sqrt(drivers.size)))
    p_value, slopes = float(chi2.sf(statistic, df)), regression.alpha[1:]
    strongest = fitted.features[int(np.argmax(np.abs(slopes)))]
    sentence = (
        f"There is {_evidence(p_value)} that missing labels depend on the features"
        f"{f' (most on {strongest}): they are not missing completely at random' if p_value < 0.05 else ''}. "
        "A linear regression detects one side, not a band around the boundary: see also the test of informative missingness."
    )
    return HypothesisTest(
        "Do missing labels depend on the features (hypothesis: they are missing completely at random)?",
        statistic,
        f"chi-square({df})",
        p_value,
        sentence,
        {"slopes_of_standardised_features": dict(zip(fitted.features, slopes, strict=True))},
    )


# The contrast with the fit that ignores the mechanism.


def hausman(fitted: Fitted) -> HypothesisTest:
    """Hausman's test that the full fit agrees with the one that ignores the mechanism."""
    fitted.require_mechanism("this test").require_no_label_term("the contrast with the fit that ignores the mechanism")
    fitted.require_likelihood("the contrast of two fits")
    objective, theta, information = fitted.objective, fitted.theta, fitted.information
    size = fitted.coordinates.n_theta
    outer = expected_outer(objective, theta, fitted.mechanism, modelled=False)
    pull = information.pull[:size, : len(outer)]
    V = np.linalg.pinv(information.expected, hermitian=True)[:size, :size]
    score = pull @ curvature(objective, theta, None).gradient
    values, vectors = np.linalg.eigh(pull @ outer @ pull.T)
    kept = values > 1e-8 * values[-1]
    root = vectors[:, kept] * np.sqrt(values[kept])
    # in units of the ignorable information: shares of it that the mechanism adds, between 0 and 1
    white = vectors[:, kept] / np.sqrt(values[kept])
    added = np.eye(int(kept.sum())) - root.T @ V @ root
    shares, directions = np.linalg.eigh(added)
    counted = shares > max(_RANK * shares.max(initial=0.0), 1e-8)
    along = (directions.T @ (white.T @ score))[counted]
    statistic, df = float(np.sum(along**2 / shares[counted])), int(counted.sum())
    p_value = float(chi2.sf(statistic, df)) if df else 1.0
    other = "the fit that ignores the mechanism" if objective.model.joint else "the fit to the labelled rows alone"
    sentence = f"The fit with the mechanism and {other} agree within chance."
    if p_value < 0.1:
        sentence = (
            f"There is {_evidence(p_value)} that the fit with the mechanism and {other} differ by more than chance: "
            "the mechanism, or the model of the classes, is not quite right."
        )
    question = "Is the mechanism right (hypothesis: ignoring it changes nothing but the precision)?"
    reference = f"chi-square({df})"
    return HypothesisTest(question, statistic, reference, p_value, sentence + _caution(fitted, reference))
