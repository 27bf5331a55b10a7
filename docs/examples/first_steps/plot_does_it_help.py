"""
Does modelling the missingness help?
====================================

`MARClassifierCV` answers for your rows. It cross-validates candidates that model the missingness and
candidates that ignore it, and averages them by what they predict best.
"""

# %%
# Labels lost by the uncertainty
# ------------------------------
# Two Gaussian classes, twenty features; 80 % of the labels are missing, hard rows first. Few labels for many
# features is where there is something to gain: the gaps tell where the boundary runs.

from textwrap import fill

import pandas as pd
from sklearn.metrics import log_loss

import marmix
from marmix import MARClassifierCV
from marmix.datasets import make_mar_mixture
from marmix.displays import CalibrationDisplay, UncertaintyDisplay

setting = {"n_features": 20, "separation": 1.5}
rows = make_mar_mixture(1500, rate=0.8, random_state=0, **setting)
clf = MARClassifierCV(cv=5).fit(rows.data, rows.target)
print(fill(clf.verdict_))

# %%
# The candidates, the best first. ``log_loss`` estimates the loss on the whole population, ``plain_log_loss``
# is that of the labelled rows as they are: these are the easy ones, and it flatters.

columns = ["candidate", "mechanism", "weight", "log_loss", "plain_log_loss"]
table = pd.DataFrame(clf.results_)[columns].sort_values("log_loss").round(3)
table.reset_index(drop=True)

# %%
# These rows are simulated, so we can also look at fresh ones, of which every label is known: the average with
# all candidates against the best candidate that ignores the missingness.

fresh = make_mar_mixture(20_000, rate=0, random_state=1, **setting)
best = table[~table.mechanism].candidate.iloc[0]
for name, model in {"average": clf, best: clf.estimators_[best]}.items():
    print(f"{log_loss(fresh.target, model.predict_proba(fresh.data)):.3f} {name}")

# %%
# Labelled rows are those of which the classifier is sure.

UncertaintyDisplay.from_estimator(clf, rows.data, rows.target)

# %%
# Are the probabilities right? Those of the labelled rows are held out by the cross-validation. The curve is corrected for
# the rows that have no label.

CalibrationDisplay.from_predictions(
    rows.target, clf.held_out_proba_, clf.missing_proba_, posterior=clf.reference_proba_, n_bins=5
)

# %%
# The whole report, in one line: as the last line of a cell of a notebook, ``marmix.report`` shows the page; printed, it is a
# summary that opens with the verdict.

print(marmix.report(clf, rows.data, rows.target))

# %%
# Labels lost at random
# ---------------------
# The same rows, as many labels missing, but by a coin. The mechanism has nothing to tell now, and the verdict
# says so. It is a cautious verdict: with few labels a small gain does not show either.

coin = make_mar_mixture(1500, rate=0.8, link=None, random_state=0, **setting)
print(fill(MARClassifierCV(cv=3).fit(coin.data, coin.target).verdict_))
