"""Posteriors of unlabelled rows at parameters drawn from their distribution."""

from collections.abc import Callable
from typing import Any

import numpy as np

from marmix.core.arrays import AnyArray, Array, quiet
from marmix.core.measures import posterior
from marmix.core.mechanism import Mechanism
from marmix.engines import block_rows
from marmix.inference.fitted import Fitted


def posterior_draws(fitted: Fitted, cov_type: str = "sandwich") -> tuple[Callable[[np.random.Generator], Array], bool]:
    """A function that draws parameters and returns the posteriors (n, K) of the unlabelled rows, and whether some are held."""
    fitted.require_covariance(cov_type)
    covariance, blind = fitted.information.covariance(cov_type)
    coordinates = fitted.coordinates
    size = coordinates.size if fitted.model.has_label_term else coordinates.n_theta
    low, high = coordinates.bounds.T
    values, vectors = np.linalg.eigh(covariance[:size, :size])
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    X = fitted.X[fitted.z < 0]

    def draw(rng: np.random.Generator) -> Array:
        vector = np.zeros(coordinates.size)
        vector[:size] = root @ rng.normal(size=size)
        return _posteriors(fitted, *coordinates.at(np.clip(vector, low, high)), X)

    undetermined = np.abs(blind[:size]).max(initial=0.0) > 1e-4 * np.abs(blind).max(initial=0.0)
    return draw, bool(undetermined or coordinates.chart.n_free > coordinates.n_theta)


def _posteriors(fitted: Fitted, theta: Any, mechanism: Mechanism | None, X: AnyArray) -> Array:
    """Class probabilities (n, K) of unlabelled rows at these parameters."""
    model, frame = fitted.objective.model, fitted.objective.engine.frame
    size = block_rows(model.n_features())
    out = np.empty((len(X), len(fitted.classes)))
    with quiet():
        for start in range(0, len(X), size):
            rows = slice(start, start + size)
            p = posterior(model.scores(theta, frame.enter(X[rows])))
            if mechanism is not None:
                p = mechanism.unlabelled(p, fitted.covariates.enter(X[rows]))
            out[rows] = p.tau.T
    return out
