"""`Inference`: standard errors, intervals, tests and resampling for a fit and its rows."""

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from marmix.core.arrays import Array
from marmix.core.linear import LinearScores
from marmix.core.workers import one_thread
from marmix.fitting.restarts import runs_off
from marmix.inference import bootstrap, hypotheses, imputation, intervals, profile
from marmix.inference.bootstrap import Bootstrap
from marmix.inference.fitted import Fitted
from marmix.inference.hypotheses import GoodnessOfFit, HypothesisTest
from marmix.inference.imputation import Imputations
from marmix.inference.intervals import Boundary, Curve, ImputedLabels, Interval, check_count, check_level
from marmix.inference.parameters import PLAIN, SCALES, TESTABLE
from marmix.inference.profile import Profile
from marmix.inference.tables import Table, listed, number, p_text

# Standard errors of the two kinds disagree when they differ by this share, or by more than chance does among n rows: about
# _NOISE / sqrt(n) for the worst of some ten parameters.
_DISAGREE, _NOISE = 0.25, 8.0


class Inference:
    r"""Standard errors, intervals and tests of a fit; made by the `inference` method of a fitted estimator.

    With the observed information A and the sum B of the outer products of the scores of the rows, the covariance of the
    parameters is estimated by

    .. math::

        V = A^{-1} B A^{-1} \ \text{(sandwich)}, \qquad V = A^{-1} \ \text{(observed)}, \qquad V = E[A]^{-1} \ \text{(expected)}.

    Parameters are on the user's scale: weights, means, variances and covariances of a mixture (or the coefficients of a logistic
    regression, const being the intercept), alpha, shape and share. Names and conventions are those of statsmodels: normal
    reference distribution, two-sided p-values, intervals ``params ± 1.96 bse``. Intervals of weights and share are formed on
    the log-odds scale, those of variances and shape on the log scale, so that they stay in range. Arrays are pandas Series or
    DataFrames if the features were a DataFrame.

    Parameters
    ----------
    fitted : Fitted
        The fitted model and its rows, which the estimator passes.
    cov_type : {"sandwich", "observed", "expected"}, default="sandwich"
        The covariance matrix of the standard errors. "sandwich" is also valid if the model is misspecified, for the
        parameters of the best-fitting model; the others assume that the model is right.
    pandas : bool, default=False
        Whether arrays are pandas Series and DataFrames.

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
    marmix.plotting.ProfileDisplay : a picture of `profile`.

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

    def __init__(self, fitted: Fitted, cov_type: str = "sandwich", pandas: bool = False):
        fitted.require_covariance(cov_type)
        self._fitted, self._pandas, self.cov_type = fitted, pandas, cov_type
        self.param_names = fitted.parameters.names
        self.llf = fitted.loglik
        self.nobs = fitted.objective.engine.total_weight

    @property
    def fitted(self) -> Fitted:
        """The fitted model and its rows."""
        return self._fitted

    # Estimates.

    @property
    def params(self) -> Any:
        """The estimates."""
        return self._series(self._fitted.values)

    @property
    def bse(self) -> Any:
        """Standard errors."""
        return self._series(self._errors)

    @property
    def tvalues(self) -> Any:
        """Estimates divided by their standard errors."""
        return self._series(self._ratios)

    @property
    def pvalues(self) -> Any:
        """Two-sided p-values of the hypothesis that a parameter is zero; NaN where that is a limit."""
        return self._series(self._pvalues)

    def cov_params(self, cov_type: str | None = None) -> Any:
        """Covariance matrix of the estimates, (m, m).

        Parameters
        ----------
        cov_type : {"sandwich", "observed", "expected"} or None, default=None
            Another type of covariance than that of this object.

        Returns
        -------
        array or DataFrame of shape (m, m)
            NaN for parameters that are at a limit or not determined.
        """
        matrix = self._cov if cov_type is None else self._covariance(cov_type)
        return self._frame(matrix, self.param_names)

    def conf_int(self, alpha: float = 0.05, cov_type: str | None = None) -> Any:
        """Wald intervals of level 1 - alpha, (m, 2); `profile` gives better ones for slopes and shape.

        Parameters
        ----------
        alpha : float, default=0.05
            One minus the confidence level.
        cov_type : {"sandwich", "observed", "expected"} or None, default=None
            Another type of covariance than that of this object.

        Returns
        -------
        array or DataFrame of shape (m, 2)
            Lower and upper limits.
        """
        z, values = float(norm.isf(check_level(alpha) / 2.0)), self._fitted.values
        errors = self._errors if cov_type is None else np.sqrt(np.diag(self._covariance(cov_type)))
        limits = np.full((len(values), 2), np.nan)
        for i, kind in enumerate(self._fitted.parameters.kinds):
            to, back, slope = SCALES.get(kind, PLAIN)
            if np.isfinite(errors[i]):
                half = z * errors[i] * slope(values[i])
                limits[i] = back(to(values[i]) - half), back(to(values[i]) + half)
        return self._frame(limits, [0, 1])

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
        fitted, limits = self._fitted, np.asarray(self.conf_int(alpha))
        z = np.where(np.isnan(self._pvalues), np.nan, self._ratios)
        p_values = [p_text(p) for p in self._pvalues]
        rows = [list(row) for row in zip(fitted.values, self._errors, z, p_values, *limits.T, strict=True)]
        missing = float(np.sum(fitted.row_weights[fitted.was_missing]))
        n, n_missing = (f"{w:.0f}" if float(w).is_integer() else f"{w:.1f}" for w in (self.nobs, missing))
        facts = [
            ("model", f"{type(fitted.estimator).__name__}, {fitted.described}"),
            ("rows", f"{n}, of which {n_missing} without label"),
            ("log-likelihood", f"{self.llf:.4f}"),
            ("standard errors", self.cov_type),
        ]
        columns = ["coef", "std err", "z", "P>|z|", f"[{100 * alpha / 2:g}%", f"{100 - 100 * alpha / 2:g}%]"]
        return Table("Parameters of the fit", columns, self.param_names, rows, facts, self.notes)

    def __str__(self) -> str:
        return self.summary().as_text()

    def _repr_html_(self) -> str:
        return self.summary().as_html()

    @cached_property
    def _cov(self) -> Array:
        return self._covariance(self.cov_type)

    def _covariance(self, kind: str) -> Array:
        """Covariance of that type; NaN for parameters held at their value, and for alpha if the shape is held."""
        self._fitted.require_covariance(kind)
        with one_thread():
            jacobian = self._fitted.jacobian
            covariance = self._fitted.covariance_of(jacobian, kind)
        held = np.all(np.abs(jacobian) <= 1e-9 * np.abs(self._fitted.values)[:, None], axis=1)
        if self._fitted.coordinates.shape_held:
            held |= np.array([kind in ("alpha", "delta") for kind in self._fitted.parameters.kinds])
        covariance[held], covariance[:, held] = np.nan, np.nan
        return covariance

    @property
    def _errors(self) -> Array:
        return np.sqrt(np.diag(self._cov))

    @property
    def _ratios(self) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):  # the mean of a class of identical rows has no error
            return self._fitted.values / self._errors

    @property
    def _pvalues(self) -> Array:
        p = 2.0 * norm.sf(np.abs(self._ratios))
        return np.where([kind in TESTABLE for kind in self._fitted.parameters.kinds], p, np.nan)

    def _series(self, values: Array) -> Any:
        if not self._pandas:
            return values
        import pandas as pd

        return pd.Series(values, index=self.param_names)

    def _frame(self, matrix: Array, columns: list[Any]) -> Any:
        if not self._pandas:
            return matrix
        import pandas as pd

        return pd.DataFrame(matrix, index=self.param_names, columns=columns)

    @cached_property
    def notes(self) -> list[str]:
        """Remarks on the reliability of these numbers."""
        with one_thread():
            return list(self._notes())

    def _notes(self) -> Iterator[str]:
        fitted = self._fitted
        if not fitted.estimator.converged_:
            yield "The fit did not converge: these numbers describe where it stopped, not a maximum."
        held = fitted.coordinates.held
        if held:
            yield f"The fit has {listed(held)}: held there without a standard error, and treated as known by the others."
        if fitted.coordinates.shape_held:
            yield "alpha has no standard error, as it depends on the shape: see profile('alpha_1') and profile('shape')."
        elif "shape" in fitted.parameters.kinds:
            yield "The likelihood is not quadratic in the shape: profile('shape') and profile('alpha_1') give better intervals."
        if fitted.mechanism is not None and fitted.mechanism.free_label:
            yield (
                "The label terms (delta) are estimated, which relies on the model of the classes: fit with several fixed values "
                "to see what depends on them."
            )
        if fitted.information.inverse.blind.shape[1]:
            undetermined = [n for n, e in zip(self.param_names, self._errors, strict=True) if np.isnan(e)]
            yield (
                "The observed information is singular or not positive definite: the data do not determine "
                f"{listed(undetermined) if undetermined else 'some combination of parameters'}."
            )
        model = fitted.objective.model
        if (
            isinstance(model, LinearScores)
            and np.isinf(model.C)
            and runs_off(fitted.objective, fitted.theta, fitted.mechanism)
        ):
            yield (
                "The labelled rows are perfectly separable, and ever larger coefficients fit no worse: without a penalty they "
                "have no finite maximum, and their standard errors mean little."
            )
        if fitted.kernel:
            yield "Only the mechanism has parameters to report: the coefficients of a kernel mean nothing one by one."
            yield f"The penalty (C={fitted.estimator.C:g}) shrinks the log-odds: intervals are for the shrunken ones."
        elif fitted.information.penalty.any():
            yield (
                f"The penalty (C={fitted.estimator.C:g}) shrinks coefficients to zero: intervals are for the shrunken "
                "coefficients. Fit with C=np.inf for intervals for the true ones."
            )
        if fitted.full_likelihood and not fitted.copied:
            yield from self._disagreement()
        if fitted.copied:
            yield (
                "Rows have votes for several classes. The sandwich adds the scores of their copies; other standard errors, tests "
                "and profile intervals take the votes of a row as one label, and are conservative if votes follow the model."
            )
        if fitted.few_rows is not None:
            yield f"Only {fitted.few_rows}: these approximations need more. Use `bootstrap`."

    def _disagreement(self) -> Iterator[str]:
        with np.errstate(invalid="ignore", divide="ignore"):
            ratio = np.sqrt(np.diag(self._covariance("sandwich")) / np.diag(self._covariance("observed")))
            apart = np.exp(np.abs(np.log(ratio)))
        apart[np.isinf(apart)] = np.nan  # no error at all
        if np.nanmax(apart, initial=1.0) > 1.0 + max(_DISAGREE, _NOISE / np.sqrt(self.nobs)):
            worst = int(np.nanargmax(apart))
            yield (
                "Robust (sandwich) and model-based (observed) standard errors disagree, most for "
                f"{self.param_names[worst]} (ratio {number(float(ratio[worst]))}): "
                + (
                    "a sign that the model is not quite right. The sandwich is safer."
                    if ratio[worst] > 1.0
                    else "more often a sign of few rows than of a wrong model. The larger one is safer."
                )
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
        return intervals.proba_interval(self._fitted, self._fitted.checked(X), self.cov_type, check_level(alpha))

    def credible_labels(self, X: Any, alpha: float = 0.05) -> NDArray[np.bool_]:
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
        return intervals.credible_labels(self._fitted, self._fitted.checked(X), self.cov_type, check_level(alpha))

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
        return intervals.imputed_labels(self._fitted, self.cov_type, check_level(alpha))

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
        return intervals.missingness_curve(self._fitted, u, self.cov_type, check_level(alpha))

    def decision_boundary(self, x: Any = None, y: Any = None, alpha: float = 0.05) -> Boundary:
        """The decision over a grid of two features, and the band that contains the boundary.

        Parameters
        ----------
        x, y : array-like or None, default=None
            Values of the first and the second feature; by default over their ranges.
        alpha : float, default=0.05
            One minus the confidence level.

        Returns
        -------
        Boundary
            For fits to two features.
        """
        return intervals.decision_boundary(self._fitted, x, y, self.cov_type, check_level(alpha))

    def bayes_error(self, alpha: float = 0.05) -> Interval:
        """Error rate of the fitted rule if its posteriors are right, with a robust interval (whatever the `cov_type`).

        Parameters
        ----------
        alpha : float, default=0.05
            One minus the confidence level.

        Returns
        -------
        Interval
            The estimate, its standard error and limits.
        """
        return intervals.bayes_error(self._fitted, check_level(alpha))

    def profile(
        self,
        name: str,
        alpha: float = 0.05,
        n_points: int = 0,
        n_resamples: int = 0,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> Profile:
        """Profile-likelihood interval of 'alpha_1' (or another slope or label term), 'shape' or 'share'.

        Better than `conf_int` where the likelihood is not quadratic, as for a shape. Limits that the data do not
        determine are infinite.

        Parameters
        ----------
        name : str
            The parameter.
        alpha : float, default=0.05
            One minus the confidence level.
        n_points : int, default=0
            Number of points of the profile curve to compute as well, for a plot.
        n_resamples : int, default=0
            Number of samples, 100 or more, drawn from the fit to correct the interval of a slope for a small sample (Bartlett's
            correction): with few rows per parameter, uncorrected intervals are too short. 0 for no correction.
        n_jobs : int or None, default=None
            Processes for these samples, as in joblib.
        random_state : int, Generator, RandomState or None, default=None
            For these samples.

        Returns
        -------
        Profile
            Print it for the interval in words.
        """
        return profile.profile(self._fitted, name, check_level(alpha), n_points, n_resamples, n_jobs, random_state)

    # Tests.

    def test_informative(
        self,
        bootstrap: bool | None = None,
        n_resamples: int = 199,
        n_jobs: int | None = None,
        random_state: Any = None,
        report: Callable[[float], object] | None = None,
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
        report : callable or None, default=None
            Called after each simulated sample with the share of samples that are done.

        Returns
        -------
        HypothesisTest
            Print it for the result in words.
        """
        check_count("n_resamples", n_resamples, 19)  # for p-values down to 0.05
        return hypotheses.informative(self._fitted, bootstrap, n_resamples, n_jobs, random_state, report)

    def test_link(self, link: str = "logit") -> HypothesisTest:
        """Is the link 'logit' (shape 1) or 'cloglog' (shape 0)? Likelihood ratio against a free shape.

        Shape 0 is a limit: the reference is half a chi-square(1), half a point mass at 0.

        Parameters
        ----------
        link : {"logit", "cloglog"}, default="logit"
            The hypothesis.

        Returns
        -------
        HypothesisTest
            Print it for the result in words.
        """
        return hypotheses.link(self._fitted, link)

    def test_mechanism(self) -> HypothesisTest:
        """Is the mechanism right? Hausman's contrast with the fit that ignores it (logistic: with the labelled rows' fit).

        Returns
        -------
        HypothesisTest
            Print it for the result in words.
        """
        return hypotheses.hausman(self._fitted)

    def test_label_term(self) -> HypothesisTest:
        """Do labels go missing because of the label itself? Likelihood ratio of delta = 0 against free label terms.

        The answer relies on the model of the classes: labels that are missing tell which class they have only through the shape
        of its density (or, for a logistic regression, the linearity of the log-odds).

        Returns
        -------
        HypothesisTest
            Print it for the result in words.
        """
        return hypotheses.label_term(self._fitted)

    def test_mcar(self) -> HypothesisTest:
        """Are labels missing completely at random, or by the features? Likelihood ratio of a logistic regression on them.

        Returns
        -------
        HypothesisTest
            Print it for the result in words.
        """
        return hypotheses.completely_at_random(self._fitted)

    def goodness_of_fit(self, by: Any = None, n_bins: int = 10) -> GoodnessOfFit:
        """Compare observed with fitted missingness, binned and smoothed; the tests account for the estimation of q.

        Parameters
        ----------
        by : str, array of shape (n,) or None, default=None
            What to sort the rows by: the uncertainty (None), a feature, the probability of a class, or any numbers. The
            probability of a class shows labels missing on one side of the boundary, a feature shows a missing covariate.
        n_bins : int, default=10
            Number of bins.

        Returns
        -------
        GoodnessOfFit
            Two tests, and a table of the bins.
        """
        return hypotheses.goodness_of_fit(self._fitted, by, n_bins)

    # Resampling.

    def bootstrap(
        self,
        n_resamples: int = 999,
        *,
        kind: str = "nonparametric",
        statistic: Callable[[Any], Any] | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> Bootstrap:
        """Refit to resampled rows, labelled and unlabelled together, or ("parametric") to rows drawn from the fit.

        Every resample is fitted with the settings of the estimator, starting from the original fit.

        Parameters
        ----------
        n_resamples : int, default=999
            Number of resamples.
        kind : {"nonparametric", "parametric"}, default="nonparametric"
            "nonparametric" draws rows with replacement. Weights count rows: as many rows are drawn as the weights sum to
            (rounded), each with probability proportional to its weight. "parametric" draws features (of a mixture; those
            of a logistic regression stay), labels and missingness from the fitted model, for unweighted rows.
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
        out, counted and reported; if more than half fail, that is an error. The estimates of a shape may run to 0 or to 100,
        which stands for infinity: their standard deviation then means little, percentile intervals are still good.
        """
        return bootstrap.bootstrap(self._fitted, n_resamples, kind, statistic, n_jobs, random_state)

    def multiple_imputations(
        self, m: int = 20, random_state: Any = None, delta: Mapping[Any, float] | None = None
    ) -> Imputations:
        """Labels imputed m times: parameters drawn from their distribution, then labels given them; see `pool`.

        Imputations use the features of this fit only: include every variable of the later analysis, its outcome too, among
        the features, or the analysis will underestimate associations.

        Parameters
        ----------
        m : int, default=20
            Number of imputations.
        random_state : int, Generator, RandomState or None, default=None
            For the draws.
        delta : dict or None, default=None
            By class, the logarithm of the odds ratio by which rows of a class lose their labels more often than others that look
            alike; see `marmix.Sensitivity`.

        Returns
        -------
        Imputations
            A sequence of m arrays of labels; its method `pool` runs an analysis on each.
        """
        return imputation.multiple_imputations(self._fitted, m, random_state, self.cov_type, delta)
