"""Tests of hypotheses about the mechanism, each with statistic, reference distribution, p-value and a sentence.

A likelihood ratio has a chi-square reference where the hypothesis is regular. It is not where a parameter has no meaning under it
(the shape, if the uncertainty does not matter) or sits at its limit; then the reference is simulated from the fitted
hypothesis, or the mixture of chi-squares that the limit makes.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from textwrap import fill
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy.stats import chi2

from marmix.arrays import Array
from marmix.inference.fitted import Fitted
from marmix.inference.refits import refit, with_link
from marmix.inference.simulation import seed_sequence, simulate
from marmix.inference.tables import number, p_text
from marmix.mechanism import Mechanism
from marmix.mechanism.charts import SHAPE_MAX
from marmix.mechanism.links import FREE, LINKS

_MECHANISM_SETTINGS = ("link", "shape", "mcar_share", "mechanism_features")
_BETTER = 1e-3  # a gain in log-likelihood that is another maximum, not rounding


@dataclass(frozen=True)
class HypothesisTest:
    """The answer of a test.

    Attributes
    ----------
    question : str
    statistic : float
    reference : str
        The distribution of the statistic under the hypothesis.
    p_value : float
    sentence : str
        The answer in plain English.
    details : dict
        More numbers: log-likelihoods, estimates under the hypothesis, simulated statistics.
    """

    question: str
    statistic: float
    reference: str
    p_value: float
    sentence: str
    details: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        p = p_text(self.p_value)
        words = fill(self.sentence, 100, initial_indent="  ", subsequent_indent="  ")
        return (
            f"{self.question}\n  statistic {number(self.statistic)}, reference {self.reference}, "
            f"p {p if p.startswith('<') else '= ' + p}\n{words}"
        )


def verdict(p_value: float) -> str:
    """How a p-value is said."""
    if p_value < 0.001:
        return "very strong evidence"
    if p_value < 0.01:
        return "strong evidence"
    if p_value < 0.05:
        return "evidence"
    return "weak evidence" if p_value < 0.1 else "no clear evidence"


def informative(
    fitted: Fitted,
    bootstrap: bool | None = None,
    n_resamples: int = 199,
    n_jobs: int | None = None,
    random_state: Any = None,
) -> HypothesisTest:
    """Does the uncertainty drive the missingness? alpha_1 = 0 against the fit, by the likelihood ratio."""
    known = fitted.require_mechanism("this test")
    fitted.require_likelihood("the likelihood ratio")
    settings = {key: fitted.estimator.get_params()[key] for key in _MECHANISM_SETTINGS}
    rows = fitted.X, fitted.z, fitted.weight
    null = _without_uncertainty(fitted, fitted.estimator, *rows)
    full = max(fitted.loglik, float(refit(null.estimator, *rows, **settings).loglik_))
    statistic = max(2.0 * (full - null.loglik), 0.0)
    p_chi = float(chi2.sf(statistic, 1))
    irregular = known.free_shape or known.free_share
    simulated, failed = np.empty(0), 0
    few = fitted.few_rows is not None and fitted.weight is None
    if bootstrap or (bootstrap is None and (irregular or few)):

        def one(rng: np.random.Generator) -> float:
            X, z = simulate(null.estimator, fitted.X, rng, missing=0.0)
            z = np.where(rng.uniform(size=len(z)) < null.q(X), -1, z)
            under = _without_uncertainty(fitted, null.estimator, X, z, None)
            fresh = refit(fitted.estimator, X, z, warm=False)
            near = refit(under.estimator, X, z, **settings)
            return 2.0 * (max(fresh.loglik_, near.loglik_) - under.loglik)

        simulated, failed = simulated_statistics(fitted, one, n_resamples, n_jobs, random_state)
    p_value = simulated_p(statistic, simulated) if len(simulated) else p_chi
    sentence = (
        f"There is {verdict(p_value)} that labels go missing according to how uncertain the classifier is of a row"
        f"{': modelling it uses information that ignoring it would lose' if p_value < 0.05 else ''}."
    )
    sentence += caution(fitted, p_chi, "chi-square(1)", simulated)
    if irregular and not len(simulated):
        unmeant = "shape" if known.free_shape else "share"
        sentence += f" Caution: the {unmeant} has no meaning under the hypothesis, so the chi-square is only a guide."
    sentence += _beaten(full - fitted.loglik)
    details = {"p_chi2": p_chi, "loglik": full, "loglik_null": null.loglik, "simulated": simulated}
    return HypothesisTest(
        "Is the missingness informative (hypothesis: it is not, alpha_1 = 0)?",
        statistic,
        reference_of("chi-square(1)", simulated, failed),
        p_value,
        sentence,
        details,
    )


def link(
    fitted: Fitted,
    name: str = "logit",
    bootstrap: bool = False,
    n_resamples: int = 199,
    n_jobs: int | None = None,
    random_state: Any = None,
) -> HypothesisTest:
    """Test whether the link is logit (shape 1) or cloglog (shape 0) against a free shape, by the likelihood ratio."""
    shapes = {fixed.name: fixed.shape for fixed in LINKS.values() if fixed.shape is not None}
    if name not in shapes:
        choices = " or ".join(f"{fixed!r} (shape {shape:g})" for fixed, shape in shapes.items())
        raise ValueError(f"link={name!r}: the hypothesis is {choices}.")
    known = fitted.require_mechanism("this test")
    fitted.require_likelihood("the likelihood ratio")
    at = shapes[name]
    rows = fitted.X, fitted.z, fitted.weight
    given = not known.free_shape and known.shape == at
    null = fitted.estimator if given else refit(fitted.estimator, *rows, **with_link(name))
    free = fitted.estimator if known.free_shape else refit(null, *rows, **with_link(FREE.name))
    from_null = refit(null, *rows, **with_link(FREE.name))  # so that neither is stuck in a lower maximum
    gain = from_null.loglik_ - free.loglik_
    free = from_null if gain > 0.0 else free
    statistic = max(2.0 * (free.loglik_ - null.loglik_), 0.0)
    simulated, failed = np.empty(0), 0
    if bootstrap:

        def one(rng: np.random.Generator) -> float:
            X, z = simulate(null, fitted.X, rng)
            under = refit(null, X, z, **with_link(name))
            return 2.0 * (refit(under, X, z, **with_link(FREE.name)).loglik_ - under.loglik_)

        simulated, failed = simulated_statistics(fitted, one, n_resamples, n_jobs, random_state)
    if at > 0.0:
        p_chi, reference = float(chi2.sf(statistic, 1)), "chi-square(1)"
    else:
        at_limit = free.shape_ < 1e-6 or statistic < 1e-6
        p_chi = 1.0 if at_limit else float(0.5 * chi2.sf(statistic, 1))
        reference = "half chi-square(0), half chi-square(1), as shape 0 is a limit"
    p_value = simulated_p(statistic, simulated) if len(simulated) else p_chi
    shape = "infinity" if free.shape_ > 0.999 * SHAPE_MAX else number(free.shape_)
    if p_value < 0.1:
        sentence = f"There is {verdict(p_value)} against the {name} link (estimated shape {shape})."
    else:
        sentence = f"These data are content with the {name} link (estimated shape {shape})."
    sentence += caution(fitted, p_chi, "the chi-square", simulated) + (_beaten(gain) if known.free_shape else "")
    details = {"shape": free.shape_, "loglik_null": null.loglik_, "loglik_free": free.loglik_, "simulated": simulated}
    return HypothesisTest(
        f"Is the link {name} (hypothesis: it is, shape {at:g})?",
        statistic,
        reference_of(reference, simulated, failed),
        p_value,
        sentence,
        details,
    )


def completely_at_random(fitted: Fitted) -> HypothesisTest:
    """Are labels missing completely at random, or by the features? Logistic regression of the missing indicator on them."""
    scale = np.std(fitted.X, axis=0)
    drivers = ((fitted.X - fitted.X.mean(axis=0)) / np.where(scale > 0.0, scale, 1.0)).T.astype(float)
    w = np.ones(len(fitted.z)) if fitted.weight is None else fitted.weight
    order = np.argsort(fitted.z < 0, kind="stable")
    labelled = int(np.sum(fitted.z >= 0))
    if labelled in (0, len(order)):
        raise ValueError("every label is there: there is no missingness to test.")
    rate = float(w[fitted.z < 0].sum() / w.sum())
    begin = Mechanism(alpha=(float(np.log(rate / (1.0 - rate))), *[0.0] * len(drivers)))
    flat = float(w.sum()) * (rate * np.log(rate) + (1.0 - rate) * np.log1p(-rate))
    found = begin.profile_of(drivers[:, order], labelled, w[order])
    statistic = max(2.0 * (found.loglik_of(drivers[:, order], labelled, w[order]) - flat), 0.0)
    df = int(np.linalg.matrix_rank(drivers, tol=1e-8 * np.sqrt(drivers.size)))
    p_value = float(chi2.sf(statistic, df))
    strongest = fitted.features[int(np.argmax(np.abs(found.alpha[1:])))]
    sentence = (
        f"There is {verdict(p_value)} that missing labels depend on the features"
        f"{f' (most on {strongest}): they are not missing completely at random' if p_value < 0.05 else ''}. "
        "A linear regression sees a side, not a band around the boundary: see also the test of informative missingness."
    )
    details = {"slopes_of_standardised_features": dict(zip(fitted.features, found.alpha[1:], strict=True))}
    return HypothesisTest(
        "Do missing labels depend on the features (hypothesis: they are missing completely at random)?",
        statistic,
        f"chi-square({df})",
        p_value,
        sentence,
        details,
    )


class _Null(NamedTuple):
    """The model in which the uncertainty does not matter: the ignorable fit, and labels lost by the covariates alone."""

    estimator: Any
    loglik: float
    q: Callable[[NDArray[Any]], Any]  # probability of a missing label given the features


def _without_uncertainty(fitted: Fitted, warm: Any, X: NDArray[Any], z: NDArray[Any], weight: Array | None) -> _Null:
    """That model, fitted to rows; from a fit and from scratch, for it too may have several maxima."""
    tries = [refit(warm, X, z, weight, warm=warm_start, **with_link(None)) for warm_start in (True, False)]
    best = max(tries, key=lambda estimator: float(estimator.loglik_))
    known, w = fitted.require_mechanism("this test"), np.ones(len(z)) if weight is None else weight
    lost = float(w[z < 0].sum())
    rate = lost / float(w.sum())
    if not 0.0 < rate < 1.0:
        raise ValueError("the labels are all there or all missing.")
    if not fitted.covariates.columns:
        by_rate = lost * np.log(rate) + (float(w.sum()) - lost) * np.log1p(-rate)
        return _Null(best, best.loglik_ + float(by_rate), lambda X: rate)
    covariates = fitted.covariates
    order = np.argsort(z < 0, kind="stable")
    drivers, labelled = covariates.enter(X)[:, order], int(np.sum(z >= 0))
    begin = replace(known, alpha=(0.0,) * (1 + len(covariates.columns))).starting(
        rate
    )  # covariates as its only drivers
    found = begin.profile_of(drivers, labelled, w[order])
    loglik = best.loglik_ + found.loglik_of(drivers, labelled, w[order])
    return _Null(best, loglik, lambda X: found.missing_proba_of(covariates.enter(X)))


# References that are simulated, and what is said of them.


def simulated_statistics(
    fitted: Fitted,
    one: Callable[[np.random.Generator], float],
    n_resamples: int,
    n_jobs: int | None,
    random_state: Any,
) -> tuple[Array, int]:
    """The statistic in samples from the hypothesis, and how many samples could not be fitted."""
    if fitted.weight is not None:
        raise ValueError(
            "a parametric bootstrap needs rows without sample_weight: repeat rows instead, or pass bootstrap=False."
        )

    def safely(seed: np.random.SeedSequence) -> float:
        try:
            return max(one(np.random.default_rng(seed)), 0.0)
        except ValueError:  # LinAlgError is one
            return np.nan

    seeds = seed_sequence(random_state).spawn(n_resamples)
    values = np.array(Parallel(n_jobs=n_jobs)(delayed(safely)(seed) for seed in seeds))
    failed = int(np.isnan(values).sum())
    if failed > 0.5 * n_resamples:
        raise ValueError(
            f"{failed} of {n_resamples} simulated samples could not be fitted (often: a class without label). Use fewer "
            "parameters (covariance_type='tied'), or bootstrap=False."
        )
    return values[~np.isnan(values)], failed


def simulated_p(statistic: float, simulated: Array) -> float:
    """The p-value among simulated statistics, the observed one counted with them."""
    return float((1 + np.sum(simulated >= statistic - 1e-9)) / (1 + len(simulated)))


def reference_of(reference: str, simulated: Array, failed: int) -> str:
    """The reference distribution in words."""
    if not len(simulated):
        return reference
    return f"parametric bootstrap, {len(simulated)} samples{f' ({failed} more could not be fitted)' if failed else ''}"


def caution(fitted: Fitted, p_chi: float, chi_square: str, simulated: Array) -> str:
    """What to add where rows or labels are few."""
    if fitted.few_rows is None:
        return ""
    if len(simulated):
        return f" Caution: only {fitted.few_rows}; the bootstrap p-value counts, that of {chi_square} would be {p_text(p_chi)}."
    return f" Caution: only {fitted.few_rows}; {chi_square} is a rough guide."


def _beaten(gain: float) -> str:
    """What to add where a better fit than the user's was found."""
    if gain < _BETTER:
        return ""
    return (
        f" A fit whose log-likelihood is higher by {number(gain)} was found on the way, and used here: fit again with a larger "
        "n_init."
    )
