"""Which files are called doubtful when labels are missing on one side, or because of the label, and which by mistake.

For every setting: how often the two checks of the mechanism fail, and how often the sentence of `test_informative` of a tied
mixture is cautious (it claims nothing where p >= 0.05); the share of wrong imputed labels, and what the model expects; and the
share of files in which the 95 % interval of the share of class 1 covers the truth, at odds ratio 1 and at the true odds ratio:
with the model kept (pattern-mixture), and with the tied mixture fitted again (selection). Labels of class 1 are lost with the
odds ratio in the name of the setting.

    python benchmarks/doubts.py [--files 30] [--average] [--only TEXT]

The model is the tied mixture (four minutes on one core) or, with --average, `MARClassifierCV`.
"""

import warnings

import numpy as np
from common import tables
from scipy.special import expit, logit

from marmix import MARClassifierCV, MARGaussianMixture
from marmix.datasets import make_mar_mixture
from marmix.estimators.doubts import label_term, one_sided

UNEQUAL = {"means": [[0.0, 0.0], [2.0, 0.0]], "covariances": [np.eye(2), [[2.0, 0.8], [0.8, 0.7]]]}


def lost_on_one_side(log_tau):
    """The squared margin where the second class is more probable; elsewhere a value at which no label is lost."""
    tau = np.exp(log_tau)
    return np.where(tau[:, 1] > tau[:, 0], (tau[:, 1] - tau[:, 0]) ** 2, 100.0)


RIGHT = {
    "Gaussian, 300 rows": {"n_samples": 300, "rate": 0.5},
    "Gaussian, 1000 rows": {"n_samples": 1000},
    "Gaussian, unequal covariances": {"n_samples": 1000, "distribution": ("gaussian", UNEQUAL)},
    "Gaussian, 3 classes": {"n_samples": 1000, "n_classes": 3},
    "Student": {"n_samples": 1000, "distribution": "student"},
    "Laplace, 4 features": {"n_samples": 1000, "distribution": "laplace", "n_features": 4},
    "Gamma": {"n_samples": 1000, "distribution": "gamma"},
    "Gaussian, completely at random": {"n_samples": 1000, "link": None, "rate": 0.6},
    "Student, completely at random": {"n_samples": 1000, "distribution": "student", "link": None, "rate": 0.6},
    "Gamma, completely at random": {"n_samples": 1000, "distribution": "gamma", "link": None, "rate": 0.6},
}
WRONG = {
    "hard rows on one side": ({"n_samples": 1000, "measure": lost_on_one_side, "slope": -6.0, "rate": 0.4}, None),
    "one side of the boundary": ({"n_samples": 1000, "measure": "signed-margin", "rate": 0.55}, None),
    "because of the label, 3.5": ({"n_samples": 1000, "rate": 0.0}, (0.4, 0.7)),
    "because of the label, 13": ({"n_samples": 1000, "rate": 0.0}, (0.3, 0.85)),
    "because of the label, 13, 300 rows": ({"n_samples": 300, "rate": 0.0}, (0.3, 0.85)),
    "because of the label, 13, Student": ({"n_samples": 1000, "rate": 0.0, "distribution": "student"}, (0.3, 0.85)),
    "because of the label, 44": ({"n_samples": 1000, "rate": 0.0}, (0.3, 0.95)),
    "hard rows and the label, 4.5": ({"n_samples": 1000, "rate": 0.5}, 1.5),
}


def rows(setting, how, seed):
    """Features, labels with -1 where missing, all labels, and the log odds ratio (None if there is none)."""
    data = make_mar_mixture(random_state=seed, at_least=0 if how else 5, **setting)
    if how is None:
        return data.data, data.target, data.target_true, None
    y = data.target_true
    if isinstance(how, tuple):
        q, delta = np.array(how)[y], logit(how[1]) - logit(how[0])
    else:
        q, delta = expit(logit(np.clip(data.missing_proba, 1e-9, 1 - 1e-9)) - 0.5 * how + how * y), how
    return data.data, np.where(np.random.default_rng(seed + 1).uniform(size=len(y)) < q, -1, y), y, delta


def one(setting, how, seed, average):
    """The numbers of one file."""
    X, z, y, delta = rows(setting, how, seed)
    mixture = MARGaussianMixture(covariance_type="tied", link="logit").fit(X, z)
    model = MARClassifierCV().fit(X, z) if average else mixture
    p, lost = model.predict_proba(X), z < 0
    held_out = model.reference_proba_ if average else p
    cautious = bool(mixture.inference(X, z).test_informative(bootstrap=False).details["checks"])
    covers = [np.nan] * 4
    if delta is not None:
        covers = []
        for clf, method in ((model, {"method": "pattern-mixture"} if model is mixture else {}), (mixture, {})):
            sweep = clf.sensitivity(X, z, [0.0, 0.5 * delta, delta], label=1, **method)
            covers += [low <= np.mean(y == 1) <= high for low, high in sweep.share_interval[[0, -1]]]
    checks = [one_sided(z, held_out) is not None, label_term(X, z) is not None]
    return [
        *checks,
        any(checks),
        cautious,
        np.mean(p.argmax(axis=1)[lost] != y[lost]),
        1 - p[lost].max(axis=1).mean(),
        *covers,
    ]


def main():
    parser = tables.parser_of(__doc__)
    parser.add_argument("--files", type=int, default=30)
    parser.add_argument("--average", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="settings whose name contains this text")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    report, columns = tables.Report(), ["one-sided", "label term", "either", "test cautious", "wrong", "expected"]
    columns += ["covered, odds 1", "covered, true odds", "selection, odds 1", "selection, true odds"]
    table = report.table("doubts", {"files": "", **dict.fromkeys(columns, ".2f")})
    settings = {name: (setting, None) for name, setting in RIGHT.items()} | WRONG
    for name, (setting, how) in settings.items():
        if args.only in name:
            values = [one(setting, how, args.seed + seed, args.average) for seed in range(args.files)]
            table.add(name, *map(tables.mean, np.transpose(values)))
    report.write(args.json)


if __name__ == "__main__":
    main()
