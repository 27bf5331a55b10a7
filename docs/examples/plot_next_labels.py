"""
Which rows to label next
========================

You can pay for a hundred more labels. Active learning would ask about the rows whose class is least clear. This example
compares that with an audit, which draws rows by chance, on masses that a radiologist left open and biopsies decided.
"""

# %%
# Two ways to spend a label
# -------------------------
# The first asks about the ten least clear rows, fits again, and repeats. The second is an audit of as many rows, from whose
# labels it also learns how the unlabelled rows differ from labelled ones that look the same.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.preprocessing import StandardScaler

from marmix import Audit, MARLogisticRegression
from marmix.datasets import load_mammography

masses = load_mammography()
X, truth = StandardScaler().fit_transform(masses.data), masses.target_true


def ask_the_unclear(n):
    """Wrong labels in the completed file after 0, 10, ..., n questions."""
    y, wrong = masses.target.copy(), []
    for _ in range(0, n + 1, 10):
        risk = MARLogisticRegression(link=None).fit(X, y).predict_proba(X)[:, 1]
        wrong.append(np.sum(np.where(y < 0, risk > 0.5, y) != truth))
        open_rows = np.flatnonzero(y < 0)
        asked = open_rows[np.argsort(np.abs(risk[open_rows] - 0.5), kind="stable")[:10]]
        y[asked] = truth[asked]
    return wrong


def audit(clf, n, seed):
    """Wrong labels in the completed file after an audit of n rows."""
    drawn = Audit(clf, X, masses.target, n=n, random_state=seed)
    return np.sum(drawn.record(truth[drawn.rows]).transduction != truth)


clf = MARLogisticRegression(link=None).fit(X, masses.target)
sizes = (10, 20, 40, 60, 80, 100)
audits = np.array([[audit(clf, n, seed) for seed in range(5)] for n in sizes])
unclear = ask_the_unclear(100)

# %%
# What is left to repair
# ----------------------
# Masses without a label are benign more often than labelled ones that look the same. Twenty rows drawn by chance show that, and
# all imputed labels gain; the least clear rows show it slowly.

plt.style.use("tableau-colorblind10")
figure, ax = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
ax.plot(range(0, 101, 10), unclear, "C1s-", ms=5, label="least clear rows, refitted")
ax.plot(sizes, audits.mean(axis=1), "C0o-", ms=5, label="audit, mean of five draws")
ax.fill_between(sizes, audits.min(axis=1), audits.max(axis=1), color="C0", alpha=0.2)
ax.set(xlabel="new labels", ylabel=f"wrong labels among {masses.missing.sum()}", ylim=(0, None))
ax.legend(frameon=False)

# %%
print(
    f"20 new labels: {unclear[2]} wrong by the least clear rows, {audits[1].mean():.0f} by an audit"
)
print(
    f"100 new labels: {unclear[-1]} wrong by the least clear rows, {audits[-1].mean():.0f} by an audit"
)

# %%
# So start with an audit of twenty rows. If it agrees with the model, labels of unclear rows are the next best use of your money:
# pass ``missing=``, which says whose label was missing when the data came (:doc:`/guide/audit`).
#
# See also
# --------
# :doc:`/guide/audit`; :doc:`/auto_examples/plot_audit`.
