"""Bayes error, the cost of missing labels, and the value of modelling the mechanism.

The plug-in rule assigns a row to the class that is most probable under the estimated parameters. By maximum likelihood from n
rows its risk R exceeds the Bayes risk R* by

    E R - R* = c / (2 n) + o(1 / n),      c = tr(D V),

D the curvature of the risk in the parameters (see `boundary`) and V the inverse information of a row. Missing labels enter
through V alone, so ratios of the coefficients c are ratios of numbers of rows: an analysis with twice the coefficient needs
twice the rows.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import numpy as np
from scipy.optimize import brentq

from marmix.core.arrays import Array
from marmix.core.mechanism import Mechanism
from marmix.fitting import Sample
from marmix.inference.tables import Table
from marmix.theory.description import Description, described
from marmix.theory.integrals import REGIMES, Coefficients, Integrals
from marmix.theory.rules import Computed, computed, mean_over

_MEANING = {
    "complete": "every label known",
    "mcar": "as many labels missing completely at random",
    "modelled": "labels missing by the mechanism, which is modelled",
    "ignored": "labels missing by the mechanism, which is ignored",
    "unlabelled": "no label at all",
}


def bayes_error(model: Any, *, rtol: float = 1e-3, random_state: int = 0) -> Computed:
    r"""Return the error rate of the Bayes rule, the smallest that any classifier can reach.

    .. math::

        R^* = 1 - E \max_k \tau_k(X)

    Parameters
    ----------
    model : GaussianClasses or fitted MARGaussianMixture
        The classes.
    rtol : float, default=1e-3
        Relative error to reach, as far as a million nodes suffice. With one or two features it is mostly far smaller;
        with more, a larger rtol saves time.
    random_state : int, default=0
        Seed of the random points that integrate over more than two features.

    Returns
    -------
    Computed
        `value` and `error`.

    See Also
    --------
    excess_risk : How much worse a rule is whose parameters were estimated.
    missing_rate : The share of labels missing under a mechanism.

    Examples
    --------
    What a fitted model says about the overlap of its classes:

    >>> from marmix import MARGaussianMixture
    >>> from marmix.datasets import make_mar_mixture
    >>> from marmix.theory import GaussianClasses, bayes_error
    >>> rows = make_mar_mixture(1000, random_state=0)
    >>> clf = MARGaussianMixture(covariance_type="tied").fit(rows.data, rows.target)
    >>> print(f"{bayes_error(clf).value:.2f}")
    0.14

    The rows were drawn from two Gaussian classes whose means are two standard deviations apart:

    >>> truth = GaussianClasses([0.5, 0.5], [[-1.0, 0.0], [1.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]], covariance_type="tied")
    >>> print(f"{bayes_error(truth).value:.2f}")
    0.16
    """

    def numbers(at: Coefficients) -> list[Computed]:
        return [at.computed(lambda share: float(mean_over(share, at.integrals.error)))]

    return _settle(described(model), None, None, numbers, rtol, random_state)[1][0]


def missing_rate(
    model: Any, mechanism: Mechanism | None = None, *, rtol: float = 1e-3, random_state: int = 0
) -> Computed:
    """Return the share of labels that are missing under a mechanism, the mean of q over the population.

    Parameters
    ----------
    model : GaussianClasses or fitted MARGaussianMixture
        The classes.
    mechanism : Mechanism or None, default=None
        The missing-label mechanism; by default the fitted one.
    rtol : float, default=1e-3
        Relative error to reach, as in `bayes_error`.
    random_state : int, default=0
        Seed of the random points, as in `bayes_error`.

    Returns
    -------
    Computed
        `value` and `error`.

    See Also
    --------
    mechanism_at_rate : The inverse: a mechanism with a given rate.

    Examples
    --------
    >>> from marmix import Mechanism
    >>> from marmix.theory import GaussianClasses, missing_rate
    >>> classes = GaussianClasses([0.5, 0.5], [[-1.0], [1.0]], [[1.0]], covariance_type="tied")
    >>> round(missing_rate(classes, Mechanism("entropy", (-2.0, 3.0))).value, 4)
    0.3011
    """
    classes = described(model)
    mechanism = classes.entered(mechanism)
    return _settle(classes, mechanism, None, lambda at: [at.computed(at.rate)], rtol, random_state)[1][0]


def mechanism_at_rate(
    model: Any, mechanism: Mechanism, rate: float, *, rtol: float = 1e-3, random_state: int = 0
) -> Mechanism:
    """Return the mechanism with the intercept alpha_0 at which a given share of the labels is missing.

    Parameters
    ----------
    model : GaussianClasses or fitted MARGaussianMixture
        The classes.
    mechanism : Mechanism
        The mechanism whose intercept is changed.
    rate : float
        The share of missing labels, between the mechanism's `share` and one.
    rtol : float, default=1e-3
        Relative error to reach, as in `bayes_error`.
    random_state : int, default=0
        Seed of the random points, as in `bayes_error`.

    Returns
    -------
    Mechanism
        The same mechanism with another ``alpha[0]``.

    Raises
    ------
    ValueError
        If no intercept gives this rate.

    See Also
    --------
    missing_rate : The share of labels missing under a mechanism.
    marmix.datasets.hide_labels : Hide labels at a given rate.

    Examples
    --------
    >>> from marmix import Mechanism
    >>> from marmix.theory import GaussianClasses, mechanism_at_rate
    >>> classes = GaussianClasses([0.5, 0.5], [[-1.0], [1.0]], [[1.0]], covariance_type="tied")
    >>> round(mechanism_at_rate(classes, Mechanism("entropy", (0.0, 3.0)), 0.3).alpha[0], 4)
    -2.0058
    """
    classes = described(model)
    entered = classes.entered(mechanism)
    if not entered.share < rate < 1.0:
        raise ValueError(f"rate={rate!r} must lie between the mechanism's share {entered.share:g} and 1.")
    _check_rtol(rtol)
    for level in count():
        integrals = Integrals(classes, level, random_state)
        samples = integrals.samples(entered)

        def missing(by: float, integrals: Integrals = integrals, samples: list[Sample] = samples) -> Array:
            return integrals.missing(_raised(entered, by), samples)

        reach = 1.0
        while missing(-reach).mean() > rate or missing(reach).mean() < rate:
            reach *= 2.0
        by = float(brentq(lambda shift, missing=missing: missing(shift).mean() - rate, -reach, reach, xtol=1e-12))
        replicates = missing(by)
        reached = computed(lambda share, parts=replicates: float(mean_over(share, parts)), integrals.random)  # type: ignore[misc]
        if integrals.finest or reached.error <= rtol * rate:
            return _raised(mechanism, by)
    raise AssertionError("there is always a finest level")


def excess_risk(
    model: Any,
    mechanism: Mechanism | None = None,
    *,
    labels: str | None = None,
    rate: float | None = None,
    rtol: float = 1e-3,
    random_state: int = 0,
) -> Computed:
    r"""Return the coefficient of the excess risk of the plug-in rule, fitted by maximum likelihood to n rows.

    .. math::

        c = \lim_{n \to \infty} 2 n (E R - R^*)

    Parameters
    ----------
    model : GaussianClasses or fitted MARGaussianMixture
        The true classes; the analysis assumes their covariance structure.
    mechanism : Mechanism or None, default=None
        The missing-label mechanism. alpha is estimated, and the shape and share if `free_shape` and `free_share` say
        so. By default the fitted one.
    labels : {"complete", "mcar", "modelled", "ignored", "unlabelled"} or None, default=None
        Every label known; labels missing completely at random; missing by the mechanism, which is modelled, or ignored
        (valid but less efficient); no label at all (classes are then known up to their names only). None is "mcar" if a
        rate is given, "modelled" if a mechanism is given or fitted, otherwise "complete".
    rate : float or None, default=None
        The share of missing labels if labels="mcar". By default that of the mechanism.
    rtol : float, default=1e-3
        Relative error to reach, as in `bayes_error`.
    random_state : int, default=0
        Seed of the random points, as in `bayes_error`.

    Returns
    -------
    Computed
        `value` and `error`. The value is infinite if such labels do not determine the rule.

    Raises
    ------
    ValueError
        If `labels` or `rate` cannot be used, or a mechanism is needed and there is none.

    See Also
    --------
    relative_efficiency : All ways of labelling in one table.
    bayes_error : The risk R* of the best rule.

    Examples
    --------
    With half of the labels, the excess risk is almost twice that with all of them:

    >>> from marmix.theory import GaussianClasses, excess_risk
    >>> classes = GaussianClasses([0.5, 0.5], [[-1.0], [1.0]], [[1.0]], covariance_type="tied")
    >>> round(excess_risk(classes).value, 4), round(excess_risk(classes, labels="mcar", rate=0.5).value, 4)
    (0.4839, 0.8793)
    """
    classes = described(model)
    if labels is None:
        modelled = mechanism is not None or classes.mechanism is not None
        labels = "mcar" if rate is not None else "modelled" if modelled else "complete"
    if labels not in REGIMES:
        raise ValueError(f"labels={labels!r} is not one of {', '.join(map(repr, REGIMES))}.")
    if rate is not None and labels != "mcar":
        raise ValueError(
            f"rate={rate!r} is for labels='mcar': use mechanism_at_rate for a mechanism with a given rate."
        )
    needed = labels in ("modelled", "ignored") or (labels == "mcar" and rate is None)
    entered = classes.entered(mechanism) if needed else None
    return _settle(classes, entered, rate, lambda at: [at.coefficient(labels)], rtol, random_state)[1][0]


@dataclass(frozen=True)
class Efficiencies:
    r"""Comparison of ways of labelling, as returned by `relative_efficiency`; print it for a table.

    Attributes
    ----------
    rate : Computed
        The share of missing labels in "mcar", "modelled" and "ignored".
    coefficients : dict of Computed
        :math:`\lim 2 n (E R - R^*)` by way of labelling, see `excess_risk`.
    efficiencies : dict of Computed
        The coefficient of "complete" divided by that of the way of labelling: how many completely labelled rows a row
        is worth.

    See Also
    --------
    relative_efficiency : Compute it.

    Examples
    --------
    >>> from marmix.theory import GaussianClasses, relative_efficiency
    >>> classes = GaussianClasses([0.5, 0.5], [[-1.0], [1.0]], [[1.0]], covariance_type="tied")
    >>> print(relative_efficiency(classes, rate=0.5))
    Excess risk of the plug-in rule from n rows, 2 n (E R - R*)
    --------------------------------------------------------------------------
    missing labels  50.00 %
    --------------------------------------------------------------------------
                                                       coefficient  efficiency
    complete: every label known                             0.4839       1.000
    mcar: as many labels missing completely at random       0.8793      0.5504
    unlabelled: no label at all                              4.801      0.1008
    --------------------------------------------------------------------------
    - efficiency: completely labelled rows that a row is worth
    - numerical error of these numbers: at most 1e-10, relative
    """

    rate: Computed
    coefficients: dict[str, Computed]
    efficiencies: dict[str, Computed]

    def table(self) -> Table:
        """Return the numbers as a table.

        Returns
        -------
        Table
            With the methods `as_text`, `as_markdown` and `as_html`.
        """
        pairs = [(self.coefficients[name], self.efficiencies[name]) for name in self.coefficients]
        finite = [number for pair in pairs for number in pair if np.isfinite(number.value) and number.value > 0.0]
        error = max((number.error / number.value for number in finite), default=0.0)
        return Table(
            "Excess risk of the plug-in rule from n rows, 2 n (E R - R*)",
            ["coefficient", "efficiency"],
            [f"{name}: {_MEANING[name]}" for name in self.coefficients],
            [[coefficient.value, efficiency.value] for coefficient, efficiency in pairs],
            [("missing labels", f"{100 * self.rate.value:.2f} %")],
            [
                "efficiency: completely labelled rows that a row is worth",
                f"numerical error of these numbers: at most {error:.1g}, relative",
            ],
        )

    def __str__(self) -> str:
        return self.table().as_text()

    def _repr_html_(self) -> str:
        return self.table().as_html()


def relative_efficiency(
    model: Any,
    mechanism: Mechanism | None = None,
    *,
    rate: float | None = None,
    rtol: float = 1e-3,
    random_state: int = 0,
) -> Efficiencies:
    """Compare ways of labelling with complete labels, by the excess risk of the plug-in rule.

    Parameters
    ----------
    model : GaussianClasses or fitted MARGaussianMixture
        The true classes.
    mechanism : Mechanism or None, default=None
        The missing-label mechanism; by default the fitted one.
    rate : float or None, default=None
        A share of labels missing completely at random, instead of a mechanism: "modelled" and "ignored" are then left
        out. By default "mcar" has the mechanism's share.
    rtol : float, default=1e-3
        Relative error to reach, as in `bayes_error`.
    random_state : int, default=0
        Seed of the random points, as in `bayes_error`.

    Returns
    -------
    Efficiencies
        `rate`, `coefficients` and `efficiencies`; prints as a table.

    Raises
    ------
    ValueError
        If both a mechanism and a rate are given, or neither is and the model has no mechanism.

    See Also
    --------
    excess_risk : One of the coefficients.
    label_budget : The same comparison in numbers of labels.

    Examples
    --------
    About 30 % of the labels are missing, mostly of hard rows. A row is worth nearly as much as a completely labelled
    one if the mechanism is modelled, and 0.64 of one if it is ignored:

    >>> from marmix import Mechanism
    >>> from marmix.theory import GaussianClasses, relative_efficiency
    >>> classes = GaussianClasses([0.5, 0.5], [[-1.0], [1.0]], [[1.0]], covariance_type="tied")
    >>> result = relative_efficiency(classes, Mechanism("entropy", (-2.0, 3.0)))
    >>> for labels, efficiency in result.efficiencies.items():
    ...     print(f"{labels:10} {efficiency.value:.2f}")
    complete   1.00
    mcar       0.73
    modelled   0.99
    ignored    0.64
    unlabelled 0.10
    """
    if mechanism is not None and rate is not None:
        raise ValueError("give mechanism or rate, not both: use mechanism_at_rate for a mechanism with a given rate.")
    classes = described(model)
    entered = classes.entered(mechanism) if rate is None else None
    regimes = [name for name in REGIMES if entered is not None or name not in ("modelled", "ignored")]

    def numbers(at: Coefficients) -> list[Computed]:
        return [at.coefficient(name) for name in regimes]

    at, coefficients = _settle(classes, entered, rate, numbers, rtol, random_state)
    efficiencies = {name: at.efficiency(name) for name in regimes}
    return Efficiencies(at.computed(at.rate), dict(zip(regimes, coefficients, strict=True)), efficiencies)


def unlabelled_efficiency(model: Any, *, rtol: float = 1e-3, random_state: int = 0) -> Computed:
    """Return how many labelled rows an unlabelled row is worth, if all rows are unlabelled.

    It is the coefficient of the excess risk with every label, divided by that with none.

    Parameters
    ----------
    model : GaussianClasses or fitted MARGaussianMixture
        The classes.
    rtol : float, default=1e-3
        Relative error to reach, as in `bayes_error`.
    random_state : int, default=0
        Seed of the random points, as in `bayes_error`.

    Returns
    -------
    Computed
        `value` and `error`.

    See Also
    --------
    relative_efficiency : Other ways of labelling.

    Examples
    --------
    Ten unlabelled rows tell about as much about the boundary as one labelled row, for classes two standard deviations
    apart:

    >>> from marmix.theory import GaussianClasses, unlabelled_efficiency
    >>> classes = GaussianClasses([0.5, 0.5], [[-1.0], [1.0]], [[1.0]], covariance_type="tied")
    >>> round(unlabelled_efficiency(classes).value, 4)
    0.1008
    """
    return _settle(described(model), None, None, lambda at: [at.efficiency("unlabelled")], rtol, random_state)[1][0]


@dataclass(frozen=True)
class LabelBudget:
    """The value of modelling the mechanism in labels, as returned by `label_budget`; print it for a sentence.

    Attributes
    ----------
    n : int
        Number of rows.
    rate : Computed
        The share of unlabelled rows.
    modelled, ignored, complete : Computed
        Coefficients of the excess risk, see `excess_risk`.
    share : Computed
        The share s of the unlabelled rows, drawn at random, that must be labelled for an analysis that ignores the
        mechanism to match one that models it; 1 if even that is not enough.
    labels : Computed
        The number of these labels, ``s * rate * n``.
    rows : Computed
        The number of further labelled rows needed: 0 unless s is 1.

    See Also
    --------
    label_budget : Compute it.

    Examples
    --------
    >>> from marmix import Mechanism
    >>> from marmix.theory import GaussianClasses, label_budget
    >>> classes = GaussianClasses([0.5, 0.5], [[-1.0], [1.0]], [[1.0]], covariance_type="tied")
    >>> budget = label_budget(classes, Mechanism("entropy", (-2.0, 3.0)), n=1000)
    >>> print(f"excess risk {budget.modelled.value:.3f} if modelled, {budget.ignored.value:.3f} if ignored")
    excess risk 0.487 if modelled, 0.759 if ignored
    """

    n: int
    rate: Computed
    modelled: Computed
    ignored: Computed
    complete: Computed
    share: Computed
    labels: Computed
    rows: Computed

    @property
    def sentence(self) -> str:
        """The result in plain English."""
        labels, rows = round(self.labels.value), round(self.rows.value)
        start = f"Of {self.n} rows, {round(self.rate.value * self.n)} have no label ({100 * self.rate.value:.1f} %). "
        if rows > 0:
            return (
                f"{start}Modelling why is worth more than all {labels} missing labels: ignoring it, one would need every label "
                f"and {rows} further labelled rows."
            )
        if labels == 0:
            return f"{start}Modelling why is worth less than one label."
        return (
            f"{start}Modelling why is worth {labels} labels: ignoring it, one would have to label "
            f"{100 * self.share.value:.1f} % of these rows to do as well."
        )

    def __str__(self) -> str:
        return self.sentence


def label_budget(
    model: Any, mechanism: Mechanism | None = None, *, n: int, rtol: float = 1e-3, random_state: int = 0
) -> LabelBudget:
    r"""Return how many further labels would be worth as much as modelling the mechanism.

    If a share s of the unlabelled rows, drawn at random, is labelled, q becomes (1 - s) q, and labels are still missing
    at random. The result is the s at which the analysis that ignores the mechanism has the excess risk of the one that
    models it. The latter can have a smaller risk than with every label, as missing labels show where the boundary is;
    then further labelled rows are counted, in proportion to the coefficients.

    Parameters
    ----------
    model : GaussianClasses or fitted MARGaussianMixture
        The classes.
    mechanism : Mechanism or None, default=None
        The missing-label mechanism; by default the fitted one.
    n : int
        Number of rows, labelled or not.
    rtol : float, default=1e-3
        Relative error to reach, as in `bayes_error`.
    random_state : int, default=0
        Seed of the random points, as in `bayes_error`.

    Returns
    -------
    LabelBudget
        `share`, `labels`, `rows` and the coefficients; prints as a sentence.

    Raises
    ------
    ValueError
        If n is less than 1, or there is no mechanism.

    See Also
    --------
    relative_efficiency : The coefficients behind it, in a table.
    marmix.MARGaussianMixture : Its fits can be passed in place of `GaussianClasses`.

    Examples
    --------
    >>> from marmix import Mechanism
    >>> from marmix.theory import GaussianClasses, label_budget
    >>> classes = GaussianClasses([0.5, 0.5], [[-1.0], [1.0]], [[1.0]], covariance_type="tied")
    >>> budget = label_budget(classes, Mechanism("entropy", (-2.0, 3.0)), n=1000)
    >>> round(budget.share.value, 3), round(budget.labels.value)
    (0.985, 297)
    >>> print(budget.sentence.replace(". ", ".\n"))
    Of 1000 rows, 301 have no label (30.1 %).
    Modelling why is worth 297 labels: ignoring it, one would have to label 98.5 % of these rows to do as well.
    """
    if not n >= 1:
        raise ValueError(f"n={n!r} must be a number of rows, at least 1.")
    classes = described(model)

    def numbers(at: Coefficients) -> list[Computed]:
        return [at.coefficient(name) for name in ("modelled", "ignored", "complete")]

    at, coefficients = _settle(classes, classes.entered(mechanism), None, numbers, rtol, random_state)
    at.require_boundary()

    def fraction(share: Array) -> float:
        """The fraction of missing labels that makes up for ignoring the mechanism, between 0 and 1."""
        goal = at.of("modelled", share)

        def above(part: float) -> float:
            return at.relabelled(part, share) - goal

        if above(0.0) <= 0.0:
            return 0.0
        return 1.0 if above(1.0) >= 0.0 else float(brentq(above, 0.0, 1.0, xtol=1e-10))

    modelled, ignored, complete = coefficients
    return LabelBudget(
        int(n),
        at.computed(at.rate),
        modelled,
        ignored,
        complete,
        share=at.computed(fraction),
        labels=at.computed(lambda share: n * at.rate(share) * fraction(share)),
        rows=at.computed(lambda share: n * max(at.of("complete", share) / at.of("modelled", share) - 1.0, 0.0)),
    )


def _settle(
    classes: Description,
    mechanism: Mechanism | None,
    rate: float | None,
    numbers: Callable[[Coefficients], Sequence[Computed]],
    rtol: float,
    random_state: int,
) -> tuple[Coefficients, list[Computed]]:
    """The coefficients and numbers at the first level with a relative error of at most rtol, or at the finest level."""
    _check_rtol(rtol)
    if rate is not None and not 0.0 <= rate <= 1.0:
        raise ValueError(f"rate={rate!r} must lie between 0 and 1.")
    for level in count():
        at = Coefficients(Integrals(classes, level, random_state), mechanism, rate)
        results = list(numbers(at))
        if at.integrals.finest or not any(number.error > rtol * abs(number.value) for number in results):
            return at, results
    raise AssertionError("there is always a finest level")


def _raised(mechanism: Mechanism, by: float) -> Mechanism:
    return replace(mechanism, alpha=(mechanism.alpha[0] + by, *mechanism.alpha[1:]))


def _check_rtol(rtol: float) -> None:
    if not rtol > 0.0:
        raise ValueError(f"rtol={rtol!r} must be a positive number.")
