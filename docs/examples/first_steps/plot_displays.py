"""
Every display
=============

`marmix.plotting` draws fits and predictions as the displays of scikit-learn do: ``from_estimator`` computes and draws,
``ax_`` and ``figure_`` are matplotlib's, and the numbers drawn are attributes.
"""

# %%
# **Simulated** rows: three classes, two features, 60 % of the labels missing, hard rows first.

import numpy as np

from marmix import MARGaussianMixture
from marmix.datasets import make_mar_mixture
from marmix.plotting import (
    CalibrationDisplay,
    MissingnessDisplay,
    MixtureDisplay,
    ProfileDisplay,
    RocDisplay,
    SensitivityDisplay,
    ThresholdDisplay,
    UncertaintyDisplay,
)

rows = make_mar_mixture(600, n_classes=3, rate=0.6, measure="entropy", random_state=0)
names = np.array(["left", "right", "top"])[rows.target_true]
X, y = rows.data, np.where(rows.missing, None, names)
clf = MARGaussianMixture(link="logit", measure="entropy").fit(X, y)

# %%
# The classes
# -----------
# Given labels are filled, imputed ones hollow; ellipses are the fitted Gaussians, lines the boundaries
# between the classes.

MixtureDisplay.from_estimator(clf, X, y)

# %%
# The mechanism
# -------------
# The fitted probability of a missing label with its 95 % band, and the observed rates.

MissingnessDisplay.from_estimator(clf, X, y)

# %%
# Labelled against unlabelled rows
# --------------------------------
# If the labelled rows are the clear ones, a score computed on them is too good.

UncertaintyDisplay.from_estimator(clf, X, y)

# %%
# What a threshold would do
# -------------------------
# One class against the rest, on all rows. Unlabelled rows count with the model's probabilities, corrected by the labelled rows.

ThresholdDisplay.from_estimator(clf, X, y, positive="top")

# %%
# Calibration and ROC
# -------------------
# Both are corrected for the rows without a label, too.

CalibrationDisplay.from_estimator(clf, X, y, positive="top")

# %%

RocDisplay.from_estimator(clf, X, y, positive="top")

# %%
# The profile likelihood of a parameter
# -------------------------------------

ProfileDisplay.from_estimator(clf, X, y, name="alpha_1", n_points=11)

# %%
# What if labels are missing because of the label?
# ------------------------------------------------
#
# To the right, rows of the class lose their labels more often than others that look alike.

SensitivityDisplay.from_estimator(clf, X, y, n_draws=100)

# %%
# See also
# --------
# `marmix.plotting` for all options, and ``from_predictions`` for probabilities of any classifier.
