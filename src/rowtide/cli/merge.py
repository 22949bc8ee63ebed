"""`rowtide merge`."""

from __future__ import annotations

import typer

from rowtide.cli import merge_conflicts, merge_publishing, merge_status, merge_subscribing

app = typer.Typer(
    help="Merge replication: a hub and subscribers that all write, offline too, and come to the same rows.",
    no_args_is_help=True,
)
app.add_typer(merge_publishing.app)
app.add_typer(merge_subscribing.app)
app.add_typer(merge_conflicts.app)
app.add_typer(merge_status.app)
