"""Example data: simulated mixtures with exact posteriors, labels hidden by a known mechanism, and two real data sets."""

from marmix.datasets.files import load_gastro, load_magic
from marmix.datasets.hiding import hide_labels
from marmix.datasets.simulation import make_mar_mixture

__all__ = ["hide_labels", "load_gastro", "load_magic", "make_mar_mixture"]
