"""Data files: reading tables, preparing features, and writing results."""

from marmix.outputs import Output, one_file
from marmix.tables.cells import as_text
from marmix.tables.labels import LabelColumn
from marmix.tables.preparation import Counts, Preparation
from marmix.tables.reading import DataFile, open_table
from marmix.tables.writing import RowWriter

__all__ = [
    "Counts",
    "DataFile",
    "LabelColumn",
    "Output",
    "Preparation",
    "RowWriter",
    "as_text",
    "one_file",
    "open_table",
]
