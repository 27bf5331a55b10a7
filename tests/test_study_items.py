"""Every item of the study: its page can be made and written, with many replicates and with one."""

import re

import pytest
from planted import GAIN, SMALL, made, planted
from test_study_claims import compared, proportions
from test_study_magic import magical, pairs
from test_study_measures import EVEN, clock, measured, shaped

from marmix.study import figures, measures, pieces, tables
from marmix.study.methods import ECM_AO
from marmix.study.pages import Picture, Sheet, as_csv, write_item
from marmix.study.pieces import Piece, Plan
from marmix.study.running import ITEMS
from marmix.study.summaries import UNDECIDED

pytestmark = pytest.mark.usefixtures("quick_figures")


@pytest.fixture(scope="module")
def anything():
    """Made-up values for the pieces of any item."""
    shares = {figures.BELOW: dict.fromkeys(figures.DISTRIBUTIONS, 0.6)}
    alone = shares | clock(noise=0.1) | pairs()
    alone |= {tables.DATA_SET: Piece(tables.DATA_SET, tables.on_the_data_set).compute(0)}
    values = {
        "comparison": compared({ECM_AO: GAIN}), "shape": shaped(), "magic": magical(GAIN), "proportion": proportions(),
    } | dict.fromkeys(measures.KINDS, measured(EVEN))  # fmt: skip

    def of(item, size=SMALL):
        made_up = alone | planted(item, lambda place: values[place.parts[0]](place), size)
        return {piece.key: made_up[piece.key] for piece in ITEMS[item].pieces(size)}

    return of


@pytest.mark.parametrize("name", list(ITEMS))
def test_every_item_has_a_claim_a_figure_and_a_table_and_its_links_lead_to_files(name, anything, tmp_path):
    page = made(name, anything(name))
    assert (page.name, page.title) == (name, ITEMS[name].title)
    assert page.claims
    assert any(isinstance(block, Picture) for block in page.blocks)
    write_item(page, "marmix study", tmp_path)
    text = (tmp_path / f"{name}.md").read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)]+)\)", text)
    stems = [block.stem for block in page.blocks if isinstance(block, Sheet | Picture)]
    assert len(links) == len(stems)
    written = {path.name for path in tmp_path.iterdir()}
    expected = {f"{b.stem}.csv" for b in page.blocks if isinstance(b, Sheet)} | {f"{name}.md"}
    expected |= {f"{b.stem}.{ending}" for b in page.blocks if isinstance(b, Picture) for ending in ("png", "svg")}
    assert written == expected
    assert set(links) <= written
    for block in page.blocks:
        if isinstance(block, Sheet):
            lines = (tmp_path / f"{block.stem}.csv").read_text(encoding="utf-8").splitlines()
            assert len(lines) == len(block.records) + 1 > 1
            assert as_csv(block).splitlines() == lines


@pytest.mark.parametrize("name", ["magic-thresholds", "magic-missing-proportion"])
def test_the_full_size_shows_the_average_of_candidates_too(name, anything):
    full = Plan("full")
    tables = [block.table for block in made(name, anything(name, full), full).blocks if isinstance(block, Sheet)]
    assert any("MARClassifierCV" in table.index for table in tables)
    assert not any("" in row for table in tables for row in table.rows)


@pytest.mark.parametrize("name", [name for name in ITEMS if ITEMS[name].pieces(SMALL)])
def test_with_one_replicate_a_page_is_made_and_no_difference_is_clear(name, anything, monkeypatch, tmp_path):
    monkeypatch.setattr(pieces, "REPLICATES", {what: {"small": 1, "full": 1} for what in pieces.REPLICATES})
    page = made(name, anything(name))
    write_item(page, "marmix study", tmp_path)
    if name in ("table-1", "table-2", "fig-roc", "magic-thresholds", "magic-missing-proportion"):
        assert {claim.verdict for claim in page.claims} - {"see right"} == {UNDECIDED}
    for claim in page.claims:
        assert not re.search(r"\bnan\b", claim.evidence + claim.details)
        if name not in ("measures", "fig-missing-proportion"):  # fifteen rounds of the clock, and twenty large samples
            assert "±" not in claim.evidence
