"""Run items of the study and write their results."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from marmix.datasets import load_magic
from marmix.outputs import locked, write_whole
from marmix.plotting.drawing import styled
from marmix.study import figures, magic, measures, proportion, shape, tables
from marmix.study.pages import Item, Page, index_html, index_markdown, write_item
from marmix.study.pieces import Plan, Store, compute
from marmix.terminal import command_line

ITEMS: dict[str, Item] = {
    item.name: item
    for item in (
        figures.APPROXIMATION,
        figures.SIMULATION,
        tables.TABLE_1_ITEM,
        tables.ROC,
        proportion.ITEM,
        tables.TABLE_2_ITEM,
        magic.PAIRS,
        magic.BY_THRESHOLD,
        magic.BY_PROPORTION,
        measures.TWO_CLASSES,
        measures.FOUR_CLASSES,
        shape.ITEM,
    )
}


def run(
    names: Sequence[str], out: str | Path, *, size: str = "small", seed: int = 0, jobs: int = 1, quiet: bool = False
) -> tuple[list[Page], dict[str, str]]:
    """Compute items of the study, and write their pages and an index of all items in this folder.

    Parameters
    ----------
    names : list of str
        Keys of `ITEMS`, or ["all"].
    out : path
        The folder. Finished pieces are kept there in `pieces.sqlite` and not computed again, so a run that was stopped
        resumes.
    size : {"small", "full"}, default="small"
        Number of replicates. All items take about three minutes at the small size, whose verdicts are preliminary, and
        about an hour at the full size on two cores.
    seed : int, default=0
        Seed of all random numbers.
    jobs : int, default=1
        Number of processes; the results do not depend on it.
    quiet : bool, default=False
        Whether to hide the progress bar.

    Returns
    -------
    pages : list of Page
        The results: `name`, `title`, `claims` (with their verdicts) and `blocks` (text, tables and figures).
    left_out : dict
        Items whose data are not available, with the reason.

    Raises
    ------
    ValueError
        If there is no such item or size.
    OSError
        If the folder cannot be written, or matplotlib or tqdm is not installed: ``pip install 'marmix[study]'``.

    See Also
    --------
    ITEMS : The items by name.
    marmix.datasets.load_magic : The data of the items on MAGIC.

    Examples
    --------
    List the items, then compute Table I, which takes a while and is not part of the tests:

    >>> from marmix.study import ITEMS, run
    >>> list(ITEMS)[:4]
    ['fig-approximation', 'fig-simulation', 'table-1', 'fig-roc']
    >>> pages, left_out = run(["table-1"], "results")  # doctest: +SKIP
    >>> print([claim.verdict for claim in pages[0].claims])  # doctest: +SKIP
    """
    plan = Plan(size, seed)
    unknown = [name for name in names if name != "all" and name not in ITEMS]
    if unknown:
        raise ValueError(f"{', '.join(unknown)}: no such item. There are {', '.join(ITEMS)}, and all.")
    requested = list(ITEMS) if "all" in names else list(dict.fromkeys(names))
    missing = [module for module in ("matplotlib", "tqdm") if find_spec(module) is None]
    if missing:
        raise OSError(f"the study needs {' and '.join(missing)}: pip install 'marmix[study]'")
    folder = Path(out)
    if folder.exists() and not folder.is_dir():
        raise OSError(f"{folder} is a file: give a folder to write to.")
    folder.mkdir(parents=True, exist_ok=True)
    with styled(), locked(folder / "pieces.sqlite"), Store(folder / "pieces.sqlite") as store:
        left_out = _without_data([name for name in requested if not _computed(ITEMS[name], plan, store)])
        chosen = [ITEMS[name] for name in requested if name not in left_out]
        compute([piece for item in chosen for piece in item.pieces(plan)], store, seed, jobs, quiet)
        for item in chosen:
            store.remember(item.name, size, seed)
        remembered = store.items(size, seed)
        pages = [
            item.page(plan, {piece.key: store.get(piece.key, seed) for piece in item.pieces(plan)})
            for item in ITEMS.values()
            if item.name in remembered and _computed(item, plan, store)
        ]
        for page in pages:
            write_item(page, _command([page.name], plan, out), folder)
        command = _command([page.name for page in pages] or requested, plan, out)
        facts = f"Size {size}, seed {seed}; {store.made_with}."
        if size == "small":
            facts = (
                f"Preliminary: the small size has few replicates, and its verdicts may change at the full size. {facts}"
            )
        write_whole(folder / "index.md", index_markdown(pages, left_out, command, facts))
        write_whole(folder / "index.html", index_html(pages, left_out, command, facts))
    return pages, left_out


def _command(names: list[str], plan: Plan, out: str | Path) -> str:
    items = ["all"] if names == list(ITEMS) else names
    return command_line(["marmix", "study", *items, *f"--size {plan.size} --seed {plan.seed} --out".split(), str(out)])


def _computed(item: Item, plan: Plan, store: Store) -> bool:
    """Whether the store has all pieces of an item, computed with the installed versions."""
    keys = store.keys(plan.seed)
    return all(piece.key in keys for piece in item.pieces(plan))


def _without_data(names: Sequence[str]) -> dict[str, str]:
    magic_items = [name for name in names if ITEMS[name].magic]
    if not magic_items:
        return {}
    try:
        load_magic()
    except (OSError, ValueError) as error:
        return dict.fromkeys(magic_items, str(error))
    return {}
