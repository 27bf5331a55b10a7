"""What can be asked of a fit besides predictions: inference, imputations, criteria."""

from copy import copy
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from marmix.arrays import brought_here, total
from marmix.estimators.base import MARClassifier, Training
from marmix.estimators.conversion import to_sklearn
from marmix.estimators.summary import Described
from marmix.inference import Criteria, Fitted, Imputations, Inference, counted_weight, require_parameters
from marmix.likelihood import ScoreModel
from marmix.mechanism import Mechanism
from marmix.mechanism.measures import entropy, posterior
from marmix.rows import Engine, Piece
from marmix.rows.checks import check_finite
from marmix.rows.host import HostRows
from marmix.scores.gaussian import GaussianScores
from marmix.streams import in_file
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
        X, y, sample_weight = brought_here("inference", X, y, sample_weight)
        training = self._validated(X, y, sample_weight, reset=False)
        rows: HostRows = training.rows
        if in_file(rows.X) and rows.weight is not None and not np.all(rows.weight):
            raise ValueError("inference on rows in a file needs positive weights: leave the rows of weight zero out.")
        engine = self._engine(training)
        if not rows.moments.same(self.model_.moments):
            raise ValueError(
                "X, y and sample_weight are not the rows that this estimator was fitted to: inference is about those."
            )
        fitted = Fitted(
            model=self.model_,
            engine=engine,
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
        X = self._checked(X)
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
        X, y, sample_weight = brought_here("fitted_to", X, y, sample_weight)
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
        engine = self._engine(training)
        sums = engine.sums(model.theta, self._mechanism_of_fit(training))
        offset = engine.total_weight * model.frame.log_det if model.score_model.joint else 0.0
        entropy_sum = float(np.sum(engine.mapped(_entropy, model.score_model, model.theta)))
        loglik = sums.ignorable + sums.missing + offset
        if model.mechanism is not None and not model.has_mechanism and engine.labelled < engine.n_rows:
            loglik = -np.inf  # the fit saw no missing label, and takes them to be impossible
        return Criteria(loglik, model.n_parameters, counted_weight(model, engine.group_weight), entropy_sum)

    def _engine(self, training: Training) -> Engine:
        """Rows in the axes of the fit."""
        model = self.model_
        engine: Engine = training.rows.engine(training.setting(model.frame, model.score_model, model.tempering))
        return engine

    def _mechanism_of_fit(self, training: Training) -> Mechanism | None:
        """The fitted mechanism in the axes of its covariates; None if there is none, or no label is missing."""
        mechanism = self.model_.mechanism
        if mechanism is None or not self.model_.has_mechanism:
            return None
        return mechanism.moved(np.array(self._starting_values(training, {"alpha": mechanism.alpha})["alpha"]))


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


def _entropy(piece: Piece, model: ScoreModel, theta: Any) -> Any:
    """The entropy of the labels that are missing."""
    x, labelled = piece.x, piece.cuts[-1]
    h = entropy(posterior(model.scores(theta, x[:, labelled:]))).value
    return total(h if piece.weight is None else h * piece.weight[labelled:])
