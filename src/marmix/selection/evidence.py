"""The evidence of held-out rows: their labels, and whether these are missing.

Held-out labels are those of easy rows, which do not tell who is overconfident about the hard ones. Whether a label is missing is
known of every row. With held-out class probabilities p of rows j of weight c_j, the evidence against them is

    mean over labelled rows of -log p_{j y_j}   +   mean over all rows of -log P(m_j | u_j, v_j),

where m_j is the missing indicator, u_j the entropy of p_j, and P the logit mechanism ``eta = a_0 + a_1 u + a_2 v``, a_1 >= 0,
that fits best. The second driver v is a cross-fitted predictor of m, linear in the features, their squares and their absolute
values. It explains what is missing on one side of the features, or at their ends, however hard the rows are there; otherwise
candidates that bend their uncertainty towards that side would win.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from marmix.core.arrays import Array
from marmix.core.labels import copies_of
from marmix.core.measures import entropy, posterior
from marmix.core.mechanism import Mechanism, drivers_of

TINY = 1e-12  # smallest probability of a class in a loss

# Upper limit of the probability q of a missing label in the weights 1 / (1 - q) of labelled rows. On ten data sets of
# benchmarks/real.py, seed 1000, weights up to 5 gave scores closer to the truth than weights up to 20, and than weights of 1.
Q_MAX = 0.8
# Prior for equal weights of the average, in labelled rows, and weight of the missing indicators. On 78 splits of 14 data sets
# from seed 1000, each in 3, 5 and 10 folds, the log-loss was .0014 (.0005) lower with 2, .5 and Q_MAX than with 1, 1 and 0. On
# 162 splits it was lower by .0005 (.0003) with .1 in place of .5 (digits .014, but MAGIC .002 higher), and by .0007 (.0004) with
# 3 in place of 2, by .0020 with fewer than 100 labels.
PRIOR_ROWS, MISSING = 3.0, 0.1
# Weights below this are zero. On 125 splits it lowered the log-loss by .0011 (.0002).
LEAST = 0.01

# Penalties of the linear predictor of the missing indicator, of which held-out rows choose one.
_PENALTIES = (1e-3, 1e-2, 1e-1, 1.0)
_MOST_CURVED = 100  # features of which squares and absolute values are used too


class Evidence:
    """Labels and missing indicators of held-out rows.

    Parameters
    ----------
    z : array of shape (n,) or (n, K)
        Codes of the classes, -1 where the label is missing; or shares of the classes in the votes of each row, zero where it
        has none.
    counts : array of shape (n,) or None
        Weights of the rows.
    v : array of shape (n,) or None
        Held-out predictor of the missing indicator (see `linear_predictor`); None for a constant.
    tested : array of int or None
        The rows that were held out; by default all.
    missing : array of bool, shape (n,), or None
        Whether the label of each row was missing when the data came; by default where it is.
    """

    def __init__(
        self,
        z: NDArray[Any],
        counts: Array | None = None,
        v: Array | None = None,
        tested: NDArray[np.integer] | None = None,
        missing: NDArray[np.bool_] | None = None,
    ):
        rows = np.arange(len(z)) if tested is None else tested
        z, self.n = z[rows], len(rows)
        counts = np.ones(self.n) if counts is None else counts[rows]
        total, share = counts.sum(), None
        if z.ndim == 2:
            copies, z, share = copies_of(z)
            rows, counts = rows[copies], counts[copies]
        was_missing = z < 0 if missing is None else missing[rows]
        sorting = np.argsort(1 * was_missing + (z < 0), kind="stable")
        self.order = rows[sorting]  # once for each class they have votes for; labelled rows first, then asked ones
        self.labelled, self.given = int(np.sum(z >= 0)), int(np.sum(~was_missing))
        self.z = z[sorting[: self.labelled]]
        self.counts = counts[sorting] * self.n / total
        if share is not None:
            self.counts *= share[sorting]
        self.share = float(self.counts[: self.labelled].sum() / self.n)
        self.v = np.zeros((0, len(z))) if v is None else v[None, self.order]
        self._mechanism = None
        if 0 < self.given < len(z):
            self._mechanism = Mechanism.from_link("logit", measure="entropy", covariates=len(self.v))

    def _sorted(self, proba: Array) -> Array:
        """Probabilities (..., n, K) as (..., K, n), labelled rows first."""
        return np.ascontiguousarray(np.maximum(np.swapaxes(proba[..., self.order, :], -1, -2), TINY))

    def _drivers(self, p: Array) -> Array:
        """The uncertainty under probabilities (K, n), and the linear predictor."""
        return drivers_of(entropy(posterior(np.log(p))).value, self.v)

    def _loglik(self, p: Array) -> float:
        """The largest log-likelihood of the missing indicators, given probabilities (K, n); 0 if none is missing."""
        mechanism = self._profiled(p)
        return 0.0 if mechanism is None else mechanism.loglik_of(self._drivers(p), self.given, self.counts)

    def _profiled(self, p: Array) -> Mechanism | None:
        """The mechanism that explains the missing indicators best, given probabilities (K, n)."""
        if self._mechanism is None:
            return None
        drivers = self._drivers(p)
        start = self._mechanism.starting(1.0 - float(self.counts[: self.given].sum() / self.n))
        fit = start.profile_of(drivers, self.given, self.counts)
        if fit.alpha[1] >= 0.0:
            return fit
        drivers[0] = 0.0
        alpha = np.array(start.profile_of(drivers, self.given, self.counts).alpha)
        alpha[1] = 0.0
        return fit.moved(alpha)

    def mechanism(self, proba: Array) -> Mechanism | None:
        """The mechanism that explains the missing indicators best, given held-out probabilities (n, K)."""
        return self._profiled(self._sorted(proba))

    def _represented(self, p: Array, mechanism: Mechanism | None) -> Array:
        """Weights of the labelled rows that represent all rows under a mechanism, given probabilities (K, n)."""
        w = self.counts[: self.labelled]
        if mechanism is None:
            return w
        # of the rows without a label at first, some have been asked since
        still = self.counts[self.labelled :].sum() / max(self.counts[self.given :].sum(), TINY)
        q = still * mechanism.missing_proba_of(self._drivers(p))[: self.labelled]
        represented = w / (1.0 - np.minimum(q, Q_MAX))
        return represented * (w.sum() / represented.sum())

    def losses(self, proba: Array) -> tuple[float, float]:
        """Mean loss of the labels and of the missing indicators, given held-out probabilities (n, K)."""
        p = self._sorted(proba)
        w = self.counts[: self.labelled]
        label = -float(w @ np.log(p[self.z, np.arange(self.labelled)]) / w.sum()) if self.labelled else 0.0
        return label, -self._loglik(p) / self.n

    def loss(self, proba: Array) -> float:
        """The evidence against held-out probabilities (n, K): the sum of both losses."""
        return sum(self.losses(proba))

    def gain(self, proba: Array) -> float:
        """Log-likelihood of the missing indicators that the uncertainty adds to the linear predictor; 0 if none is missing."""
        p = self._sorted(proba)
        return self._loglik(p) - self._loglik(np.full_like(p, 1.0 / len(p)))

    def average(self, probas: Array) -> Array:
        """Weights pi (C,) of candidates under which their average ``sum_c pi_c p_c`` has the most evidence for it.

        A Dirichlet prior for equal weights counts as `PRIOR_ROWS` labelled rows, the missing indicators count by `MISSING`, and
        labelled rows represent all rows (see `_represented`). The objective is maximised over the weights and the mechanism
        together, from equal weights. Then weights below `LEAST` become zero.

        Parameters
        ----------
        probas : array of shape (C, n, K)
            Held-out probabilities of each candidate.
        """
        p = self._sorted(probas)
        candidates = len(p)
        flat = p.reshape(candidates, -1)
        rows = np.arange(self.labelled)
        chances = p[:, self.z, rows]
        prior = PRIOR_ROWS / candidates
        start, share = self._profiled(p.mean(axis=0)), MISSING * self.share
        w = self._represented(p.mean(axis=0), start)

        def objective(vector: Array) -> tuple[float, Array]:
            pi = np.exp(vector[:candidates] - np.logaddexp.reduce(vector[:candidates]))
            chance = pi @ chances
            value = float(w @ np.log(chance))
            slope = chances @ (w / chance)
            alpha = np.empty(0)
            if start is not None:
                average = (pi @ flat).reshape(p.shape[1:])
                mechanism = start.moved(vector[candidates:])
                sums = mechanism.block(posterior(np.log(average)), self.v, self.given, self.counts)
                value += share * float(sums.loglik)
                slope += share * (flat @ (sums.gradient / average).ravel())
                alpha = share * sums.alpha
            value += prior * float(np.log(np.maximum(pi, 1e-300)).sum())
            by_vector = pi * (slope - pi @ slope) + prior * (1.0 - candidates * pi)
            return -value, -np.concatenate([by_vector, alpha])

        vector = np.concatenate([np.zeros(candidates), () if start is None else start.alpha])
        bounds: list[tuple[float | None, None]] = [(None, None)] * len(vector)
        if start is not None:
            bounds[candidates + 1] = (0.0, None)
        with np.errstate(all="ignore"):
            vector = minimize(objective, vector, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 500}).x
        pi = np.exp(vector[:candidates] - np.logaddexp.reduce(vector[:candidates]))
        pi[pi < min(LEAST, pi.max())] = 0.0
        return np.asarray(pi / pi.sum())

    def missing_proba(self, proba: Array, mechanism: Mechanism | None) -> Array:
        """Probability that the label of each tested row is missing, (n,), given held-out probabilities (n, K)."""
        q = np.zeros(len(proba))
        if mechanism is not None:
            q[self.order] = mechanism.missing_proba_of(self._drivers(self._sorted(proba)))
        return q


def linear_predictor(
    X: NDArray[np.floating], missing: NDArray[np.bool_], counts: Array | None, folds: list[NDArray[np.intp]]
) -> Array | None:
    """Held-out log-odds that a label is missing, (n,); None if they cannot be estimated.

    They are linear in the features and, unless these are many, in their squares and absolute values. The coefficients for the
    test rows of each fold are fitted to those of the others, with the penalty that does best over all folds. Rows that no fold
    tests get the overall log-odds.
    """
    rows = np.sort(np.concatenate(folds)) if len(folds) > 1 else np.arange(len(missing))
    trains = [np.setdiff1d(rows, test) for test in folds]
    if not folds or any(len(np.unique(missing[train])) < 2 for train in trains):
        return None
    scaler = StandardScaler()
    x = np.nan_to_num(scaler.fit_transform(X))  # a missing value counts as the mean
    if x.shape[1] <= _MOST_CURVED:
        x = scaler.fit_transform(np.hstack([x, x**2, np.abs(x)]))
    w = np.ones(len(missing)) if counts is None else counts
    rate = float(w @ missing / w.sum())
    best = np.inf
    v = np.full(len(missing), np.log(rate / (1.0 - rate)))
    solver = "newton-cholesky" if x.shape[1] <= 3 * _MOST_CURVED else "lbfgs"
    models = [LogisticRegression(max_iter=200, solver=solver, warm_start=True) for _ in folds]
    for C in _PENALTIES:
        eta = np.full(len(missing), np.log(rate / (1.0 - rate)))
        for model, train, test in zip(models, trains, folds, strict=True):
            eta[test] = model.set_params(C=C).fit(x[train], missing[train], w[train]).decision_function(x[test])
        loss = float(w @ (np.logaddexp(0.0, eta) - missing * eta))
        if loss < best:
            best, v = loss, eta
    return v
