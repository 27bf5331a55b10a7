"""Run items of the study and write what they found."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from marmix.datasets import load_magic
from marmix.study import (
    approximation,
    magic,
    magic_proportion,
    magic_thresholds,
    measures,
    proportion,
    scatter,
    shape,
    table_1,
    table_2,
)
from marmix.study.blocks import Item, Page
from marmix.study.drawing import styled
from marmix.study.page import index_html
from marmix.study.pieces import Store, compute
from marmix.study.plan import Plan
from marmix.study.writing import index_markdown, write_item, write_text

ITEMS: dict[str, Item] = {
    item.name: item
    for item in (
        approximation.ITEM,
        scatter.ITEM,
        table_1.ITEM,
        table_1.ROC_ITEM,
        proportion.ITEM,
        table_2.ITEM,
        magic.PAIRS_ITEM,
        magic_thresholds.ITEM,
        magic_proportion.ITEM,
        measures.TWO_ITEM,
        measures.FOUR_ITEM,
        shape.ITEM,
    )
}


def run(
    names: Sequence[str], out: str | Path, *, size: str = "small", seed: int = 0, jobs: int = 1, quiet: bool = False
) -> tuple[list[Page], dict[str, str]]:
    """Compute items, and write their files and the page of all items made so far in this folder.

    Parameters
    ----------
    names : list of str
        Keys of `ITEMS`, or ["all"].
    out : path
        The folder; finished pieces are kept there in `pieces.sqlite` and not computed again.
    size : {"small", "full"}, default="small"
    seed : int, default=0
    jobs : int, default=1
        Processes; the results do not depend on it.
    quiet : bool, default=False
        Without progress bar.

    Returns
    -------
    pages : list of Page
        What was found.
    left_out : dict
        Items that need data which are not here, and why.
    """
    plan = Plan(size, seed)
    unknown = [name for name in names if name != "all" and name not in ITEMS]
    if unknown:
        raise ValueError(f"{', '.join(unknown)}: no such item. There are {', '.join(ITEMS)}, and all.")
    asked = list(ITEMS) if "all" in names else list(dict.fromkeys(names))
    missing = [module for module in ("matplotlib", "tqdm") if find_spec(module) is None]
    if missing:
        raise OSError(f"the study needs {' and '.join(missing)}: pip install 'marmix[study]'")
    folder = Path(out)
    if folder.exists() and not folder.is_dir():
        raise OSError(f"{folder} is a file: give a folder to write to.")
    folder.mkdir(parents=True, exist_ok=True)
    with styled(), Store(folder / "pieces.sqlite") as store:
        earlier = store.items(size, seed)
        absent = _without_data([name for name in ITEMS if name in asked or name in earlier])
        left_out = {name: reason for name, reason in absent.items() if name in asked}
        chosen = [ITEMS[name] for name in asked if name not in left_out]
        compute([piece for item in chosen for piece in item.pieces(plan)], store, seed, jobs, quiet)
        for item in chosen:
            store.remember(item.name, size, seed)
        known = store.items(size, seed) - set(absent)
        shown = [item for item in ITEMS.values() if item.name in known and _computed(item, plan, store)]
        pages = [_page(item, plan, store) for item in shown]
        for page in pages:
            write_item(page, _command(page.name, plan, out), folder)
        command = _command("all" if "all" in names else " ".join(asked), plan, out)
        facts = f"Size {size}, seed {seed}; {store.made_with}."
        write_text(folder / "index.md", index_markdown(pages, absent, command, facts))
        write_text(folder / "index.html", index_html(pages, absent, command, facts))
    return pages, left_out


def _command(names: str, plan: Plan, out: str | Path) -> str:
    return f"marmix study {names} --size {plan.size} --seed {plan.seed} --out {out}"


def _page(item: Item, plan: Plan, store: Store) -> Page:
    return item.page(plan, {piece.key: store.get(piece.key, plan.seed) for piece in item.pieces(plan)})


def _computed(item: Item, plan: Plan, store: Store) -> bool:
    """Whether an item asked for earlier can still be shown: with another version of a library its pieces do not count."""
    here = store.keys(plan.seed)
    return all(piece.key in here for piece in item.pieces(plan))


def _without_data(names: Sequence[str]) -> dict[str, str]:
    wanting = [name for name in names if ITEMS[name].magic]
    if not wanting:
        return {}
    try:
        load_magic()
    except (OSError, ValueError) as error:
        return {name: str(error) for name in wanting}
    return {}
