"""How samples are computed: each with random numbers of its own, in any number of processes, and only once."""

import hashlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from joblib import Memory, Parallel, delayed
from threadpoolctl import threadpool_limits

from paper.summaries import Setting

SIZES = ("small", "full")
Arguments = Mapping[str, Any]


@dataclass(frozen=True)
class Run:
    """Size and seed of a run, its number of processes, and where joblib keeps results.

    The random numbers of a sample depend on the seed and its name only: the samples of the small size are the first ones of
    the full size, and results do not depend on the number of jobs.
    """

    size: str = "small"
    seed: int = 0
    jobs: int = 1
    memory: Memory = field(default_factory=lambda: Memory(None))

    def n(self, small: int, full: int) -> int:
        """The number of samples at this size."""
        return {"small": small, "full": full}[self.size]

    def samples(
        self, function: Callable[..., Any], n: int, settings: Mapping[Setting, tuple[str, Arguments]]
    ) -> dict[Setting, list[Any]]:
        """n values of ``function(rng, **arguments)`` for every setting, which has a name and arguments.

        Samples of settings with the same name have the same random numbers.
        """
        tasks = [(f"{name}/{i}", arguments) for name, arguments in settings.values() for i in range(n)]
        values = iter(self._values(function, tasks))
        return {setting: [next(values) for _ in range(n)] for setting in settings}

    def once(self, function: Callable[..., Any], name: str) -> Any:
        """The value of ``function(rng)``."""
        return self._values(function, [(name, {})])[0]

    def _values(self, function: Callable[..., Any], tasks: Sequence[tuple[str, Arguments]]) -> list[Any]:
        cached = self.memory.cache(function)
        values = Parallel(n_jobs=self.jobs, return_as="generator")(
            delayed(_computed)(cached, self.seed, name, arguments) for name, arguments in tasks
        )
        with suppress(ImportError):
            from tqdm import tqdm

            values = tqdm(values, function.__name__, len(tasks), disable=None)  # silent unless in a terminal
        return list(values)


def _computed(function: Callable[..., Any], seed: int, name: str, arguments: Arguments) -> Any:
    """The value, on one thread so that sums do not depend on the number of cores."""
    number = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")
    rng = np.random.default_rng(np.random.SeedSequence([seed, number]))
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")  # fits that did not converge are counted
        return function(rng, **arguments)
