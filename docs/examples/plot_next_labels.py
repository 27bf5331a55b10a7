"""
Which rows to label next
========================

There is money for eighty more labels. Spend it on rows drawn at random, or on those whose class is least clear? And once the
unclear rows have been labelled on purpose, can the mechanism still be trusted? It can, if the fit is told which labels were
asked for.
"""

# %%
# Five files with known answers
# -----------------------------
# Tumours from scikit-learn with two thirds of the diagnoses hidden, hard cases first; each seed hides others
# (`marmix.datasets.load_tumours`). An expert, who here is the truth, answers ten questions a day for eight days.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from marmix import MARLogisticRegression
from marmix.datasets import load_tumours


def campaign(seed, rule, link, told):
    """For each day: the share of wrong labels in the completed file, and the log-loss on all rows."""
    rows = load_tumours(seed=seed)
    X, y, truth = np.log(rows.data), rows.target.copy(), rows.target_true
    was_missing = {"marlogisticregression__missing": y < 0} if told else {}
    rng, days = np.random.default_rng(seed), []
    for _ in range(9):
        clf = make_pipeline(StandardScaler(), MARLogisticRegression(link=link)).fit(
            X, y, **was_missing
        )
        risk = clf.predict_proba(X)[:, 1]
        completed = np.where(y < 0, risk > 0.5, y)
        days.append([np.mean(completed != truth), log_loss(truth, risk)])
        waiting = np.flatnonzero(y < 0)
        if rule == "random":
            asked = rng.choice(waiting, 10, replace=False)
        else:
            asked = waiting[np.argsort(np.abs(risk[waiting] - 0.5))[:10]]
        y[asked] = truth[asked]
    return days


plans = {
    "unclear rows, told": ("unclear", "logit", True),
    "unclear rows, not told": ("unclear", "logit", False),
    "unclear rows, mechanism ignored": ("unclear", None, False),
    "random rows, told": ("random", "logit", True),
}
means = {
    name: np.mean([campaign(seed, *plan) for seed in range(5)], axis=0)
    for name, plan in plans.items()
}

# %%
# Two answers
# -----------
# Left, what the eighty labels do for the file, that is, for the labels that will be used: ask about unclear rows.
#
# Right, what they do for the probabilities. A mechanism fitted to "unclear rows have no label" is contradicted by the new
# labels, which are all of unclear rows, and the first thirty make the fit *worse*; later ones move it up and down. With
# ``missing=``, which says whose label was missing when the data came, it gets steadily better, as does a fit that ignores the
# missingness.

plt.style.use("tableau-colorblind10")
figure, axes = plt.subplots(1, 2, figsize=(8.2, 3.6), layout="constrained")
labels = 10 * np.arange(9)
for ax, column, scale in zip(axes, (0, 1), (100, 1), strict=True):
    for (name, days), style in zip(
        means.items(), ("C0o-", "C0o:", "C2^-", "C1s-"), strict=True
    ):
        ax.plot(labels, scale * days[:, column], style, ms=4, label=name)
axes[0].set(xlabel="new labels", ylabel="wrong labels in the completed file, %", ylim=(0, None))
axes[1].set(xlabel="new labels", ylabel="log-loss of the probabilities")
figure.legend(
    *ax.get_legend_handles_labels(),
    loc="outside upper center",
    ncols=2,
    frameon=False,
    fontsize=9,
)

# %%
for name, days in means.items():
    (wrong, loss), (wrong_after, loss_after) = days[0], days[-1]
    print(
        f"{name:32} wrong {wrong:.1%} -> {wrong_after:.1%}, log-loss {loss:.3f} -> {loss_after:.3f}"
    )

# %%
# So: ask about unclear rows, and pass ``missing=`` from then on. The list of rows to ask about is part of every report of
# ``marmix fit``. To know how many labels are wrong, have some rows drawn by chance: :doc:`/auto_examples/plot_audit`.
#
# See also
# --------
# :doc:`/guide/scores`; :doc:`/auto_examples/plot_tumours`.
