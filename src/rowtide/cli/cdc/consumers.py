"""`rowtide cdc`: cleanup, and the named consumers that it waits for."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Annotated

from rowtide.cdc.cleanup.orders import CleanupOrder
from rowtide.cdc.consumers.requests import ConsumerChange, ConsumerName, NewConsumer
from rowtide.cli.groups import CommandTable
from rowtide.cli.listing import Listed, listing
from rowtide.cli.options import Db, ListingFormat
from rowtide.cli.output.rows import OutputFormat, notes, print_rows
from rowtide.cli.output.tables import show_fact
from rowtide.core.lsn import CommitLsn
from rowtide.core.options import MOST_MINUTES, Argument, Option
from rowtide.handle import connect

app = CommandTable()


@listing(
    app,
    epilog="Example: rowtide cdc consumers --format jsonl --db postgresql://localhost/shop",
    columns="consumer, instances, acknowledged_lsn as acknowledged, lag_seconds as lag_s, hours_left, "
    "is_at_risk as at_risk",
)
def consumers(db: Db) -> Listed:
    """List the named consumers: what they acknowledged, their lag, and how long cleanup waits for them."""
    from rowtide.cdc.consumers.consumers import ListedConsumer

    return ListedConsumer, connect(db).cdc.list_consumers()


@app.command(
    epilog="Example: rowtide cdc add-consumer warehouse --instances public_orders,public_items "
    "--db postgresql://localhost/shop"
)
def add_consumer(db: Db, consumer: NewConsumer) -> None:
    """Add a named consumer; its first window begins at the low endpoints."""
    connect(db).cdc.add_consumer(consumer)
    notes.print(f"Added: consumer {consumer.name}.")


@app.command(epilog="Example: rowtide cdc change-consumer warehouse --limit-hours 72 --db postgresql://localhost/shop")
def change_consumer(db: Db, change: ConsumerChange) -> None:
    """Change a consumer's instances or its limit; its acknowledged LSN stays."""
    connect(db).cdc.change_consumer(change)
    notes.print(f"Changed: consumer {change.name}.")


@app.command(epilog="Example: rowtide cdc drop-consumer warehouse --db postgresql://localhost/shop")
def drop_consumer(db: Db, name: ConsumerName) -> None:
    """Drop a consumer: cleanup no longer waits for it."""
    connect(db).cdc.drop_consumer(name)
    notes.print(f"Dropped: consumer {name}.")


@app.command(epilog="Example: rowtide cdc acknowledge warehouse 0/16B3748 --db postgresql://localhost/shop")
def acknowledge(db: Db, name: ConsumerName, lsn: Annotated[str, Argument(help="the last LSN it has")]) -> None:
    """Acknowledge for a consumer: its next window begins after this LSN."""
    connect(db).cdc.acknowledge(name, CommitLsn.parse(lsn))
    notes.print(f"Acknowledged: consumer {name} has everything up to LSN {CommitLsn.parse(lsn)}.")


@app.command(epilog="Example: rowtide cdc cleanup --retention 10080 --db postgresql://localhost/shop")
def cleanup(
    db: Db,
    order: CleanupOrder,
    retention: Annotated[
        int | None,
        Option(
            min=1,
            max=MOST_MINUTES,
            help="Minutes before the last captured commit that stay; default: the cleanup job's.",
        ),
    ] = None,
    form: ListingFormat = OutputFormat.TABLE,
) -> None:
    """Remove old change rows, after raising low endpoints (SQL Server: cleanup job, sp_cdc_cleanup_change_table).

    A running `cdc run` does it between its cycles; if none runs, this process does. Without a mark, for an INSTANCE, it
    only removes the rows below its low endpoint that an earlier cleanup could not remove.
    """
    cdc = connect(db).cdc
    kept = timedelta(minutes=retention) if retention is not None else cdc.read_retention()
    order = replace(order, retention=kept)
    with notes.status("Cleaning up ...") as progress:
        cleaned = cdc.cleanup(order, on_progress=progress.update, on_note=notes.print)
    rows = [(found.name, str(found.low) if found.low is not None else None, found.removed_rows) for found in cleaned]
    print_rows(("table", "low_endpoint", "removed_rows"), rows, form, show=show_fact)
