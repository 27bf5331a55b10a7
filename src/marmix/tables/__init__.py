"""Data files: read as they are, prepared for a fit, and written back safely."""

from marmix.tables.cells import as_text
from marmix.tables.labels import LabelColumn
from marmix.tables.preparation import Counts, Preparation
from marmix.tables.reading import DataFile, open_table

__all__ = ["Counts", "DataFile", "LabelColumn", "Preparation", "as_text", "open_table"]
