"""
A network on digits with missing labels
=======================================

`marmix.torch.MissingnessLoss` is a loss for your own network in PyTorch. Here a small one tells even digits from odd ones;
70 % of the labels are missing, hard images first.
"""

# %%
# Labels hidden by another model
# ------------------------------
# Half of the images train the network, the others test it. How hard an image is, is the entropy of a random forest's
# out-of-fold probabilities: labels are not hidden by the model that we train.

import copy

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import cross_val_predict, train_test_split
from torch import nn

from marmix.datasets import hide_labels
from marmix.torch import MissingnessLoss

digits = load_digits()
X, X_test, truth, y_test = train_test_split(
    digits.data.astype("float32") / 16,
    digits.target % 2,
    test_size=0.5,
    stratify=digits.target,
    random_state=0,
)
forest = RandomForestClassifier(200, min_samples_leaf=3, random_state=0)
posterior = cross_val_predict(forest, X, truth, cv=5, method="predict_proba")
hidden = hide_labels(
    truth, posterior, slope=6 / np.log(2), rate=0.7, measure="entropy", random_state=0
)
y = np.where(hidden.missing, -1, truth)

plt.style.use("tableau-colorblind10")
figure, axes = plt.subplots(2, 10, figsize=(8, 1.9), layout="constrained")
for row, name, order in zip(axes, ("label likely", "label unlikely"), (1, -1), strict=True):
    for ax, i in zip(
        row, np.argsort(order * np.asarray(hidden.missing_proba))[:10], strict=True
    ):
        ax.imshow(X[i].reshape(8, 8), cmap="gray_r")
        ax.set(xticks=[], yticks=[])
    row[0].set_ylabel(name, fontsize=7)

# %%
# Training
# --------
# The loss takes the logits and the targets, -1 where the label is missing. A quarter of the rows is held out, labelled and
# unlabelled, for two purposes: training stops when their loss, label loss plus missingness loss, no longer falls, and
# ``profile`` estimates the mechanism from them after each epoch.


def train(network, targets, weight):
    """The network at its best epoch, and the loss with the mechanism."""
    network, loss = (
        copy.deepcopy(network),
        MissingnessLoss(mechanism_weight=weight, train_alpha=False),
    )
    split = train_test_split(
        np.arange(len(X)), test_size=0.25, stratify=targets, random_state=0
    )
    (x, y), (x_held, y_held) = ((torch.tensor(X[i]), torch.tensor(targets[i])) for i in split)
    optimiser = torch.optim.AdamW(network.parameters(), lr=0.002, weight_decay=0.3)
    best, best_epoch, state = np.inf, 0, None
    for epoch in range(151):
        for rows in torch.randperm(len(y)).split(64) if epoch else ():
            optimiser.zero_grad()
            loss(network(x[rows]), y[rows]).backward()
            optimiser.step()
        with torch.no_grad():
            if weight:
                loss.profile(network(x_held), y_held)
            value = loss(network(x_held), y_held).item()
        if value < best:
            best, best_epoch, state = (
                value,
                epoch,
                copy.deepcopy((network.state_dict(), loss.state_dict())),
            )
        elif epoch - best_epoch >= 20:
            break
    network.load_state_dict(state[0])
    loss.load_state_dict(state[1])
    return network, loss


# %%
# First the labels alone, until the network's uncertainty means something; from there on with the mechanism.

torch.manual_seed(0)
torch.set_num_threads(1)  # the network is small
start = nn.Sequential(
    nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2)
)
fits = {"labelled rows only": train(start, y, 0.0)}
fits["with the mechanism"] = train(fits["labelled rows only"][0], y, 1.0)
fits["all labels"] = train(start, truth, 0.0)

# %%
# On the images that were put aside:

with torch.no_grad():
    proba = {
        name: torch.softmax(network(torch.tensor(X_test)), dim=1).numpy()
        for name, (network, _) in fits.items()
    }
for name, p in proba.items():
    right = np.mean(p.argmax(axis=1) == y_test)
    print(
        f"{name:20} log-loss {log_loss(y_test, p):.3f}, accuracy {right:.3f}, AUC {roc_auc_score(y_test, p[:, 1]):.3f}"
    )

# %%
# Left: the network that has seen only the labelled images is too sure of itself on the others. Right: the estimated
# mechanism, and the share of missing labels among training images of about the same entropy.

figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.4), layout="constrained")
for name, p in proba.items():
    bins = np.array_split(np.argsort(p.max(axis=1)), 6)
    confidence = [p[i].max(axis=1).mean() for i in bins]
    marker = {"labelled rows only": "s--", "with the mechanism": "o-", "all labels": "^:"}[name]
    left.plot(
        confidence,
        [np.mean(p[i].argmax(axis=1) == y_test[i]) for i in bins],
        marker,
        label=name,
    )
left.plot([0.5, 1], [0.5, 1], color="k", lw=0.6)
left.set(xlabel="probability of the predicted class", ylabel="share that is right")
left.legend()

network, loss = fits["with the mechanism"]
with torch.no_grad():
    logits = network(torch.tensor(X))
    u, q = loss.mechanism().uncertainty(logits).numpy(), loss.missing_proba(logits).numpy()
order = np.argsort(u)
right.plot(u[order], q[order], color="C1", label="estimated")
bins = np.array_split(order, 8)
right.plot(
    [u[i].mean() for i in bins], [np.mean(y[i] < 0) for i in bins], "ko", ms=4, label="observed"
)
right.set(
    xlabel="entropy of the network's probabilities", ylabel="P(label missing)", ylim=(0, 1.03)
)
right.legend()
# sphinx_gallery_thumbnail_number = 2

# %%
# One task and one seed prove little. :doc:`/guide/networks` has five seeds of this and six other settings: with two classes
# the mechanism helps, with four or ten well-separated ones it does not; and it has advice on weights and stopping.
