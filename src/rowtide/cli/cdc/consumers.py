"""`rowtide cdc`: named consumers."""

from __future__ import annotations

from typing import Annotated

from rowtide.cdc.consumers.requests import ConsumerChange, ConsumerName, NewConsumer
from rowtide.cli.groups import CommandTable
from rowtide.cli.listing import Listed, listing
from rowtide.cli.options import Db
from rowtide.cli.output.rows import notes
from rowtide.core.lsn import CommitLsn
from rowtide.core.options import Argument
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
