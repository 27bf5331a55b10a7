"""
A first fit
===========

From rows with missing labels to predictions, standard errors, and a model in a file.

The rows are scikit-learn's breast-cancer data. We know all their labels, and hide most of them: a random
forest says how hard a row is, and hard rows lose their labels first. This is how labels go missing where people skip what they
are unsure of.
"""

# %%
# The data
# --------
# A missing label is ``None`` here. ``-1``, ``NaN`` and ``pandas.NA`` do as well.

import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import cross_val_predict

from marmix import MARGaussianMixture, load, save
from marmix.datasets import hide_labels
from marmix.plotting import MissingnessDisplay, MixtureDisplay

data = load_breast_cancer(as_frame=True)
X = np.log(data.data[["mean radius", "mean texture"]])
truth = data.target_names[data.target]

forest = RandomForestClassifier(100, min_samples_leaf=5, random_state=0)
posterior = cross_val_predict(forest, X, truth, cv=5, method="predict_proba")
y = hide_labels(truth, posterior, rate=0.65, random_state=0, return_y=True)

X.assign(label=y).sample(6, random_state=1)

# %%
# Fit and predict
# ---------------
# By default both classes share one covariance matrix (a linear boundary, and few parameters), and the probability of a
# missing label is a logistic function of the entropy of the class probabilities.

clf = MARGaussianMixture().fit(X, y)

missing = np.array([label is None for label in y])
print(f"{missing.sum()} of {len(y)} labels are missing")
print(
    f"imputed labels that are right: {np.mean(clf.transduction_[missing] == truth[missing]):.3f}"
)
print("probabilities of the classes", clf.classes_)
print(clf.predict_proba(X[:3]).round(3))
print("probability that their labels are missing:", clf.missing_proba(X[:3]).round(3))

# %%
# The slope of the mechanism is positive: the more uncertain the class of a row, the more often its label is missing.

print(clf.alpha_.round(2), clf.notes_)

# %%
# Filled points have labels, hollow ones were imputed. Most of the hollow points lie near the boundary.

MixtureDisplay.from_estimator(clf, X, y)

# %%
# The curve is the fitted probability of a missing label, with its 95 % band; the points are the observed
# rates.

MissingnessDisplay.from_estimator(clf, X, y)

# %%
# How sure?
# ---------
# The estimator does not keep the rows, so inference asks for them again.

result = clf.inference(X, y)
print(result.summary())
print()
print(result.test_informative())

# %%
# Keep it
# -------
# A file of numbers and text, no pickle: loading it runs no code.

path = Path(tempfile.mkdtemp()) / "tumours.marmix"
save(clf, path)
again = load(path)
print(np.array_equal(again.predict_proba(X), clf.predict_proba(X)))

# %%
# See also
# --------
# :doc:`/auto_examples/first_steps/plot_does_it_help` if you do not know which model to take;
# :doc:`/auto_examples/medicine/plot_tumours` for decisions with such a model;
# :doc:`/auto_examples/scale/plot_serving` for models in production.
