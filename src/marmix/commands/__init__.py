"""The commands of the program: a file each, with a function that adds its arguments and one that runs it."""

from marmix.commands import completion, demo, evaluate, fit, info, predict, report, sensitivity

COMMANDS = (demo, fit, predict, info, evaluate, sensitivity, report, completion)
