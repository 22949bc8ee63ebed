"""`rowtide replication`."""

from __future__ import annotations

import typer

from rowtide.cli import (
    replication_articles,
    replication_comparing,
    replication_listings,
    replication_publishing,
    replication_running,
    replication_scripting,
    replication_status,
    replication_subscribing,
)

app = typer.Typer(rich_markup_mode=None)
app.add_typer(replication_publishing.app)
app.add_typer(replication_articles.app)
app.add_typer(replication_scripting.app)
app.add_typer(replication_listings.app)
app.add_typer(replication_subscribing.app)
app.add_typer(replication_running.app)
app.add_typer(replication_status.app)
app.add_typer(replication_comparing.app)
