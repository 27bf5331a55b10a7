"""Answers: estimates with standard errors, intervals, and what they assume."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.stats import t as student

from marmix.core.arrays import Array
from marmix.estimate.designs import Design
from marmix.inference.tables import Shown, Table, p_text

_BOUNDS = {"logit": (0.0, 1.0), "area": (0.0, 1.0), "log": (0.0, np.inf), "": (-np.inf, np.inf)}


@dataclass(frozen=True)
class Answer(Shown):
    """An estimate, or several, from partially labelled rows, with 95 % intervals. Print it for a table.

    Attributes
    ----------
    value, stderr : float, or array of shape (p,)
        The estimate and its standard error.
    interval : tuple of float, or array of shape (p, 2)
        The interval, which need not be symmetric around the estimate.
    n_effective : float, or array of shape (p,)
        Number of labelled rows, drawn by chance, that would tell as much.
    names : list of str
        Of the estimates.
    covariance : array of shape (p, p)
        Of the estimates.
    design, assumption : str
        How the labels are used, and what must be true for that.
    notes : tuple of str
        What to know besides.
    n, n_labelled : int
        Rows, and rows with a label, audited ones included.

    See Also
    --------
    marmix.estimate.share : returns it, as do `mean`, `difference` and `regression`.

    Examples
    --------
    >>> from marmix import MARLogisticRegression, estimate
    >>> from marmix.datasets import make_mar_mixture
    >>> data = make_mar_mixture(500, random_state=0)
    >>> clf = MARLogisticRegression().fit(data.data, data.target)
    >>> answer = estimate.share(clf, data.data, data.target)
    >>> low, high = answer.interval
    >>> bool(low < data.target_true.mean() < high)
    True
    """

    title: str
    names: list[str]
    values: Array
    covariance: Array
    limits: Array
    effective: Array
    design: str
    assumption: str
    n: int
    n_labelled: int
    notes: tuple[str, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    exp: str = field(default="", repr=False)  # what the exponential of a coefficient is
    tests: tuple[Array, Array] | None = field(default=None, repr=False)  # t and P, of being zero

    @property
    def value(self) -> Any:
        """The estimate, or the estimates."""
        return self._one_or_all(self.values)

    @property
    def stderr(self) -> Any:
        """Standard errors."""
        return self._one_or_all(np.sqrt(np.diag(self.covariance)))

    @property
    def interval(self) -> Any:
        """95 % intervals."""
        return tuple(self.limits[0].tolist()) if len(self.limits) == 1 else self.limits

    @property
    def n_effective(self) -> Any:
        """Numbers of labelled rows, drawn by chance, that would tell as much."""
        return self._one_or_all(self.effective)

    def _one_or_all(self, values: Array) -> Any:
        return float(values[0]) if len(values) == 1 else values

    def summary(self) -> Table:
        """The estimates as a table: print it, or use its `as_text`, `as_html` and `frame`."""
        stderr = np.sqrt(np.diag(self.covariance))
        columns: dict[str, Any] = {"estimate": self.values, "std err": stderr}
        if self.tests:
            columns |= {"t": self.tests[0], "P>|t|": [p_text(p) for p in self.tests[1]]}
        columns |= {"[2.5%": self.limits[:, 0], "97.5%]": self.limits[:, 1]}
        if self.exp:
            columns[self.exp] = np.exp(self.values)
        columns["effective rows"] = [f"{size:,.0f}" if np.isfinite(size) else "all" for size in self.effective]
        facts = [("rows", f"{self.n:,}, {self.n_labelled:,} with a label"), ("design", self.design), *self.facts]
        rows = [list(row) for row in zip(*columns.values(), strict=True)]
        return Table(self.title, list(columns), self.names, rows, facts, [self.assumption, *self.notes])


def answer(
    design: Design,
    title: str,
    names: list[str],
    values: Array,
    g: Array,
    scales: list[str],
    finite: bool = False,
    tested: bool = False,
    **more: Any,
) -> Answer:
    """The answer for estimates with influences g (n, K, p), with intervals of Student's t on scales "logit", "area", "log" or "".

    Tests have the centre and the degrees of freedom of the intervals.
    """
    covariance, full, df, shift = design.covariance(g, finite)
    df = np.where([scale in ("logit", "log") for scale in scales], design.df, df)  # a rate's scale has its skewness
    stderr, centre = np.sqrt(np.diag(covariance)), values + shift
    limits = np.array([_limits(*one) for one in zip(centre, student.ppf(0.975, df) * stderr, scales, strict=True)])
    bounds = np.array([_BOUNDS[scale] for scale in scales]).T
    values, (low, high) = np.clip(values, *bounds), np.clip(limits.T, *bounds)
    limits = np.column_stack([np.fmin(low, values), np.fmax(high, values)])
    with np.errstate(divide="ignore", invalid="ignore"):
        effective = len(design.tau) * np.diag(full) / np.diag(covariance)
        t = centre / stderr
    about = design.name, design.assumption, len(design.tau), int(design.labelled.sum()), design.notes
    more["tests"] = (t, 2.0 * student.sf(abs(t), df)) if tested else None
    return Answer(title, names, values, covariance, limits, effective, *about, **more)


def _limits(value: float, error: float, scale: str) -> tuple[float, float]:
    """An interval that is normal on this scale; the usual one where the value has no place on it."""
    if scale in ("logit", "area") and 0.0 < value < 1.0:
        odds, factor = value / (1.0 - value), np.exp(min(error / (value * (1.0 - value)), 500.0))
        return odds / (odds + factor), odds / (odds + 1.0 / factor)
    if scale == "log" and 0.0 < value < np.inf:
        factor = np.exp(min(error / value, 500.0))
        return value / factor, value * factor
    return value - error, value + error
