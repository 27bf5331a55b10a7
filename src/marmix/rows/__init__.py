"""Engines hold the rows, map the block function over them and add. The data decide which engine that is."""

from marmix.rows.engine import Covariates, Engine, Frame, Piece, Sample, Setting, block_rows
from marmix.rows.files import FileEngine
from marmix.rows.memory import NumpyEngine

__all__ = ["Covariates", "Engine", "FileEngine", "Frame", "NumpyEngine", "Piece", "Sample", "Setting", "block_rows"]
