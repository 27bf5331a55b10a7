"""Columns of tables as features."""

from marmix.tables.preparation import Counts, Preparation

__all__ = ["Counts", "Preparation"]
