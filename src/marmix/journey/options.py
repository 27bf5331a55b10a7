"""What a fit from a file is asked for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from marmix.tables.reading import check_columns

MODELS = ("auto", "mixture", "logistic")
FILES = ("imputed.csv", "model.marmix", "report.html", "summary.json")


@dataclass(frozen=True)
class FitOptions:
    """The arguments of `marmix fit`; see its help."""

    data: Path
    label: str
    out: Path
    features: Sequence[str] | None = None
    exclude: Sequence[str] = ()
    id: str | None = None
    model: str = "auto"
    link: str = "logit"
    missing: Sequence[str] = ()
    impute_features: str = "median"
    folds: int = 5
    seed: int = 0
    force: bool = False
    prefix: str = "marmix_"
    escape_formulas: bool = False
    reading: Mapping[str, Any] = field(default_factory=dict)
    command: str = "marmix fit"

    def columns(self, names: Sequence[str], index: Sequence[str] = ()) -> list[str]:
        """The columns to learn from: those asked for, or all but the label, the id, an index of pandas and those left out."""
        asked = list(dict.fromkeys(self.features or ()))
        for option, given in (
            ("--label", [self.label]),
            ("--id", [self.id] if self.id else []),
            ("--features", asked),
            ("--exclude", self.exclude),
        ):
            check_columns(given, names, f"{option}: {self.data}")
        if self.label in asked:
            raise ValueError(f"--features names the label {self.label!r}: a label cannot be learned from itself.")
        if self.id in asked:
            raise ValueError(f"--features names the column of --id, {self.id!r}: leave it out of one of them.")
        if self.id == self.label:
            raise ValueError(f"--id and --label name the same column, {self.label!r}.")
        kept = asked or [name for name in names if name not in (self.label, self.id, *index)]
        kept = [name for name in kept if name not in self.exclude]
        if not kept:
            raise ValueError("no column is left to learn from: name some with --features.")
        return kept
