"""Example data: simulated mixtures with exact posteriors, labels hidden by a known mechanism, and real rows."""

from marmix.datasets.hard import load_odd_digits, load_tumours
from marmix.datasets.hiding import hide_labels
from marmix.datasets.mammography import load_mammography
from marmix.datasets.simulation import make_mar_mixture

__all__ = ["hide_labels", "load_mammography", "load_odd_digits", "load_tumours", "make_mar_mixture"]
