"""`marmix completion`: what a shell needs to complete commands and options."""

import argparse
from typing import Any

from marmix.commands.arguments import add_command

SHELLS = ("bash", "zsh", "tcsh")


def add(commands: Any) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "completion",
        completion,
        about="a script that lets your shell complete commands and options",
        description="Print a script for your shell, which completes commands and options of marmix with the tab key.",
        examples='  eval "$(marmix completion bash)"        for this session; put it into ~/.bashrc for all\n'
        '  marmix completion zsh > "${fpath[1]}/_marmix"\n',
    )
    parser.add_argument("shell", choices=SHELLS, help="your shell")


def completion(options: argparse.Namespace) -> int:
    """Print the script."""
    try:
        import shtab
    except ImportError:
        raise ImportError("shell completion needs shtab: pip install 'marmix[cli]'") from None
    print(shtab.complete(options.parser, options.shell))
    return 0
