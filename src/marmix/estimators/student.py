"""`MARStudentMixture`: class densities are Student-t mixtures, whose tails may be heavy."""

from dataclasses import dataclass
from numbers import Real
from typing import Any

from marmix.core.covariance import structure
from marmix.core.notes import Note, tail_notes
from marmix.core.student import DOFS, TAIL_MAX, TAIL_MIN, StudentScores
from marmix.estimators.base import FromModel
from marmix.estimators.mixture import MARGaussianMixture
from marmix.estimators.validation import Rule
from marmix.fitting.restarts import fit_student


@dataclass(kw_only=True, eq=False, repr=False)
class MARStudentMixture(MARGaussianMixture):
    r"""Student-t mixture classifier for partially labelled data whose labels are missing for a reason.

    `MARGaussianMixture` with heavier tails. The density of class k (or of each of its components) is

    .. math::

        f_k(x) \propto |\Sigma_k|^{-1/2}
            \left( 1 + \frac{(x - \mu_k)^T \Sigma_k^{-1} (x - \mu_k)}{\nu_k} \right)^{-(\nu_k + d) / 2}

    with degrees of freedom nu to estimate. A row far from all classes then counts little in the estimates and has an uncertain
    label, where Gaussian classes would be sure of it. With infinite degrees of freedom the classes are Gaussian; the fit starts
    there, so that its log-likelihood is never below that of the Gaussian mixture.

    Parameters
    ----------
    dof : "common", "by_class" or float, default="common"
        Degrees of freedom: estimated, the same for all classes or one value a class (shared by the components of a class), or a
        given number from 1 (Cauchy) to infinity (Gaussian).
    covariance_type : {"full", "tied", "diag", "spherical"}, default="tied"
        Structure of the scale matrices Sigma, as of the covariances of `MARGaussianMixture`.
    n_components, link, shape, measure, mcar_share, mechanism_weight, mechanism_features, delta, classes
        As in `MARGaussianMixture`.
    solver : {"lbfgs"}, default="lbfgs"
        "ecm" is for Gaussian mixtures only.
    init : {"labelled", "kmeans"}, default="labelled"
        Starting values of the Gaussian mixture that is fitted first, as in `MARGaussianMixture`.
    n_init, warm_start, reg_covar, max_iter, tol, random_state, verbose
        As in `MARGaussianMixture`.

    Attributes
    ----------
    dof_ : array of shape (K,)
        Degrees of freedom of each class; infinite if its tails are no heavier than those of a Gaussian.
    scales_ : array
        Scale matrices Sigma of the components, in the shapes of :class:`sklearn.mixture.GaussianMixture`.
    covariances_ : array
        Covariances of the components, :math:`\Sigma \nu / (\nu - 2)`: infinite if nu is at most 2. One for
        each component if the scale matrix is tied and dof="by_class".
    weights_, means_, component_classes_, class_prior_, alpha_, ... :
        As in `MARGaussianMixture`.

    See Also
    --------
    MARGaussianMixture : lighter tails, and one parameter less.
    compare : whether the tails are worth it, by an information criterion.

    Examples
    --------
    >>> import numpy as np
    >>> from marmix import MARStudentMixture
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(2, size=400)
    >>> X = rng.standard_t(3, size=(400, 2)) + np.where(y == 1, 2.0, -2.0)[:, None]
    >>> hard = np.abs(X.sum(axis=1)) < rng.exponential(2.0, size=400)
    >>> y_partial = np.where(hard, -1, y)
    >>> clf = MARStudentMixture().fit(X, y_partial)
    >>> bool(clf.dof_[0] < 10)    # heavy tails
    True
    >>> bool(np.mean(clf.transduction_ == y) > 0.9)
    True
    """

    dof_ = FromModel()
    scales_ = FromModel()

    dof: str | float = "common"

    _search = staticmethod(fit_student)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.dof not in DOFS:
            Rule(Real, lambda v: v >= 1, "'common', 'by_class' or a number from 1 on").check("dof", self.dof)
        if self.solver == "ecm":
            raise ValueError("solver='ecm' is for Gaussian mixtures: use solver='lbfgs', which estimates dof as well.")

    def _score_model(self, d: int, counts: list[int]) -> StudentScores:
        return StudentScores(structure(self.covariance_type, d), counts, self.reg_covar, self.dof)

    def _tail_notes(self, model: Any, theta: Any) -> list[Note]:
        """Notes on degrees of freedom at a limit of their range."""
        return list(tail_notes(theta.tail, model.owner, TAIL_MIN, TAIL_MAX)) if model.n_tails else []
