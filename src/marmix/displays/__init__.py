"""Displays of fits and predictions in matplotlib, in the manner of scikit-learn's."""
