"""`Inference`: standard errors, intervals, tests and resampling for a fit and its rows."""

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
from scipy.stats import norm

from marmix.core.arrays import Array, Bools
from marmix.core.linear import LinearScores
from marmix.core.workers import one_thread
from marmix.fitting.restarts import runs_off
from marmix.inference import bootstrap, hypotheses, intervals, profile
from marmix.inference.bootstrap import Bootstrap
from marmix.inference.fitted import Fitted
from marmix.inference.hypotheses import HypothesisTest
from marmix.inference.intervals import Curve, ImputedLabels, check_count, check_level
from marmix.inference.parameters import PLAIN, SCALES, TESTABLE
from marmix.inference.profile import Profile
from marmix.inference.tables import Shown, Table, listed, number, p_text

# Standard errors of the two kinds disagree when they differ by this share, or by more than chance does among n rows: about
# _NOISE / sqrt(n) for the worst of some ten parameters.
_DISAGREE, _NOISE = 0.25, 8.0


class Inference(Shown):
    r"""Standard errors, intervals and tests of a fit; made by the `inference` method of a fitted estimator.

    With the observed information A and the sum B of the outer products of the scores of the rows, the covariance of the
    parameters is estimated by

    .. math::

        V = A^{-1} B A^{-1} \ \text{(sandwich)}, \qquad V = A^{-1} \ \text{(observed)}, \qquad V = E[A]^{-1} \ \text{(expected)}.

    Parameters are on the user's scale: weights, means, variances and covariances of a mixture (or the coefficients of a logistic
    regression, const being the intercept), alpha, shape and share. Names and conventions are those of statsmodels: normal
    reference distribution, two-sided p-values, intervals ``params ± 1.96 bse``. Intervals of weights and share are formed on
    the log-odds scale, those of variances and shape on the log scale, so that they stay in range. `summary().frame()` is a
    DataFrame with the names.

    Parameters
    ----------
    fitted : Fitted
        The fitted model and its rows, which the estimator passes.
    cov_type : {"sandwich", "observed", "expected"}, default="sandwich"
        The covariance matrix of the standard errors. "sandwich" is also valid if the model is misspecified, for the
        parameters of the best-fitting model; the others assume that the model is right.

    Attributes
    ----------
    params, bse, tvalues, pvalues : array of shape (m,)
        Estimates, standard errors, their ratio, and p-values of the hypothesis that the parameter is zero: NaN for
        weights, variances, shape and share, where zero is a limit. A parameter that the data do not determine, or that is
        at a limit, has bse NaN; so has alpha if that parameter is the shape. `notes` says so, and `profile` gives intervals.
    param_names : list of str
        Names of the parameters, such as "mean[1, x0]" and "alpha_1".
    llf, nobs : float
        The maximised log-likelihood, and the total weight of the rows.
    notes : list of str
        Remarks on the reliability of these numbers.

    See Also
    --------
    MARGaussianMixture : its method `inference` returns this; so do those of the other estimators but `MARClassifierCV`.
    compare : information criteria of several fits.
    Sensitivity : what if labels are missing because of the label itself?

    Examples
    --------
    >>> from marmix import MARGaussianMixture
    >>> from marmix.datasets import load_tumours
    >>> rows = load_tumours()
    >>> X, y = rows.data[:, :3], rows.target    # -1 where the label is missing
    >>> result = MARGaussianMixture().fit(X, y).inference(X, y)
    >>> bool(result.test_informative().p_value < 0.001)    # hard rows lose their labels
    True
    >>> slope = result.param_names.index("alpha_1")
    >>> result.conf_int()[slope].round(1)
    array([2.7, 5.2])
    """

    def __init__(self, fitted: Fitted, cov_type: str = "sandwich"):
        fitted.require_covariance(cov_type)
        self.fitted, self.cov_type = fitted, cov_type
        self.param_names, self.params = fitted.parameters.names, fitted.values
        self.llf = fitted.loglik
        self.nobs = fitted.objective.engine.total_weight

    # Estimates.

    @cached_property
    def bse(self) -> Array:
        """Standard errors."""
        return np.sqrt(np.diag(self.cov_params()))

    @property
    def tvalues(self) -> Array:
        """Estimates divided by their standard errors."""
        with np.errstate(divide="ignore", invalid="ignore"):  # the mean of a class of identical rows has no error
            return self.params / self.bse

    @property
    def pvalues(self) -> Array:
        """Two-sided p-values of the hypothesis that a parameter is zero; NaN where that is a limit."""
        p = 2.0 * norm.sf(np.abs(self.tvalues))
        return np.where([kind in TESTABLE for kind in self.fitted.parameters.kinds], p, np.nan)

    def cov_params(self, cov_type: str | None = None) -> Array:
        """Covariance matrix of the estimates, (m, m).

        Parameters
        ----------
        cov_type : {"sandwich", "observed", "expected"} or None, default=None
            Another type of covariance than that of this object.

        Returns
        -------
        array of shape (m, m)
            NaN for parameters that are at a limit or not determined, and for alpha if the shape is held.
        """
        kind = self.cov_type if cov_type is None else cov_type
        self.fitted.require_covariance(kind)
        with one_thread():
            jacobian = self.fitted.jacobian
            covariance = self.fitted.covariance_of(jacobian, kind)
        held = np.all(np.abs(jacobian) <= 1e-9 * np.abs(self.params)[:, None], axis=1)
        if self.fitted.coordinates.shape_held:
            held |= np.array([kind in ("alpha", "delta") for kind in self.fitted.parameters.kinds])
        covariance[held], covariance[:, held] = np.nan, np.nan
        return covariance

    def conf_int(self, alpha: float = 0.05) -> Array:
        """Wald intervals of level 1 - alpha, (m, 2); `profile` gives better ones for slopes and shape.

        Parameters
        ----------
        alpha : float, default=0.05
            One minus the confidence level.

        Returns
        -------
        array of shape (m, 2)
            Lower and upper limits.
        """
        z, values = float(norm.isf(check_level(alpha) / 2.0)), self.params
        errors = self.bse
        limits = np.full((len(values), 2), np.nan)
        for i, kind in enumerate(self.fitted.parameters.kinds):
            to, back, slope = SCALES.get(kind, PLAIN)
            if np.isfinite(errors[i]):
                half = z * errors[i] * slope(values[i])
                limits[i] = back(to(values[i]) - half), back(to(values[i]) + half)
        return limits

    def summary(self, alpha: float = 0.05) -> Table:
        """A table of the parameters, their standard errors, p-values and intervals.

        Parameters
        ----------
        alpha : float, default=0.05
            One minus the confidence level.

        Returns
        -------
        Table
            Print it, or use its `as_text`, `as_html` and `frame`.
        """
        fitted, p = self.fitted, self.pvalues
        z = np.where(np.isnan(p), np.nan, self.tvalues)
        rows = [
            list(row) for row in zip(self.params, self.bse, z, map(p_text, p), *self.conf_int(alpha).T, strict=True)
        ]
        missing = float(np.sum(fitted.row_weights[fitted.was_missing]))
        n, n_missing = (f"{w:.0f}" if float(w).is_integer() else f"{w:.1f}" for w in (self.nobs, missing))
        facts = [
            ("model", " ".join(fitted.described.split())),
            ("rows", f"{n}, of which {n_missing} without label"),
            ("log-likelihood", f"{self.llf:.4f}"),
            ("standard errors", self.cov_type),
        ]
        columns = ["coef", "std err", "z", "P>|z|", f"[{100 * alpha / 2:g}%", f"{100 - 100 * alpha / 2:g}%]"]
        return Table("Parameters of the fit", columns, self.param_names, rows, facts, self.notes)

    @cached_property
    def notes(self) -> list[str]:
        """Remarks on the reliability of these numbers."""
        with one_thread():
            return list(self._notes())

    def _notes(self) -> Iterator[str]:
        fitted = self.fitted
        if not fitted.estimator.converged_:
            yield "The fit did not converge: these numbers describe where it stopped, not a maximum."
        held = fitted.coordinates.held
        if held:
            yield f"The fit has {listed(held)}: held there without a standard error, and treated as known by the others."
        if fitted.coordinates.shape_held:
            yield "alpha has no standard error, as it depends on the shape: see profile('alpha_1') and profile('shape')."
        if fitted.information.inverse.blind.shape[1]:
            undetermined = [n for n, e in zip(self.param_names, self.bse, strict=True) if np.isnan(e)]
            yield f"The data do not determine {listed(undetermined) if undetermined else 'some combination of parameters'}."
        model = fitted.objective.model
        unpenalised = isinstance(model, LinearScores) and np.isinf(model.C)
        if unpenalised and runs_off(fitted.objective, fitted.theta, fitted.mechanism):
            yield (
                "The labelled rows are perfectly separable: without a penalty the coefficients have no finite maximum, and their "
                "standard errors mean little."
            )
        if fitted.information.penalty.any():
            yield f"The penalty (C={fitted.estimator.C:g}) shrinks coefficients to zero: intervals are for the shrunken ones."
        if fitted.full_likelihood and not fitted.copied:
            yield from self._disagreement()
        if fitted.copied:
            yield (
                "Rows have votes for several classes. The sandwich takes the copies of a row as one; others, tests "
                "and profile intervals take its votes as one label."
            )
        if fitted.few_rows is not None:
            yield f"Only {fitted.few_rows}: these approximations need more. Use `bootstrap`."

    def _disagreement(self) -> Iterator[str]:
        with np.errstate(invalid="ignore", divide="ignore"):
            ratio = np.sqrt(np.diag(self.cov_params("sandwich")) / np.diag(self.cov_params("observed")))
            apart = np.exp(np.abs(np.log(ratio)))
        apart[np.isinf(apart)] = np.nan  # no error at all
        if np.nanmax(apart, initial=1.0) > 1.0 + max(_DISAGREE, _NOISE / np.sqrt(self.nobs)):
            worst = int(np.nanargmax(apart))
            yield (
                "Robust (sandwich) and model-based (observed) standard errors disagree, most for "
                f"{self.param_names[worst]} (ratio {number(float(ratio[worst]))}): a sign that the model is not quite right, or "
                "of few rows. The larger one is safer."
            )

    # Intervals for predictions and derived quantities.

    def predict_proba_interval(self, X: Any, alpha: float = 0.05) -> tuple[Array, Array]:
        """Intervals of the class probabilities of rows, by the delta method on log-odds.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features of any rows.
        alpha : float, default=0.05
            One minus the confidence level.

        Returns
        -------
        lower, upper : arrays of shape (n, K)
            Limits of the probabilities that `predict_proba` estimates.
        """
        return intervals.proba_interval(self.fitted, self.fitted.checked(X), self.cov_type, check_level(alpha))

    def credible_labels(self, X: Any, alpha: float = 0.05) -> Bools:
        """Which classes may be the most probable one of a row, given the uncertainty of the fit.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features of any rows.
        alpha : float, default=0.05
            One minus the confidence level.

        Returns
        -------
        array of bool, shape (n, K)
            A single class where the label is settled.
        """
        return intervals.credible_labels(self.fitted, self.fitted.checked(X), self.cov_type, check_level(alpha))

    def imputed_labels(self, alpha: float = 0.05) -> ImputedLabels:
        """Imputed labels of the unlabelled rows, with their probabilities, intervals, and whether they are settled.

        Parameters
        ----------
        alpha : float, default=0.05
            One minus the confidence level.

        Returns
        -------
        ImputedLabels
            Arrays with an entry for each unlabelled row.
        """
        return intervals.imputed_labels(self.fitted, self.cov_type, check_level(alpha))

    def missingness_curve(self, u: Any = None, alpha: float = 0.05) -> Curve:
        """P(label missing) against the uncertainty, with a pointwise band; covariates are at their means.

        If the shape is held (see `notes`) the band treats it as known, and is somewhat too narrow.

        Parameters
        ----------
        u : array-like or None, default=None
            Values of the uncertainty; by default over its range.
        alpha : float, default=0.05
            One minus the confidence level.

        Returns
        -------
        Curve
            Values, probabilities and their limits.
        """
        return intervals.missingness_curve(self.fitted, u, self.cov_type, check_level(alpha))

    def profile(self, name: str, alpha: float = 0.05) -> Profile:
        """Profile-likelihood interval of 'alpha_1' (or another slope or label term), 'shape' or 'share'.

        Better than `conf_int` where the likelihood is not quadratic, as for a shape. Limits that the data do not
        determine are infinite.

        Parameters
        ----------
        name : str
            The parameter.
        alpha : float, default=0.05
            One minus the confidence level.

        Returns
        -------
        Profile
            Print it for the interval in words.
        """
        return profile.profile(self.fitted, name, check_level(alpha))

    # Tests.

    def test_informative(
        self,
        bootstrap: bool | None = None,
        n_resamples: int = 199,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> HypothesisTest:
        """Is the missingness informative? Likelihood ratio of alpha_1 = 0 against the fit.

        Parameters
        ----------
        bootstrap : bool or None, default=None
            Whether to simulate the reference distribution from the fit without the uncertainty. None does so if the
            chi-square does not hold (a free shape or share has no meaning under the hypothesis) or if there are fewer
            than ten rows per parameter.
        n_resamples : int, default=199
            Number of simulated samples, at least 19.
        n_jobs : int or None, default=None
            Processes for these samples, as in joblib.
        random_state : int, Generator, RandomState or None, default=None
            For these samples.

        Returns
        -------
        HypothesisTest
            Print it for the result in words.
        """
        check_count("n_resamples", n_resamples, 19)  # for p-values down to 0.05
        return hypotheses.informative(self.fitted, bootstrap, n_resamples, n_jobs, random_state)

    def test_mechanism(self) -> HypothesisTest:
        """Is the mechanism right? Hausman's contrast with the fit that ignores it (logistic: with the labelled rows' fit).

        Returns
        -------
        HypothesisTest
            Print it for the result in words.
        """
        return hypotheses.hausman(self.fitted)

    def test_label_term(self) -> HypothesisTest:
        """Do labels go missing because of the label itself? Likelihood ratio of delta = 0 against free label terms.

        The answer relies on the model of the classes: labels that are missing tell which class they have only through the shape
        of its density (or, for a logistic regression, the linearity of the log-odds).

        Returns
        -------
        HypothesisTest
            Print it for the result in words.
        """
        return hypotheses.label_term(self.fitted)

    def test_mcar(self) -> HypothesisTest:
        """Are labels missing completely at random, or by the features? Likelihood ratio of a logistic regression on them.

        Returns
        -------
        HypothesisTest
            Print it for the result in words.
        """
        return hypotheses.completely_at_random(self.fitted)

    # Resampling.

    def bootstrap(
        self,
        n_resamples: int = 999,
        *,
        statistic: Callable[[Any], Any] | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> Bootstrap:
        """Refit to resampled rows, labelled and unlabelled together, with the settings of the estimator.

        Parameters
        ----------
        n_resamples : int, default=999
            Number of resamples. Rows are drawn with replacement. Weights count rows: as many rows are drawn as the
            weights sum to (rounded), each with probability proportional to its weight.
        statistic : callable or None
            ``statistic(estimator)`` returns a number or an array to bootstrap instead of the parameters. The estimator
            is one fitted to a resample, with the names of your classes and features.
        n_jobs : int or None, default=None
            Processes; None is one, unless in a joblib.parallel_config, and -1 all processors.
        random_state : int, Generator, RandomState or None, default=None
            The same seed gives the same result with any number of jobs.

        Returns
        -------
        Bootstrap
            With standard errors, bias and intervals.

        Notes
        -----
        Resamples that fail (a class without labels, a fit that does not converge, estimates that are not finite) are left
        out and counted; if more than half fail, that is an error. The estimates of a shape may run to 0 or to 100,
        which stands for infinity: their standard deviation then means little, the intervals are still good.
        """
        return bootstrap.bootstrap(self.fitted, n_resamples, statistic, n_jobs, random_state)
