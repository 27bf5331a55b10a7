"""How many labels modelling the mechanism is worth."""

from dataclasses import dataclass
from typing import Any

from scipy.optimize import brentq

from marmix.arrays import Array
from marmix.mechanism import Mechanism
from marmix.theory.description import described
from marmix.theory.efficiency import coefficient_of, rate_of, settle
from marmix.theory.integrals import Coefficients
from marmix.theory.rules import Computed, computed


@dataclass(frozen=True)
class LabelBudget:
    """What modelling the mechanism is worth, in labels; print it for a sentence.

    Parameters
    ----------
    n : int
        Rows.
    rate : Computed
        The share of them without label.
    modelled, ignored, complete : Computed
        Coefficients of the excess risk, see `excess_risk`.
    share : Computed
        The share s of the unlabelled rows, taken at random, that must be labelled for an analysis that ignores the mechanism to
        do as well as one that models it; 1 if even that is not enough.
    labels : Computed
        How many labels these are, ``s rate n``.
    rows : Computed
        How many rows, all labelled, are needed beside them: 0 unless s is 1.
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
        """The answer in plain English."""
        labels, rows = round(self.labels.value), round(self.rows.value)
        begin = f"Of {self.n} rows, {round(self.rate.value * self.n)} have no label ({100 * self.rate.value:.1f} %). "
        if rows > 0:
            return (
                f"{begin}Modelling why is worth more than all {labels} missing labels: ignoring it, one would need every label "
                f"and {rows} further labelled rows."
            )
        if labels == 0:
            return f"{begin}Modelling why is worth less than one label."
        return (
            f"{begin}Modelling why is worth {labels} labels: ignoring it, one would have to label "
            f"{100 * self.share.value:.1f} % of these rows to do as well."
        )

    def __str__(self) -> str:
        return self.sentence


def label_budget(
    model: Any, mechanism: Mechanism | None = None, *, n: int, rtol: float = 1e-3, random_state: int = 0
) -> LabelBudget:
    """How many more labels would buy what modelling the mechanism gives.

    A share s of the unlabelled rows, taken at random, gets its label: q becomes (1 - s) q, and labels are still missing at
    random. The answer is the s at which the analysis that ignores the mechanism has the excess risk of the one that
    models it. That can have less than with every label, because which labels are missing tells where the boundary is; then
    further rows with labels are counted, in proportion to the coefficients.

    Parameters
    ----------
    model : GaussianClasses or fitted MARGaussianMixture
    mechanism : Mechanism or None, default=None
        By default the one that was fitted.
    n : int
        Rows.
    rtol, random_state
        As in `bayes_error`.

    Returns
    -------
    LabelBudget

    Examples
    --------
    >>> from marmix import Mechanism
    >>> from marmix.theory import GaussianClasses, label_budget
    >>> classes = GaussianClasses([0.5, 0.5], [[-1.0], [1.0]], [[1.0]], covariance_type="tied")
    >>> budget = label_budget(classes, Mechanism("entropy", (-2.0, 3.0)), n=1000)
    >>> round(budget.share.value, 3), round(budget.labels.value)
    (0.985, 297)
    """
    if not n >= 1:
        raise ValueError(f"n={n!r} must be a number of rows, at least 1.")
    classes = described(model)
    have, found = settle(
        classes,
        classes.known(mechanism),
        None,
        lambda now: [coefficient_of(now, name) for name in ("modelled", "ignored", "complete")],
        rtol,
        random_state,
    )
    if not have.integrals.bend.any():
        raise ValueError("The same class is the most probable one everywhere: there is no boundary to estimate.")
    random = have.integrals.random
    modelled, ignored, complete = found
    return LabelBudget(
        int(n),
        rate_of(have),
        modelled,
        ignored,
        complete,
        share=computed(lambda share: _fraction(have, share), random),
        labels=computed(lambda share: n * have.rate(share) * _fraction(have, share), random),
        rows=computed(
            lambda share: n * max(have.of("complete", share) / have.of("modelled", share) - 1.0, 0.0), random
        ),
    )


def _fraction(have: Coefficients, share: Array) -> float:
    """The fraction of missing labels that makes up for ignoring the mechanism, between 0 and 1."""
    goal = have.of("modelled", share)

    def above(fraction: float) -> float:
        return have.relabelled(fraction, share) - goal

    if above(0.0) <= 0.0:
        return 0.0
    return 1.0 if above(1.0) >= 0.0 else float(brentq(above, 0.0, 1.0, xtol=1e-10))
