"""The order of tables in which foreign keys lead back."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from graphlib import CycleError, TopologicalSorter

from sqlalchemy import Connection, text


def order_by_references(connection: Connection, source_ids: Collection[int]) -> list[int]:
    """Return tables, given by their oids, after those that they refer to; in no such order if references form a
    cycle.
    """
    found = connection.execute(text(_REFERENCES), {"tables": sorted(source_ids)}).all()
    return order({one: {row.to_id for row in found if row.from_id == one} for one in sorted(source_ids)})


def order(references: Mapping[int, set[int]]) -> list[int]:
    """Return tables after those that they refer to, where that is possible. Pure."""
    try:
        return list(TopologicalSorter(references).static_order())
    except CycleError:
        return list(references)


_REFERENCES = """
select distinct conrelid::bigint as from_id, confrelid::bigint as to_id from pg_constraint
where contype = 'f' and conrelid <> confrelid and conrelid::bigint = any(:tables) and confrelid::bigint = any(:tables)
"""
