"""A publication for each member's table, so that the log can be read without one of the tables.

The log is read through the publication of all members; through the single ones only if the server cannot send a change
of some table. They exist from a table's first member on, because pgoutput looks up publications as of the time when a
transaction was written.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from sqlalchemy import ColumnElement, Connection, Engine, Executable, delete, literal_column, select, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.schema import CreateTable

from rowtide.core.values import frozen
from rowtide.databases.postgres.alterations import LOCK_NOT_AVAILABLE, set_lock_timeout
from rowtide.databases.postgres.catalogue import find_by_id
from rowtide.databases.postgres.errors import RightMissing, UnexpectedSqlError, translated
from rowtide.databases.postgres.quoting import quote, quote_qualified, statement
from rowtide.databases.source_table import SourceTable
from rowtide.events.catalogue import TablePublicationNotChanged
from rowtide.events.event import emit
from rowtide.log.catalogue import SCHEMA, publications_table
from rowtide.log.postgres.slot import publication_options
from rowtide.log.source_definition import SourceDefinition


@frozen
class PublicationCreation:
    """How a publication of one table is created: for which server version, and who owns it, None for this role.

    The roles that may alter the publication of all members may alter these.
    """

    version: int
    owner: str | None = None


@frozen
class Publishing:
    """Whether the publication of all members has a table; `making` for its own, None if that exists or may not be
    created.
    """

    with_others: bool
    making: PublicationCreation | None


def read_publishing(connection: Connection, source: SourceDefinition, source_table_id: int) -> Publishing:
    """Look up a table in the publication of all members and in its own."""
    own = name_of_table(source.publication, source_table_id)
    with_others, alone = (
        bool(connection.execute(text(_PUBLISHED), {"name": name, "table": source_table_id}).scalar_one())
        for name in (source.publication, own)
    )
    return Publishing(with_others, None if alone else read_making(connection, source.publication))


def read_making(connection: Connection, publication: str) -> PublicationCreation | None:
    """Return how to create publications beside one of all members; None if a right is missing."""
    row = connection.execute(text(_MAKING), {"all": publication}).one_or_none()
    return PublicationCreation(*row) if row is not None else None


def name_of_table(publication: str, source_table_id: int) -> str:
    """Return the name of a table's publication beside that of all members."""
    return f"{publication}_{source_table_id}"


def name_of_control(publication: str) -> str:
    """Return the name of the publication of the table of announcements."""
    return f"{publication}_control"


def is_of_table(name: str, publication: str) -> bool:
    """Return whether a publication is one of the single-table publications."""
    return re.fullmatch(rf"{re.escape(publication)}_(\d+|control)", name) is not None


def make_record_step() -> Executable:
    """Return the statement that creates the list of these publications, if it is missing."""
    return CreateTable(publications_table, if_not_exists=True)


def publish_table_steps(source: SourceDefinition, table: SourceTable, making: PublicationCreation) -> list[Executable]:
    """Return the statements that publish a single table; a publication left by an earlier member is created again."""
    name = name_of_table(source.publication, table.source_id)
    return _publish_steps(name, quote_qualified(table.schema, table.name), making)


def publish_control_steps(publication: str, making: PublicationCreation) -> list[Executable]:
    """Return the statements that publish the table of announcements by itself."""
    return _publish_steps(name_of_control(publication), f"{SCHEMA}.control", making)


def unpublish_table_steps(source: SourceDefinition, source_table_id: int) -> list[Executable]:
    """Return the statements that drop the publication of a table."""
    name = name_of_table(source.publication, source_table_id)
    return [_drop_step(name), delete(publications_table).where(publications_table.c.publication == name)]


def drop_steps(connection: Connection, publication: str) -> list[Executable]:
    """Return the statements that drop all single-table publications."""
    names = connection.execute(text(_NAMES)).scalars()
    return [_drop_step(name) for name in names if is_of_table(name, publication)]


def ensure_made(engine: Engine, connection: Connection, source: SourceDefinition) -> None:
    """Create the publications that were dropped by others, and drop those of dropped tables.

    What is missing is read on a connection that is there; each alteration is a transaction of its own.

    As when a table joins, no writer of it may be open. A table that is in use, or owned by another role, is left for
    the next time. Until then the log reader stops at a change of any table that the server cannot send.
    """
    with translated():
        making = read_making(connection, source.publication)
        missing = connection.execute(text(_MISSING), {"all": source.publication}).all()
        empty = connection.execute(text(_EMPTY), {"all": source.publication}).scalars()
        abandoned = [name for name in empty if is_of_table(name, source.publication)]
    if making is not None:
        for row in missing:
            _make_one(engine, source, row.source_id, making, is_control=row.is_control)
    for name in abandoned:
        _attempt(engine, name, [_drop_step(name)])


