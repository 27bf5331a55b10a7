"""A model and the rows of a file: findings, and the page that shows them."""

import platform
from hashlib import file_digest
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy
import sklearn
from numpy.typing import NDArray

import marmix
from marmix.estimators import MARClassifierCV
from marmix.inference import Inference
from marmix.journey.answers import Above, Answers
from marmix.journey.choosing import Choice
from marmix.journey.contents import Shown, Tested
from marmix.journey.findings import all_scores, candidate_rows, comparison, label_facts, model_facts, score_facts
from marmix.journey.misfit import misfit
from marmix.journey.modelling import Model, estimates, missingness_facts
from marmix.journey.plain import in_plain_words
from marmix.journey.rows import Rows
from marmix.report.contents import Comparison, DataFacts, Findings, Reproduction
from marmix.tables.preparation import Preparation

RULES = {
    "median": "Missing numbers were replaced by the median of their column, missing categories by the most frequent one.",
    "drop": "Rows with a missing feature were left out of the fit, and got no label.",
}
SCALED = "Features were standardised before the fit: a coefficient is for one standard deviation of its feature."
OTHER_ROWS = "Not compared: these are not the rows of the fit."


class Story(NamedTuple):
    """All that is known of a model and of the rows of a file."""

    path: Path
    label: str
    id: str | None
    preparation: Preparation
    rows: Rows
    name: str  # of the model, in words
    model: Model
    choice: Choice | None  # None where the rows are not those of the fit
    result: Inference | str
    found: Answers
    above: Above
    tested: Tested | None
    shown: Shown

    def findings(self, warnings: list[str], command: str, seed: int) -> Findings:
        """What was found; `warnings` go before those of the model."""
        tested, rows = self.tested, self.rows
        return Findings(
            data=self._data_facts(),
            labels=label_facts(rows.z, self.found, rows.classes, rows.codes[~rows.complete]),
            model=model_facts(
                self.name,
                self.model.numbered,
                candidate_rows(self.choice.cv) if self.choice else [],
                SCALED if self.model.scaler else "",
            ),
            missingness=missingness_facts(self.model, self.result),
            comparison=comparison(self.choice.cv, rows.z)
            if self.choice
            else Comparison(None, OTHER_ROWS, None, None, None, None),
            scores=score_facts(all_scores(*tested[:4])) if tested else [],
            scored_on=tested.where if tested else "",
            estimates=[] if isinstance(self.result, str) else estimates(self.model, self.result, self.shown.features),
            warnings=[*warnings, *self._warnings()],
            reproduction=reproduction(command, self.path, seed),
        )

    def _data_facts(self) -> DataFacts:
        incomplete = self.rows.counts.rows
        return DataFacts(
            file=self.path.name,
            rows=len(self.rows.codes),
            label=self.label,
            id=self.id,
            features=[column["name"] for column in self.preparation.columns_],
            columns=self.shown.features,
            incomplete_rows=incomplete,
            rule=RULES[self.preparation.impute] if incomplete else "No feature is missing.",
            notes=list(self.preparation.notes_),
        )

    def _warnings(self) -> list[str]:
        """What should be known before the results are used, in plain words."""
        found, rows = [], self.rows
        if not self.model.numbered.converged_:
            found.append("The fit did not converge: do not rely on it. A simpler model, or fewer features, may help.")
        if not (rows.codes < 0).any():
            found.append("No label is missing: nothing was imputed.")
        found += rows.notes
        found += rows.counts.notes()
        if rows.counts.rows:
            share = rows.counts.rows / len(rows.codes)
            found.append(
                f"{rows.counts.rows:,} rows ({share:.1%}) have a missing feature. {RULES[self.preparation.impute]}"
            )
        found += in_plain_words(
            [*self.model.numbered.notes_, *(self.choice.cv.notes_ if self.choice else [])],
            self.shown.features,
            rows.classes,
        )
        if isinstance(self.result, str):
            found.append(self.result)
        return found + self._doubts()

    def _doubts(self) -> list[str]:
        """What the rows themselves say against the model."""
        found = []
        wrong = misfit(self.model, self.shown)
        if wrong is not None:
            found.append(wrong.sentence())
        loss = all_scores(*self.tested[:4])["log-loss"].value if self.tested else 0.0
        if loss > np.log(len(self.rows.classes)):
            found.append(
                f"The log-loss, {loss:.3f}, is worse than that of a guess that all classes are equally probable, "
                f"{np.log(len(self.rows.classes)):.3f}: do not rely on these probabilities. Another --model may do better."
            )
        return found


def held_out(cv: MARClassifierCV, z: NDArray[np.integer[Any]], n_rows: int) -> Tested | None:
    """The held-out predictions of a cross-validation of rows z; None where a class has too few labels for one."""
    if cv.held_out_proba_ is None:
        return None
    sample = "" if len(z) == n_rows else f" in a random sample of {len(z):,} rows"
    where = f"{np.sum(z >= 0):,} labelled rows{sample}, each predicted by a model that was fitted without it"
    return Tested(z, cv.held_out_proba_, cv.missing_proba_, cv.reference_proba_, where)


def reproduction(command: str, data: Path, seed: int) -> Reproduction:
    """How to make the same again."""
    with data.open("rb") as file:
        digest = file_digest(file, "sha256").hexdigest()
    versions: dict[str, Any] = {
        "marmix": marmix.__version__,
        "Python": platform.python_version(),
        "NumPy": np.__version__,
        "SciPy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
    }
    return Reproduction(command, digest, versions, seed)
