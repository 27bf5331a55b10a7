"""The commands of the program: a file each, with a function that adds its arguments and one that runs it."""

from marmix.commands import completion, demo, evaluate, fit, info, predict, report, sensitivity

TASKS = {
    "start here": (demo, fit),
    "use a model": (predict, info),
    "look closer": (evaluate, sensitivity, report),
    "your shell": (completion,),
}
