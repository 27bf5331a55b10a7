"""
Graphics cards and clusters: the data decide
============================================

There is no ``device=`` parameter. Pass NumPy arrays and the fit runs on the CPU; pass torch tensors and it runs where they are;
pass Dask arrays and it runs on the workers that hold them. This page fits the same rows in four ways and compares the results.
"""

# %%
# The rows are **simulated**: 40,000 of them with 70 % of the labels missing, few enough to build this page quickly.

import matplotlib.pyplot as plt
import numpy as np
import torch

from marmix import MARGaussianMixture
from marmix.datasets import make_mar_mixture

rows = make_mar_mixture(40_000, n_features=6, rate=0.7, random_state=0)
X, y = rows.data, rows.target
fits = {"NumPy": MARGaussianMixture().fit(X, y)}
reference = fits["NumPy"].predict_proba(X)

# %%
# torch
# -----
# These tensors are on the CPU, so that the page can be built anywhere. On a graphics card, write
# ``torch.as_tensor(X, device="cuda")``; nothing else changes. ``precision="single"`` does most of the arithmetic with 32 bits,
# which is faster on most cards.

torch.set_num_threads(1)
tensors = torch.as_tensor(X), torch.as_tensor(y)
fits["torch"] = MARGaussianMixture().fit(*tensors)
fits["torch, single"] = MARGaussianMixture(precision="single").fit(*tensors)
proba = fits["torch"].predict_proba(tensors[0])
print(type(proba).__name__, proba.dtype, proba.device)

# %%
# Dask
# ----
# A cluster of two workers in this process; on a real one, give `Client` the address of the scheduler. The workers keep their
# rows, and only sums travel. Predictions are Dask arrays too, computed when asked for.

try:
    import dask.array as da
    from distributed import Client
except ImportError:
    print("Dask is not installed: pip install '.[dask]' in a clone")
else:
    with Client(processes=False, n_workers=2, threads_per_worker=1, dashboard_address=None):
        chunks = da.from_array(X, chunks=(10_000, 6)), da.from_array(y, chunks=10_000)
        fits["Dask"] = MARGaussianMixture().fit(*chunks)
        print(fits["Dask"].predict_proba(chunks[0])[:3].compute().round(3))

# %%
# The same answer
# ---------------
# The largest difference from the NumPy fit in any of the 40,000 probabilities, and the estimates in units of their standard
# error. Single precision moves the estimates by a small fraction of what chance does.

result = fits["NumPy"].inference(X, y)
error_of_slope = result.bse[result.param_names.index("alpha_1")]
apart = {}
for name, clf in fits.items():
    apart[name] = np.abs(np.asarray(clf.predict_proba(X)) - reference).max()
    shift = abs(float(clf.alpha_[1]) - float(fits["NumPy"].alpha_[1])) / error_of_slope
    print(
        f"{name:14} largest difference {apart[name]:.1e}, slope moved by {shift:.1e} standard errors"
    )

plt.style.use("tableau-colorblind10")
figure, ax = plt.subplots(figsize=(5.8, 2.6), layout="constrained")
others = {name: value for name, value in apart.items() if name != "NumPy"}
ax.barh(list(others), [max(value, 1e-17) for value in others.values()])
ax.set(
    xscale="log",
    xlim=(1e-17, 1),
    xlabel="largest difference in a probability from the NumPy fit",
)
ax.axvline(1e-2, color="k", ls=":", lw=1)
ax.annotate("1 %", (1.5e-2, 0.5), va="center")
ax.invert_yaxis()

# %%
# See also
# --------
# :doc:`/guide/scale`; :doc:`/performance` has times and memory, on an H200 among others;
# :doc:`/auto_examples/scale/plot_large_files` for files on one machine.
