"""What a long job says while it runs: a bar in a terminal, now and then a line elsewhere, or nothing."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Step = Callable[[float], None]  # told which share of a phase is done, 0 to 1

_EVERY = 5.0  # seconds between two lines where there is no terminal


class Progress:
    """Phases of a job, shown on standard error; `quiet` shows nothing."""

    def __init__(self, quiet: bool = False):
        self.quiet = quiet

    @contextmanager
    def phase(self, name: str) -> Iterator[Step]:
        """A phase of the job; the value is called with the share that is done."""
        if self.quiet:
            yield _silent
        elif not sys.stderr.isatty():
            yield _lines(name)
        else:
            try:
                from tqdm import tqdm
            except ImportError:
                yield _lines(name)
                return
            with tqdm(
                total=100, desc=name, leave=False, bar_format="{desc:<24}{percentage:3.0f} % |{bar}| {elapsed}"
            ) as bar:
                yield lambda share: bar.update(int(100 * min(share, 1.0)) - bar.n)


def _silent(share: float) -> None:
    """Say nothing."""


def _lines(name: str) -> Step:
    last = time.monotonic()

    def step(share: float) -> None:
        nonlocal last
        if time.monotonic() - last >= _EVERY:
            last = time.monotonic()
            print(f"{name}: {share:.0%}", file=sys.stderr, flush=True)

    return step
