"""Members whose tables were dropped without an event trigger's report."""

from __future__ import annotations

from contextlib import suppress

from sqlalchemy import Connection, text

from rowtide.databases.postgres.errors import RightMissing, WritesRefused, translated
from rowtide.log.announcements import Announcement
from rowtide.log.catalogue import LOG, dropped_table


def end_dropped(connection: Connection) -> bool:
    """Announce the end of members whose tables are no more, as an event trigger would have.

    For a connection outside of a transaction, to the database whose log is read: in a copy of it tables have other
    oids. Without the rights for it nothing is done, and False returned.
    """
    if not connection.execute(text(f"select exists({_GONE})"), {"log": LOG}).scalar_one():
        return True
    with suppress(RightMissing, WritesRefused), translated():
        dropped_table.create(connection, checkfirst=True)
        connection.execute(text(_END), {"log": LOG, "kind": Announcement.DISABLE.value})
        return True
    return False


_GONE = """
select from rowtide.members m
where m.feature <> :log and not exists (select from pg_class c where c.oid::bigint = m.source_table_id)
"""

_END = """
with gone as (
    delete from rowtide.members m
    where m.feature <> :log and not exists (select from pg_class c where c.oid::bigint = m.source_table_id)
    returning m.member_id, m.feature, m.name, m.source_table_id, m.source_schema, m.source_name
), forgotten as (
    delete from rowtide.identities i using gone where i.source_table_id = gone.source_table_id
), noted as (
    insert into rowtide.dropped_members (member_id, feature, name, source_schema, source_name)
    select member_id, feature, name, source_schema, source_name from gone
)
insert into rowtide.control (kind, content)
select :kind, json_build_object('member_id', member_id)::text from gone
"""
