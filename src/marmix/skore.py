"""Checks for reports of `skore`: what a test on labelled rows hides if other rows have no label.

`checks` gives three of them, for a report of any classifier with `predict_proba`. They see its held-out probabilities of
the labelled rows and its probabilities of the rows without a label, and the entropy of these says how hard a row is.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2, norm

from marmix.core.arrays import Array, select_rows
from marmix.core.labels import number_labels
from marmix.core.mechanism import Mechanism
from marmix.evaluation import Score, accuracy, brier

try:
    from skore import Check, CheckNotApplicable
except ImportError as error:
    raise ImportError("marmix.skore needs skore: pip install 'marmix[skore]'.") from error

__all__ = ["checks"]

_LEVEL = 0.01  # of the tests
_LEAST = 0.05  # difference of two class shares that is worth a tip


def checks(X_unlabelled: Any) -> list[Check]:
    """Return the three checks, for ``report.checks.add``.

    Parameters
    ----------
    X_unlabelled : array-like or table of shape (n, d)
        The rows without a label, with the features of the report's rows.

    Returns
    -------
    list of skore.Check
        MAR001: labels are missing where the classifier is uncertain. With the entropy u of its probabilities,
        logit q = alpha_0 + alpha_1 u, and alpha_1 = 0 is tested by the likelihood ratio at the 1 % level.

        MAR002: accuracy or Brier score of the labelled rows lies beyond the 95 % interval of the doubly robust estimate for all
        rows, with this q and the classifier's own probabilities as posteriors.

        MAR003: the share of a class among the labels differs from its mean probability in the rows without a label, by more than
        5 points and significantly (1 %, divided by the number of classes).

    See Also
    --------
    marmix.evaluation.accuracy : The estimate for all rows.
    marmix.evaluation.missingness_check : Observed and fitted rates of missing labels.

    Examples
    --------
    >>> import skore
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from marmix.datasets import load_tumours
    >>> from marmix.skore import checks
    >>> rows = load_tumours()
    >>> X, y, missing = rows.data, rows.target, rows.target == -1
    >>> forest = RandomForestClassifier(random_state=0)
    >>> with skore.configuration(show_progress=False):
    ...     report = skore.evaluate(forest, X[~missing], y[~missing], splitter=5)
    ...     report.checks.add(checks(X[missing]))
    ...     issues = report.checks.summarize(fast_mode=True).frame(section="issue")
    >>> issues.code[issues.code.str.startswith("MAR")].tolist()
    ['MAR001', 'MAR002']
    """
    return [check(X_unlabelled) for check in (HardRows, LabelledScore, ClassShares)]


class _Rows(NamedTuple):
    """Labelled rows of a report's tests, and as large a share of the rows without a label."""

    z: NDArray[np.integer]  # codes of the classes, -1 without a label
    proba: Array
    classes: NDArray[Any]

    @property
    def scores(self) -> Array:
        """Log probabilities."""
        return np.log(np.maximum(self.proba, np.finfo(float).tiny))

    def mechanism(self) -> Mechanism:
        """The logit of a missing label, linear in the entropy of the probabilities."""
        return Mechanism.from_link("logit", measure="entropy").profile(self.scores, self.z < 0)


