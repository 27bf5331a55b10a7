"""Notes of fits: whatever code writes one gives what its sentence says, and a file brings it back."""

import ast
from dataclasses import replace
from pathlib import Path
from string import Formatter

import numpy as np
import pytest

import marmix
from marmix import MARGaussianMixture, Mechanism, load, save
from marmix.notes import SENTENCES, Note, covariance_notes, maxima_notes, mechanism_notes, sentence, tail_notes

SOURCE = Path(marmix.__file__).parent
READER = SOURCE / "container" / "models.py"  # takes any note that is in a file


def fields_of(code):
    """Names in a sentence, with their formats."""
    return {name: form for _, name, form, _ in Formatter().parse(SENTENCES[code]) if name}


def producers():
    """Place, code and values of each note that is written in the source."""
    sources = {path: path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py") if path != READER}
    for path, text in sources.items():
        for node in ast.walk(ast.parse(text)) if "Note(" in text else ():
            if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) == "Note":
                yield f"{path.name}:{node.lineno}", *node.args[:2]


def test_every_note_gives_the_values_that_its_sentence_says():
    codes = {"text"}  # of files of version 0.1
    for place, code, *values in producers():
        assert isinstance(code, ast.Constant), f"{place}: write the code of the note in place"
        assert code.value in SENTENCES, place
        assert all(isinstance(value, ast.Dict) for value in values), f"{place}: write the values of the note in place"
        assert {key.value for value in values for key in value.keys} == set(fields_of(code.value)), place
        codes.add(code.value)
    assert codes == set(SENTENCES)


def example(code):
    """A note with values like those of its producers."""
    lists = {"classes": [0, 1], "columns": [1, 0]}
    return Note(code, {name: lists.get(name, 2.5 if form else "some {text}") for name, form in fields_of(code).items()})


@pytest.fixture(scope="module")
def fit(two):
    return MARGaussianMixture(link=None).fit(two.X[:60], two.truth[:60])


def test_every_note_survives_a_file(fit, tmp_path):
    notes = [example(code) for code in SENTENCES]
    for mechanism in (
        Mechanism(alpha=(0.0, 1.0), shape=0.0, free_shape=True),
        Mechanism(alpha=(0.0, 1.0), shape=100.0, free_shape=True, label=(0.0, 10.0), free_label=True),
    ):
        notes += mechanism_notes(mechanism, 0.0)
    owner = np.array([0, 1])
    notes += [*tail_notes(np.array([0.0, 1.0]), owner, 1e-3, 1.0), *maxima_notes(np.array([0.0, -1.0]))]
    notes += [
        *covariance_notes([1], np.ones((2, 2)), owner, 1e-6),
        *covariance_notes([], np.zeros((2, 2)), owner, 1e-6),
    ]
    assert len(notes) == len(SENTENCES) + 10
    clf = MARGaussianMixture(link=None)
    clf.__dict__.update(fit.__dict__ | {"model_": replace(fit.model_, notes=notes)})
    save(clf, tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.model_.notes == notes
    assert again.notes_ == [sentence(note, fit.classes_, fit.model_.column_names) for note in notes]
