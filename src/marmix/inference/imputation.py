"""Multiple imputation of missing labels, and Rubin's rules to pool the results of analyses."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import t as student

from marmix.core.arrays import AnyArray, Array, Bools, Ints, quiet
from marmix.core.labels import most_voted
from marmix.core.measures import posterior
from marmix.core.mechanism import Mechanism
from marmix.engines import block_rows
from marmix.evaluation.prior import tilted
from marmix.inference.fitted import Fitted
from marmix.inference.intervals import check_count, check_level
from marmix.inference.simulation import draw_labels, seed_sequence
from marmix.inference.tables import Shown, Table, p_text

LARGEST_DELTA = 50.0


@dataclass(frozen=True, eq=False, repr=False)
class Imputations(Sequence[AnyArray]):
    """Several completed sets of labels: given labels unchanged, missing ones drawn.

    Rows with votes have the most voted class, of tied classes the most probable one, in every set.

    A sequence of arrays of shape (n,), in the order of the user's rows, without the rows of weight zero (see `rows`).

    Parameters
    ----------
    labels : array of shape (m, n)
        Labels in the user's names.
    proba : array of shape (n, K)
        Posterior probabilities of the classes, averaged over the drawn parameters; one for a given label, and the shares of
        given votes.
    imputed : boolean array of shape (n,)
        Which labels were missing.
    rows : integer array of shape (n,) or None
        Positions of these rows among the user's rows; None if they are all of them.
    notes : list of str
        Remarks on the imputations.

    See Also
    --------
    marmix.Inference : its method `multiple_imputations` returns it; so does that of the estimators.
    marmix.pool : combine results of analyses that were run elsewhere.

    Examples
    --------
    >>> import numpy as np
    >>> from marmix.inference.imputation import Imputations
    >>> x = np.array([1.0, 2.0, 3.0, 4.0])
    >>> labels = np.array([[0, 0, 1, 1], [0, 1, 1, 1]])
    >>> imputations = Imputations(labels, np.eye(2)[[0, 0, 1, 1]], np.array([False, True, False, False]))
    >>> def mean_of_class_1(y):
    ...     members = x[y == 1]
    ...     return members.mean(), members.var(ddof=1) / len(members)
    >>> print(imputations.pool(mean_of_class_1).params)
    [3.25]
    """

    labels: AnyArray
    proba: Array
    imputed: Bools
    rows: Ints | None = None
    notes: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: Any) -> Any:
        return self.labels[index]

    def pool(
        self,
        function: Callable[[AnyArray], tuple[ArrayLike, ArrayLike]],
        dfcom: float | None = None,
        names: Sequence[str] | None = None,
    ) -> "Pooled":
        """Run an analysis on every completed set of labels and pool the results.

        Parameters
        ----------
        function : callable
            ``function(labels)`` returns an estimate and its variance, or a vector of estimates and their covariance matrix
            (or only their variances).
        dfcom, names
            As in `marmix.pool`.

        Returns
        -------
        Pooled
            Print it for a table.
        """
        estimates, covariances = zip(*(function(labels.copy()) for labels in self), strict=True)
        return pool(estimates, covariances, dfcom, names)


def multiple_imputations(
    fitted: Fitted,
    m: int = 20,
    random_state: Any = None,
    cov_type: str = "sandwich",
    delta: Mapping[Any, float] | None = None,
) -> Imputations:
    """Draw the missing labels m times, each time with other parameters.

    Parameters are drawn from their normal approximation with the covariance `cov_type`, in the coordinates of the fit (in
    which weights stay positive and covariances positive definite), then every missing label from its posterior
    probabilities, so that the imputations reflect the uncertainty of the parameters, as Rubin's rules require. Labels are
    missing at random given the features, so the parameters of the mechanism do not enter, unless it has a label term. The first
    imputations of a larger m are those of a smaller one with the same `random_state`. With `delta`, by class, the probabilities
    of class k are multiplied by e^delta_k and renormalised before labels are drawn: labels are then missing because of the label
    too.
    """
    m = check_count("m", m, 1)
    shift = None if delta is None else deltas_of(delta, fitted.classes)
    draw, held = posterior_draws(fitted, cov_type)
    z, kept, given = fitted.z, fitted.kept, np.eye(len(fitted.classes))[fitted.z]
    if fitted.shares is not None:
        first, _ = fitted.distinct
        kept, given = kept[first], fitted.shares[kept[first]]
        z = most_voted(given, _posteriors(fitted, fitted.theta, None, fitted.X[first]))
    imputed = z < 0
    labels = np.tile(z, (m, 1))
    tau = np.zeros((int(imputed.sum()), len(fitted.classes)))
    for drawn, seed in zip(labels, seed_sequence(random_state).spawn(m), strict=True):
        rng = np.random.default_rng(seed)
        proba = draw(rng) if shift is None else tilted(draw(rng), shift)
        drawn[imputed] = draw_labels(proba, rng)
        tau += proba / m
    given[imputed] = tau
    notes = []
    if held:
        notes.append(
            "Some parameters are at a limit or not determined by the data: they were held at the fit, so the imputations "
            "vary too little."
        )
    return Imputations(fitted.classes[labels], given, imputed, kept, notes)


def posterior_draws(fitted: Fitted, cov_type: str = "sandwich") -> tuple[Callable[[np.random.Generator], Array], bool]:
    """A function that draws parameters and returns the posteriors (n, K) of the unlabelled rows, and whether some are held."""
    fitted.require_covariance(cov_type)
    covariance, blind = fitted.information.covariance(cov_type)
    coordinates = fitted.coordinates
    size = coordinates.size if fitted.model.has_label_term else coordinates.n_theta
    low, high = coordinates.bounds.T
    values, vectors = np.linalg.eigh(covariance[:size, :size])
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    X = fitted.X[fitted.z < 0]

    def draw(rng: np.random.Generator) -> Array:
        vector = np.zeros(coordinates.size)
        vector[:size] = root @ rng.normal(size=size)
        return _posteriors(fitted, *coordinates.at(np.clip(vector, low, high)), X)

    undetermined = np.abs(blind[:size]).max(initial=0.0) > 1e-4 * np.abs(blind).max(initial=0.0)
    return draw, bool(undetermined or coordinates.chart.n_free > coordinates.n_theta)


def deltas_of(delta: Mapping[Any, float], classes: AnyArray) -> Array:
    """delta of every class, (K,), from a mapping; zero for classes that it does not name."""
    names = classes.tolist()
    if unknown := [name for name in delta if name not in names]:
        raise ValueError(f"delta names the class {unknown[0]!r}, but the classes are {names}.")
    values = np.array([float(delta.get(name, 0.0)) for name in names])
    if not (np.abs(values) <= LARGEST_DELTA).all():
        raise ValueError(
            f"delta is the logarithm of an odds ratio: it must lie between -{LARGEST_DELTA:g} and {LARGEST_DELTA:g}."
        )
    return values


def _posteriors(fitted: Fitted, theta: Any, mechanism: Mechanism | None, X: AnyArray) -> Array:
    """Class probabilities (n, K) of unlabelled rows at these parameters."""
    model, frame = fitted.objective.model, fitted.objective.engine.frame
    size = block_rows(model.n_features())
    out = np.empty((len(X), len(fitted.classes)))
    with quiet():
        for start in range(0, len(X), size):
            rows = slice(start, start + size)
            p = posterior(model.scores(theta, frame.enter(X[rows])))
            if mechanism is not None:
                p = mechanism.unlabelled(p, fitted.covariates.enter(X[rows]))
            out[rows] = p.tau.T
    return out


def pool(estimates: Any, covariances: Any, dfcom: float | None = None, names: Sequence[str] | None = None) -> "Pooled":
    r"""Pool the results of analyses of m imputed data sets by Rubin's rules.

    With the variance U of an estimate, averaged over the data sets, and the variance B of the estimates between them, the
    variance of the pooled estimate is

    .. math::

        T = U + \left( 1 + \frac{1}{m} \right) B.

    The pooled standard errors are too large if the imputer uses more than the analyst does, as in a logistic regression of labels
    that a Gaussian mixture has imputed: the mixture knows the form of the classes. Intervals are then too long, not wrong. For
    shorter ones, resample the rows, fit, impute and analyse every sample, and take the standard deviation of the results.

    Parameters
    ----------
    estimates : array-like of shape (m,) or (m, p)
        The estimate, or the vector of estimates, of each data set.
    covariances : array-like of shape (m,), (m, p) or (m, p, p)
        Variances or covariance matrices; with variances alone the pooled covariances are NaN.
    dfcom : float or None
        Degrees of freedom of the analysis of complete data, such as n - p in a regression; None for infinitely many.
    names : list of str or None
        Names of the estimates.

    Returns
    -------
    Pooled
        With `params`, `bse`, `conf_int()` and `summary()`.

    See Also
    --------
    Inference : its method `multiple_imputations` draws the labels.
    marmix.inference.imputation.Imputations : its method `pool` runs an analysis on each of them.

    Examples
    --------
    >>> from marmix import pool
    >>> pooled = pool([1.0, 2.0, 3.0], [0.5, 0.5, 0.5])
    >>> print(pooled.params, pooled.bse.round(3))
    [2.] [1.354]
    """
    Q, U = np.asarray(estimates, dtype=float), np.asarray(covariances, dtype=float)
    m = len(Q)
    if m < 2:
        raise ValueError("the variance between imputations needs at least two of them (20 are usual).")
    Q = Q.reshape(m, -1)
    p = Q.shape[1]
    if U.size == m * p:
        variances, U = U.reshape(m, p), np.full((m, p, p), np.nan)
        np.einsum("mii->mi", U)[...] = variances
    if U.shape != (m, p, p):
        raise ValueError(
            f"{m} x {p} estimates need covariances of shape ({m}, {p}, {p}) or variances of shape ({m}, {p}); got {U.shape}."
        )
    if not (np.isfinite(Q).all() and (np.einsum("mii->mi", U) >= 0.0).all()):
        raise ValueError("an estimate is not finite or a variance is not a number >= 0: correct the analysis.")
    if names is None:
        names = ["estimate"] if p == 1 else [f"estimate[{i}]" for i in range(p)]
    return Pooled(Q.mean(axis=0), U.mean(axis=0), np.cov(Q, rowvar=False).reshape(p, p), m, dfcom, list(names))


@dataclass(frozen=True)
class Pooled(Shown):
    r"""The pooled results of m analyses, by Rubin's rules; arrays have an entry for each of the p estimates.

    With the mean U of the variances within imputations and the variance B of the estimates between them,

    .. math::

        T = U + \left( 1 + \frac{1}{m} \right) B, \qquad \lambda = \left( 1 + \frac{1}{m} \right) \frac{B}{T}, \qquad
        \nu = \frac{m - 1}{\lambda^2}

    are the variance, the share of it that is due to missing labels, and the degrees of freedom (Rubin 1987). With degrees of
    freedom c of the complete data, Barnard and Rubin (1999) replace :math:`1 / \nu` by
    :math:`1 / \nu + (c + 3) / \{ (1 - \lambda) c (c + 1) \}`.

    Parameters
    ----------
    params : array of shape (p,)
        The mean of the estimates.
    within, between : arrays of shape (p, p)
        U and B as matrices.
    m : int
        Number of imputations.
    dfcom : float or None
        c; None for infinitely many.
    names : list of str
        Names of the estimates.

    See Also
    --------
    marmix.pool : returns it.

    Examples
    --------
    >>> from marmix import pool
    >>> pooled = pool([1.0, 2.0, 3.0], [0.5, 0.5, 0.5])
    >>> pooled.conf_int().round(1), pooled.fmi.round(2)
    (array([[-1.8,  5.8]]), array([0.81]))
    """

    params: Array
    within: Array
    between: Array
    m: int
    dfcom: float | None = None
    names: list[str] = field(default_factory=list)

    def cov_params(self) -> Array:
        """T, the covariance matrix of the estimates."""
        return self.within + (1.0 + 1.0 / self.m) * self.between

    @property
    def bse(self) -> Array:
        """Standard errors."""
        return np.sqrt(np.diag(self.cov_params()))

    @property
    def _share(self) -> Array:
        """lambda, the share of the variance due to missing labels."""
        total = np.diag(self.cov_params())
        extra = (1.0 + 1.0 / self.m) * np.diag(self.between)
        return np.divide(extra, total, out=np.zeros_like(total), where=total > 0.0)

    @property
    def _large_sample_df(self) -> Array:
        """Rubin's (1987) degrees of freedom, for infinitely many degrees of freedom of the complete data."""
        with np.errstate(divide="ignore"):
            return (self.m - 1) / self._share**2

    @property
    def df(self) -> Array:
        """Degrees of freedom of the t distribution of intervals and p-values."""
        if self.dfcom is None or np.isinf(self.dfcom):
            return self._large_sample_df
        c, kept = self.dfcom, 1.0 - self._share
        with np.errstate(divide="ignore"):
            return 1.0 / (1.0 / self._large_sample_df + (c + 3.0) / ((c + 1.0) * c * kept))

    @property
    def fmi(self) -> Array:
        """Fraction of missing information, lambda + (1 - lambda) 2 / (nu + 3)."""
        share = self._share
        return share + (1.0 - share) * 2.0 / (self._large_sample_df + 3.0)

    @property
    def tvalues(self) -> Array:
        """Estimates divided by their standard errors."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return self.params / self.bse

    @property
    def pvalues(self) -> Array:
        """Two-sided p-values of the hypothesis that an estimate is zero."""
        return 2.0 * student.sf(np.abs(self.tvalues), self.df)

    def conf_int(self, alpha: float = 0.05) -> Array:
        """Intervals of level 1 - alpha, (p, 2)."""
        half = student.isf(check_level(alpha) / 2.0, self.df) * self.bse
        return np.column_stack([self.params - half, self.params + half])

    def summary(self, alpha: float = 0.05) -> Table:
        """A table of the estimates: print it, or use its `as_text`, `as_html` and `frame`."""
        limits = self.conf_int(alpha)
        columns = zip(
            self.params, self.bse, self.tvalues, map(p_text, self.pvalues), *limits.T, self.df, self.fmi, strict=True
        )
        level = 100 * alpha / 2
        titles = ["coef", "std err", "t", "P>|t|", f"[{level:g}%", f"{100 - level:g}%]", "df", "fmi"]
        facts = [
            ("imputations", str(self.m)),
            ("complete-data df", "many" if self.dfcom is None else f"{self.dfcom:g}"),
        ]
        notes = ["fmi: fraction of the information about the estimate that is missing with the labels."]
        if self.fmi.max() > self.m / 100.0:
            notes.append(
                f"More imputations would make these numbers more stable: m={self.m} is less than 100 times the largest fmi."
            )
        return Table("Pooled by Rubin's rules", titles, self.names, [list(row) for row in columns], facts, notes)
