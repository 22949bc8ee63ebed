"""`rowtide completion`: scripts by which shells complete commands, options and names; and what these scripts call."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import click
from click.shell_completion import get_completion_class

from rowtide.cli.groups import CommandTable
from rowtide.cli.output.rows import notes
from rowtide.core.options import Argument

app = CommandTable()
VARIABLE = "_ROWTIDE_COMPLETE"
"""Says in a script's calls which shell asks: `bash_complete`."""


class Shell(StrEnum):
    """Shells that there is a script for."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


_SETUP = {
    Shell.BASH: 'eval "$(rowtide completion bash)" in ~/.bashrc (bash 4.4 or newer)',
    Shell.ZSH: 'eval "$(rowtide completion zsh)" in ~/.zshrc, after compinit',
    Shell.FISH: "rowtide completion fish > ~/.config/fish/completions/rowtide.fish",
}


@app.command(epilog='Example: eval "$(rowtide completion bash)"')
def completion(shell: Annotated[Shell, Argument(metavar="bash|zsh|fish", help="The shell.")]) -> None:
    """Print the script by which a shell completes commands, options and names.

    Names of instances, publications and subscribers are those of the last listing, `cdc instances` say, of the database
    that the command line or ROWTIDE_DB names: nothing is connected to.
    """
    kind = get_completion_class(shell)
    assert kind is not None
    made = kind(click.get_current_context().find_root().command, {}, "rowtide", VARIABLE)
    print(made.source_template % made.source_vars())
    if notes.is_terminal:
        notes.print(f"To use it: {_SETUP[shell]}")


def complete(tree: click.Group, instruction: str) -> int:
    """Print what a script asks for; return the exit code."""
    shell, _, what = instruction.partition("_")
    kind = get_completion_class(shell)
    if kind is None or what != "complete":
        return 1
    print(kind(tree, {}, "rowtide", VARIABLE).complete())
    return 0
