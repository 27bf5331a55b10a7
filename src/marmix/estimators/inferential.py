"""What can be asked of a fit besides predictions: inference, imputations, criteria."""

from copy import copy
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from marmix.arrays import to_host_or_refuse
from marmix.estimators.base import MARClassifier, Training
from marmix.estimators.conversion import to_sklearn
from marmix.estimators.summary import Described
from marmix.fitting import Objective
from marmix.inference import Criteria, Fitted, Imputations, Inference, counted_weight, require_parameters
from marmix.mechanism import Mechanism
from marmix.rows import HostRows
from marmix.rows.checks import check_finite
from marmix.scores.gaussian import GaussianScores
from marmix.workers import one_thread


class InferentialClassifier(Described, MARClassifier):
    """An estimator that knows how sure it is of its parameters. Not for direct use."""

    def inference(self, X: Any, y: Any, sample_weight: Any = None, *, cov_type: str = "sandwich") -> Inference:
        """Standard errors, intervals and tests of this fit.

        Parameters
        ----------
        X, y, sample_weight
            The rows that were fitted; the estimator does not keep them. Weights count rows: those of a survey, or inverse
            probabilities, would give standard errors of as many rows as they sum to.
        cov_type : {"sandwich", "observed", "expected"}, default="sandwich"
            Where standard errors come from. "sandwich" holds also where the model is wrong.

        Returns
        -------
        Inference
            With `params`, `bse`, `conf_int()`, `summary()`, ...
        """
        check_is_fitted(self)
        require_parameters(self.model_)
        X, y, sample_weight = to_host_or_refuse("inference", X, y, sample_weight)
        training = self._validated(X, y, sample_weight, reset=False)
        rows = training.rows
        assert isinstance(rows, HostRows)
        if rows.in_file and rows.weight is not None and not np.all(rows.weight):
            raise ValueError("inference on rows in a file needs positive weights: leave the rows of weight zero out.")
        if not rows.moments.same(self.model_.moments):
            raise ValueError(
                "X, y and sample_weight are not the rows that this estimator was fitted to: inference is about those."
            )
        fitted = Fitted(
            model=self.model_,
            objective=self._objective(training),
            mechanism=self._mechanism_of_fit(training),
            covariates=training.covariates,
            estimator=numbered(self),
            X=rows.counted,
            z=rows.labels,
            weight=rows.weight,
            kept=np.arange(len(rows.X)) if rows.kept is None else rows.kept,
            n_rows=len(rows.X),
            checked=self._checked_values,
        )
        with one_thread():
            return Inference(fitted, cov_type, pandas=hasattr(X, "iloc"))

    def _checked_values(self, X: Any) -> Any:
        """Rows to predict, their values looked at."""
        X = self._rows_of(X).X
        check_finite(X, self.model_.column_names)
        return X

    def to_sklearn(self) -> Any:
        """The classifier of scikit-learn with the same class probabilities, fitted: for tools that know those, such as ONNX.

        Tied covariance gives `LinearDiscriminantAnalysis`, full `QuadraticDiscriminantAnalysis`, diag and spherical `GaussianNB`,
        a logistic regression `LogisticRegression`, behind `PolynomialFeatures` where degree is 2. Several Gaussians a class have
        no counterpart there, nor has `missing_proba`.
        """
        return to_sklearn(self)

    def fitted_to(self, X: Any, y: Any, sample_weight: Any = None) -> bool:
        """Whether these are the rows of the fit, by their sums: the estimator does not keep the rows."""
        check_is_fitted(self)
        X, y, sample_weight = to_host_or_refuse("fitted_to", X, y, sample_weight)
        return bool(self._validated(X, y, sample_weight, reset=False).rows.moments.same(self.model_.moments))

    def multiple_imputations(
        self, X: Any, y: Any, m: int = 20, random_state: Any = None, sample_weight: Any = None
    ) -> Imputations:
        """Labels imputed m times to the rows of the fit, for analyses of your own whose results `pool` combines.

        Each time parameters are drawn from their distribution, then labels given them. Every variable of the analysis must
        be among the features, its outcome too, or it will find too little of what it seeks.
        """
        return self.inference(X, y, sample_weight).multiple_imputations(m, random_state)

    def aic(self, X: Any = None, y: Any = None, sample_weight: Any = None) -> float:
        """Akaike's information criterion, the smaller the better; of the fit, or of other rows. See `marmix.compare`."""
        return self._criteria(X, y, sample_weight).aic()

    def bic(self, X: Any = None, y: Any = None, sample_weight: Any = None) -> float:
        """Schwarz's (Bayesian) information criterion, the smaller the better; of the fit, or of other rows."""
        return self._criteria(X, y, sample_weight).bic()

    def icl(self, X: Any = None, y: Any = None, sample_weight: Any = None) -> float:
        """Integrated classification likelihood: BIC plus twice the entropy of the imputed labels, the smaller the better."""
        return self._criteria(X, y, sample_weight).icl()

    def _criteria(self, X: Any = None, y: Any = None, sample_weight: Any = None) -> Criteria:
        """The information criteria of the fit, or of its parameters and other rows."""
        check_is_fitted(self)
        if (X is None) != (y is None):
            raise ValueError("give both X and y, or neither for the rows of the fit.")
        model = self.model_
        if X is None:
            return Criteria.of(model)
        training = self._validated(X, y, sample_weight, reset=False)
        objective = self._objective(training)
        engine = objective.engine
        sums = objective.sums(model.theta, self._mechanism_of_fit(training))
        loglik = sums.ignorable + sums.missing + objective.offset
        if model.mechanism is not None and not model.has_mechanism and engine.labelled < engine.n_rows:
            loglik = -np.inf  # the fit saw no missing label, and takes them to be impossible
        n = counted_weight(model, engine.group_weight)
        return Criteria(loglik, model.n_parameters, n, objective.entropy(model.theta))

    def _objective(self, training: Training) -> Objective:
        """The objective of the fit, over these rows."""
        return training.objective(self.model_.frame, self.model_.score_model, self.model_.tempering)

    def _mechanism_of_fit(self, training: Training) -> Mechanism | None:
        """The fitted mechanism in the axes of its covariates; None if there is none, or no label is missing."""
        mechanism = self.model_.mechanism
        if mechanism is None or not self.model_.has_mechanism:
            return None
        return mechanism.moved(training.covariates.alpha_from_user(mechanism.alpha))


def numbered(estimator: Any) -> Any:
    """A copy of a fitted estimator whose classes are 0, 1, ... and whose features have no names, to be fitted to other rows."""
    other, model = copy(estimator), estimator.model_
    other.model_ = model.renamed()
    other.classes = None
    if model.columns:
        other.mechanism_features = model.columns
    if isinstance(model.score_model, GaussianScores):
        other.n_components = dict(enumerate(model.score_model.counts))
    return other
