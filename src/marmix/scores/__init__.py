"""Score models: class scores of rows, and parameters from moments of their gradient."""
