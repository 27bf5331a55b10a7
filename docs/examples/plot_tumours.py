"""
Undiagnosed tumours: a threshold that keeps its promise
=======================================================

A clinic has measurements of 569 tumours and a diagnosis for a third of them. The clear cases were diagnosed first, so the
labelled rows make every classifier look good. This example shows by how much, picks a threshold that keeps its promise on
*all* patients, and lists the patients whose diagnosis would help most.

The rows are scikit-learn's breast-cancer data. The true diagnoses are known, so that we can check every claim at the end;
most were hidden by `marmix.datasets.load_tumours`, preferably where a random forest is unsure.
"""

# %%
# Fit
# ---
# `MARClassifierCV` cross-validates about twenty-five models, with the missingness modelled and ignored, and averages them.
# ``held_out_proba_`` are the probabilities of each row from fits that did not see it.

from textwrap import fill

import matplotlib.pyplot as plt
import numpy as np

from marmix import MARClassifierCV
from marmix.datasets import load_tumours
from marmix.evaluation import accuracy
from marmix.plotting import ThresholdDisplay

tumours = load_tumours(as_frame=True)
X, y = tumours.data, tumours.target.map({0: "benign", 1: "malignant"})  # NaN if missing
clf = MARClassifierCV().fit(X, y)

labelled, malignant = y.notna().to_numpy(), tumours.target_true.to_numpy() == 1
risk = clf.held_out_proba_[:, 1]
print(f"{labelled.sum()} of {len(y)} tumours have a diagnosis")

# %%
# How good is it really?
# ----------------------
# The held-out accuracy of the diagnosed tumours is an honest number, but about the wrong patients. `marmix.evaluation`
# estimates it for all of them, with an interval that covers what the missing diagnoses might be.

score = accuracy(
    y, clf.held_out_proba_, clf.missing_proba_, classes=clf.classes_, posterior=clf.posterior_
)
truth = np.mean((risk > 0.5) == malignant)
low, high = score.interval
print(f"diagnosed tumours   {score.plain:.3f}")
print(f"all, by marmix      {score.value:.3f}, 95 % interval {low:.3f} to {high:.3f}")
print(f"all, in truth       {truth:.3f}")

# %%
# Is modelling the missingness what makes the predictions good? Not here: on these rows it makes no clear difference to the
# probabilities, and the verdict says so. What it does change is what we believe about them.

print(fill(clf.comparison_.sentence(), 90))

# %%
# A threshold for a sensitivity target
# ------------------------------------
# We want to find nine of ten malignant tumours. On the diagnosed ones that looks easy, and a high threshold seems to do.
# `ThresholdDisplay` counts the others by their corrected probabilities.

display = ThresholdDisplay.from_predictions(
    y,
    clf.held_out_proba_,
    clf.missing_proba_,
    posterior=clf.reference_proba_,
    positive="malignant",
)

# %%
# For any target, not only 90 %: the threshold from the diagnosed tumours against the one from all, and the sensitivity that
# each delivers in truth. Only for the highest targets, which a few hard cases decide, do the two agree.

targets = np.linspace(0.75, 0.98, 24)
naive = np.quantile(risk[labelled & malignant], 1 - targets, method="lower")
robust = np.array([display.thresholds[display.recall >= target].max() for target in targets])

plt.style.use("tableau-colorblind10")
figure, ax = plt.subplots(figsize=(5.6, 3.8), layout="constrained")
for thresholds, name, marker in (
    (robust, "all tumours (marmix)", "o"),
    (naive, "diagnosed tumours only", "s"),
):
    delivered = [np.mean(risk[malignant] >= threshold) for threshold in thresholds]
    ax.plot(targets, delivered, marker + "-", ms=4, label=f"threshold from {name}")
ax.plot(targets, targets, "k:", lw=1, label="as promised")
ax.set(xlabel="sensitivity promised", ylabel="sensitivity delivered", ylim=(0.4, 1))
ax.legend(loc="lower right")

# sphinx_gallery_thumbnail_number = 2
best = display.thresholds[display.recall >= 0.9].max()
print(
    f"threshold for 90 %: {best:.2f}, finds {np.mean(risk[malignant] >= best):.1%} of the malignant tumours"
)
print(f"and calls {np.mean(risk[~malignant] >= best):.1%} of the benign ones malignant")

# %%
# Whom to test next
# -----------------
# The five undiagnosed patients whose class is least clear. :doc:`/auto_examples/plot_next_labels` shows what such
# questions are worth.

waiting = np.flatnonzero(~labelled)
next_patients = waiting[np.argsort(np.abs(risk[waiting] - 0.5))][:5]
X.iloc[next_patients].assign(risk=risk[next_patients].round(2)).round(2)

# %%
# See also
# --------
# :doc:`/guide/files`; :doc:`/guide/scores`; :doc:`/evidence` on how often such intervals hold.
