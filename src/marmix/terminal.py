"""What the program prints, and how it begins: no control characters in a terminal, closed streams, Ctrl-C during imports."""

import codecs
import errno
import io
import os
import re
import shlex
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from types import FrameType
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
    """The words as a line to paste: quoted for a POSIX shell, or on Windows for cmd and PowerShell alike."""
    return " ".join(map(_quoted, words)) if windows else shlex.join(words)


def _quoted(word: str) -> str:
    r"""The word in double quotes if needed; backslashes before a quote are doubled, as programs on Windows read them."""
    if re.fullmatch(r"[\w.:/+=-]+", word):
        return word
    return '"' + re.sub(r'(\\*)("|$)', lambda match: match[1] * 2 + match[2].replace('"', r"\""), word) + '"'


def _escaped(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be").hex()
    return "".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4))


class VisibleText:
    """A text stream that writes to another one, with harmful characters made visible.

    With `lossy`, text that cannot be written is dropped: messages on a standard error that nobody reads do not end the work.
    Otherwise the error says that it is about standard output, and not about a file.
    """

    def __init__(self, stream: Any, lossy: bool = False):
        self.stream, self._lossy = stream, lossy

    def write(self, text: str) -> int:
        """Write text."""
        with self._errors():
            self.stream.write(visible(text))
        return len(text)

    def flush(self) -> None:
        """Write what is in the buffer."""
        with self._errors():
            self.stream.flush()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if not self._lossy and _broken_pipe(error):
                raise BrokenPipeError from None
            if not self._lossy:
                raise OSError(f"standard output cannot be written ({error.strerror}): send it elsewhere.") from None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


class TerminalBytes:
    """A binary file that shows what is written in a terminal."""

    def __init__(self, stream: Any, encoding: str):
        decoder = codecs.getincrementaldecoder(encoding)("backslashreplace")
        self.stream, self._decoder = stream, io.IncrementalNewlineDecoder(decoder, translate=True)

    def write(self, content: bytes) -> int:
        """Write bytes."""
        self.stream.write(self._decoder.decode(content).removeprefix("\ufeff"))
        return len(content)

    def flush(self) -> None:
        """Write what is in the buffer."""
        self.stream.flush()


def _broken_pipe(error: OSError, windows: bool = os.name == "nt") -> bool:
    """Whether the reader of a pipe is gone; Windows calls it an invalid argument."""
    return isinstance(error, BrokenPipeError) or (windows and error.errno == errno.EINVAL)


def raw(stream: Any) -> Any:
    """The stream behind one of visible text, for a progress bar, which moves the cursor."""
    return getattr(stream, "stream", stream)


def open_handles() -> None:
    """Open the standard handles that are closed, so that no file of ours gets their numbers and what others print there."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)


def quiet_interrupts() -> None:
    """Let Ctrl-C end the program without a traceback while it begins, as most of that time goes to imports."""
    words = getattr(sys, "argv", None) or [""]
    by_module = words[0] == "-m" and ("-m", "marmix") in pairwise(sys.orig_argv)
    if by_module or Path(words[0]).stem == "marmix":
        with suppress(ValueError):  # only the main thread can handle signals
            if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
                signal.signal(signal.SIGINT, _leave)


def loud_interrupts() -> bool:
    """Let Ctrl-C raise KeyboardInterrupt again; returns whether it did not."""
    quiet = signal.getsignal(signal.SIGINT) is _leave
    if quiet:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    return quiet


def _leave(number: int, frame: FrameType | None) -> None:
    os._exit(128 + number)
