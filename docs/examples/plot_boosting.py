"""
Boosted trees for empty cells and categories
============================================

Real tables have empty cells, columns of text, and effects that turn round from one group to the next.
`marmix.MARBoostingClassifier` takes such a table as it is, and models the missing *labels* on top.

The table is **simulated**: 3000 machines of four types, each comfortable at another temperature. An inspector wrote down which
ones were about to fail, but skipped most of the unclear ones.
"""

# %%
# The machines
# ------------
# A fifth of the readings is empty because sensors fail at random. Vibration has nothing to do with the failures.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.special import expit
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from marmix import MARBoostingClassifier, MARKernelClassifier, MARLogisticRegression
from marmix.datasets import hide_labels

numbers = ["temperature", "load", "age", "vibration"]


def machines(empty, seed=1, n=3000):
    """A table with this share of its cells empty, the partial labels, and the true ones."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(4, size=n)
    strain, load, age, vibration = rng.normal(size=(4, n)) * [[1.2], [1.0], [1.0], [1.0]]
    p = expit(5 * np.abs(strain) + 3 * load * (age > 0) + age - 6.5)
    fails = (rng.uniform(size=n) < p).astype(int)
    table = pd.DataFrame(
        np.column_stack([strain + kind - 1.5, load, age, vibration]), columns=numbers
    )
    table = table.mask(rng.uniform(size=table.shape) < empty)
    hidden = hide_labels(
        fails,
        np.column_stack([1 - p, p]),
        measure="entropy",
        slope=4,
        rate=0.7,
        random_state=seed,
    )
    return (
        table.assign(kind=pd.Categorical(np.array(list("ABCD"))[kind])),
        np.asarray(hidden.target),
        fails,
    )


X, y, fails = machines(0.2)
X.assign(fails=y).head()

# %%
# Fit it as it is
# ---------------
# Columns of dtype ``category`` are categories, and each split learns on which side empty cells belong. The number of rounds and
# the weight of the mechanism are chosen on held-out rows.

clf = MARBoostingClassifier(n_jobs=1).fit(X, y)
print(f"{clf.n_estimators_} rounds, weight of the mechanism {clf.mechanism_weight_}")

importance = pd.Series(clf.feature_importances_, clf.feature_names_in_).sort_values()
plt.style.use("tableau-colorblind10")
figure, ax = plt.subplots(figsize=(5.4, 2.6), layout="constrained")
ax.barh(importance.index, importance / importance.sum())
ax.set_xlabel("importance (they sum to one)")

# %%
# Against the usual preparation
# -----------------------------
# The rivals get medians for empty cells, and zeros and ones for the type. Each model is fitted with the mechanism and without
# it (``link=None``). We know who fails, and show the log-loss of the labels that are missing.

prepare = make_column_transformer(
    (make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), numbers),
    (OneHotEncoder(drop="first", sparse_output=False), ["kind"]),
)
losses = {}
for empty in (0.0, 0.2):
    X, y, fails = machines(empty)
    for link in ("logit", None):
        models = {
            "boosting": MARBoostingClassifier(n_jobs=1, link=link),
            "kernel, prepared": make_pipeline(prepare, MARKernelClassifier(link=link)),
            "logistic, prepared": make_pipeline(prepare, MARLogisticRegression(link=link)),
        }
        for name, model in models.items():
            proba = model.fit(X, y).predict_proba(X[y < 0])
            losses[name, empty, link] = log_loss(fails[y < 0], proba)

figure, axes = plt.subplots(
    1, 2, figsize=(7.4, 3), sharey=True, sharex=True, layout="constrained"
)
for ax, empty in zip(axes, (0.0, 0.2), strict=True):
    for shift, link, name in (
        (0.2, None, "missingness ignored"),
        (-0.2, "logit", "missingness modelled"),
    ):
        bars = ax.barh(
            np.arange(3) + shift,
            [losses[model, empty, link] for model in models],
            0.38,
            label=name,
        )
        ax.bar_label(bars, fmt="%.3f", padding=3, fontsize=8)
    ax.set(
        title=f"{empty:.0%} of the cells empty",
        xlabel="log-loss of the missing labels",
        xlim=(0, 0.8),
    )
axes[0].set_yticks(np.arange(3), list(models))
axes[0].invert_yaxis()
figure.legend(
    *ax.get_legend_handles_labels(), loc="outside upper center", ncols=2, frameon=False
)
# sphinx_gallery_thumbnail_number = 2

# %%
# Modelling the missingness helps both flexible models, and cannot help a straight line where the truth is curved. Boosting needs
# no preparation, but is not alone: a kernel on prepared columns comes close, and with empty cells it is slightly ahead. The
# machines were made so that trees have something to find. On the tumours of `marmix.datasets.load_tumours`, whose boundary is
# nearly straight, logistic regression is better than boosting of the labelled rows (:doc:`/evidence`): try
# several models, or let `marmix.MARClassifierCV` do it.
#
# See also
# --------
# :doc:`/guide/models`, with `marmix.objectives.MissingnessObjective` for a LightGBM or XGBoost model of your own.
