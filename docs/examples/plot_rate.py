"""
A rate: what share of the masses is malignant?
==============================================

A radiologist called some masses in mammograms benign or malignant and left the doubtful ones open. What share of all of them
is malignant? Labelled rows alone, a model, and an audit of 50 rows give different answers. Biopsies tell which is right.
"""

# %%
# Three answers
# -------------
# The 830 masses are real, and so are the missing labels.

import matplotlib.pyplot as plt
import numpy as np

from marmix import Audit, MARLogisticRegression, estimate
from marmix.datasets import load_mammography

masses = load_mammography()
X, y, truth = masses.data, masses.target, masses.target_true
clf = MARLogisticRegression().fit(X, y)
audit = Audit(clf, X, y, n=50)
result = audit.record(truth[audit.rows])  # 50 biopsies

known = y[y >= 0]
half = 1.96 * known.std() / np.sqrt(len(known))
answers = {
    "labelled rows alone": (known.mean(), known.mean() - half, known.mean() + half),
    "all rows, no audit": None,
    "50 rows audited": None,
}
for name, source in zip(list(answers)[1:], (clf, result), strict=True):
    share = estimate.share(source, X, y)
    answers[name] = (share.value, *share.interval)
for name, (value, low, high) in answers.items():
    print(f"{name:20} {value:.0%} ({low:.0%} to {high:.0%})")
print(f"{'biopsies':20} {truth.mean():.0%}")

plt.style.use("tableau-colorblind10")
figure, ax = plt.subplots(figsize=(6, 2.6), layout="constrained")
for place, (value, low, high) in enumerate(answers.values()):
    ax.errorbar(value, place, xerr=[[value - low], [high - value]], fmt="o", capsize=4)
ax.axvline(truth.mean(), color="black", ls=":", label="biopsies")
ax.set(yticks=range(3), yticklabels=list(answers), xlabel="share malignant", ylim=(2.5, -0.5))
ax.legend(loc="lower right")

# %%
# Without an audit, labels must be missing because of the features alone. Here they are not: the radiologist sees more than the
# four features. The table of the third answer says what it rests on.

print(estimate.share(result, X, y))

# %%
# Two groups
# ----------
# ``difference`` compares the shares of two groups.

print(estimate.difference(result, X, y, np.where(X[:, 0] < 60, "below 60", "from 60")))

# %%
# See also
# --------
# :doc:`/guide/answers`.
