"""Run items of the study and write what they found."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from marmix.datasets import load_magic
from marmix.displays.drawing import styled
from marmix.outputs import write_whole
from marmix.study import (
    approximation,
    four_classes,
    magic_pairs,
    magic_proportion,
    magic_thresholds,
    proportion,
    roc,
    scatter,
    shape,
    table_1,
    table_2,
    two_classes,
)
from marmix.study.blocks import Item, Page
from marmix.study.page import index_html
from marmix.study.pieces import Store, compute
from marmix.study.plan import Plan
from marmix.study.writing import index_markdown, write_item

ITEMS: dict[str, Item] = {
    item.name: item
    for item in (
        approximation.ITEM,
        scatter.ITEM,
        table_1.ITEM,
        roc.ITEM,
        proportion.ITEM,
        table_2.ITEM,
        magic_pairs.ITEM,
        magic_thresholds.ITEM,
        magic_proportion.ITEM,
        two_classes.ITEM,
        four_classes.ITEM,
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
        left_out = _without_data([name for name in asked if not _computed(ITEMS[name], plan, store)])
        chosen = [ITEMS[name] for name in asked if name not in left_out]
        compute([piece for item in chosen for piece in item.pieces(plan)], store, seed, jobs, quiet)
        for item in chosen:
            store.remember(item.name, size, seed)
        known = store.items(size, seed)
        pages = [
            item.page(plan, {piece.key: store.get(piece.key, seed) for piece in item.pieces(plan)})
            for item in ITEMS.values()
            if item.name in known and _computed(item, plan, store)
        ]
        for page in pages:
            write_item(page, _command([page.name], plan, out), folder)
        command = _command([page.name for page in pages] or asked, plan, out)
        facts = f"Size {size}, seed {seed}; {store.made_with}."
        if size == "small":
            facts = (
                f"Preliminary: the small size has few replicates, and its verdicts may change at the full size. {facts}"
            )
        write_whole(folder / "index.md", index_markdown(pages, left_out, command, facts))
        write_whole(folder / "index.html", index_html(pages, left_out, command, facts))
    return pages, left_out


def _command(names: list[str], plan: Plan, out: str | Path) -> str:
    asked = "all" if names == list(ITEMS) else " ".join(names)
    return f"marmix study {asked} --size {plan.size} --seed {plan.seed} --out {out}"


def _computed(item: Item, plan: Plan, store: Store) -> bool:
    """Whether all pieces of an item are there, made with the libraries as they are now."""
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
