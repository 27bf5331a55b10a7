"""A small network on handwritten digits whose labels are missing for a reason: what `marmix.torch` adds to it.

Half of scikit-learn's digits train, the others test. A random forest that saw every label says how hard a row is, P(missing) =
expit(a + 6 H / log K) with H the entropy of its out-of-fold probabilities, or labels are missing completely at random. A network
(two hidden layers of 64, AdamW, early stopping on a quarter of the training rows, held out whole) is trained on the labelled
rows, and from there with the mechanism at several weights, alpha profiled on the held-out rows after each epoch; and on all
labels. "chosen" takes, of the labelled-only network and those with the mechanism, the one with the least label loss +
missingness loss on the held-out rows; "average" is the mean of their probabilities.

    python benchmarks/network.py [--seeds 5] [--rate 0.7]     # about ten minutes on one core
"""

from copy import deepcopy

import numpy as np
import torch
from common import tables
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import cross_val_predict, train_test_split
from torch import nn

from marmix.datasets import hide_labels
from marmix.torch import MissingnessLoss

TASKS = {
    "even or odd": lambda X, y, rng: (X, y % 2),
    "below five or not": lambda X, y, rng: (X, (y >= 5).astype(int)),
    "3, 5, 8 or 9": lambda X, y, rng: (X[np.isin(y, [3, 5, 8, 9])], np.searchsorted([3, 5, 8, 9], y[np.isin(y, [3, 5, 8, 9])])),
    "ten digits": lambda X, y, rng: (X, y),
    "ten digits, noisy": lambda X, y, rng: (X + 0.3 * rng.normal(size=X.shape), y),
}  # fmt: skip
WEIGHTS = (0.1, 0.3, 1.0)
EPOCHS, PATIENCE = 150, 20


def hide(X, y, rate, by, seed):
    """Labels with -1 where they are hidden."""
    forest = RandomForestClassifier(200, min_samples_leaf=3, random_state=seed)
    proba = cross_val_predict(forest, X, y, cv=5, method="predict_proba")
    link, slope = ("logit" if by == "difficulty" else None), 6.0 / np.log(proba.shape[1])
    hidden = hide_labels(y, proba, link, None, slope, rate, measure="entropy", at_least=4, random_state=seed)
    return np.where(hidden.missing, -1, y)


def train(network, weight, rows, held_out):
    """Train the network until the loss of the held-out rows stops falling, and return it at its best."""
    network, loss = deepcopy(network), MissingnessLoss(mechanism_weight=weight, train_alpha=False)
    optimiser = torch.optim.AdamW(network.parameters(), lr=0.002, weight_decay=0.3)
    (x, y), (x_held, y_held) = rows, held_out
    best, best_epoch, state = np.inf, 0, None
    for epoch in range(EPOCHS + 1):
        for batch in torch.randperm(len(y)).split(64) if epoch else ():
            optimiser.zero_grad()
            loss(network(x[batch]), y[batch]).backward()
            optimiser.step()
        with torch.no_grad():
            if weight:
                loss.profile(network(x_held), y_held)
            value = loss(network(x_held), y_held).item()
        if value < best:
            best, best_epoch, state = value, epoch, deepcopy(network.state_dict())
        elif epoch - best_epoch >= PATIENCE:
            break
    network.load_state_dict(state)
    return network


def evidence(network, held_out):
    """Label loss + missingness loss of the held-out rows, with the mechanism that fits them best."""
    loss = MissingnessLoss(train_alpha=False)
    with torch.no_grad():
        loss.profile(network(held_out[0]), held_out[1])
        return loss(network(held_out[0]), held_out[1]).item()


def one(task, by, rate, seed):
    """Log-loss, accuracy and AUC on the test rows, by method."""
    rng = np.random.default_rng(seed)
    digits = load_digits()
    X, y = TASKS[task](digits.data / 16.0, digits.target, rng)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.5, random_state=seed, stratify=y)
    z = hide(X, y, rate, by, seed)
    K = int(y.max()) + 1
    torch.manual_seed(seed)
    start = nn.Sequential(nn.Linear(X.shape[1], 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, K))
    index = train_test_split(np.arange(len(z)), test_size=0.25, random_state=seed, stratify=z)
    parts, complete = (
        [(torch.tensor(X[i], dtype=torch.float32), torch.tensor(labels[i])) for i in index] for labels in (z, y)
    )
    fits = {"labelled rows": train(start, 0.0, *parts)}
    fits |= {f"mechanism, weight {w:g}": train(fits["labelled rows"], w, *parts) for w in WEIGHTS}
    fits["chosen"] = min(fits.values(), key=lambda network: evidence(network, parts[1]))
    fits["all labels"] = train(start, 0.0, *complete)
    test = torch.tensor(X_test, dtype=torch.float32)
    with torch.no_grad():
        proba = {name: torch.softmax(network(test).double(), dim=1).numpy() for name, network in fits.items()}
    proba["average"] = np.mean(list(proba.values())[: 1 + len(WEIGHTS)], axis=0)

    def scores(p):
        auc = roc_auc_score(y_test, p if K > 2 else p[:, 1], multi_class="ovr")
        return log_loss(y_test, p), np.mean(p.argmax(axis=1) == y_test), auc

    return {name: scores(p) for name, p in proba.items()}


def main():
    parser = tables.parser_of(__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--rate", type=float, default=0.7, help="share of missing labels")
    args = parser.parse_args()
    torch.set_num_threads(1)
    report, columns = tables.Report(), {"digits": "", "labels missing by": "", "method": ""}
    columns |= {"log-loss": ".3f", "accuracy": ".3f", "AUC": ".3f", "gap closed": ".2f"}
    table = report.table("network", columns, keys=3, within=0.05)
    for task, by in [*((task, "difficulty") for task in TASKS), ("even or odd", "chance"), ("ten digits", "chance")]:
        runs = [one(task, by, args.rate, args.first + seed) for seed in range(args.seeds)]
        means = {name: np.mean([run[name] for run in runs], axis=0) for name in runs[0]}
        first, last = means["labelled rows"][0], means["all labels"][0]
        for name, scores in means.items():
            table.add(task, by, name, *scores, (first - scores[0]) / (first - last))
    report.write(args.json)


if __name__ == "__main__":
    main()
