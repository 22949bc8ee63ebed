"""`rowtide cdc`: change data capture."""

from __future__ import annotations

import typer

from rowtide.cli import (
    cdc_changes,
    cdc_cleanup,
    cdc_consumers,
    cdc_ddl,
    cdc_enabling,
    cdc_follow,
    cdc_jobs,
    cdc_listings,
    cdc_lsn,
    cdc_masks,
    cdc_running,
    cdc_scans,
    cdc_snapshots,
    cdc_status,
    cdc_table_rules,
    cdc_targets,
)

app = typer.Typer(rich_markup_mode=None)
app.add_typer(cdc_enabling.app)
app.add_typer(cdc_table_rules.app)
app.add_typer(cdc_running.app)
app.add_typer(cdc_changes.app)
app.add_typer(cdc_follow.app)
app.add_typer(cdc_snapshots.app)
app.add_typer(cdc_status.app)
app.add_typer(cdc_lsn.app, name="lsn")
app.add_typer(cdc_listings.app)
app.add_typer(cdc_masks.app)
app.add_typer(cdc_ddl.app)
app.add_typer(cdc_cleanup.app)
app.add_typer(cdc_consumers.app)
app.add_typer(cdc_jobs.app)
app.add_typer(cdc_scans.app)
app.add_typer(cdc_targets.app)
