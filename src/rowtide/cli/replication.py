"""`rowtide replication`."""

from __future__ import annotations

import typer

from rowtide.cli import replication_publishing, replication_running, replication_status, replication_subscribing

app = typer.Typer(
    help="Transactional replication: published tables delivered to subscribers, exactly once.", no_args_is_help=True
)
app.add_typer(replication_publishing.app)
app.add_typer(replication_subscribing.app)
app.add_typer(replication_running.app)
app.add_typer(replication_status.app)
