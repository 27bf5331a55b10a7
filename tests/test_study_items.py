"""Every item of the study: its page can be made and written, with many replicates and with one."""

import re

import numpy as np
import pytest
from sklearn.utils import Bunch
from test_study_claims import EVEN, GAIN, SMALL, better, compared, made, magical, measured, planted, shaped

from marmix.study import magic, measures, plan, proportion, table_1
from marmix.study.blocks import Picture, Sheet
from marmix.study.methods import ECM_AO
from marmix.study.pieces import Piece
from marmix.study.running import ITEMS
from marmix.study.summaries import FAILS, HOLDS, UNDECIDED
from marmix.study.writing import as_csv, write_item


@pytest.fixture(scope="module")
def on_the_rows():
    return {table_1.DATA_SET: Piece(table_1.DATA_SET, table_1.on_the_data_set).compute(0)}


@pytest.fixture
def anything(monkeypatch, on_the_rows):
    """Made-up values for the pieces of any item, and made-up rows for MAGIC."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 4)), rng.integers(2, size=300)
    monkeypatch.setattr(magic, "load_magic", lambda **_: Bunch(data=X, target=y))
    one_clock = {"fit": dict.fromkeys(measures.SLOPES, 0.01), "measure": dict.fromkeys(measures.SLOPES, 1e-9)}
    auc = {"logistic regression": 0.80, "one Gaussian a class": 0.81, "gradient boosting": 0.85}
    alone = on_the_rows | {measures.TIMES: one_clock, "magic-pairs/boundaries": auc}

    def proportions(place):
        scored = {m: better(0.0, place.noise) for m in proportion.SHOWN}
        at = {"fresh": scored, "training": scored, "unfinished": [], "failed": []}
        return {f"{rate:.2f}": at for rate in proportion.RATES}

    values = {
        "comparison": compared({ECM_AO: GAIN}), "shape": shaped(), "magic": magical(0.0), "proportion": proportions,
    } | dict.fromkeys(measures.KINDS, measured(EVEN))  # fmt: skip

    def of(item, size=SMALL):
        repeated = any(piece.key not in alone for piece in ITEMS[item].pieces(size))
        return alone | (planted(item, lambda place: values[place.parts[0]](place), size) if repeated else {})

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


@pytest.mark.parametrize("name", [name for name in ITEMS if ITEMS[name].pieces(SMALL)])
def test_with_one_replicate_a_page_is_made_and_no_difference_is_clear(name, anything, monkeypatch, tmp_path):
    monkeypatch.setattr(plan, "REPLICATES", {what: {"small": 1, "full": 1} for what in plan.REPLICATES})
    page = made(name, anything(name))
    write_item(page, "marmix study", tmp_path)
    if name in ("table-1", "fig-roc", "fig-missing-proportion", "magic-thresholds"):
        assert {claim.verdict for claim in page.claims} == {UNDECIDED}
    for claim in page.claims:
        assert "nan" not in claim.evidence + claim.details
        assert "±" not in claim.evidence


def test_a_linear_boundary_is_not_enough_where_a_free_one_gets_further(anything):
    found = anything("magic-pairs")
    (claim,) = made("magic-pairs", found).claims
    assert claim.verdict == HOLDS
    assert "0.850 by gradient boosting" in claim.evidence
    level = {"magic-pairs/boundaries": dict.fromkeys(found["magic-pairs/boundaries"], 0.8)}
    (claim,) = made("magic-pairs", found | level).claims
    assert claim.verdict == FAILS
