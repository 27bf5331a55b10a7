"""Estimates with their standard errors, by the names that users of statsmodels know."""

from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np
from scipy.stats import norm

from marmix.arrays import Array
from marmix.inference.fitted import Fitted
from marmix.inference.information import KINDS
from marmix.inference.parameters import PLAIN, SCALES, TESTABLE
from marmix.inference.tables import Table, listed, number, p_text
from marmix.workers import one_thread

# Standard errors of the two kinds disagree when they differ by this share, or by more than chance does among n rows: about
# _NOISE / sqrt(n) for the worst of some ten parameters.
_DISAGREE, _NOISE = 0.25, 8.0
# Log-likelihood a labelled row from which on the classes are told apart.
_SEPARATED = 0.01


class Estimates:
    """Estimates of a fit with their standard errors.

    Parameters are on the user's scale: weights, means, variances and covariances of a mixture (or the coefficients of a logistic
    regression, const being the intercept), alpha, shape and share. Names, order and conventions are those of statsmodels:
    normal reference distribution, two-sided p-values, intervals ``params ± 1.96 bse``, except that those of weights and
    share are formed on the scale of log-odds, those of variances and shape on that of logarithms, so that they stay in
    their range. Arrays are pandas Series or DataFrames if the features were a DataFrame.

    Parameters
    ----------
    fitted : Fitted
    cov_type : {"sandwich", "observed", "expected"}
        The covariance matrix that standard errors come from. "sandwich" is valid also where the model is wrong, about the
        parameters that the model would have with endless data; the others trust the model.
    pandas : bool
        Whether to answer in pandas' types.

    Attributes
    ----------
    params, bse, tvalues, pvalues : array of shape (m,)
        Estimates, their standard errors, their ratio, and p-values of the hypothesis that the parameter is zero: NaN for
        weights, variances, shape and share, where zero is a limit. A parameter that the data do not determine, or that the
        fit left at a limit, has bse NaN; so has alpha where that is the shape, since it means nothing without it. `notes`
        says so, and `profile` gives intervals then.
    param_names : list of str
    llf : float
        The maximised log-likelihood.
    nobs : float
        Rows, weighted.
    cov_type : str
    notes : list of str
        What to know of these numbers, in words.
    """

    def __init__(self, fitted: Fitted, cov_type: str = "sandwich", pandas: bool = False):
        check_kind(cov_type, fitted)
        self._fitted, self._pandas, self.cov_type = fitted, pandas, cov_type
        self.param_names = fitted.parameters.names
        self.llf = fitted.loglik
        self.nobs = fitted.objective.engine.total_weight

    @cached_property
    def notes(self) -> list[str]:
        """What to know of these numbers, in words."""
        with one_thread():
            return list(self._notes())

    # What users of statsmodels know.

    @property
    def fitted(self) -> Fitted:
        """The fitted model and its rows."""
        return self._fitted

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
        """Estimates over their standard errors."""
        return self._series(self._ratios)

    @property
    def pvalues(self) -> Any:
        """Two-sided p-values of the hypothesis that a parameter is zero; NaN where that is a limit."""
        return self._series(self._pvalues)

    def cov_params(self, cov_type: str | None = None) -> Any:
        """Covariance matrix of the estimates, of this or another type."""
        matrix = self._cov if cov_type is None else self._covariance(cov_type)
        if not self._pandas:
            return matrix
        import pandas as pd

        return pd.DataFrame(matrix, index=self.param_names, columns=self.param_names)

    def conf_int(self, alpha: float = 0.05, cov_type: str | None = None) -> Any:
        """Wald intervals of level 1 - alpha, (m, 2), of this or another type; `profile` gives better ones of slope and shape."""
        z, values = float(norm.isf(check_level(alpha) / 2.0)), self._fitted.values
        errors = self._errors if cov_type is None else np.sqrt(np.diag(self._covariance(cov_type)))
        limits = np.full((len(values), 2), np.nan)
        for i, kind in enumerate(self._fitted.parameters.kinds):
            to, back, slope = SCALES.get(kind, PLAIN)
            if np.isfinite(errors[i]):
                half = z * errors[i] * slope(values[i])
                limits[i] = back(to(values[i]) - half), back(to(values[i]) + half)
        if not self._pandas:
            return limits
        import pandas as pd

        return pd.DataFrame(limits, index=self.param_names, columns=[0, 1])

    def summary(self, alpha: float = 0.05) -> Table:
        """A table of the parameters: print it, or see its `as_text`, `as_html` and `frame`."""
        fitted, limits = self._fitted, np.asarray(self.conf_int(alpha))
        z = np.where(np.isnan(self._pvalues), np.nan, self._ratios)
        rows = [
            [value, error, ratio, p_text(p), low, high]
            for value, error, ratio, p, (low, high) in zip(
                fitted.values, self._errors, z, self._pvalues, limits, strict=True
            )
        ]
        missing = float(np.sum(self._row_weights[fitted.z < 0]))
        facts = [
            ("model", f"{type(fitted.estimator).__name__}, {fitted.described}"),
            ("rows", f"{number_of(self.nobs)}, of which {number_of(missing)} without label"),
            ("log-likelihood", f"{self.llf:.4f}"),
            ("standard errors", self.cov_type),
        ]
        level = f"{100 * alpha / 2:g}"
        columns = ["coef", "std err", "z", "P>|z|", f"[{level}%", f"{100 - 100 * alpha / 2:g}%]"]
        return Table("Parameters of the fit", columns, self.param_names, rows, facts, self.notes)

    # Behind them.

    def __str__(self) -> str:
        return self.summary().as_text()

    def _repr_html_(self) -> str:
        return self.summary().as_html()

    @cached_property
    def _cov(self) -> Array:
        return self._covariance(self.cov_type)

    def _covariance(self, kind: str) -> Array:
        """NaN where a parameter is held, since the coordinates do not move it; and for alpha, where the shape is."""
        check_kind(kind, self._fitted)
        with one_thread():
            jacobian = self._fitted.jacobian
            covariance = self._fitted.covariance_of(jacobian, kind)
        held = np.all(np.abs(jacobian) <= 1e-9 * np.abs(self._fitted.values)[:, None], axis=1)
        if self._fitted.coordinates.shape_held:
            held |= np.array([kind == "alpha" for kind in self._fitted.parameters.kinds])
        covariance[held], covariance[:, held] = np.nan, np.nan
        return covariance

    @property
    def _row_weights(self) -> Array:
        weight = self._fitted.weight
        return np.ones(len(self._fitted.z)) if weight is None else weight

    @property
    def _errors(self) -> Array:
        return np.sqrt(np.diag(self._cov))

    @property
    def _ratios(self) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):  # a class of one point has a mean without error
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

    def _notes(self) -> Any:
        fitted = self._fitted
        if not fitted.estimator.converged_:
            yield "The fit did not converge: these numbers are about where it stopped, not about a maximum."
        held = fitted.coordinates.held
        if held:
            yield f"The fit left {listed(held)}: held there, it has no standard error, and the others take it as known."
        if fitted.coordinates.shape_held:
            yield "alpha means nothing without the shape, and has no standard error: see profile('alpha_1') and profile('shape')."
        elif "shape" in fitted.parameters.kinds:
            yield "The likelihood is not quadratic in the shape: profile('shape') and profile('alpha_1') give better intervals."
        if fitted.information.inverse.blind.shape[1]:
            lost = [n for n, e in zip(self.param_names, self._errors, strict=True) if np.isnan(e)]
            yield (
                "The observed information is singular or not positive: the data do not determine "
                f"{listed(lost) if lost else 'some combination of parameters'}."
            )
        labelled = self._row_weights[fitted.z >= 0].sum()
        if not fitted.objective.model.joint and fitted.estimator.loglik_ignorable_ > -_SEPARATED * labelled:
            yield (
                "The classes of the labelled rows are told apart (almost) without error: coefficients have no finite maximum "
                "without a penalty, and their standard errors mean little."
            )
        if fitted.information.penalty.any():
            yield (
                f"The penalty (C={fitted.estimator.C:g}) pulls coefficients to zero: intervals are about the shrunken "
                "coefficients. Fit with C=np.inf for intervals about the true ones."
            )
        if fitted.full_likelihood:
            yield from self._disagreement()
        if fitted.few_rows is not None:
            yield f"Only {fitted.few_rows}: these approximations need more. Use `bootstrap`."

    def _disagreement(self) -> Any:
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
                    "a sign that the model is not quite right. The sandwich is the safer one."
                    if ratio[worst] > 1.0
                    else "more often a sign of few rows than of a wrong model. The larger one is the safer one."
                )
            )


def check_kind(kind: str, fitted: Fitted) -> None:
    """Refuse a covariance matrix that this fit does not have."""
    if kind not in KINDS:
        raise ValueError(f"cov_type={kind!r} is not one of {', '.join(map(repr, KINDS))}.")
    if kind != "sandwich" and fitted.tempered:
        raise ValueError(
            f"cov_type={kind!r} needs the full likelihood, and this fit has mechanism_weight={fitted.objective.tempering:g}: use "
            "cov_type='sandwich'."
        )


def number_of(weight: float) -> str:
    """A number of rows, weighted or not."""
    return f"{weight:.0f}" if float(weight).is_integer() else f"{weight:.1f}"


def check_level(alpha: float) -> float:
    """The complement of a level of confidence."""
    if not isinstance(alpha, Real) or not 0.0 < alpha < 1.0:
        raise ValueError(f"alpha={alpha!r} must lie between 0 and 1: intervals have level 1 - alpha.")
    return float(alpha)
