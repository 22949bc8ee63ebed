"""The definition of a database's source, read from `rowtide.source` as text, so that any kind of session can read
it.
"""

from __future__ import annotations

from dataclasses import fields

from rowtide.core.formats import Requirement, StoreFormat, parse_definition, require as require_format
from rowtide.core.values import frozen
from rowtide.databases.postgres.functions import recorded_definition
from rowtide.databases.postgres.quoting import Run
from rowtide.log.errors import DatabaseCopied
from rowtide.log.membership import SCHEMA

FORMAT = StoreFormat("publisher's metadata")
"""The format of the schemas `rowtide` and `cdc`."""


@frozen
class SourceDefinition:
    """The one row of `rowtide.source`: how the log is read, and where the log store and the lake are."""

    source_id: str
    system_identifier: str
    publication: str
    publication_id: int
    slot: str
    log_store: str
    lake: str

    @property
    def database_id(self) -> int:
        """The oid of the database that the source was made in; the slot is named after it."""
        return int(self.slot.rpartition("_")[2])


def find_source(
    run: Run, database: str, require: Requirement = StoreFormat.require_writable
) -> SourceDefinition | None:
    """Return the definition of this database's source, None if there is none.

    The recorded identity is compared with the database's here and nowhere else. Raises `DatabaseCopied`, and as
    `find_recorded`.
    """
    source = find_recorded(run, require)
    if source is not None:
        original = find_original(run, source)
        if original is not None:
            raise DatabaseCopied(database, original, source.lake)
    return source


def find_original(run: Run, source: SourceDefinition) -> str | None:
    """Return the database in which a source was made, None if it was this one."""
    (here,) = run(_HERE, recorded=source.database_id)
    if (here.system_identifier, here.database_id) == (source.system_identifier, source.database_id):
        return None
    if here.system_identifier != source.system_identifier:
        return f"a database of another server (system {source.system_identifier}, database oid {source.database_id})"
    if here.recorded_name is None:
        return f"a database that this server no longer has (oid {source.database_id})"
    return f'database "{here.recorded_name}" of this server'


def find_recorded(run: Run, require: Requirement = StoreFormat.require_writable) -> SourceDefinition | None:
    """Return the source that is recorded here, whether it is this database's or that of the database it was copied
    from. Raises `FormatNewer`, `FormatOutdated`, `FormatUnnumbered` as `require` does for the format.
    """
    (state,) = run(_STATE)
    if not state.is_there:
        return None
    require_format(require, FORMAT, state.place, parse_definition(state.definition))
    rows = run(f"select {', '.join(field.name for field in fields(SourceDefinition))} from {SCHEMA}.source")  # noqa: S608
    return SourceDefinition(*rows[0]) if rows else None


# One of the two tables may have been dropped: then the next query of it fails with the reason.
_STATE = f"""
select exists (
           select from pg_class c join pg_namespace n on n.oid = c.relnamespace
           where n.nspname = '{SCHEMA}' and c.relname in ('source', 'members') and c.relkind in ('r', 'p')) as is_there,
       current_database()::text as place, {recorded_definition(SCHEMA)} as definition
"""  # noqa: S608
_HERE = """
select (select system_identifier::text from pg_control_system()) as system_identifier, d.oid::bigint as database_id,
       (select datname::text from pg_database where oid = :recorded) as recorded_name
from pg_database d where d.datname = current_database()
"""
