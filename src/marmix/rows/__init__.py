"""Where rows are, and how to map over them. The data decide which engine holds them."""

from marmix.rows.engine import NO_COVARIATES, Covariates, Engine, Frame, block_rows
from marmix.rows.host import FileEngine, NumpyEngine

__all__ = ["NO_COVARIATES", "Covariates", "Engine", "FileEngine", "Frame", "NumpyEngine", "block_rows"]
