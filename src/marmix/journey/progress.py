"""Progress of a long job: a bar in a terminal, otherwise a line every few seconds."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

Step = Callable[[float], None]  # called with the finished share of a phase, 0 to 1

_EVERY = 5.0  # seconds between lines


class Progress:
    """Shows the phases of a job on standard error, unless `quiet`."""

    def __init__(self, quiet: bool = False):
        self.quiet = quiet

    def say(self, path: Path, sentences: Iterable[str]) -> None:
        """Print sentences about a file."""
        for sentence in () if self.quiet else sentences:
            print(f"{path.name}: {sentence}", file=sys.stderr, flush=True)

    @contextmanager
    def phase(self, name: str) -> Iterator[Step]:
        """Start a phase; yields a function to call with its finished share."""
        if self.quiet:
            yield lambda share: None
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


def _lines(name: str) -> Step:
    last = time.monotonic()

    def step(share: float) -> None:
        nonlocal last
        if time.monotonic() - last >= _EVERY:
            last = time.monotonic()
            print(f"{name}: {share:.0%}", file=sys.stderr, flush=True)

    return step
