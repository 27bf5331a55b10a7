"""Files of the study: CSV, Markdown, PNG and SVG for every item, and the list of claims."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from marmix.outputs import write_whole
from marmix.study.blocks import Block, Heading, Page, Paragraph, Picture, Sheet


def write_item(page: Page, command: str, folder: Path) -> None:
    """The files of an item: its Markdown, a CSV for every table, a PNG and an SVG for every figure."""
    for block in page.blocks:
        if isinstance(block, Sheet):
            write_whole(folder / f"{block.stem}.csv", as_csv(block))
        elif isinstance(block, Picture):
            for ending in ("png", "svg"):
                # no date and no version of the program, so that the same numbers give the same file
                metadata = {"Date": None, "Creator": None} if ending == "svg" else {"Software": None}
                buffer = io.BytesIO()
                block.figure.savefig(buffer, format=ending, metadata=metadata)
                write_whole(folder / f"{block.stem}.{ending}", buffer.getvalue())
    write_whole(folder / f"{page.name}.md", as_markdown(page, command))


def as_csv(sheet: Sheet) -> str:
    """The records of a sheet."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(sheet.records[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(sheet.records)
    return text.getvalue()


def as_markdown(page: Page, command: str) -> str:
    """An item: claims, then its parts."""
    details = [f"- {claim.sentence} {claim.details}" for claim in page.claims if claim.details]
    parts = [f"# {page.title}", f"`{command}`", claims_table([page]), "\n".join(details)]
    parts += [_block_markdown(block) for block in page.blocks]
    return "\n\n".join(part for part in parts if part) + "\n"


def _block_markdown(block: Block) -> str:
    match block:
        case Heading(text):
            return f"## {text}"
        case Paragraph(text):
            return text
        case Sheet(stem, table):
            return f"{table.as_markdown()}\n\n[{stem}.csv]({stem}.csv)"
        case Picture(stem, caption):
            return f"![{caption}]({stem}.png)\n\n*{caption}*"


def claims_table(pages: Sequence[Page]) -> str:
    """The claims of items, in Markdown."""
    lines = ["| claim | verdict | what the numbers say |", "|---|---|---|"]
    for page in pages:
        for claim in page.claims:
            cells = (claim.sentence, f"**{claim.verdict}**", claim.evidence)
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)


READING = (
    "± is half a 95 % interval over replicates. 'Clearly' better or worse allows for the number of comparisons by "
    "Holm's method at 5 %. A claim on differences holds where all its differences are clear in its direction, "
    "holds in part where some are and none is clear in the opposite one, is mixed (or mostly not so) where some "
    "are each way, does not hold where only the opposite is clear, and is undecided otherwise; where a claim needs "
    "a margin, it stands beside it. LogLoss, Brier score and calibration error: smaller is better; AUC and "
    "accuracy: larger."
)


def index_markdown(pages: Sequence[Page], left_out: dict[str, str], command: str, facts: str) -> str:
    """The headline table with links to the items."""
    lines = [
        "# The paper, reproduced and corrected",
        f"`{command}`",
        f"{facts} {READING}",
        *left_out_lines(left_out),
        claims_table(pages),
    ]
    lines.append("\n".join(f"- [{page.title}]({page.name}.md)" for page in pages))
    return "\n\n".join(lines) + "\n"


def left_out_lines(left_out: dict[str, str]) -> list[str]:
    """Which items are not there, and why."""
    return [f"Left out: {name}. {reason}" for name, reason in left_out.items()]