def find_blocker(connection: Connection, source: SourceDefinition, source_table_ids: Collection[int]) -> str | None:
    """Return why some tables cannot be read through their own publications, by the catalogue; None if all
    can.

    Whether a publication that was dropped since is a blocker is left to the server, which uses the catalogue of that
    time.
    """
    lost = connection.execute(text(_LOST), {"tables": list(source_table_ids), "all": source.publication}).scalar()
    return f"{lost} has no publication of its own, or others altered it" if lost is not None else None


def _make_one(
    engine: Engine, source: SourceDefinition, source_id: int, making: PublicationCreation, *, is_control: bool
) -> None:
    with translated(), engine.connect() as connection:
        table = find_by_id(connection, source_id)
    if table is None:
        return
    qualified = quote_qualified(table.schema, table.name)
    # The lock ensures that no writer of the table is open: a transaction from before the publication would be sent
    # incompletely. The timeout lets writers pass that would queue behind this lock.
    steps: list[Executable] = [set_lock_timeout(), statement(f"lock table {qualified} in share row exclusive mode")]
    if is_control:
        steps += publish_control_steps(source.publication, making)
    else:
        steps += publish_table_steps(source, table, making)
    _attempt(engine, qualified, steps)


def _attempt(engine: Engine, name: str, steps: Iterable[Executable]) -> None:
    try:
        with translated(), engine.begin() as connection:
            for step in steps:
                connection.execute(step)
    except RightMissing as error:
        emit(TablePublicationNotChanged(name, error))
    except UnexpectedSqlError as error:
        if error.sqlstate != LOCK_NOT_AVAILABLE:
            raise
        emit(TablePublicationNotChanged(name, error))


def _publish_steps(name: str, table: str, making: PublicationCreation) -> list[Executable]:
    name_column: ColumnElement[str] = literal_column("p.pubname::text")
    entry_column: ColumnElement[int] = literal_column("r.oid::bigint")
    entry = (
        select(name_column, entry_column)
        .select_from(text("pg_publication_rel r join pg_publication p on p.oid = r.prpubid"))
        .where(literal_column("p.pubname") == name)
    )
    columns = publications_table.c
    owner = making.owner
    given = [statement(f"alter publication {quote(name)} owner to {quote(owner)}")] if owner is not None else []
    record = insert(publications_table).from_select([columns.publication, columns.publication_entry_id], entry)
    return [
        _drop_step(name),
        statement(f"create publication {quote(name)} for table only {table} {publication_options(making.version)}"),
        # After its creation: only an owner may create a publication for a table, and the roles that alter the common
        # one have to be able to drop this.
        *given,
        record.on_conflict_do_update(
            index_elements=[columns.publication],
            set_={"publication_entry_id": record.excluded.publication_entry_id},
        ),
    ]


def _drop_step(name: str) -> Executable:
    return statement(f"drop publication if exists {quote(name)}")


_PUBLISHED = """
select exists (select from pg_publication_rel r join pg_publication p on p.oid = r.prpubid
               where p.pubname = :name and r.prrelid = :table)
"""

_MAKING = """
select current_setting('server_version_num')::int / 10000,
       case when owner.rolname <> current_user then owner.rolname::text end
from pg_publication p join pg_roles owner on owner.oid = p.pubowner
where p.pubname = :all and pg_has_role(current_user, owner.oid, 'member')
  and has_database_privilege(current_user, current_database(), 'create')
  and has_database_privilege(owner.oid, current_database(), 'create')
"""

_NAMES = "select pubname::text from pg_publication order by pubname"

_OWN_NAME = "cast(:all as text) || '_' || case m.feature when 'log' then 'control' else m.source_table_id::text end"

_MISSING = f"""
select m.source_table_id as source_id, bool_or(m.feature = 'log') as is_control
from rowtide.members m
where not exists (select from pg_publication p where p.pubname = {_OWN_NAME})
group by m.source_table_id
order by m.source_table_id
"""  # noqa: S608 - of constants
"""A publication that others altered stays as it is: a new one would lack the changes written in the meantime too."""

_EMPTY = f"""
select p.pubname::text from pg_publication p
where not exists (select from pg_publication_rel r where r.prpubid = p.oid)
  and not exists (select from rowtide.members m where p.pubname = {_OWN_NAME})
order by p.pubname
"""  # noqa: S608 - of constants

_LOST = f"""
select string_agg(distinct m.source_schema || '.' || m.source_name, ', ')
from rowtide.members m
where (m.source_table_id = any(cast(:tables as bigint[])) or m.feature = 'log') and not exists (
    select from pg_publication p
    join rowtide.table_publications own on own.publication = p.pubname
    join pg_publication_rel r on r.oid = own.publication_entry_id and r.prpubid = p.oid
    where p.pubname = {_OWN_NAME} and r.prrelid::bigint = m.source_table_id
      and r.prqual is null and r.prattrs is null
      and p.pubinsert and p.pubupdate and p.pubdelete and p.pubtruncate and p.pubviaroot
      and coalesce(to_jsonb(p) ->> 'pubgencols', 's') = 's')
"""  # noqa: S608 - of constants
