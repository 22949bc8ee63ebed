"""Change tracking as it is declared: the tables that are tracked."""

from __future__ import annotations

from collections.abc import Iterator

from rowtide.databases.urls import parse_url
from rowtide.declared.kinds import TRACKED_TABLE
from rowtide.declared.planning import DeclaredObject, Effects, describe, refuse
from rowtide.handle import Database


def read(database: Database) -> Iterator[DeclaredObject]:
    """Yield the tracked tables."""
    by_default = parse_url(database.url).kind.load_part("rowtide.tracking", "tracking").DEFAULT_INDEX
    for tracked in database.tracking.list_tracked():
        values = {name: getattr(tracked, name) for name in TRACKED_TABLE.keys}
        values["index"] = tracked.index if tracked.index is not by_default else None
        yield describe(TRACKED_TABLE, [tracked.name], values, implied={"index": tracked.index})


EFFECTS = {
    TRACKED_TABLE.name: Effects(
        add=lambda database, table, _wanted: database.tracking.enable_tracking(**table.arguments()),
        change=refuse,
        drop=lambda database, table: database.tracking.disable_tracking(table.names[0]),
    ),
}
