"""How well one could classify, what missing labels cost, and what modelling the mechanism gives back.

The plug-in rule assigns a row to the class that is most probable under the estimated parameters. By maximum likelihood from n
rows its risk R exceeds the Bayes risk R* by

    E R - R* = c / (2 n) + o(1 / n),      c = tr(D V),

D the curvature of the risk in the parameters (see `boundary`) and V the inverse information of a row. How labels are
missing enters through V alone, so ratios of the coefficients c are ratios of numbers of rows: an analysis with twice the
coefficient needs twice the rows.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import numpy as np
from scipy.optimize import brentq

from marmix.arrays import Array
from marmix.fitting import Sample
from marmix.inference.tables import Table
from marmix.mechanism import Mechanism
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
    """The error rate of the Bayes rule: how well one could classify if the parameters were known.

    Parameters
    ----------
    model : GaussianClasses or fitted MARGaussianMixture
    rtol : float, default=1e-3
        Relative error to be reached, as far as a million nodes suffice. With one or two features it is mostly far smaller; with
        many, a larger rtol saves time.
    random_state : int, default=0
        For the random points that integrate over more than two features. The same number gives the same answer.

    Returns
    -------
    Computed
        `value` and `error`.
    """
    return settle(described(model), None, None, lambda have: [_error(have)], rtol, random_state)[1][0]


def missing_rate(
    model: Any, mechanism: Mechanism | None = None, *, rtol: float = 1e-3, random_state: int = 0
) -> Computed:
    """The share of labels that a mechanism loses; parameters as in `excess_risk`."""
    classes = described(model)
    known = classes.known(mechanism)
    return settle(classes, known, None, lambda have: [rate_of(have)], rtol, random_state)[1][0]


def mechanism_at_rate(
    model: Any, mechanism: Mechanism, rate: float, *, rtol: float = 1e-3, random_state: int = 0
) -> Mechanism:
    """The mechanism with another intercept alpha_0, such that it loses this share of the labels.

    Parameters
    ----------
    model : GaussianClasses or fitted MARGaussianMixture
    mechanism : Mechanism
    rate : float
        Between the mechanism's `share` and one.
    rtol, random_state
        As in `bayes_error`.

    Examples
    --------
    >>> from marmix import Mechanism
    >>> from marmix.theory import GaussianClasses, mechanism_at_rate
    >>> classes = GaussianClasses([0.5, 0.5], [[-1.0], [1.0]], [[1.0]], covariance_type="tied")
    >>> round(mechanism_at_rate(classes, Mechanism("entropy", (0.0, 3.0)), 0.3).alpha[0], 4)
    -2.0058
    """
    classes = described(model)
    known = classes.known(mechanism)
    if not known.share < rate < 1.0:
        raise ValueError(f"rate={rate!r} must lie between the mechanism's share {known.share:g} and 1.")
    _check_rtol(rtol)
    for level in count():
        integrals = Integrals(classes, level, random_state)
        samples = integrals.samples(known)

        def missing(by: float, integrals: Integrals = integrals, samples: list[Sample] = samples) -> Array:
            return integrals.missing(_raised(known, by), samples)

        reach = 1.0
        while missing(-reach).mean() > rate or missing(reach).mean() < rate:
            reach *= 2.0
        by = float(brentq(lambda shift, missing=missing: missing(shift).mean() - rate, -reach, reach, xtol=1e-12))
        replicates = missing(by)
        found = computed(lambda share, have=replicates: float(mean_over(share, have)), integrals.random)  # type: ignore[misc]
        if integrals.finest or found.error <= rtol * rate:
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
    """The coefficient ``lim 2 n (E R - R*)`` of the plug-in rule by maximum likelihood from n rows.

    Parameters
    ----------
    model : GaussianClasses or fitted MARGaussianMixture
        The classes as they are; their covariance structure is also what the analysis assumes.
    mechanism : Mechanism or None, default=None
        Why labels are missing. alpha is estimated along, and the shape and the share where `free_shape` and `free_share`
        say so. By default the one that was fitted.
    labels : {"complete", "mcar", "modelled", "ignored", "unlabelled"} or None, default=None
        None is "mcar" where a rate is given, "modelled" where a mechanism is given or fitted, else "complete". Every label is
        known; a share is missing completely at random; labels are missing by the mechanism, which is modelled; or ignored,
        which is valid but wasteful; no label at all (classes are then known up to their names only).
    rate : float or None, default=None
        The share that is missing if labels="mcar". By default that of the mechanism.
    rtol, random_state
        As in `bayes_error`.

    Returns
    -------
    Computed
        `value` and `error`. The value is infinite where such labels leave the rule undetermined.

    Examples
    --------
    >>> from marmix.theory import GaussianClasses, excess_risk
    >>> classes = GaussianClasses([0.5, 0.5], [[-1.0], [1.0]], [[1.0]], covariance_type="tied")
    >>> round(excess_risk(classes).value, 4), round(excess_risk(classes, labels="mcar", rate=0.5).value, 4)
    (0.4839, 0.8793)
    """
    if labels is None:
        given = mechanism is not None or described(model).mechanism is not None
        labels = "mcar" if rate is not None else "modelled" if given else "complete"
    if labels not in REGIMES:
        raise ValueError(f"labels={labels!r} is not one of {', '.join(map(repr, REGIMES))}.")
    if rate is not None and labels != "mcar":
        raise ValueError(
            f"rate={rate!r} is for labels='mcar'; `mechanism_at_rate` gives a mechanism that loses a given share of labels."
        )
    classes = described(model)
    known = None
    if labels in ("modelled", "ignored") or (labels == "mcar" and rate is None):
        known = classes.known(mechanism)
    return settle(classes, known, rate, lambda have: [coefficient_of(have, labels)], rtol, random_state)[1][0]


@dataclass(frozen=True)
class Efficiencies:
    """How labelling regimes compare; print it for a table.

    Parameters
    ----------
    rate : Computed
        The share of labels that are missing in "mcar", "modelled" and "ignored".
    coefficients : dict of Computed
        ``lim 2 n (E R - R*)`` by regime, see `excess_risk`.
    efficiencies : dict of Computed
        The coefficient of "complete" over that of the regime: how many completely labelled rows a row is worth.
    """

    rate: Computed
    coefficients: dict[str, Computed]
    efficiencies: dict[str, Computed]

    def table(self) -> Table:
        """The numbers as a table."""
        both = [(self.coefficients[name], self.efficiencies[name]) for name in self.coefficients]
        finite = [number for pair in both for number in pair if np.isfinite(number.value) and number.value > 0.0]
        error = max((number.error / number.value for number in finite), default=0.0)
        return Table(
            "Excess risk of the plug-in rule from n rows, 2 n (E R - R*)",
            ["coefficient", "efficiency"],
            [f"{name}: {_MEANING[name]}" for name in self.coefficients],
            [[coefficient.value, efficiency.value] for coefficient, efficiency in both],
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
    """Compare all labelling regimes with complete labels.

    Parameters
    ----------
    model, mechanism, rtol, random_state
        As in `excess_risk`.
    rate : float or None, default=None
        A share of labels that are missing completely at random, instead of a mechanism: "modelled" and "ignored" are then
        left out. By default as many are missing in "mcar" as the mechanism loses.

    Returns
    -------
    Efficiencies
    """
    if mechanism is not None and rate is not None:
        raise ValueError(
            "mechanism and rate: give one; `mechanism_at_rate` makes a mechanism lose a given share of labels."
        )
    classes = described(model)
    known = classes.known(mechanism) if rate is None else None
    regimes = [name for name in REGIMES if known is not None or name not in ("modelled", "ignored")]
    have, found = settle(
        classes, known, rate, lambda now: [coefficient_of(now, name) for name in regimes], rtol, random_state
    )
    return Efficiencies(
        rate_of(have),
        dict(zip(regimes, found, strict=True)),
        {name: _ratio(have, "complete", name) for name in regimes},
    )


def unlabelled_efficiency(model: Any, *, rtol: float = 1e-3, random_state: int = 0) -> Computed:
    """How many labelled rows an unlabelled row is worth, if all rows are without label; parameters as in `bayes_error`.

    The coefficient of the excess risk with every label over that with none.

    Examples
    --------
    >>> from marmix.theory import GaussianClasses, unlabelled_efficiency
    >>> classes = GaussianClasses([0.5, 0.5], [[-1.0], [1.0]], [[1.0]], covariance_type="tied")
    >>> round(unlabelled_efficiency(classes).value, 4)
    0.1008
    """

    def numbers(have: Coefficients) -> list[Computed]:
        return [_ratio(have, "complete", "unlabelled")]

    return settle(described(model), None, None, numbers, rtol, random_state)[1][0]


# What these functions, and `budget`, are made of.


def settle(
    classes: Description,
    mechanism: Mechanism | None,
    rate: float | None,
    numbers: Callable[[Coefficients], Sequence[Computed]],
    rtol: float,
    random_state: int,
) -> tuple[Coefficients, list[Computed]]:
    """The integrals at the first level that gives all numbers to a relative error of rtol, or else at the finest."""
    _check_rtol(rtol)
    if rate is not None and not 0.0 <= rate <= 1.0:
        raise ValueError(f"rate={rate!r} must lie between 0 and 1.")
    for level in count():
        have = Coefficients(Integrals(classes, level, random_state), mechanism, rate)
        found = list(numbers(have))
        if have.integrals.finest or not any(number.error > rtol * abs(number.value) for number in found):
            return have, found
    raise AssertionError("there is always a finest level")


def coefficient_of(have: Coefficients, regime: str) -> Computed:
    """The coefficient of a regime, with its error."""
    return computed(lambda share: have.of(regime, share), have.integrals.random)


def rate_of(have: Coefficients) -> Computed:
    """The share of labels that are missing, with its error."""
    return computed(have.rate, have.integrals.random)


def _error(have: Coefficients) -> Computed:
    return computed(lambda share: float(mean_over(share, have.integrals.error)), have.integrals.random)


def _ratio(have: Coefficients, regime: str, other: str) -> Computed:
    if not have.integrals.bend.any():
        raise ValueError(
            "The same class is the most probable one everywhere, so there is no boundary to estimate, and nothing to compare."
        )
    return computed(lambda share: have.of(regime, share) / have.of(other, share), have.integrals.random)


def _raised(mechanism: Mechanism, by: float) -> Mechanism:
    return replace(mechanism, alpha=(mechanism.alpha[0] + by, *mechanism.alpha[1:]))


def _check_rtol(rtol: float) -> None:
    if not rtol > 0.0:
        raise ValueError(f"rtol={rtol!r} must be a positive number.")
