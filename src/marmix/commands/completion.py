"""`marmix completion`: shell completion of commands and options."""

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
        about="print a script for shell completion",
        description="Print a script that lets your shell complete the commands and options of marmix with the tab key.",
        examples='  eval "$(marmix completion bash)"        for this session; add it to ~/.bashrc to keep it\n'
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
