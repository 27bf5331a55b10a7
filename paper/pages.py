"""Pages: claims with their verdicts, tables, figures and text, written as Markdown, CSV and PNG files."""

import csv
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paper.summaries import FAILS, HOLDS, MIXED, MOSTLY_NOT, NOT_REPRODUCED, PARTLY, UNDECIDED, Mean

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, or a question beside it, with its verdict and the numbers behind it.

    `details` are further numbers, shown on the claim's own page only.
    """

    sentence: str
    verdict: str
    evidence: str
    details: str = ""


@dataclass(frozen=True)
class Sheet:
    """A table to read, with its rows by name, and records with full precision for `stem`.csv."""

    stem: str
    title: str
    columns: Sequence[str]
    rows: Mapping[str, Sequence[str | Mean]]
    records: Sequence[Mapping[str, Any]]
    notes: Sequence[str] = ()

    def markdown(self) -> str:
        """The table with its title and notes, and a link to the CSV file."""
        body = [["", *self.columns], ["---", *["---:"] * len(self.columns)]]
        body += [[name, *(format(cell) for cell in cells)] for name, cells in self.rows.items()]
        notes = "\n".join(f"- {note}" for note in self.notes)
        parts = [f"**{self.title}**", _lines(body), notes, f"[{self.stem}.csv]({self.stem}.csv)"]
        return "\n\n".join(part for part in parts if part)


@dataclass(frozen=True)
class Picture:
    """A figure for `stem`.png, with a caption that describes it in words."""

    stem: str
    caption: str
    figure: "Figure"

    def markdown(self) -> str:
        """A link to the figure, with its caption."""
        return f"![{self.caption}]({self.stem}.png)\n\n*{self.caption}*"


Block = str | Sheet | Picture
Found = tuple[list[Claim], list[Block]]  # what an item found


@dataclass(frozen=True)
class Page:
    """What an item found: claims, then blocks of Markdown text, tables and figures."""

    name: str
    title: str
    claims: Sequence[Claim]
    blocks: Sequence[Block] = ()

    def markdown(self, command: str) -> str:
        """The page as Markdown."""
        details = "\n".join(f"- {claim.sentence} {claim.details}" for claim in self.claims if claim.details)
        blocks = [block if isinstance(block, str) else block.markdown() for block in self.blocks]
        parts = [f"# {self.title}", f"`{command}`", claims_table(self.claims), details, *blocks]
        return "\n\n".join(part for part in parts if part) + "\n"

    def write(self, folder: Path, command: str) -> None:
        """Write the page, a CSV file for each table and a PNG file for each figure."""
        (folder / f"{self.name}.md").write_text(self.markdown(command), encoding="utf-8")
        for block in self.blocks:
            if isinstance(block, Sheet):
                with (folder / f"{block.stem}.csv").open("w", encoding="utf-8", newline="") as file:
                    writer = csv.DictWriter(file, list(block.records[0]), lineterminator="\n")
                    writer.writeheader()
                    writer.writerows(block.records)
            elif isinstance(block, Picture):  # without the version of the program: the same numbers give the same file
                block.figure.savefig(folder / f"{block.stem}.png", metadata={"Software": None})


def claims_table(claims: Sequence[Claim]) -> str:
    """Claims with verdicts and evidence as a Markdown table."""
    head = [["claim", "verdict", "what the numbers say"], ["---", "---", "---"]]
    return _lines([*head, *([claim.sentence, f"**{claim.verdict}**", claim.evidence] for claim in claims)])


def _lines(cells: Sequence[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in cells)


ORDER = (HOLDS, PARTLY, MIXED, UNDECIDED, MOSTLY_NOT, FAILS, NOT_REPRODUCED)
PAPER = "Semi-Supervised Mixture Models under the Concept of Missing at Random with Margin Confidence and Aranda-Ordaz Function"
INTRODUCTION = (
    f"marmix started from a paper: J. Liao and Z. Lyu, *{PAPER}*. This page says which of its claims hold. Its tables and "
    "figures are computed three times: as published, with scores on the rows that the models were fitted to; again with the "
    "logistic baseline the right way round, because the published scores have its two classes swapped; and on fresh rows, over "
    "many samples with 95 % intervals and against stronger baselines. Claims that begin with 'Beyond the paper' answer "
    "questions that it leaves open."
)
READING = (
    "± is half the length of a 95 % interval over replicates. 'Clearly' better or worse means at the 5 % level, with Holm's "
    "correction for the number of comparisons, or an interval on one side of a margin, which is given beside the claim. A claim "
    "holds where all its parts are clear in its direction; it holds in part where some are and none is clear in the opposite "
    "direction; it is mixed (or mostly not so) where some are clear each way; it does not hold where only the opposite is clear; "
    "and it is undecided otherwise. For LogLoss, Brier score and calibration error smaller is better; for AUC and accuracy "
    "larger is better."
)


def index(pages: Sequence[Page], command: str, facts: str) -> str:
    """All claims with their verdicts, and links to the pages, as Markdown."""
    claims = [claim for page in pages for claim in page.claims]
    counts = Counter(claim.verdict if claim.verdict in ORDER else "questions answered" for claim in claims)
    counted = [f"{word} ({counts[word]})" for word in (*ORDER, "questions answered") if counts[word]]
    parts = [
        "# The paper, checked",
        INTRODUCTION,
        "One command computes the numbers and writes this page:",
        f"`{command}`",
        facts,
        "## Verdicts",
        f"{len(claims)} claims: {', '.join(counted)}.",
        READING,
        claims_table(claims),
        "## Tables and figures",
        "\n".join(f"- [{page.title}]({page.name}.md)" for page in pages),
    ]
    return "\n\n".join(parts) + "\n"
