"""Labels lost on one side: an example where the symmetric mechanism misleads, and the check that shows it.

python docs/one_sided.py
"""

import warnings

import numpy as np
from sklearn.metrics import log_loss

from marmix import MARLogisticRegression
from marmix.evaluation import missingness_check


def applicants(n, rng):
    """A score of two features; whoever looks like a default (class 1) is seldom accepted, and only the accepted are labelled."""
    X = rng.normal(size=(n, 2))
    risk = 1 / (1 + np.exp(-1.0 - 2.0 * X[:, 0] - X[:, 1]))
    y = (rng.uniform(size=n) < risk).astype(int)
    return X, y, np.where(rng.uniform(size=n) < 1 / (1 + np.exp(-6.0 * (risk - 0.45))), -1, y)


def main():
    """Print the three fits and the two checks."""
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    X, _, y = applicants(1500, rng)
    fresh, truth, _ = applicants(20_000, rng)
    print(f"{np.mean(y < 0):.0%} of 1500 labels missing\n")
    fits = {
        "mechanism ignored": MARLogisticRegression(link=None),
        "symmetric (margin)": MARLogisticRegression(link="logit", measure="margin"),
        "one-sided (signed-margin)": MARLogisticRegression(link="logit", measure="signed-margin"),
    }
    print("truth                      intercept 1.00  slopes 2.00 1.00")
    for name, clf in fits.items():
        clf.fit(X, y)
        loss = log_loss(truth, clf.predict_proba(fresh))
        slopes = " ".join(f"{w:.2f}" for w in clf.coef_[0])
        print(f"{name:26} intercept {clf.intercept_[0]:.2f}  slopes {slopes}  held-out log-loss {loss:.3f}")
    for name in list(fits)[1:]:
        print(f"\n{name}: missing labels by the probability of class 1")
        print(missingness_check(y, fits[name].missing_proba(X), fits[name].predict_proba(X)[:, 1]))


if __name__ == "__main__":
    main()
