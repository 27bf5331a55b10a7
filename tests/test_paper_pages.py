"""Pages of the paper: every item is built and written from planted samples, and its verdicts follow them."""

import re
from functools import cache, partial

import numpy as np
import pytest
from joblib import Memory

from paper import figures, magic, measures, methods, proportion, shape, tables
from paper.__main__ import ITEMS, main
from paper.metrics import FALSE_POSITIVES
from paper.pages import Claim, Page, Sheet, index
from paper.runs import Run
from paper.summaries import FAILS, HOLDS, MIXED, NOT_REPRODUCED, UNDECIDED

GAIN = 0.05
SMALLER = ("log_loss", "brier", "calibration")  # is better
PAPERS = (methods.ECM_AO, methods.ECM_LOGIT, methods.DEFINED, "margin")


class Scores(dict):
    """Any score of a method that is better by a gain, with noise of its own."""

    def __init__(self, rng, gain=0.0, **given):
        super().__init__(given, converged=True, turned=0.0, shape=1.5, drop=3.0 + gain, roc=np.sqrt(FALSE_POSITIVES))
        self.gain, self.noise = gain, 1e-3 * rng.normal()

    def __missing__(self, metric):
        return 0.6 + self.noise + (-self.gain if metric in SMALLER else self.gain)


def planted(gains, names=()):
    """A sample in which methods are better by these gains."""

    def sample(rng, **arguments):
        return {name: Scores(rng, gains.get(name, 0.0)) for name in arguments.get("names", names)}

    return sample


def samples_of(gains):
    """What stands in for the computations of every item: values of `function(rng, **arguments)`."""
    of = partial(planted, gains)
    compared = of((methods.BAYES, *tables.COMPARED, methods.SWAPPED))
    shown = of(proportion.SHOWN)
    seconds = {name: [1.0 - gains.get(name, 0.0) * 10] * measures.ROUNDS for name in measures.COMPARED}
    return {
        tables.comparison: lambda rng, **_: {"fresh": compared(rng), "training": compared(rng)},
        tables.both_solvers: lambda rng, **_: (0.5, 0.02),
        proportion.replicate: lambda rng, **_: {
            (rate, rows): shown(rng) for rate in proportion.RATES for rows in ("fresh", "training")
        },
        proportion.large_sample: lambda rng: {
            labels: {name: value + 1e-3 * rng.normal() for name, value in proportion.TRUE.items()}
            for labels in ("every label", "labels left")
        },
        magic.as_published: of((*magic.PUBLISHED, methods.SWAPPED)),
        magic.held_out: of(),
        magic.boundaries: lambda rng: {"logistic regression": 0.80, "gradient boosting": 0.85},
        measures.replicate: of((*measures.COMPARED, measures.IGNORED, measures.EVERY_LABEL)),
        measures.timings: lambda rng: {"fit": seconds, "measure": seconds},
        shape.replicate: of(shape.FITS),
        figures.below_the_line: lambda rng: dict.fromkeys(figures.DISTRIBUTIONS, 0.6),
        tables.on_its_rows: lambda rng: OWN(),
        magic.points: magic.points,
    }


OWN = cache(lambda: tables.on_its_rows(None))


class Planted(Run):
    """A run of planted samples in place of computed ones; its size is their gains and number."""

    def n(self, small, full):
        return self.size[1]

    def _values(self, function, tasks):
        return super()._values(samples_of(self.size[0])[function], tasks)


@pytest.fixture(scope="module")
def made_up():
    """Made-up rows in place of MAGIC, and the posterior that hides their labels."""
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=600)
    X = rng.normal(size=(600, 4)) + y[:, None] * np.array([1.0, 0.5, 0.0, 0.0])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(magic, "load_magic", lambda **_: (X, y))
        magic.rows.cache_clear()
        magic.hiding_posterior.cache_clear()
        yield
    magic.rows.cache_clear()
    magic.hiding_posterior.cache_clear()


@pytest.fixture
def build(made_up, quick_figures):
    """A function that builds the page of an item from planted samples, on made-up rows in place of MAGIC."""
    return lambda name, gains=None, n=6: Page(name, ITEMS[name][0], *ITEMS[name][1](Planted((gains or {}, n))))


def verdict_on(page, words):
    """The verdict on the one claim whose sentence has these words."""
    (claim,) = [claim for claim in page.claims if words in claim.sentence]
    return claim.verdict


@pytest.mark.parametrize("name", ITEMS)
def test_every_item_has_claims_tables_and_figures_and_its_links_lead_to_files(name, build, tmp_path):
    page = build(name)
    page.write(tmp_path, "python -m paper")
    text = (tmp_path / f"{name}.md").read_text(encoding="utf-8")
    assert page.claims
    assert set(re.findall(r"\]\(([^)]+)\)", text)) == {path.name for path in tmp_path.iterdir()} - {f"{name}.md"}
    assert not re.search(r"\bnan\b", text)
    for sheet in (block for block in page.blocks if isinstance(block, Sheet)):
        assert all(len(cells) == len(sheet.columns) for cells in sheet.rows.values())
        assert len((tmp_path / f"{sheet.stem}.csv").read_text(encoding="utf-8").splitlines()) == len(sheet.records) + 1


FOLLOWING = {
    "table-1": ("higher AUC", "substantially lower", "stronger baseline", "Modelling the mechanism"),
    "fig-roc": ("ROC curves",),
    "table-2": ("substantially lower", "stronger baseline", "consistently", "Modelling the mechanism"),
    "magic-thresholds": ("higher accuracy",),
    "magic-missing-proportion": ("beats logistic regression",),
}


