"""
Save, load and serve with ONNX
==============================

A fitted model goes into a file without pickles, is loaded on another machine, or leaves Python altogether as ONNX. Each step
should leave the probabilities alone, so we compare them, and find an export that does not.
"""

# %%
# A fit worth keeping
# -------------------
# scikit-learn's tumours with two thirds of the diagnoses hidden. The scaler is part of the model.

import tempfile
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import marmix
from marmix import MARGaussianMixture, MARLogisticRegression
from marmix.datasets import load_tumours

tumours = load_tumours()
X, y = tumours.data, tumours.target
model = make_pipeline(StandardScaler(), MARLogisticRegression()).fit(X, y)

# %%
# Save and load
# -------------
# The file holds arrays and text. Loading it runs no code, whoever sent it, and a damaged file is refused.

folder = Path(tempfile.mkdtemp())
marmix.save(model, folder / "tumours.marmix")
loaded = marmix.load(folder / "tumours.marmix")
print(f"{(folder / 'tumours.marmix').stat().st_size:,} bytes")
print("same probabilities:", np.array_equal(loaded.predict_proba(X), model.predict_proba(X)))

data = bytearray((folder / "tumours.marmix").read_bytes())
data[len(data) // 2] ^= 1  # one bit
(folder / "damaged.marmix").write_bytes(data)
try:
    marmix.load(folder / "damaged.marmix")
except ValueError as error:
    print("refused:", str(error).replace(str(folder), "."))

# %%
# ONNX
# ----
# ``to_sklearn`` returns the scikit-learn estimator with the same probabilities, and skl2onnx converts it. The mechanism stays
# behind: an ONNX model predicts classes, not whether a label would be missing.


def served(classifier):
    """A function that computes probabilities with onnxruntime, in single precision."""
    from onnxruntime import InferenceSession
    from skl2onnx import to_onnx

    onnx = to_onnx(classifier, X[:1].astype("float32"), options={"zipmap": False})
    session = InferenceSession(onnx.SerializeToString(), providers=["CPUExecutionProvider"])
    return lambda rows: session.run(None, {"X": rows.astype("float32")})[1]


mixture = MARGaussianMixture().fit(X, y)
candidates = {
    "logistic regression": (model, make_pipeline(model[0], model[1].to_sklearn())),
    "mixture, as LDA": (mixture, mixture.to_sklearn()),
}
try:
    exported = {name: (ours, served(theirs)) for name, (ours, theirs) in candidates.items()}
except ImportError as error:
    exported = {}
    print(f"{error}: pip install skl2onnx onnxruntime")

# %%
# Compare before you ship
# -----------------------
# The logistic regression agrees to single precision. The mixture does not: for any linear discriminant analysis with two
# classes skl2onnx 1.20 doubles the log-odds. The predicted classes are right, every probability is wrong, and no error is
# raised. (``to_sklearn`` itself is exact; the export is not.)

plt.style.use("tableau-colorblind10")
figure, ax = plt.subplots(figsize=(4.6, 4.2), layout="constrained")
ax.plot([0, 1], [0, 1], color="0.7", lw=1)
for (name, (ours, theirs)), marker in zip(exported.items(), "os", strict=False):
    expected, answer = ours.predict_proba(X)[:, 1], theirs(X)[:, 1]
    ax.plot(expected, answer, marker, ms=4, mfc="none", label=name)
    print(f"{name:20} largest difference {np.abs(answer - expected).max():.1e}")
ax.set(xlabel="probability of malignant by marmix", ylabel="by onnxruntime")
ax.legend(loc="lower right")

# %%
# One row at a time
# -----------------
# What a service waits for, in microseconds for one row; the times are those of the machine that built this page.

row = X[:1]
ways = {"marmix": model.predict_proba}
if exported:
    ways["onnxruntime"] = exported["logistic regression"][1]
for name, predict in ways.items():
    start = time.perf_counter()
    for _ in range(200):
        predict(row)
    print(f"{name:12} {(time.perf_counter() - start) / 200 * 1e6:6.0f} µs")

# %%
# See also
# --------
# :doc:`/guide/saving`; :doc:`/container` on the format and what a file can and cannot do.
