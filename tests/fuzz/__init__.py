"""Hostile input of every kind, made at random: ``python -m tests.fuzz --help``."""
