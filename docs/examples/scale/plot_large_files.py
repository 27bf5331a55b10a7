"""
Files larger than memory
========================

Convert a table once, fit from the converted file, and write predictions to files. Memory stays small however many rows
there are.
"""

# %%
# A Parquet file of **simulated** rows with missing labels: a small one, so that this page is quick to build.

import tempfile
from pathlib import Path

import numpy as np

from marmix import MARGaussianMixture
from marmix.datasets import make_mar_mixture
from marmix.io import to_memmap
from marmix.plotting import MissingnessDisplay

folder = Path(tempfile.mkdtemp())
rows = make_mar_mixture(50_000, n_features=4, separation=2.5, as_frame=True, random_state=0)
kind = np.where(rows.missing, None, np.array(["a", "b"])[rows.target_true])
rows.data.assign(kind=kind).to_parquet(folder / "rows.parquet")

# %%
# `marmix.io.to_memmap` reads the table in batches and writes one file of features and one of labels.

table = to_memmap(folder / "rows.parquet", folder / "rows.npy", label="kind", progress=False)
print(table.X.shape, table.columns, table.classes)
print(f"{np.mean(table.y == -1):.1%} of the labels missing")

# %%
# The estimators take memory maps, and paths of ``.npy`` files. ``n_passes_`` says how often all rows were
# read.

clf = MARGaussianMixture(link="logit").fit(table.X, table.y)
print(clf.means_.round(2), clf.alpha_.round(2), f"{clf.n_passes_} passes", sep="\n")

# %%
# Predictions and imputed labels are written to files, block by block.

clf.predict_proba(folder / "rows.npy", out=folder / "probabilities.npy")
clf.impute(folder / "rows.npy", table.y, out=folder / "labels.npy")
labels = np.load(folder / "labels.npy")
lost = table.y == -1
print(f"imputed labels that are right: {np.mean(labels[lost] == rows.target_true[lost]):.3f}")

# %%
# Displays take rows in files, too.

MissingnessDisplay.from_estimator(clf, table.X, table.y)

# %%
# See also
# --------
# :doc:`/guide/scale`; :doc:`/auto_examples/scale/plot_devices` for graphics cards and clusters; :doc:`/performance`.
