"""Progress of a long job: in a terminal a line that changes, otherwise a line every few seconds."""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from time import monotonic

from marmix.terminal import raw, visible

Step = Callable[..., None]  # called with the finished share of a phase, 0 to 1, and what is done next
_WIDTH, _BAR, _EVERY = 79, 24, 5.0  # characters, and seconds between lines


class Progress:
    """Shows the phases of a job on standard error, unless `quiet`."""

    def __init__(self, quiet: bool = False):
        self.quiet = quiet

    def say(self, path: Path, sentences: Iterable[str]) -> None:
        """Print sentences about a file."""
        for sentence in () if self.quiet else sentences:
            print(f"{path.name}: {sentence}", file=sys.stderr, flush=True)

    @contextmanager
    def phase(self, name: str, what: str = "") -> Iterator[Step]:
        """Start a phase and say what it does; yields a function to call with its finished share."""
        if what and not self.quiet:
            print(f"{name}: {what}", file=sys.stderr, flush=True)
        done, now, start, ended = 0.0, "", monotonic(), Event()
        terminal = not self.quiet and sys.stderr.isatty()

        def step(share: float, doing: str = "") -> None:
            nonlocal done, now
            done, now = max(done, min(share, 1.0)), visible(doing)

        def show() -> None:
            seconds = f"{monotonic() - start:.0f} s"
            if terminal:
                self._draw(f"{name} [{'#' * round(_BAR * done):<{_BAR}}] {done:.0%}, {seconds} {now}")
            else:
                print(f"{name}: {done:.0%}{f' ({now})' * bool(now)}, {seconds}", file=sys.stderr, flush=True)

        def repeat() -> None:  # also during a step that takes long
            while not ended.wait(1.0 if terminal else _EVERY):
                show()

        clock = Thread(target=repeat, daemon=True)
        if not self.quiet:
            clock.start()
        try:
            yield step
        finally:
            ended.set()
            if not self.quiet:
                clock.join()
            if terminal:
                self._draw("")

    def _draw(self, text: str) -> None:
        """Put text in place of the last line of the terminal."""
        print(f"\r{text[:_WIDTH]:<{_WIDTH}}\r", end="", file=raw(sys.stderr), flush=True)
