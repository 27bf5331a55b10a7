"""`marmix completion`: shell completion of commands and options."""

import argparse
from typing import Any

from marmix.commands.arguments import add_command, add_shared

SHELLS = ("bash", "zsh", "tcsh")


def add(commands: Any) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "completion",
        completion,
        about="print a script for shell completion",
        usage="SHELL",
        description="The script lets your shell complete the commands and options of marmix with the tab key. This needs the "
        "package shtab: pip install 'marmix[cli]'.",
        examples=[
            ("For bash, add this line to ~/.bashrc:", 'eval "$(marmix completion bash)"'),
            ("For zsh, with ~/.zfunc in $fpath, type once:", "marmix completion zsh > ~/.zfunc/_marmix"),
        ],
        also=("demo", "fit"),
    )
    input = parser.add_argument_group("input")
    input.add_argument("shell", choices=SHELLS, metavar="SHELL", help="your shell: bash, zsh or tcsh")
    add_shared(parser.add_argument_group("general"), "--debug", "--help")


def completion(options: argparse.Namespace) -> int:
    """Print the script."""
    try:
        import shtab
    except ImportError:
        raise ImportError("shell completion needs shtab: pip install 'marmix[cli]'") from None
    print(shtab.complete(options.parser, options.shell))
    return 0