class _MissingLabelsCheck(Check):
    """A check that compares labelled rows with the rows X_unlabelled."""

    report_types = ["estimator", "cross-validation"]  # noqa: RUF012, as skore has it
    severity = "issue"

    def __init__(self, X_unlabelled: Any):
        self.X_unlabelled = X_unlabelled

    def check_function(self, report: Any) -> str | None:
        """Return what the check has found in a report, None if nothing."""
        reports = getattr(report, "reports_", [report])  # of the splits
        classifier = reports[0].estimator_
        if "classification" not in report.ml_task or not hasattr(classifier, "predict_proba"):
            raise CheckNotApplicable("It needs a classifier with predict_proba.")
        tested = sum(len(part.y_test) for part in reports)
        labelled = tested if len(reports) > 1 or report.y_train is None else tested + len(report.y_train)
        n = len(self.X_unlabelled)
        places = np.unique(np.linspace(0, n - 1, -(-n * tested // labelled)).astype(int))
        if not len(places):
            raise CheckNotApplicable("No row is without a label.")
        X, classes = select_rows(self.X_unlabelled, places), classifier.classes_
        z = np.concatenate([number_labels(part.y_test, classes) for part in reports])
        given = [part.get_predictions(data_source="test", response_method="predict_proba") for part in reports]
        others = np.mean([part.estimator_.predict_proba(X) for part in reports], axis=0)
        return self._found(
            _Rows(np.append(z, np.full(len(places), -1)), np.vstack([*given, others]), np.asarray(classes))
        )

    def _found(self, rows: _Rows) -> str | None:
        raise NotImplementedError


class HardRows(_MissingLabelsCheck):
    """Whether labels are missing where the classifier is uncertain."""

    code = "MAR001"
    title = "Hard rows without labels"

    def _found(self, rows: _Rows) -> str | None:
        missing, mechanism = rows.z < 0, rows.mechanism()
        q, u = mechanism.missing_proba(rows.scores), mechanism.uncertainty(rows.scores)
        constant = np.where(missing, missing.mean(), 1.0 - missing.mean())
        gain = np.log(np.where(missing, q, 1.0 - q) / constant).sum()
        if mechanism.alpha[1] <= 0.0 or chi2.sf(2.0 * gain, 1) >= _LEVEL:
            return None
        easy, hard = q[u <= np.quantile(u, 0.1)].mean(), q[u >= np.quantile(u, 0.9)].mean()
        return (
            f"Of the tenth of the rows about which the classifier is most certain {easy:.0%} have no label, of the tenth "
            f"about which it is least certain {hard:.0%}. Scores of labelled rows are those of easy rows."
        )


class LabelledScore(_MissingLabelsCheck):
    """Whether the score of the labelled rows is too good for all rows."""

    code = "MAR002"
    title = "Score too good on labelled rows"

    def _found(self, rows: _Rows) -> str | None:
        y = np.where(rows.z >= 0, rows.classes.astype(object)[rows.z], None)
        q = np.minimum(rows.mechanism().missing_proba(rows.scores), 1.0 - 1.0 / len(y))

        def words(name: str, score: Score) -> str:
            low, high = score.interval
            return f"{name} is {score.plain:.3f} on labelled rows, about {score.value:.3f} ({low:.3f} to {high:.3f}) on all"

        hits, loss = (
            score(y, rows.proba, q, classes=rows.classes, posterior=rows.proba) for score in (accuracy, brier)
        )
        if hits.plain <= hits.interval[1] and loss.plain >= loss.interval[0]:
            return None
        return f"If the features tell why labels are missing: {words('accuracy', hits)}; {words('Brier score', loss)}."


class ClassShares(_MissingLabelsCheck):
    """Whether a class is more frequent in the rows without a label than among the labels, or less."""

    code = "MAR003"
    title = "Class shares of labels and predictions"
    severity = "tip"

    def _found(self, rows: _Rows) -> str | None:
        labels, proba = rows.z[rows.z >= 0], rows.proba[rows.z < 0]
        given, other = np.bincount(labels, minlength=len(rows.classes)) / len(labels), proba.mean(axis=0)
        error = np.sqrt(given * (1.0 - given) / len(labels) + proba.var(axis=0) / len(proba))
        beyond = np.abs(other - given) - np.maximum(_LEAST, norm.isf(0.5 * _LEVEL / len(given)) * error)
        k = int(beyond.argmax())
        if beyond[k] <= 0.0:
            return None
        return (
            f"Class {str(rows.classes[k])!r} has {given[k]:.0%} of the labels and {other[k]:.0%} of the predictions for rows "
            "without a label. If labels are missing because of the class, only an audit can tell how good predictions are: "
            "marmix.Audit."
        )
