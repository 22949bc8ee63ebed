"""Choose the place of the distribution database, and move it to another one.

A move copies under a lock that writers wait for, and drops the old schema together with the change of the place, so
that nobody writes to what was left. The last publication's end removes the schema first and then the source, by which
it is found: a repeat finds a database without the schema, and resumes.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from sqlalchemy import Connection, Engine, Table, func, insert, select, text
from sqlalchemy.schema import DropSchema

from rowtide.core.failpoints import failpoint
from rowtide.databases.postgres.alterations import create_tables
from rowtide.databases.postgres.errors import TransactionAborted, translated
from rowtide.databases.postgres.functions import format_creation, own_schema, view_schema
from rowtide.databases.postgres.quoting import quote_qualified, statement
from rowtide.databases.urls import name_of
from rowtide.replication.distributor import (
    definitions,
    history,
    joining,
    repair_records,
    retention,
    schema_article_records,
    script_records,
    tracers,
)
from rowtide.replication.distributor.location import (
    DistributorLocation,
    connect_to,
    distributor,
    find_place,
    plan_place,
    record_place,
    schema_of,
)
from rowtide.replication.distributor.publisher import read_source
from rowtide.replication.errors.delivery import (
    DistributionElsewhere,
    DistributionMissing,
    DistributorUnreachable,
    NotADistributor,
)

_HERE = "in the publisher itself"
_TRIES = 10
_MODULES = (
    definitions,
    history,
    joining,
    repair_records,
    retention,
    schema_article_records,
    script_records,
    tracers,
)
"""Their tables are in one `MetaData`, once they are imported."""


def choose_place(connection: Connection, url: str | None) -> DistributorLocation | None:
    """Return the place that a publisher's first publication gives its distribution database; None: nothing to record.

    Raises `DistributionElsewhere`, `DistributorUnreachable`, `PasswordGiven`.
    """
    if url is None:
        return None
    wanted, present = plan_place(connection, url), find_place(connection)
    if present is None and definitions.is_there(connection):
        raise DistributionElsewhere(name_of(connection.engine.url.render_as_string()), _HERE, url)
    if present is not None and present.url != url:
        raise DistributionElsewhere(name_of(connection.engine.url.render_as_string()), present.url, url)
    connect_to(wanted, "rowtide").close()
    return wanted if present is None else None


def make_tables(connection: Connection, schema: str) -> None:
    """Create the missing tables of a distribution database, on a connection that leads to it."""
    for creation in own_schema(schema):
        connection.execute(statement(creation))
    (metadata,) = {module.metadata for module in _MODULES}
    create_tables(connection, metadata)
    connection.execute(statement(format_creation(schema, definitions.FORMAT)))


def move_distribution(engine: Engine, database: str, url: str) -> int | None:
    """Move a publisher's distribution database to another one; return how many rows were copied.

    Where it was, nothing is left. If there is none any more, or it cannot be reached, the one that was restored at the
    new place is used from then on, and None returned. A repeat after a crash completes it. Raises `DistributionMissing`
    if there is none at either place, `NotADistributor`, `DistributorUnreachable`, `PasswordGiven`.
    """
    for _ in range(_TRIES - 1):
        # Agents that run lock the same tables in their own order.
        with suppress(TransactionAborted):
            return _move(engine, database, url)
    return _move(engine, database, url)


def _move(engine: Engine, database: str, url: str) -> int | None:
    with translated(), engine.begin() as connection:
        read_source(connection, database)
        present, planned = find_place(connection), plan_place(connection, url)
        place = planned if present is None else DistributorLocation(url, present.schema)
        if place == present:
            return 0
        with connect_to(place, "rowtide") as target:
            if not _is_there(connection):
                if present is None:
                    raise NotADistributor(database)
                if not _has_tables(target, place):
                    raise DistributionMissing(place.url, place.schema)
                record_place(connection, place)
                return None
            rows = _copy(connection, target, place.schema)
            target.commit()
        failpoint("distribution_copy.after")
        for schema in (schema_of(connection), view_schema(schema_of(connection))):
            distributor(connection).execute(DropSchema(schema, cascade=True, if_exists=True))
        record_place(connection, place)
    return rows


def _is_there(connection: Connection) -> bool:
    try:
        return definitions.is_there(connection)
    except DistributorUnreachable:
        return False


def _has_tables(target: Connection, place: DistributorLocation) -> bool:
    name = quote_qualified(place.schema, definitions.publications.name)
    return bool(target.execute(select(func.to_regclass(name).is_not(None))).scalar_one())


def _copy(connection: Connection, target: Connection, schema: str) -> int:
    """Copy all rows, which nobody changes until the caller's transaction ends; return their number."""
    source = distributor(connection)
    definitions.require_writable(connection)
    tables: Sequence[Table] = definitions.metadata.sorted_tables
    locked = ", ".join(quote_qualified(schema_of(connection), table.name) for table in tables)
    source.execute(text(f"lock table {locked} in exclusive mode"))
    # Of a move that was interrupted before it was recorded.
    target.execute(DropSchema(schema, cascade=True, if_exists=True))
    make_tables(target, schema)
    return sum(_copy_table(source, target, table, schema) for table in tables)


def _copy_table(source: Connection, target: Connection, table: Table, schema: str) -> int:
    rows = [dict(row) for row in source.execute(select(table)).mappings()]
    if rows:
        target.execute(insert(table), rows)
    for column in table.columns:
        if column.identity is not None:
            name = quote_qualified(schema, table.name)
            highest = select(func.setval(func.pg_get_serial_sequence(name, column.name), func.max(column)))
            target.execute(highest)
    return len(rows)
