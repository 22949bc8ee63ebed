"""Prints src/rowtide/cli/option_names.py from the commands, as `make option-names` keeps it."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator

import click

from rowtide.cli.commands import app
from rowtide.cli.parameters import CliOption

PAGE = '''"""The options that the configuration file may give, as `scripts/option_names.py` finds them in the commands.

They are kept here because a command imports no module of other commands.
"""

from __future__ import annotations

_NAMES = """
{names}
"""
OPTION_NAMES = frozenset(_NAMES.split())
_OF_GATEWAY = """
{of_gateway}
"""
GATEWAY_OPTION_NAMES = frozenset(_OF_GATEWAY.split())
'''


def page() -> str:
    """Return the module's text."""
    gateway = app.commands["gateway"]
    assert isinstance(gateway, click.Group)
    return PAGE.format(names=_list_names(app), of_gateway=_list_names(gateway.commands["serve"]))


def _list_names(command: click.Command) -> str:
    names = sorted({name for option in _options(command) if (name := option.name_in_file) is not None})
    return textwrap.fill(" ".join(names), 118, break_on_hyphens=False)


def _options(command: click.Command) -> Iterator[CliOption]:
    if isinstance(command, click.Group):
        for one in command.commands.values():
            yield from _options(one)
    yield from (one for one in command.params if isinstance(one, CliOption))


if __name__ == "__main__":
    sys.stdout.write(page())
