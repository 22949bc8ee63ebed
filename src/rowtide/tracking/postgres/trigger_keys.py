"""The key by which a table's triggers write tombstones and stamps: its columns as they were called then."""

from __future__ import annotations

import re

from sqlalchemy import Connection, text

from rowtide.databases.postgres.clock import SCHEMA
from rowtide.tracking.postgres.subject import Subject

_NAMED = re.compile(r'\bold\."((?:[^"]|"")+)"::text')


def is_key_of_triggers(connection: Connection, subject: Subject) -> bool:
    """Whether triggers go by the key that a table has now; those of a table without tracked deletes may have none."""
    body = _read_body(connection, subject)
    return body is None or subject.packed_key("old") in body


def find_lost_names(connection: Connection, subject: Subject) -> tuple[str, ...]:
    """Return the columns that the triggers name and the table has not: writes that need them fail."""
    present = {column.name for column in subject.table.columns}
    named = (name.replace('""', '"') for name in _NAMED.findall(_read_body(connection, subject) or ""))
    return tuple(dict.fromkeys(name for name in named if name not in present))


def _read_body(connection: Connection, subject: Subject) -> str | None:
    """Return the function that is called with a deleted row, of either storage."""
    names = [f"{what}_{subject.table.source_id}" for what in ("bury_row", "delete")]
    body = connection.execute(text(_BODY), {"schema": SCHEMA, "names": names}).scalar()
    return None if body is None else str(body)


_BODY = """
select p.prosrc from pg_proc p join pg_namespace n on n.oid = p.pronamespace
where n.nspname = :schema and p.proname = any(:names)
"""
