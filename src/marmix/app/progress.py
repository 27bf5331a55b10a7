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
    def phase(self, name: str) -> Iterator[Step]:
        """Start a phase; yields a function to call with its finished share."""
        state, start, ended = {"share": 0.0, "doing": ""}, monotonic(), Event()
        terminal = not self.quiet and sys.stderr.isatty()

        def step(share: float, doing: str = "") -> None:
            state.update(share=max(float(state["share"]), min(share, 1.0)), doing=doing)

        def show() -> None:
            share, doing, seconds = float(state["share"]), visible(str(state["doing"])), monotonic() - start
            if terminal:
                bar = "#" * round(_BAR * share)
                print(f"\r{f'{name}: {share:4.0%} [{bar:<{_BAR}}] {seconds:.0f} s {doing}'[:_WIDTH]:<{_WIDTH}}", end="", file=raw(sys.stderr), flush=True)
            else:
                print(f"{name}: {share:.0%}{f' ({doing})' * bool(doing)}, {seconds:.0f} s", file=sys.stderr, flush=True)

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
                print(f"\r{'':<{_WIDTH}}\r", end="", file=raw(sys.stderr), flush=True)
