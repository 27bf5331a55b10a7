"""Progress of a fit on standard error: a bar, lines, or a single line once it takes long."""

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

QUIET = 10.0  # seconds of a fit without a word


@contextmanager
def progress(name: str, verbose: int) -> Iterator[Callable[[float, str], object]]:
    """Yield a function that is called with the share of the work that is done, and what comes next.

    With `verbose` it moves a bar of tqdm, or prints lines if that is not installed. Otherwise the logger "marmix" warns once if
    the work takes long.
    """
    start, said = monotonic(), False

    def left(share: float) -> str:
        seconds = monotonic() - start
        return f"about {seconds / share - seconds:.0f} s left" if share else "starting"

    def line(share: float, doing: str) -> None:
        print(f"{name}: {share:4.0%}, {left(share)}: {doing}", file=sys.stderr, flush=True)

    def warn(share: float, doing: str) -> None:
        nonlocal said
        if not said and monotonic() - start > QUIET:
            said = True
            words = "%s: %.0f %% done, %s. verbose=1 shows progress, time_limit= ends the search for models earlier."
            logging.getLogger("marmix").warning(words, name, 100.0 * share, left(share))

    if not verbose:
        yield warn
        return
    try:
        from tqdm import tqdm
    except ImportError:
        yield line
        return
    with tqdm(
        total=1.0, desc=name, bar_format="{desc}: {percentage:3.0f}%|{bar}| {elapsed}<{remaining}{postfix}"
    ) as bar:

        def move(share: float, doing: str) -> None:
            bar.set_postfix_str(doing, refresh=False)
            bar.update(share - bar.n)

        yield move
        bar.set_postfix_str("", refresh=False)
        bar.update(1.0 - bar.n)
