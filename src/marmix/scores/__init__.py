"""Score models: what a class looks like, as the score of each class at a row."""
