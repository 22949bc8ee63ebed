"""Targets as they are declared."""

from __future__ import annotations

from collections.abc import Iterator

from rowtide.cdc.definitions import are_begun
from rowtide.databases.postgres.connect import open_engine
from rowtide.databases.postgres.errors import translated
from rowtide.declared.kinds import TARGET
from rowtide.declared.state import DeclaredObject, Effects, describe, refuse
from rowtide.handle import Database
from rowtide.targets.definitions import Target, list_targets
from rowtide.targets.options import follows_by_default


def read(database: Database) -> Iterator[DeclaredObject]:
    """Yield the targets."""
    with translated(), open_engine(database.url).connect() as connection:
        if are_begun(connection):
            yield from map(_target, list_targets(connection))


def _target(target: Target) -> DeclaredObject:
    options, given = target.options, target.consumer.describe(None)
    values = {name: getattr(options, name) for name in TARGET.keys if hasattr(options, name)}
    values |= {
        # A table that went over to another instance has the name of the one that was given.
        "instances": [options.table_of(one.name) for one in target.consumer.instances if one.is_enabled],
        "kind": target.kind,
        "limit_hours": given.limit_hours,
    }
    implied = {"follow_columns": follows_by_default(target.kind, options.truncate)}
    if values["follow_columns"] == implied["follow_columns"]:
        values["follow_columns"] = None
    return describe(TARGET, [target.name], values, implied=implied)


EFFECTS = {
    TARGET.name: Effects(
        add=lambda database, target, _wanted: database.targets.add(**target.arguments()),
        change=refuse,
        drop=lambda database, target: database.targets.drop(target.names[0]),
    ),
}
