"""
Audit: how many imputed labels are wrong?
=========================================

A radiologist decided some masses in mammograms and left the doubtful ones open. How many imputed labels are
wrong: by the model's own account, by audits of 20, 50 and 100 rows, and in truth?
"""

# %%
# The model's own account
# -----------------------
# `marmix.datasets.load_mammography` has 830 masses, 473 of them without a label. Biopsies say what the labels would have been.

import matplotlib.pyplot as plt
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from marmix import Audit, MARLogisticRegression
from marmix.datasets import load_mammography

masses = load_mammography()
X, y, truth, missing = masses.data, masses.target, masses.target_true, masses.missing
clf = make_pipeline(StandardScaler(), MARLogisticRegression()).fit(X, y)
said = (1 - clf.predict_proba(X)[missing].max(axis=1)).sum()
wrong = (clf.predict(X) != truth)[missing].sum()
print(f"{said:.0f} wrong labels by the model's own account, {wrong} in truth")

# %%
# The model is misled because masses that a radiologist leaves open are benign more often than masses with the same
# measurements that he decides. Nothing in the file shows this.
#
# Twenty rows, or more
# --------------------
# `marmix.Audit` draws rows by chance, a person labels them (here we read the biopsies), and ``record`` returns the result.

results = {}
for n in (20, 50, 100):
    audit = Audit(clf, X, y, n=n, random_state=0)
    results[n] = audit.record(truth[audit.rows])

plt.style.use("tableau-colorblind10")
figure, ax = plt.subplots(figsize=(7.2, 2.8), layout="constrained")
names = ["the model's account", *(f"audit of {n} rows" for n in results)]
ax.plot(said, 0, "C5X", ms=9)
for place, result in enumerate(results.values(), 1):
    value, low, high = result.wrong
    ax.errorbar(value, place, xerr=[[value - low], [high - value]], fmt="C0o", capsize=4, lw=2)
ax.axvline(wrong, color="C1", ls="--", label=f"in truth, {wrong}")
ax.set(
    xlabel=f"wrong labels among the {missing.sum()} imputed ones",
    xlim=(0, missing.sum()),
    ylim=(3.5, -0.5),
)
ax.set_yticks(range(len(names)), names)
ax.legend(frameon=False)

# %%
# The intervals assume that the rows were drawn by chance and labelled right. They assume nothing about why labels are missing.
#
# The same labels repair the model
# --------------------------------
# ``result.transduction`` has the labels after learning from the audited rows.

for n, result in results.items():
    after = (result.transduction != truth)[missing].sum()
    print(f"{n:3} rows: contradicted {result.contradicted}, wrong labels {wrong} -> {after}")

# %%
# See also
# --------
# :doc:`/guide/audit`; :doc:`/auto_examples/plot_next_labels`; :doc:`/auto_examples/plot_sensitivity`, for when nobody can
# label a row.
