"""Progress of a long job: a bar in a terminal, otherwise a line every few seconds."""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from time import monotonic
from typing import Any, Protocol

from marmix.terminal import raw, visible

_EVERY = 5.0  # seconds between lines


class Step(Protocol):
    """Called with the finished share of a phase, 0 to 1, and with what is done next."""

    def __call__(self, share: float, doing: str = "") -> None: ...


def part(step: Step, start: float, end: float) -> Step:
    """The step of a part of a phase that takes the phase from one share to another."""
    return lambda share, doing="": step(start + (end - start) * min(share, 1.0), doing)


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
            yield lambda share, doing="": None
            return
        state = _State(name)
        bar, show, every = None, state.line, _EVERY
        if sys.stderr.isatty():
            bar = _bar(name)
            show, every = (state.line, every) if bar is None else (lambda: state.draw(bar), 1.0)
        ended = Event()
        clock = Thread(target=_repeat, args=(show, every, ended), daemon=True)  # also during a step that takes long
        clock.start()
        try:
            yield state.step
        finally:
            ended.set()
            clock.join()
            if bar is not None:
                bar.close()


class _State:
    """The finished share of a phase, and what is being done."""

    def __init__(self, name: str):
        self.name, self.share, self.doing, self.start = name, 0.0, "", monotonic()

    def step(self, share: float, doing: str = "") -> None:
        self.share, self.doing = max(self.share, min(share, 1.0)), doing

    def line(self) -> None:
        doing = f" ({self.doing})" if self.doing else ""
        print(f"{self.name}: {self.share:.0%}{doing}, {monotonic() - self.start:.0f} s", file=sys.stderr, flush=True)

    def draw(self, bar: Any) -> None:
        bar.set_description_str(visible(self.doing or self.name), refresh=False)
        bar.update(int(100 * self.share) - bar.n)
        bar.refresh()


def _repeat(show: Callable[[], None], every: float, ended: Event) -> None:
    while not ended.wait(every):
        show()


def _bar(name: str) -> Any:
    """A bar in the terminal; None without tqdm."""
    try:
        from tqdm import tqdm
    except ImportError:
        return None
    file = raw(sys.stderr)
    return tqdm(
        total=100, desc=name, leave=False, file=file, bar_format="{desc:<36.36}{percentage:3.0f} % |{bar}| {elapsed}"
    )
