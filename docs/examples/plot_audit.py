"""
An audit: wrong labels that no model sees
=========================================

Labels of mammograms are missing where the radiologist was undecided. How many imputed ones are wrong: by the model's own
account, in truth, and by audits of 20, 50 and 100 rows drawn by chance?
"""

# %%
# Without an audit
# ----------------
# `marmix.datasets.load_mammography` has 830 masses, 473 without a label. Biopsies say what the labels would have been. They
# would have been benign more often than those of similar masses that a radiologist could call; nothing in the rows shows it.

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
# With an audit
# -------------
# `marmix.Audit` draws the rows, a person labels them (here, the biopsies), and `Audit.record` says what follows.

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
# The intervals assume that chance has drawn the rows, and nothing about why labels are missing. The same few labels also
# correct the model: the audit contradicts it, and it learns.

for n, result in results.items():
    after = (result.transduction != truth)[missing].sum()
    print(f"{n:3} rows: contradicted {result.contradicted}, wrong labels {wrong} -> {after}")

# %%
# See also
# --------
# :doc:`/guide/audit`; :doc:`/auto_examples/plot_sensitivity`, for when nobody can label a row.
