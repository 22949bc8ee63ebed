"""`rowtide merge`."""

from __future__ import annotations

import typer

from rowtide.cli import (
    merge_conflicts,
    merge_listings,
    merge_publishing,
    merge_schema_changes,
    merge_status,
    merge_subscribing,
    merge_synchronising,
    merge_tables,
)

app = typer.Typer(rich_markup_mode=None)
app.add_typer(merge_publishing.app)
app.add_typer(merge_schema_changes.app)
app.add_typer(merge_listings.app)
app.add_typer(merge_subscribing.app)
app.add_typer(merge_synchronising.app)
app.add_typer(merge_conflicts.app)
app.add_typer(merge_status.app)
app.add_typer(merge_tables.app)
