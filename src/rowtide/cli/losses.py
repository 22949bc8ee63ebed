"""Confirmation for commands that lose data: they report what is lost, and ask."""

from __future__ import annotations

from typing import Annotated

import click

from rowtide.cli.output.rows import notes
from rowtide.core.errors import RowtideError
from rowtide.core.options import Option

Reason = Annotated[str, Option(help="Recorded with the gap.")]
Yes = Annotated[bool, Option("--yes", help="Do not ask.")]


class LossNotConfirmed(RowtideError, number=1016):
    """The user has not confirmed that something is lost."""

    fact = "nothing was done: what would be lost was not confirmed"
    hint = "Run the command again and answer y, or run it with --yes."


def confirm_loss(lost: object, *, yes: bool) -> None:
    """Report what is lost; unless `yes` is set, ask. Raises `LossNotConfirmed`, also where nobody answers."""
    notes.print(f"Lost: {lost}.", soft_wrap=True)
    if not (yes or _is_confirmed()):
        raise LossNotConfirmed


def _is_confirmed() -> bool:
    try:
        return click.confirm("Continue?", err=True)
    except click.Abort:
        # It has left its line unfinished.
        notes.print("")
        return False
