"""Confirmation for commands that lose data: they report what is lost, and ask."""

from __future__ import annotations

from typing import Annotated

import typer

from rowtide.cli.output.rows import notes

Reason = Annotated[str, typer.Option(help="Recorded with the gap.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


def confirm_loss(lost: object, *, yes: bool) -> None:
    """Report what is lost; unless `yes` is set, end the command if the user declines."""
    notes.print(f"Lost: {lost}.", soft_wrap=True)
    if not yes:
        typer.confirm("Continue?", abort=True, err=True)
