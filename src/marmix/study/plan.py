"""How much of everything a run computes: the sizes, and the seed."""

from dataclasses import dataclass

REPLICATES = {
    "comparison": {"small": 8, "full": 200},  # samples of 200 rows, every distribution, truncated or not
    "solvers": {"small": 3, "full": 20},  # of the truncated ones, how many are also fitted by ECM itself
    "proportion": {"small": 5, "full": 100},  # samples of 500 rows, each at ten missing proportions
    "magic": {"small": 3, "full": 20},  # random splits of MAGIC, two thirds for training, at each missing proportion
    "magic-average": {"small": 0, "full": 5},  # of these, how many `MARClassifierCV` is fitted to: it takes longest
    "measures": {"small": 10, "full": 200},  # samples of 200 rows fitted with every measure
    "measures-truncated": {"small": 10, "full": 200},  # the same, truncated
    "four-classes": {"small": 5, "full": 200},  # samples of 400 rows, four classes, five features
    "shape": {"small": 10, "full": 200},  # samples of each size for the Aranda-Ordaz shape
}
SIZES = ("small", "full")


@dataclass(frozen=True)
class Plan:
    """What was asked for.

    A replicate's random numbers depend on the seed, on its name and on its number alone: those of the small size are the
    first of the full one, and no result depends on the number of jobs.
    """

    size: str = "small"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.size not in SIZES:
            raise ValueError(f"size={self.size!r} is not one of {', '.join(SIZES)}.")
        if not 0 <= self.seed < 2**63:
            raise ValueError(f"seed={self.seed!r} must be a whole number from 0 to 2^63 - 1.")

    def replicates(self, what: str) -> int:
        """How many replicates of this kind."""
        return REPLICATES[what][self.size]
