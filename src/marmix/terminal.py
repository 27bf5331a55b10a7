"""Text for a terminal: harmless characters, command lines to paste, and the progress of a long job."""

import os
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from subprocess import list2cmdline
from threading import Event, Thread
from time import monotonic
from typing import Any

# Control characters but tab and line break, and characters that reorder text, break lines or cannot be seen. Joiners of
# letters and emoji are not among them.
_HARMFUL = re.compile(
    "[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e0fff]"
)


def visible(text: str) -> str:
    r"""The text with harmful characters written as JSON writes them, such as ``\u001b`` for ESC; JSON stays JSON."""
    return _HARMFUL.sub(_escaped, text)


def command_line(words: Sequence[str], windows: bool = os.name == "nt") -> str:
    """The words as a line to paste into a shell."""
    return list2cmdline(words) if windows else shlex.join(words)


def _escaped(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be").hex()
    return "".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4))


class VisibleText:
    """A text stream that writes to another one, with harmful characters made visible."""

    def __init__(self, stream: Any):
        self.stream = stream

    def write(self, text: str) -> int:
        """Write text."""
        self.stream.write(visible(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


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
        print(f"\r{text[:_WIDTH]:<{_WIDTH}}\r", end="", file=getattr(sys.stderr, "stream", sys.stderr), flush=True)
