"""Columns of tables as features."""

from marmix.tables.encoder import Encoder
from marmix.tables.preparation import Counts, Preparation

__all__ = ["Counts", "Encoder", "Preparation"]
