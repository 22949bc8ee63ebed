"""Keys of captured tables that identify rows no longer, without an event trigger's report: announced in the log."""

from __future__ import annotations

from sqlalchemy import Engine, text

from rowtide.cdc.definitions import read_source
from rowtide.cdc.published import read_instances, read_publication
from rowtide.databases.postgres.errors import translated
from rowtide.databases.postgres.quoting import quote_literal
from rowtide.log.announcements import Announcement
from rowtide.log.postgres.ddl_triggers import announced_content

_STATEMENT = "the index of the key, or not null of its columns, is gone"


class LostKeys:
    """Announces each lost key once, and again by another process as long as capture has not read it."""

    def __init__(self, engine: Engine, database: str) -> None:
        self._engine = engine
        self._database = database
        self._announced: set[str] = set()

    def announce(self) -> None:
        """Announce the keys that were lost since the last look. Raises `DatabaseNotEnabled`, and as statements do."""
        with translated(), self._engine.connect() as connection:
            found = {str(member_id): int(source_id) for member_id, source_id in connection.execute(text(_LOST))}
            lost = {member_id: found[member_id] for member_id in found.keys() - self._announced}
            lake = read_source(connection, self._database).lake if lost else None
        if lake is None:
            return
        published = read_publication(lake)
        recorded = read_instances(lake, published.cycle) if published is not None else {}
        known = {one.instance.member_id for one in recorded.values() if one.instance.key_lost_at is not None}
        for source_id in {source_id for member_id, source_id in lost.items() if member_id not in known}:
            with translated(), self._engine.begin() as connection:
                connection.execute(text(_ANNOUNCE), {"source_id": source_id})
        self._announced |= lost.keys()


_LOST = """
select t.member_id, t.source_object_id
from cdc.change_tables t
join pg_class c on c.oid::bigint = t.source_object_id
where exists (select from cdc.index_columns k where k.object_id = t.object_id)
  and not exists (
    select from pg_index i
    where i.indrelid = c.oid and i.indisunique and i.indimmediate and i.indisvalid
      and i.indpred is null and i.indexprs is null and not exists (
        select from unnest(i.indkey::int2[]) with ordinality k(number, place)
        join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.number
        where k.place <= i.indnkeyatts and (not a.attnotnull or not exists (
            select from cdc.index_columns own where own.object_id = t.object_id and own.column_id = k.number))))
"""

_CONTENT = announced_content(
    command="'ALTER TABLE'",
    sql=quote_literal(_STATEMENT),
    moves_rows="false",
    brings_rows="false",
    is_inferred="true",
)
_ANNOUNCE = f"""
insert into rowtide.control (kind, content)
select {quote_literal(Announcement.DDL.value)}, {_CONTENT}
from (select c.oid, n.nspname, c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
      where c.oid::bigint = :source_id) altered
"""  # noqa: S608 - of constants
