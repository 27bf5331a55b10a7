"""`Inference`: all that can be asked of a fit and its rows."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marmix.arrays import Array
from marmix.inference import adequacy, bootstrap, hypotheses, imputation, intervals, profile
from marmix.inference.adequacy import GoodnessOfFit
from marmix.inference.bootstrap import Bootstrap
from marmix.inference.estimates import Estimates, check_level
from marmix.inference.hypotheses import HypothesisTest
from marmix.inference.imputation import Imputations
from marmix.inference.intervals import Boundary, Curve, ImputedLabels, Interval
from marmix.inference.profile import Profile


class Inference(Estimates):
    """Standard errors, intervals and tests of a fit; made by the `inference` method of a fitted estimator.

    Parameters are on the user's scale and have statsmodels' names: `params`, `bse`, `tvalues`, `pvalues`, `conf_int()`,
    `cov_params()`, `summary()`, `llf`, `nobs`; see `Estimates` for conventions. The rows are kept here, not by the estimator.

    Attributes
    ----------
    params, bse, tvalues, pvalues : array of shape (m,)
        Estimates, standard errors, their ratio, p-values of the hypothesis that the parameter is zero.
    param_names : list of str
    cov_type : {"sandwich", "observed", "expected"}
    llf, nobs : float
        The maximised log-likelihood, and the number of rows.
    notes : list of str
        What to know of these numbers, in words.

    Examples
    --------
    >>> import numpy as np
    >>> from marmix import MARGaussianMixture
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(2, size=500)
    >>> X = rng.normal(size=(500, 1)) + 2.0 * y[:, None]
    >>> lost = rng.uniform(size=500) < 1 / (1 + np.exp(3 * np.abs(X[:, 0] - 1) - 2))
    >>> y_partial = np.where(lost, -1, y)
    >>> result = MARGaussianMixture(link="logit").fit(X, y_partial).inference(X, y_partial)
    >>> bool(result.test_informative().p_value < 0.001)
    True
    >>> low, high = result.conf_int()[result.param_names.index("mean[1, x0]")]
    >>> bool(low < 2.0 < high)
    True
    """

    # Intervals for what people decide on.

    def predict_proba_interval(self, X: Any, alpha: float = 0.05) -> tuple[Array, Array]:
        """Lower and upper limits, each (n, K), of the posterior probabilities of rows X, by the delta method on log-odds."""
        return intervals.proba_interval(self._fitted, self._rows(X), self.cov_type, check_level(alpha))

    def credible_labels(self, X: Any, alpha: float = 0.05) -> NDArray[np.bool_]:
        """Which classes (n, K) may be the most probable one of rows X; one alone where the label is settled."""
        return intervals.credible_labels(self._fitted, self._rows(X), self.cov_type, check_level(alpha))

    def imputed_labels(self, alpha: float = 0.05) -> ImputedLabels:
        """The imputed labels of the rows without one, their probabilities with intervals, and whether they are settled."""
        return intervals.imputed_labels(self._fitted, self.cov_type, check_level(alpha))

    def missingness_curve(self, u: Any = None, alpha: float = 0.05) -> Curve:
        """P(label missing) at uncertainties u (by default over their range), with a pointwise band; covariates at their means.

        Where the shape is held (see `notes`) the band takes it as known, and is somewhat too narrow.
        """
        return intervals.missingness_curve(self._fitted, u, self.cov_type, check_level(alpha))

    def decision_boundary(self, x: Any = None, y: Any = None, alpha: float = 0.05) -> Boundary:
        """The decision over a grid of two features (values x and y), and the band in which the boundary lies."""
        return intervals.decision_boundary(self._fitted, x, y, self.cov_type, check_level(alpha))

    def bayes_error(self, alpha: float = 0.05) -> Interval:
        """Error rate of the fitted rule if its posteriors are right, with an interval (robust, whatever the `cov_type`)."""
        return intervals.bayes_error(self._fitted, check_level(alpha))

    def profile(self, name: str, alpha: float = 0.05, n_points: int = 0) -> Profile:
        """Profile-likelihood interval of 'alpha_1' (or another slope), 'shape' or 'share'.

        Better than `conf_int` where the likelihood is not quadratic, which for a shape it never is: an end that the data do not
        set is infinite, and said so.

        Parameters
        ----------
        name : str
        alpha : float
        n_points : int
            Points of the profile curve to compute besides, for a plot.
        """
        return profile.profile(self._fitted, name, check_level(alpha), n_points)

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
            Whether to simulate the reference distribution from the fit without the uncertainty. None does so where the
            chi-square does not hold (a free shape or share has no meaning under the hypothesis) or where there are fewer
            than ten rows a parameter.
        n_resamples : int, default=199
        n_jobs : int or None, default=None
        random_state : int, Generator, RandomState or None, default=None
        """
        return hypotheses.informative(self._fitted, bootstrap, _enough(n_resamples), n_jobs, random_state)

    def test_link(
        self,
        link: str = "logit",
        bootstrap: bool = False,
        n_resamples: int = 199,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> HypothesisTest:
        """Is the link 'logit' (shape 1) or 'cloglog' (shape 0)? Likelihood ratio against a free shape.

        Shape 0 is a limit: the reference is half a chi-square(1), half a point at 0. `bootstrap` simulates it instead.
        """
        return hypotheses.link(self._fitted, link, bootstrap, _enough(n_resamples), n_jobs, random_state)

    def test_mechanism(
        self,
        bootstrap: bool | None = None,
        n_resamples: int = 199,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> HypothesisTest:
        """Is the mechanism right? Hausman's contrast with the fit that ignores it (logistic: with the labelled rows' fit).

        `bootstrap` simulates the reference distribution from the fit; None does so where rows or labels are few.
        """
        return adequacy.hausman(self._fitted, bootstrap, _enough(n_resamples), n_jobs, random_state)

    def test_mcar(self) -> HypothesisTest:
        """Whether labels are missing completely at random, against missing by the features (a logistic regression on them)."""
        return hypotheses.completely_at_random(self._fitted)

    def goodness_of_fit(self, by: Any = None, n_bins: int = 10) -> GoodnessOfFit:
        """Observed against fitted missingness, binned and smoothed, with tests that know that q was estimated.

        Parameters
        ----------
        by : str, array of shape (n,) or None, default=None
            What to sort the rows by: the uncertainty (None), a feature, the probability of a class, or any numbers. The
            probability of a class shows labels lost on one side of the boundary, a feature a missing covariate.
        n_bins : int, default=10
        """
        return adequacy.goodness_of_fit(self._fitted, by, n_bins)

    # Resampling.

    def bootstrap(
        self,
        n_resamples: int = 999,
        *,
        kind: str = "nonparametric",
        statistic: Callable[[Any], Any] | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> Bootstrap:
        """Refit to resampled rows, labelled and unlabelled together, or ("parametric") to rows drawn from the fit.

        Parameters
        ----------
        n_resamples : int, default=999
        kind : {"nonparametric", "parametric"}
        statistic : callable or None
            Maps a fitted estimator to numbers of your own; by default the parameters.
        n_jobs : int or None, default=None
        random_state : int, Generator, RandomState or None, default=None
            The same seed gives the same result with any number of jobs.
        verbose : int, default=0
            1 reports progress.
        """
        return bootstrap.bootstrap(
            self._fitted,
            n_resamples,
            kind=kind,
            statistic=statistic,
            n_jobs=n_jobs,
            random_state=random_state,
            verbose=verbose,
        )

    def multiple_imputations(self, m: int = 20, random_state: Any = None) -> Imputations:
        """Labels imputed m times: parameters drawn from their distribution, then labels given them; see `pool`.

        The imputed labels know of the features of this fit only: every variable of an analysis that uses them, its outcome too,
        must be among the features, or the analysis will find too little of what it seeks.
        """
        return imputation.multiple_imputations(self._fitted, m, random_state, self.cov_type)

    def _rows(self, X: Any) -> NDArray[Any]:
        """Rows as the estimator's predictions take them."""
        return self._fitted.checked(X)


def _enough(n_resamples: int) -> int:
    """As many simulated samples as a p-value below 5 % needs."""
    if isinstance(n_resamples, bool) or not isinstance(n_resamples, int | np.integer) or n_resamples < 19:
        raise ValueError(
            f"n_resamples={n_resamples!r} must be a whole number, at least 19: p-values go down to 1 in 20 then."
        )
    return int(n_resamples)
