"""Sequences of published columns, as the publisher and a subscriber have them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PublishedSequence:
    """The sequence of a published column: its last value, whether it has given it out, and its step."""

    schema: str
    table: str
    column: str
    last_value: int
    is_called: bool
    increment: int


@dataclass(frozen=True, slots=True)
class SyncedSequence:
    """A subscriber's sequence that was moved: what it would have given next, and what it gives now."""

    subscriber: str
    table: str
    column: str
    before: int
    now: int


COLUMN_SEQUENCE = """
select coalesce(pg_get_serial_sequence({table}, {column}), (
    select quote_ident(n.nspname) || '.' || quote_ident(s.relname)
    from pg_attribute a
    join pg_attrdef f on f.adrelid = a.attrelid and f.adnum = a.attnum
    join pg_depend d on d.classid = 'pg_attrdef'::regclass and d.objid = f.oid
    join pg_class s on d.refclassid = 'pg_class'::regclass and s.oid = d.refobjid and s.relkind = 'S'
    join pg_namespace n on n.oid = s.relnamespace
    where a.attrelid = to_regclass({table}) and a.attname = {column} and a.attgenerated = ''
    order by s.oid limit 1))
where to_regclass({table}) is not null
"""
"""SQL of the sequence that numbers a column: its own, or the one in its default. Parameters are to be filled in."""
