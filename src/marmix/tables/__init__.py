"""Columns of tables as features."""

from marmix.tables.preparation import Counts, Encoder, Preparation

__all__ = ["Counts", "Encoder", "Preparation"]
