"""Logistic regression in the space that the rows span, if there are fewer rows than features.

The penalty ``|w|^2 / (2 C)`` is smallest for coefficients in that space, and a rotation does not change it. With an orthonormal
basis B (r, d) of the centred rows, a fit to ``B (x - centre)`` with coefficients v is the fit to x with ``w = B' v``.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from marmix.core.arrays import Array
from marmix.core.frames import Frame
from marmix.core.likelihood import Block
from marmix.core.linear import LinearScores
from marmix.core.workers import one_thread
from marmix.engines import NumpyEngine
from marmix.fitting.objective import Objective


class RowSpace:
    """The span of the centred rows of a logistic regression.

    Attributes
    ----------
    original : Objective
    objective : Objective
        The same objective as a function of fewer coefficients.
    """

    def __init__(self, objective: Objective):
        model: LinearScores = objective.model  # type: ignore[assignment]
        engine: NumpyEngine = objective.engine  # type: ignore[assignment]
        self.original, self._model = objective, model
        slopes = 0.25 + 1.0 / (model.C * model.scale**2 * engine.total_weight)  # in axes with variance one
        model.information = np.concatenate([[0.25], slopes])
        with one_thread():
            x = engine.x * model.scale[:, None]
            directions, sizes, coordinates = np.linalg.svd(x, full_matrices=False)
            kept = sizes > np.finfo(float).eps * max(x.shape) * sizes[0]
            kept[0] = True  # if all rows are the same
            largest = np.abs(directions).argmax(axis=0)
            signs = np.sign(directions[largest, np.arange(len(sizes))])  # the same for any order of the rows
            self._basis = (directions * signs).T[kept]
            coordinates = (sizes * signs)[kept, None] * coordinates[kept]
        r, scale = len(coordinates), float(np.sqrt(np.mean(coordinates**2))) or 1.0
        block = Block(coordinates / scale, engine.cuts.tolist(), engine.weight, engine.v)
        rows = NumpyEngine.of_block(block, Frame(np.zeros(r), np.ones(r)), engine.covariates, engine.workers)
        scores = LinearScores(r, model.n_classes, 1, model.C, np.zeros(r), np.full(r, scale))
        self.objective = replace(objective, engine=rows, model=scores)

    @staticmethod
    def helps(objective: Objective) -> bool:
        """Whether this is a logistic regression with fewer rows, in memory, than features."""
        model, engine = objective.model, objective.engine
        linear = type(model) is LinearScores and model.degree == 1
        return linear and isinstance(engine, NumpyEngine) and engine.n_rows < model.values_per_row() - 1

    def enter(self, values: dict[str, Any]) -> dict[str, Any]:
        """Starting values with the user's coefficients as those of the basis."""
        if "coefficients" not in values:
            return values
        given = np.asarray(values["coefficients"])
        slopes = given[:, 1:]
        coefficients = np.column_stack([given[:, 0] + slopes @ self._model.centre, slopes @ self._basis.T])
        return values | {"coefficients": coefficients}

    def leave(self, theta: Array) -> Array:
        """Coefficients in the axes of the original fit."""
        scores: LinearScores = self.objective.model  # type: ignore[assignment]
        slopes = theta[:, 1:] / scores.scale
        return np.column_stack([theta[:, 0], (slopes @ self._basis) * self._model.scale])

    def project(self, theta: Array) -> Array:
        """Coefficients of the basis with the same scores of the rows as these, in the axes of the original fit."""
        scores: LinearScores = self.objective.model  # type: ignore[assignment]
        slopes = (theta[:, 1:] / self._model.scale) @ self._basis.T
        return np.column_stack([theta[:, 0], slopes * scores.scale])
