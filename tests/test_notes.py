"""Notes of fits: whatever code writes one gives what its sentence says, and a file brings it back."""

from dataclasses import replace
from string import Formatter

import numpy as np
import pytest

from marmix import MARGaussianMixture, Mechanism, load, save
from marmix.core.notes import SENTENCES, Note, covariance_notes, maxima_notes, mechanism_notes, sentence, tail_notes


def fields_of(code):
    """Names in a sentence, with their formats."""
    return {name: form for _, name, form, _ in Formatter().parse(SENTENCES[code]) if name}


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
