"""Whether the model of the missingness says what is seen: rates of missing labels along the classes and the features."""

from typing import NamedTuple

import numpy as np

from marmix.evaluation import missingness_check
from marmix.journey.answers import missing_proba_of
from marmix.journey.contents import Shown
from marmix.journey.modelling import Model
from marmix.journey.rows import taken

_LEVEL = 0.01  # of all checks together
_LEAST = 0.2  # a difference of rates that matters
_BIN = 50  # rows of a bin at least
_SURE = 0.01  # no rate is taken as nearer to 0 or 1 when differences are judged


class Misfit(NamedTuple):
    """Where the rate of missing labels is farthest from what the model says: near the value `at` of a variable."""

    by: str
    at: float
    observed: float
    fitted: float

    def sentence(self) -> str:
        """The difference, and what follows."""
        return (
            f"Where {self.by} is about {self.at:.3g}, {self.observed:.0%} of the labels are missing, and the model of the "
            f"missingness says {self.fitted:.0%}: it does not tell well why labels are missing, perhaps because they are lost "
            "on one side of the boundary. P(label missing), the corrected scores and the comparison may be wrong."
        )


def misfit(model: Model, shown: Shown) -> Misfit | None:
    """The worst place, if it is worse than chance and more than a trifle, in a sample of the rows of a model."""
    z = shown.z
    n_bins = min(10, len(z) // _BIN)
    if n_bins < 2 or not (z < 0).any():
        return None
    X = taken(model.X, shown.places)
    q = np.clip(missing_proba_of(model.numbered, X), _SURE, 1.0 - _SURE)
    proba = model.numbered.predict_proba(X)
    classes = list(enumerate(model.named.classes_))
    along = [(f"the probability of {str(name)!r}", proba[:, k]) for k, name in classes[len(classes) == 2 :]]
    along += [(repr(name), column) for name, column in zip(shown.features, shown.rows.T, strict=True)]
    worst: tuple[float, Misfit] | None = None
    for by, values in along:
        found = missingness_check(z, q, values, n_bins)
        i = int(np.abs(found.z).argmax())
        here = Misfit(by, float(found.by[i]), float(found.observed[i]), float(found.fitted[i]))
        clear = found.p_value < _LEVEL / len(along) and abs(here.observed - here.fitted) >= _LEAST
        if clear and (worst is None or found.p_value < worst[0]):
            worst = found.p_value, here
    return None if worst is None else worst[1]
