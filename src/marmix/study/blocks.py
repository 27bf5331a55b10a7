"""What an item of the study is made of, before it is written: claims, text, tables, figures."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from marmix.inference.tables import Table
from marmix.study.pieces import Found, Piece
from marmix.study.plan import Plan

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper (or a question beside it) and what the numbers say.

    Attributes
    ----------
    sentence : str
        The claim.
    verdict : str
        "holds", "in part", "mixed", "mostly not", "does not hold", "not reproduced", "undecided", or an answer to a question.
    evidence : str
        The numbers, in a sentence or two.
    details : str
        More of them, shown with the item only.
    """

    sentence: str
    verdict: str
    evidence: str
    details: str = ""


@dataclass(frozen=True)
class Heading:
    """A part of an item."""

    text: str


@dataclass(frozen=True)
class Paragraph:
    """Sentences."""

    text: str


@dataclass(frozen=True)
class Sheet:
    """A table to read, and its numbers in full, one record a row, to compute with.

    `stem` is the file name without its ending.
    """

    stem: str
    table: Table
    records: list[dict[str, Any]]


@dataclass(frozen=True)
class Picture:
    """A figure with its caption, which also says in words what it shows."""

    stem: str
    caption: str
    figure: "Figure"


Block = Heading | Paragraph | Sheet | Picture


@dataclass(frozen=True)
class Page:
    """An item, computed: what it found, and the parts behind it."""

    name: str
    title: str
    claims: list[Claim]
    blocks: list[Block] = field(default_factory=list)


@dataclass(frozen=True)
class Item:
    """An item of the study.

    Attributes
    ----------
    name, title : str
    pieces : callable
        Plan -> the pieces that it needs.
    page : callable
        Plan and values of the pieces -> `Page`.
    magic : bool
        Whether it needs the MAGIC data.
    """

    name: str
    title: str
    pieces: Callable[[Plan], Sequence[Piece]]
    page: Callable[[Plan, Found], Page]
    magic: bool = False
