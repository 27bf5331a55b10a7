"""Which measure of uncertainty for more than two classes? Held-out log-loss of each measure under each mechanism.

Gaussian classes with a common covariance, 600 rows, 70 % of the labels missing by a logit mechanism in one measure,
fitted with every measure (Aranda-Ordaz, shape estimated, tied covariance). `recovered` is the part of the loss between
ignoring the mechanism and having all labels that modelling it wins back, with a 95 % interval over replicates.

    python benchmarks/measures.py [--replicates 30]
"""

import argparse
import warnings

import numpy as np
from scipy.optimize import brentq
from sklearn.metrics import log_loss

from marmix import MARGaussianMixture, Mechanism

SLOPES = {"margin": -6.0, "entropy": 4.0, "log-entropy": 2.0, "gini": 8.0}


def draw(rng, n, means):
    y = rng.integers(len(means), size=n)
    return rng.normal(size=(n, means.shape[1])) + means[y], y


def hide(rng, scores, y, measure, rate=0.7):
    """Labels without those that a logit mechanism in the true uncertainty loses."""
    u = Mechanism(measure).measure(scores)

    def q(level):
        return 1.0 / (1.0 + np.exp(-level - SLOPES[measure] * u))

    level = brentq(lambda at: q(at).mean() - rate, -60.0, 60.0)
    return np.where(rng.uniform(size=len(y)) < q(level), -1, y)


def replicate(seed, means, hidden_by):
    """Held-out log-loss with all labels, with the mechanism ignored, and with each measure."""
    rng = np.random.default_rng(seed)
    X, y = draw(rng, 600, means)
    fresh, truth = draw(rng, 5000, means)
    partial = hide(rng, X @ means.T - 0.5 * (means**2).sum(axis=1), y, hidden_by)
    fits = {"all": (MARGaussianMixture(link=None, covariance_type="tied"), y)}
    fits["ignored"] = (MARGaussianMixture(link=None, covariance_type="tied"), partial)
    fits |= {name: (MARGaussianMixture(uncertainty=name, covariance_type="tied"), partial) for name in SLOPES}
    return {name: log_loss(truth, clf.fit(X, labels).predict_proba(fresh)) for name, (clf, labels) in fits.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replicates", type=int, default=30)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"mean held-out log-loss over {args.replicates} replicates\n")
    print(
        "| classes | hidden by | all labels | ignored | "
        + " | ".join(f"{name}: loss, recovered" for name in SLOPES)
        + " |"
    )
    print("|---|---|---|---|" + "---|" * len(SLOPES))
    for classes, d in ((2, 2), (4, 5)):
        means = 1.8 * np.eye(classes, d)
        for hidden_by in SLOPES:
            losses = [replicate(seed, means, hidden_by) for seed in range(args.replicates)]
            mean = {name: np.mean([loss[name] for loss in losses]) for name in losses[0]}
            cells = [classes, hidden_by, f"{mean['all']:.4f}", f"{mean['ignored']:.4f}"]
            for name in SLOPES:
                gap = mean["ignored"] - mean["all"]
                gains = np.array([loss["ignored"] - loss[name] for loss in losses]) / gap
                half = 1.96 * gains.std(ddof=1) / np.sqrt(len(gains))
                cells.append(f"{mean[name]:.4f}, {100 * gains.mean():.0f} ± {100 * half:.0f} %")
            print("| " + " | ".join(map(str, cells)) + " |", flush=True)


if __name__ == "__main__":
    main()
