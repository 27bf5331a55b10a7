r"""Designs: what rows say about their classes, and how uncertain that is.

With posteriors :math:`\tau`, labels y, and w the inverse probability of a label (zero where there is none), the *pseudo-labels*

.. math::

    r_{ik} = \tau_{ik} + w_i (y_{ik} - \tau_{ik})

stand for the labels of all rows in an estimating equation :math:`\sum_{ik} r_{ik} \psi_{ik}(\theta) = 0`. If row i moves the
solution by :math:`g_{ik}` where its class is k, the covariance of the solution follows from the design:

- **doubly robust**: :math:`w = 1 / (1 - q)` with cross-fitted :math:`\tau` and q, calibrated such that labelled rows resemble
  all rows where :math:`\tau` may be wrong. With p degrees of freedom used for that, and :math:`n_e` effective labels, the
  covariance is

  .. math::

      \frac{n_e}{n_e - p} \sum_i \Big( \sum_k r_{ik} g_{ik} \Big)^2 + \sum_c \Big( \sum_{ik} (1 - w_i)\, d_{cik}\, g_{ik} \Big)^2,

  with :math:`d_c` the directions in which :math:`\tau` may be off (`marmix.evaluation.pseudo_labels.UncertainPosterior`).
- **sampled in strata**, as by an audit: :math:`w = N_h / n_h` for the n_h labelled of N_h rows of stratum h, and 1 for rows
  outside the strata. The covariance is that with all labels, :math:`\sum_{ik} \tau_{ik} g_{ik}^2`, where labels take the place of
  :math:`\tau`, and that of the sample, :math:`\sum_h N_h^2 (1 - n_h / N_h) s_h^2 / n_h`, with :math:`s_h^2` the variance of
  :math:`\sum_k (y_{ik} - \tau_{ik}) g_{ik}` in the stratum. That no error turned up in a small sample does not show that there is
  none: as in the interval of Agresti and Coull, `PRIOR_ROWS` rows with a class drawn by lot are added to the sample, in
  proportion, for the variance and the centre of the interval.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from sklearn.utils.validation import check_is_fitted

from marmix.audit import Audit, AuditResult
from marmix.core.arrays import Array, select_rows
from marmix.core.labels import choose_classes, found_labels, is_null, label_shares, most_voted
from marmix.evaluation.pseudo_labels import UncertainPosterior, checked_proba, inverse_weights
from marmix.evaluation.scorer import last_and_rows
from marmix.selection.average import OTHER_ROWS
from marmix.selection.held_out import whole_row_folds
from marmix.tables import Preparation

# After audits of 20 and 50 rows, intervals for means and coefficients covered 85 to 97 % with 0, 93 to 99 % with 2, and were only
# longer with 4, on simulated rows with other seeds than those of benchmarks/estimate.py.
PRIOR_ROWS = 2.0
NOTHING = "None about why labels are missing: {} rows without one were labelled, drawn by chance."
_FOLDS, _MORE_FOLDS = 5, 10  # of a classifier, of logistic regressions
_MOST_SQUARED = 12  # features up to which their products are features too


@dataclass(frozen=True)
class Design:
    """Labels and posteriors of all rows, and how the labels came about."""

    name: str
    assumption: str
    classes: NDArray[Any]
    labels: Array  # y (n, K), zero where there is none
    tau: Array  # (n, K)
    weight: Array  # (n,)
    errors: Array  # d (C, n, K)
    strata: NDArray[np.intp] | None = None  # (n,), -1 outside of all; None if the labels are no sample in strata
    inflation: float = 1.0  # of variances, for what estimated weights cost
    notes: tuple[str, ...] = ()

    @property
    def labelled(self) -> NDArray[np.bool_]:
        """Which rows have a label."""
        return np.asarray(self.labels.any(axis=1))

    @property
    def pseudo_labels(self) -> Array:
        """r (n, K)."""
        return np.asarray(self.tau + self.weight[:, None] * (self.labels - self.tau))

    @property
    def known(self) -> Array:
        """Labels, and posteriors where there is none."""
        return np.where(self.labelled[:, None], self.labels, self.tau)

    @property
    def df(self) -> float:
        """Degrees of freedom of the effective number of labelled rows."""
        if self.strata is None:
            df = self.weight.sum() ** 2 / (self.weight**2).sum() - 1.0
        else:
            df = np.sum(self.labelled & (self.strata >= 0)) - self.strata.max() - 1.0
        return float(max(df, 1.0))

    def binary(self, k: int) -> "Design":
        """The design for class k against all others."""

        def two(values: Array) -> Array:
            return np.stack([values.sum(axis=-1) - values[..., k], values[..., k]], axis=-1)

        return Design(
            **vars(self)
            | {name: two(getattr(self, name)) for name in ("labels", "tau", "errors")}
            | {"classes": np.arange(2)}
        )

    def covariance(self, g: Array, finite: bool = False) -> tuple[Array, Array, Array, Array]:
        """Covariance with the influences g (n, K, p), what it were with all labels, its degrees of freedom, and the shift.

        The shift is how far the centre of intervals is moved. Degrees of freedom are those of the t distribution. Without an
        audit they are such that the variance of the estimated variance is right, which few rows of large weight decide.

        `finite` for quantities of these rows alone, not of the population that they are from.
        """
        full = np.einsum("nk,nkp,nkq->pq", self.known, g, g)
        if self.strata is not None:
            sampled, shift = self._sampled(g, self.strata)
            return (0.0 if finite else full) + sampled, full, np.full(g.shape[2], self.df), shift
        if finite and not self.labelled.all():
            raise ValueError("finite=True needs an audit: without one, what is said of these rows rests on a model.")
        phi = np.einsum("nk,nkp->np", self.pseudo_labels, g)
        off = np.einsum("n,cnk,nkp->cp", 1.0 - self.weight, self.errors, g)
        second, fourth = (phi**2).sum(axis=0), (phi**4).sum(axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            df = np.fmax(2.0 * second**2 / (fourth - second**2 / len(phi)), 1.0)
        return (0.0 if finite else 1.0) * (self.inflation * phi.T @ phi + off.T @ off), full, df, np.zeros(g.shape[2])

    def _sampled(self, g: Array, strata: NDArray[np.intp]) -> tuple[Array, Array]:
        """Covariance due to the sample, and the shift."""
        K, p = g.shape[1:]
        covariance, shift = np.zeros((p, p)), np.zeros(p)
        total = np.sum(self.labelled & (strata >= 0))
        for h in range(strata.max() + 1):
            rows = np.flatnonzero(strata == h)
            seen = rows[self.labelled[rows]]
            N, n, a = len(rows), len(seen), PRIOR_ROWS * len(seen) / total
            lot = g[rows] - np.einsum("nk,nkp->np", self.tau[rows], g[rows])[:, None]
            found = np.einsum("nk,nkp->np", self.labels[seen] - self.tau[seen], g[seen])
            centre = (found.sum(axis=0) + a * lot.mean(axis=(0, 1))) / (n + a)
            second = (found.T @ found + a * np.einsum("nkp,nkq->pq", lot, lot) / (N * K)) / (n + a)
            covariance += N**2 * (1.0 - n / N) * (second - np.outer(centre, centre)) / (n + a)
            shift += N * (1.0 - n / N) * (centre - found.mean(axis=0))
        return covariance, shift


def design_of(source: Any, X: Any, y: Any, extra: Array | None = None) -> Design:
    """The design of a fitted classifier, of class probabilities (n, K), or of an audit; `extra` are features for q besides X."""
    if np.shape(X)[:1] != np.shape(y)[:1]:
        raise ValueError(
            f"X has {np.shape(X)[0]} rows and y {np.shape(y)[0]}: one label for each row is needed, or a gap."
        )
    if isinstance(source, AuditResult):
        return _of_audit(source, y)
    if isinstance(source, Audit):
        raise ValueError("source is an audit without answers: give what audit.record(labels) returns.")
    if isinstance(source, list) or hasattr(source, "__array__"):
        (classes, _), own, features = choose_classes([found_labels(y)]), None, X
        labels = label_shares(y, classes)
        tau = checked_proba(source, labels.shape, "source")
    else:
        if not hasattr(source, "predict_proba"):
            raise ValueError(
                "source must be a fitted classifier, the result of an audit, or class probabilities (n, K)."
            )
        check_is_fitted(source)
        classes = source.classes_
        labels = label_shares(y, classes)
        last, features = last_and_rows(source, X)
        tau, own = _held_out(last, features, y, labels)
    return doubly_robust(classes, labels, table(logits(tau)[:, :-1], features, extra), tau, own)


def doubly_robust(
    classes: NDArray[Any], labels: Array, features: Array, tau: Array | None = None, own: Array | None = None
) -> Design:
    """The design without an audit, from features that decide whether a label is missing.

    Posteriors `tau` of a model, if there is one, are mixed with those of logistic regressions; log-odds `own` of a missing label
    are one more feature of q.
    """
    labelled = np.asarray(labels.any(axis=1))
    if labelled.all():
        return all_labelled(classes, labels)
    if not labels.any(axis=0).all():
        raise ValueError("a class has no label in y: an estimate without an audit needs labelled rows of every class.")
    tau = _predicted(features, most_voted(labels), labelled, [] if tau is None else [tau])
    everywhere = np.ones(len(labels), dtype=bool)
    q = _predicted(table(features, logits(tau), own), (~labelled).astype(np.intp), everywhere)[:, 1]
    weight = np.zeros(len(labels))
    weight[labelled], trimmed = inverse_weights(q[labelled], len(labels))
    weight, inflation = _calibrated(weight, features, tau)
    posterior = UncertainPosterior.of(tau, labels, counts=q)
    errors = np.array([0.5 * (above - below) for above, below in posterior.pairs()])
    note = f"Overlap is poor: the weights of {trimmed} labelled rows were trimmed. For rows like them, only the posteriors speak."
    return Design(
        "doubly robust",
        "Labels are missing only because of the features, rows of every kind have some, and cross-fitted logistic regressions, "
        "or the source, estimate the posteriors or the probability of a missing label well.",
        classes,
        labels,
        posterior.central,
        weight,
        errors,
        inflation=inflation,
        notes=(note,) * (trimmed > 0),
    )


def all_labelled(classes: NDArray[Any], labels: Array) -> Design:
    """The design of rows that all have a label."""
    no_errors = labels[None][:0]
    return Design("all labels", "No label is missing.", classes, labels, labels, np.ones(len(labels)), no_errors)


def stratified(classes: NDArray[Any], labels: Array, cells: NDArray[np.intp]) -> Design:
    """The design without an audit if nothing but the cell of a row decides whether its label is missing."""
    labelled = np.asarray(labels.any(axis=1))
    if labelled.all():
        return all_labelled(classes, labels)
    N, n = np.bincount(cells), np.bincount(cells[labelled], minlength=cells.max() + 1)
    if not n.all():
        raise ValueError(
            "no row with one of the test results has a label: without some, nothing is known of such rows."
        )
    tau = np.array([np.bincount(cells, weights=column) for column in labels.T]).T / n[:, None]
    return Design(
        "Begg and Greenes",
        "Labels are missing only because of the test result.",
        classes,
        labels,
        tau[cells],
        np.where(labelled, (N / n)[cells], 0.0),
        labels[None][:0],
        cells,
    )


def by_stratum(design: Design) -> Design:
    """The design with the rates of each stratum for posteriors: of a class, its estimate is that of the stratified sample."""
    tau, strata = design.tau.copy(), design.strata
    assert strata is not None
    for h in range(strata.max() + 1):
        tau[strata == h] = design.labels[(strata == h) & design.labelled].mean(axis=0)
    return replace(design, name="stratified sample of an audit", tau=tau)


def _of_audit(audit: AuditResult, y: Any) -> Design:
    drawn = audit.drawn
    labels = label_shares(y, drawn.classes)
    if labels.shape != drawn.given.shape or not np.allclose(labels, drawn.given):
        raise ValueError("y must be the labels that the audit was drawn for, without those that it found.")
    labels[drawn.rows] = drawn.labels
    weight = (drawn.strata < 0).astype(float)
    for h in range(drawn.strata.max() + 1):
        seen = drawn.rows[drawn.strata[drawn.rows] == h]
        if not len(seen):
            raise ValueError("one stratum of the audit has no label yet: label more of its rows.")
        weight[seen] = np.sum(drawn.strata == h) / len(seen)
    untold, assumption = len(drawn.untold), "Audited rows that nobody could tell are like the others of their stratum."
    notes = [f"{untold} audited rows that nobody could tell were left out."] * (untold > 0)
    notes += ["These intervals are for a fixed number of audited rows, not right at every look."] * drawn.sequence
    return Design(
        "difference estimator of an audit",
        assumption if untold else NOTHING.format(len(drawn.rows)),
        drawn.classes,
        labels,
        drawn.proba,
        weight,
        labels[None][:0],
        drawn.strata,
        notes=tuple(notes),
    )


def _held_out(clf: Any, X: Any, y: Any, labels: Array) -> tuple[Array, Array | None]:
    """Posteriors (n, K) of rows that were held out, and log-odds (n, 1) of a missing label by the classifier, if it has any."""
    n = len(labels)
    tau, q = np.empty(labels.shape), np.full(n, np.nan)
    if hasattr(clf, "selection_"):
        if not clf.fitted_to(X, y):
            raise ValueError(OTHER_ROWS)
        if clf.held_out_proba_ is None:
            raise ValueError("a class has a single labelled row, so no row was held out: label more of them.")
        tau, q = clf.held_out_proba_, clf.missing_proba_
    else:
        folds = whole_row_folds(most_voted(labels), _FOLDS)
        rest = np.setdiff1d(np.arange(n), np.concatenate([*folds, [-1]]))
        for test in [*folds, *([rest] if len(rest) else [])]:
            train = np.delete(np.arange(n), test)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of smaller fits
                fit = clone(clf).fit(select_rows(X, train), select_rows(y, train))
            tau[test] = fit.predict_proba(select_rows(X, test))
            if getattr(fit, "link", None) is not None:
                q[test] = fit.missing_proba(select_rows(X, test))
    if np.isnan(q).any():
        return tau, None
    q = np.clip(q, 1e-6, 1.0 - 1e-6)
    return tau, np.log(q / (1.0 - q))[:, None]


def _predicted(
    features: Array, codes: NDArray[np.integer], known: NDArray[np.bool_], others: Sequence[Array] = ()
) -> Array:
    """Cross-fitted probabilities (n, K) of codes that are known in some rows.

    The mixture with the largest held-out likelihood, by the EM algorithm, of logistic regressions on the features, with and
    without their products, and of other probabilities.
    """
    x, z = features[known], codes[known]
    fewest = int(np.unique(z, return_counts=True)[1].min())
    if fewest < 2:
        raise ValueError("too few labels: two rows at least are needed of every class, and with and without a label.")
    probas = [*others]
    for degree in (1, 2) if features.shape[1] <= _MOST_SQUARED else (1,):
        products = PolynomialFeatures(degree, include_bias=False)
        model = make_pipeline(StandardScaler(), products, StandardScaler(), LogisticRegression(max_iter=1000))
        proba = model.fit(x, z).predict_proba(features)
        held_out = np.empty((len(x), proba.shape[1]))
        for train, test in StratifiedKFold(min(_MORE_FOLDS, fewest), shuffle=True, random_state=0).split(x, z):
            held_out[test] = model.fit(x[train], z[train]).predict_proba(x[test])
        proba[known] = held_out
        probas.append(proba)
    likelihood = np.array([np.maximum(proba[known, z], 1e-6) for proba in probas])
    share = np.full(len(probas), 1.0 / len(probas))
    for _ in range(200):
        share = np.mean(share[:, None] * likelihood / (share @ likelihood), axis=1)
    return np.asarray(np.tensordot(share, probas, 1))


def _calibrated(weight: Array, features: Array, tau: Array) -> tuple[Array, float]:
    """Weights with which labelled rows resemble all rows in what tau may get wrong, and what this adds to variances.

    Weights are calibrated as in surveys (Deville and Saerndal, 1992): changed by a factor, at least 0.1, that is linear in the
    doubt tau (1 - tau) and its products with log-odds and features. Coefficients are shrunk as by a labelled row more for each.
    The p degrees of freedom that they use raise variances as in a regression with as many rows as there are effectively.
    """
    n, doubt = len(weight), (tau * (1.0 - tau))[:, 1:]
    parts = [np.ones((n, 1)), logits(tau)[:, :-1]]
    parts += [StandardScaler().fit_transform(features)] * (features.shape[1] <= _MOST_SQUARED)
    h = (doubt[:, :, None] * np.column_stack(parts)[:, None]).reshape(n, -1)
    h /= np.sqrt(np.maximum((h**2).mean(axis=0), 1e-12))
    weight = weight * n / weight.sum()
    squares = (weight[:, None] * h).T @ h
    shrunk = squares + n / np.sum(weight > 0.0) * np.eye(len(squares))
    weight *= np.maximum(1.0 + h @ np.linalg.solve(shrunk, h.sum(axis=0) - weight @ h), 0.1)
    effective = weight.sum() ** 2 / (weight**2).sum()
    p = min(np.trace(np.linalg.solve(shrunk, squares)), 0.5 * effective)
    return weight * n / weight.sum(), float(effective / (effective - p))


def logits(tau: Array) -> Array:
    """Log-odds against the last class, and the doubt of each row."""
    log_p = np.log(np.maximum(tau, 1e-4))
    return np.column_stack([log_p[:, :-1] - log_p[:, -1:], 1.0 - tau.max(axis=1)])


def column(X: Any, values: Any, n: int, name: str) -> NDArray[Any]:
    """A column of X by its name or number, or values of its own, for each of n rows and without missing ones."""
    if isinstance(values, str | int):
        try:
            if isinstance(values, int) and hasattr(X, "column_names"):  # of pyarrow
                values = X.column_names[values]
            values = X[values] if isinstance(values, str) else X.iloc[:, values] if hasattr(X, "iloc") else X[:, values]
        except (KeyError, IndexError, TypeError):
            raise ValueError(f"{name}: X has no column {values!r}.") from None
    cells = np.asarray(values)
    if cells.shape != (n,):
        raise ValueError(f"{name} has shape {cells.shape}; one value for each of the {n} rows is needed.")
    if any(map(is_null, cells.tolist())):
        raise ValueError(f"{name} has missing values: fill these in, or leave out the rows.")
    return cells


def table(*parts: Any) -> Array:
    """Columns of numbers side by side; those of tables with texts as `marmix.tables.Preparation` makes them."""
    columns = [part if _numbers(part) else Preparation().fit_transform(part) for part in parts if part is not None]
    return np.column_stack([np.asarray(part, dtype=float) for part in columns])


def _numbers(part: Any) -> bool:
    values = np.asarray(part)
    return values.dtype.kind in "biuf" and bool(np.isfinite(values).all())
