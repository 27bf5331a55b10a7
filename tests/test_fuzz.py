"""The short form of ``python -m tests.fuzz``: hostile tables, models, arguments, names and arrays, from fixed seeds."""

from collections import Counter

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("openpyxl")

from fuzz.running import SUBJECTS, attempt, quick, subject_of


@pytest.mark.parametrize("name", SUBJECTS)
def test_hostile_input_gives_a_sound_result_or_an_error_in_words(name, seeds, tmp_path, monkeypatch):
    folder, kept, outcomes = tmp_path / "case", tmp_path / "kept", Counter()
    folder.mkdir()
    kept.mkdir()
    monkeypatch.chdir(folder)
    with quick():
        sound = subject_of(name).prepare(kept)
        for seed in seeds(subject_of(name).cases):
            outcomes[attempt(name, sound, seed, folder)] += 1
    assert subject_of(name).outcomes <= set(outcomes), outcomes