@pytest.mark.parametrize("name", FOLLOWING)
@pytest.mark.parametrize(("gain", "word"), [(GAIN, HOLDS), (-GAIN, FAILS), (0.0, UNDECIDED)])
def test_claims_that_the_paper_s_method_is_better_follow_the_planted_difference(build, name, gain, word):
    page = build(name, dict.fromkeys(PAPERS, gain))
    expected = NOT_REPRODUCED if word == FAILS and "magic" in name else word
    assert [verdict_on(page, words) for words in FOLLOWING[name]] == [expected] * len(FOLLOWING[name])


def test_other_claims_can_be_true_and_false_too(build):
    assert verdict_on(build("table-1", {methods.ECM_AO: GAIN, methods.ECM_LOGIT: -GAIN}), "higher AUC") == MIXED
    assert [claim.verdict for claim in build("fig-missing-proportion").claims] == [HOLDS, UNDECIDED, HOLDS, FAILS]
    assert [claim.verdict for claim in build("fig-approximation").claims] == [MIXED, HOLDS]
    for gain, word in ((GAIN, HOLDS), (-GAIN, FAILS)):
        page = build("measures", {"margin": gain})
        assert (verdict_on(page, "as good as"), verdict_on(page, "savings")) == (word, word)
    assert verdict_on(build("four-classes", {"gini": GAIN}), "more than two classes") == "gini"
    assert verdict_on(build("four-classes", dict.fromkeys(measures.COMPARED, GAIN)), "pays") == HOLDS
    assert verdict_on(build("shape", {"free": GAIN}), "markedly") == HOLDS
    assert verdict_on(build("shape"), "markedly") == FAILS
    assert verdict_on(build("shape"), "can be estimated") == HOLDS
    assert verdict_on(build("shape", {"upper": -2.0}), "can be estimated") == FAILS


def test_one_sample_decides_nothing(build):
    for name in ("table-1", "table-2", "fig-roc", "magic-thresholds"):
        assert {claim.verdict for claim in build(name, dict.fromkeys(PAPERS, GAIN), n=1).claims} == {UNDECIDED}


def test_methods_are_scored_on_rows_that_they_never_saw(build, monkeypatch):
    X, _ = magic.rows()
    seen, fitted = [], magic.fitted
    monkeypatch.setattr(magic, "fitted", lambda names, rows, *rest: seen.append(rows) or fitted(names, rows, *rest))
    for hider, rate in (("gaussian", 0.5), ("gaussian", 0.9), ("boosting", 0.5)):
        magic.held_out(np.random.default_rng(0), hider, rate, (methods.LOGISTIC,))
    assert all((rows == seen[0]).all() for rows in seen)  # the same split for every rate and hider
    held = ~(X[:, None] == seen[0]).all(axis=2).any(axis=1)
    assert (len(seen[0]), held.sum()) == (400, 200)
    published = magic.as_published(np.random.default_rng(0), "gaussian", 0.5)
    assert len(seen[-1]) == 600
    right, swapped = published[methods.LOGISTIC], published[methods.SWAPPED]
    assert swapped["accuracy", 0.5] == pytest.approx(1 - right["accuracy", 0.5])


# Runs.


def numbers(rng, count=3):
    return rng.uniform(size=count).tolist()


def test_random_numbers_depend_on_the_seed_and_the_name_only():
    settings = {"a": ("x", {}), "b": ("x", {"count": 2}), "c": ("y", {})}
    first = Run().samples(numbers, 2, settings)
    assert Run().samples(numbers, 1, settings)["c"] == first["c"][:1]
    assert first["b"] == [values[:2] for values in first["a"]]
    others = [Run(seed=1).samples(numbers, 2, settings)["a"], first["c"], first["a"]]
    assert len({value for samples in others for values in samples for value in values}) == 18


def test_what_was_computed_is_not_computed_again(tmp_path):
    run = Run(memory=Memory(tmp_path, verbose=0))
    calls = []

    def counted(rng):
        calls.append(1)
        return rng.uniform()

    assert run.once(counted, "a") == run.once(counted, "a")
    assert len(calls) == 1
    assert run.once(counted, "b") != run.once(counted, "a")


# The command.


def test_without_names_every_item_is_listed_with_its_title(capsys):
    main([])
    listed = [re.split(r"  +", line) for line in capsys.readouterr().out.splitlines()]
    assert listed == [[name, title] for name, (title, _) in ITEMS.items()]


def test_items_are_written_to_the_folder_and_their_claims_printed(tmp_path, capsys, quick_figures):
    main(["fig-approximation", "--out", str(tmp_path / "out"), "--cache", str(tmp_path / "cache"), "--jobs", "1"])
    assert {path.suffix for path in (tmp_path / "out").iterdir()} == {".md", ".csv", ".png"}
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("mixed: The squared margin closely matches")
    with pytest.raises(SystemExit):
        main(["tabel-1"])
    assert "tabel-1" in capsys.readouterr().err


def test_the_index_counts_every_claim_once_and_keeps_tables_whole():
    words = (HOLDS, HOLDS, FAILS, "entropy")
    page = Page("item", "An item", [Claim(f"a|b {i}", word, "x") for i, word in enumerate(words)])
    text = index([page], "python -m paper all", "Size small.")
    assert "4 claims: holds (2), does not hold (1), questions answered (1)." in text
    assert text.count(r"a\|b") == 4
    assert "[An item](item.md)" in text
