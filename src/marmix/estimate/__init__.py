r"""Shares, means, differences and regressions of partially labelled data, with intervals.

Imputed labels that are treated as data give intervals that are far too short, and answers from labelled rows alone are biased.
These functions use all rows, and say what they assume. Their `source` decides:

- the result of an **audit** (`marmix.Audit`): its rows were drawn by chance, so the answer holds whatever hid the labels.
  Estimates are difference estimators: posteriors of the unlabelled rows, corrected by what the audited ones show, each weighted
  by the inverse of the known probability with which it was drawn. A share takes the audited rates of each stratum for posteriors.
- a fitted **classifier** of marmix: labels must be missing only because of the features. Its posteriors are predicted for rows
  that were held out (a classifier other than `MARClassifierCV` is fitted five more times), and mixed with those of logistic
  regressions on the features and the log-odds of the posteriors, with and without products, as held-out labels prefer: tau. The
  probability q of a missing label is predicted by such a mixture too. Estimates, not their intervals, are doubly robust,
  that is, right if tau or q is; a mean is

  .. math::

      \frac{1}{n} \sum_i \left[ f^{\tau}_i + \frac{1 - m_i}{1 - q_i} \, (f(y_i) - f^{\tau}_i) \right], \qquad
      f^{\tau}_i = \sum_k \tau_{ik} f(k).

  Weights are trimmed as for scores (`marmix.evaluation`), and a note says so.
- **class probabilities** (n, K) as an array, from elsewhere: they must not have seen y. Columns are the sorted labels in y.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from marmix.audit import AuditResult
from marmix.audit.intervals import Sample, total
from marmix.core.arrays import Array
from marmix.estimate.designs import NOTHING, Design, by_stratum, column, design_of
from marmix.estimate.equations import FAMILIES, means, regress
from marmix.estimate.results import Answer, answer
from marmix.evaluation.scores import QUANTILE
from marmix.tables import Preparation

__all__ = ["Answer", "difference", "mean", "regression", "share"]


def share(source: Any, X: Any, y: Any, of: Any = None, *, finite: bool = False) -> Answer:
    """Estimate the share of a class among all rows.

    Parameters
    ----------
    source : classifier, AuditResult or array of shape (n, K)
        Where what is known of the rows comes from; see `marmix.estimate`.
    X : table or array of shape (n, d)
        Features, as the classifier takes them.
    y : array-like of shape (n,) or (n, K)
        Labels, missing where -1, NaN, None or pandas.NA; or votes. For an audit, the labels before it.
    of : object or list, default=None
        The class, or several that count together; by default the second of two.
    finite : bool, default=False
        With an audit: whether the share in question is that of these rows, not of the population that they are from.

    Returns
    -------
    Answer
        With an audit, the estimate is that of the stratified sample, and the interval the melded one of its strata, which is
        exact with one stratum. Rows that nobody could tell count as of the class for the upper limit, as of others for the lower.

    See Also
    --------
    mean, difference, regression : Other answers.
    marmix.diagnose : How good a test is.

    Examples
    --------
    Of 830 mammographic masses, 473 have no label because the radiologist was undecided. The biopsies say that 49 % are malignant.

    >>> from marmix import Audit, MARLogisticRegression, estimate
    >>> from marmix.datasets import load_mammography
    >>> masses = load_mammography()
    >>> X, y = masses.data, masses.target
    >>> clf = MARLogisticRegression().fit(X, y)
    >>> print("{:.0%} to {:.0%}".format(*estimate.share(clf, X, y).interval))
    59% to 73%
    >>> audit = Audit(clf, X, y, n=50)
    >>> result = audit.record(masses.target_true[audit.rows])    # 50 biopsies
    >>> print("{:.0%} to {:.0%}".format(*estimate.share(result, X, y).interval))
    43% to 59%
    """
    design, audit = design_of(source, X, y), isinstance(source, AuditResult)
    if audit:
        design = by_stratum(design)
    inside = _classes(design, of)
    values, g = means(design, np.broadcast_to(inside, design.tau.shape), np.ones((len(design.tau), 1)))
    result = answer(design, "Share", [_named(design, inside)], values, g, ["logit"], finite)
    return _melded(result, source, inside, finite) if audit else result


def _melded(result: Answer, audit: AuditResult, inside: Array, finite: bool) -> Answer:
    """With the interval of the audit; for a population, with the variance of its sample besides."""
    drawn, n, value = audit.drawn, result.n, result.value
    counts = [
        drawn.strata >= 0,
        np.append(drawn.rows, drawn.untold),
        drawn.rows[drawn.labels @ inside > 0.5],
        drawn.untold,
    ]
    sample = Sample(*(np.bincount(drawn.strata[rows], minlength=drawn.strata.max() + 1) for rows in counts))
    low, high = (np.array(total(sample, drawn.sequence)[1:]) + (drawn.given @ inside).sum()) / n
    error = (
        0.0 if finite else QUANTILE * np.sqrt(value * (1.0 - value) / n)
    )  # of the rows as a sample of the population
    limits = max(value - np.hypot(value - low, error), 0.0), min(value + np.hypot(high - value, error), 1.0)
    notes = (f"{len(drawn.untold)} audited rows that nobody could tell count either way.",) * (len(drawn.untold) > 0)
    return replace(result, limits=np.array([limits]), assumption=NOTHING.format(len(drawn.rows)), notes=notes)


def mean(source: Any, X: Any, y: Any, value: Any, *, finite: bool = False) -> Answer:
    """Estimate the mean of a function of the label and the row.

    Parameters
    ----------
    source, X, y, finite
        As in `share`.
    value : callable, dict or array of shape (n, K)
        A function of a class and X that returns the value of each row, or one number, if that is the class; a number for each
        class; or the values themselves.

    Returns
    -------
    Answer

    Examples
    --------
    >>> from marmix import MARLogisticRegression, estimate
    >>> from marmix.datasets import load_mammography
    >>> masses = load_mammography()
    >>> X, y = masses.data, masses.target
    >>> clf = MARLogisticRegression().fit(X, y)
    >>> cost = estimate.mean(clf, X, y, {0: 100.0, 1: 20000.0})
    >>> years = estimate.mean(clf, X, y, lambda label, X: (label == 1) * (80.0 - X[:, 0]))    # lost, if there were no cure
    """
    design = design_of(source, X, y)
    f = _values(design, value, X)
    values, g = means(design, f, np.ones((len(f), 1)))
    return answer(design, "Mean", ["mean"], values, g, [""], finite)


def difference(
    source: Any, X: Any, y: Any, groups: Any, of: Any = None, *, value: Any = None, finite: bool = False
) -> Answer:
    """Estimate how the share of a class, or a mean, differs between groups of rows.

    Parameters
    ----------
    source, X, y, of, finite
        As in `share`.
    groups : str, int or array-like of shape (n,)
        The group of each row, or the column of X that says it, by name or number. With more than two groups, each is compared
        with the first.
    value : callable, dict or array
        As in `mean`; in place of `of`.

    Returns
    -------
    Answer
        The difference from the first group in sorted order; `facts` have the share or mean in each.

    Examples
    --------
    >>> from marmix import MARLogisticRegression, estimate
    >>> from marmix.datasets import load_mammography
    >>> masses = load_mammography()
    >>> X, y = masses.data, masses.target
    >>> clf = MARLogisticRegression().fit(X, y)
    >>> old = ["60 or older" if age >= 60 else "below 60" for age in X[:, 0]]
    >>> answer = estimate.difference(clf, X, y, old)
    >>> answer.names
    ['below 60 - 60 or older']
    """
    if of is not None and value is not None:
        raise ValueError("of= asks for a share and value= for a mean: give one of them.")
    design = design_of(source, X, y)
    inside = None if value is not None else _classes(design, of)
    f = _values(design, value, X) if inside is None else np.broadcast_to(inside, design.tau.shape)
    cells = column(X, groups, len(f), "groups")
    distinct, place = np.unique(cells, return_inverse=True)
    names = [_text(name) for name in distinct.tolist()]
    if len(names) < 2:
        raise ValueError("groups has a single group: there is nothing to compare.")
    values, g = means(design, f, np.eye(len(names))[place])
    scale = "" if inside is None else "logit"
    parts = answer(design, "", [], values, g, [scale] * len(names), finite)
    what = "mean" if inside is None else f"share of {_named(design, inside)}"
    facts = tuple(
        (f"{what}, {name}", f"{one:.4g} ({low:.4g} to {high:.4g})")
        for name, one, (low, high) in zip(names, parts.values, parts.limits, strict=True)
    )
    labels = [f"{name} - {names[0]}" for name in names[1:]]
    contrasts = g[:, :, 1:] - g[:, :, :1]
    return answer(
        design,
        "Difference",
        labels,
        values[1:] - values[0],
        contrasts,
        [""] * len(labels),
        finite,
        facts=facts,
        tested=True,
    )


def regression(
    source: Any, X: Any, y: Any, covariates: Any, family: str = "logistic", *, of: Any = None, response: Any = None
) -> Answer:
    r"""Regress the label on covariates, or something else on the label and covariates, with robust standard errors.

    The coefficients solve :math:`\sum_{ik} r_{ik} z_{ik} (y_{ik} - \mu(z_{ik}' \beta)) = 0` with r_ik the weight of class k in
    row i that the design gives. With all labels they are those of an ordinary fit, and the standard errors the sandwich's (HC0).

    Parameters
    ----------
    source, X, y
        As in `share`.
    covariates : name, list of names, table, dict of columns or array of shape (n, p)
        Columns of X by name (or by number), or columns of their own; an intercept is added. Columns of text become one
        indicator for each level but the first. An empty list: the label alone.
    family : {"logistic", "linear", "poisson"}, default="logistic"
        Logit, identity or log of the mean. "poisson" with the label as response gives risk ratios.
    of : object or list, default=None
        The class that counts as one, all others as zero. By default the second of two; if the label is a covariate, each class
        but the first has an indicator.
    response : str, int, array-like of shape (n,) or None, default=None
        The response, or the column of X that has it; the label is then a covariate. By default the label is the response.

    Returns
    -------
    Answer
        With a coefficient for the intercept and each covariate.

    Examples
    --------
    >>> from marmix import MARLogisticRegression, estimate
    >>> from marmix.datasets import load_mammography
    >>> masses = load_mammography()
    >>> X, y = masses.data, masses.target
    >>> clf = MARLogisticRegression().fit(X, y)
    >>> answer = estimate.regression(clf, X, y, [0])    # on age
    >>> answer.names, bool(answer.interval[1, 0] > 0)
    (['intercept', 'x0'], True)
    """
    if family not in FAMILIES:
        raise ValueError(f"family={family!r} is not one of {', '.join(map(repr, FAMILIES))}.")
    design, kind = design_of(source, X, y), FAMILIES[family]
    n, K = design.tau.shape
    columns, names = _covariates(covariates, X, n)
    Z, names = np.column_stack([np.ones(n), columns])[:, None, :], ["intercept", *names]
    if response is None:
        inside = _classes(design, of)
        outcome, title = inside[None, :], f"regression of {_named(design, inside)}"
    else:
        chosen = np.eye(K)[1:] if of is None else _classes(design, of)[None]
        names += [f"label={_named(design, inside)}" for inside in chosen]
        Z = np.concatenate(
            [np.broadcast_to(Z, (n, K, Z.shape[2])), np.broadcast_to(chosen.T, (n, K, len(chosen)))], axis=2
        )
        given = column(X, response, n, "response")
        if given.dtype.kind not in "biuf" or not ((given >= kind.least) & (given <= kind.most)).all():
            raise ValueError(
                f"response must have {n} numbers from {kind.least:g} to {kind.most:g}: transform it, or choose another family."
            )
        given = given.astype(float)
        outcome, title = given[:, None], f"regression of {response if isinstance(response, str) else 'the response'}"
    values, g = regress(design, kind, Z, outcome)
    return answer(design, f"{family.title()} {title}", names, values, g, [""] * len(names), exp=kind.exp, tested=True)


def _classes(design: Design, of: Any) -> Array:
    """One for each class that counts, zero for the others, (K,)."""
    names = design.classes.tolist()
    if of is None:
        if len(names) != 2:
            raise ValueError(f"of= must name one of the classes {names}, or several.")
        of = names[1]
    several = of if isinstance(of, list | tuple | set | np.ndarray) else [of]
    if not len(several):
        raise ValueError(f"of= is empty: name one of the classes {names}, or several.")
    if unknown := [name for name in several if name not in names]:
        raise ValueError(f"{unknown[0]!r} is not one of the classes {names}.")
    return np.array([float(name in several) for name in names])


def _named(design: Design, inside: Array) -> str:
    return " or ".join(_text(name) for name, one in zip(design.classes.tolist(), inside, strict=True) if one)


def _text(name: Any) -> str:
    return f"{name:g}" if isinstance(name, float) else str(name)


def _values(design: Design, value: Any, X: Any) -> Array:
    """The values (n, K) of a function of the class and the row."""
    shape, names = design.tau.shape, design.classes.tolist()
    if isinstance(value, dict):
        if set(value) != set(names):
            raise ValueError(f"value must have a number for each of the classes {names}.")
        value = np.array([value[name] for name in names], dtype=float)[None, :]
    elif callable(value):
        value = np.column_stack([np.broadcast_to(np.asarray(value(name, X), dtype=float), shape[0]) for name in names])
    f = np.asarray(value, dtype=float)
    if f.ndim != 2 or not np.isfinite(f).all():
        raise ValueError(f"value must be finite, with a column for each of the classes {names}.")
    return np.broadcast_to(f, shape)


def _covariates(covariates: Any, X: Any, n: int) -> tuple[Array, list[str]]:
    """Columns (n, p) and their names."""
    if isinstance(covariates, str | int):
        covariates = [covariates]
    if isinstance(covariates, list | tuple) and all(isinstance(one, str | int) for one in covariates):
        named = {one if isinstance(one, str) else _heading(X, one): one for one in covariates}
    elif isinstance(covariates, dict) or hasattr(covariates, "columns"):
        named = {str(name): covariates[name] for name in _headings(covariates)}
    else:
        own = np.asarray(covariates, dtype=float)
        own = own[:, None] if own.ndim == 1 else own
        names = [covariates.name] if getattr(covariates, "name", None) else [f"x{i}" for i in range(own.shape[1])]
        named = dict(zip(names, own.T, strict=True))
    by_name = {name: column(X, values, n, f"the covariate {name}") for name, values in named.items()}
    if not by_name:
        return np.empty((n, 0)), []
    if all(values.dtype.kind in "biuf" for values in by_name.values()):
        return np.column_stack([*by_name.values()]).astype(float), [*by_name]
    preparation = Preparation(impute="drop").fit(by_name)
    return preparation.transform(by_name), preparation.get_feature_names_out().tolist()


def _heading(X: Any, i: int) -> str:
    return str(_headings(X)[i]) if hasattr(X, "columns") else f"x{i}"


def _headings(X: Any) -> Any:
    """Names of the columns of a table, those of pyarrow included, or the keys of a dict."""
    return getattr(X, "column_names", None) or getattr(X, "columns", X)
