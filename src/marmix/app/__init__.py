"""The program: a table in, an analysis, and its results out."""
