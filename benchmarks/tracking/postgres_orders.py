"""Tables of orders in PostgreSQL, and the ways to know what changed in them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial

import psycopg

from benchmarks.source import Source
from rowtide.core.anchors import Anchor
from rowtide.tracking import ChangeTracking, StampIndex, Storage

SHAPE = (
    "(id bigint primary key, customer int not null, amount numeric(12, 2) not null, status text not null, note text)"
)
INSERT = (
    "insert into {table} (id, customer, amount, status, note) select i, i % 1000, (i * 7 % 100000) / 100.0, "
    "'status-' || i % 10, 'note of ' || i from generate_series({first}, {last}) i"
)
UPDATE = "update {table} set amount = amount + 1 where id between {first} and {last}"
DELETE = "delete from {table} where id between {first} and {last}"
OPERATIONS = {"insert": INSERT, "update": UPDATE, "delete": DELETE}
"""Statements over the keys from the first to the last."""
ROW_OPERATIONS = {
    "insert": (
        "insert into {table} (id, customer, amount, status, note) values (%(key)s, 1, 7.5, 'status-1', 'note of one')"
    ),
    "update": "update {table} set amount = amount + 1 where id = %(key)s",
    "delete": "delete from {table} where id = %(key)s",
}
"""The same of the row with one key."""

_UPDATED_AT = """
alter table {table} add column updated_at timestamptz default clock_timestamp();
create index on {table} (updated_at);
create function {table}_touch() returns trigger language plpgsql as
    $$begin new.updated_at := clock_timestamp(); return new; end$$;
create trigger touch before update on {table} for each row execute function {table}_touch();
"""
_AUDIT = """
create table {table}_audit (
    number bigint generated always as identity primary key, at timestamptz not null default clock_timestamp(),
    operation text not null, id bigint not null, image jsonb);
create function {table}_audit() returns trigger language plpgsql as
    $$declare changed {table} := case tg_op when 'DELETE' then old else new end; begin
    insert into {table}_audit (operation, id, image) values (tg_op, changed.id, to_jsonb(changed)); return null; end$$;
create trigger audit after insert or update or delete on {table} for each row execute function {table}_audit();
"""


@dataclass(frozen=True, slots=True, eq=False)
class Way:
    """One way to know what changed, and what it does to a table.

    `goals_us` bounds what it may add to a row, by operation.
    """

    name: str
    table: str
    prepare: Callable[[Source, str], None]
    goals_us: Mapping[str, float] = field(default_factory=dict)


def create(source: Source, way: Way, options: str = "") -> None:
    """Make an empty table of the way's name, where it is in use."""
    source.execute(f"create table {way.table} {SHAPE} {options}")
    way.prepare(source, way.table)


def drop(source: Source, way: Way) -> None:
    """Take the table away, and what the way made."""
    if way in TRACKED:
        with closing(psycopg.connect(source.url)) as connection:
            ChangeTracking(connection).disable_tracking(way.table)
    source.execute(f"drop table if exists {way.table}, {way.table}_audit")
    source.execute(f"drop function if exists {way.table}_touch, {way.table}_audit")


def take_anchor(source: Source, way: Way) -> Anchor:
    """Return an anchor of what is committed."""
    with (
        closing(psycopg.connect(source.url)) as connection,
        ChangeTracking(connection).changes([way.table]) as changes,
    ):
        return changes.anchor


def _track(source: Source, table: str, *, storage: Storage = Storage.ROW, index: StampIndex = StampIndex.BRIN) -> None:
    with closing(psycopg.connect(source.url)) as connection:
        ChangeTracking(connection).enable_tracking(table, storage=storage, index=index)


def _leave(source: Source, table: str) -> None:
    """Do nothing to the table."""


def _run(script: str, source: Source, table: str) -> None:
    source.execute(script.format(table=table))


_RANGES_US = {"insert": 1.5, "update": 1.5, "delete": 2.0}
_ROWS_US = {"insert": 2.5, "update": 2.5, "delete": 2.0}
UNTRACKED = Way("untracked", "plain", _leave)
TRACKED = (
    Way("tracked, stamps in the row, BRIN", "tracked_row", _track, _RANGES_US),
    Way("tracked, stamps in the row, btree", "tracked_btree", partial(_track, index=StampIndex.BTREE), _ROWS_US),
    Way("tracked, stamps beside it, BRIN", "tracked_side", partial(_track, storage=Storage.SIDE)),
)
"""Rowtide's own."""
UPDATED_AT = Way("column `updated_at`, btree, no deletes", "touched", partial(_run, _UPDATED_AT))
AUDIT = Way("audit table, a row a change", "audited", partial(_run, _AUDIT))
WAYS = (UNTRACKED, *TRACKED, UPDATED_AT, AUDIT)
