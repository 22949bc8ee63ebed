"""The table `rowtide.control`, whose rows are what rowtide itself writes into the log.

Only its owner, who owns the schema, can write it; this is why its announcements are trusted. A row has served its
purpose once it is in the log. The last row that the log store has, and later ones, also prove that this server wrote
what was read (`provenance`). Only the log reader deletes the rows before that one, so that the table stays small.
"""

from __future__ import annotations

from sqlalchemy import Connection, Executable, text

from rowtide.databases.postgres.quoting import quote, statement
from rowtide.log.catalogue import LOG
from rowtide.log.membership import Announcement, ControlRow
from rowtide.log.postgres import table_publications
from rowtide.log.postgres.table_publications import PublicationCreation


def publish_steps(publication: str, making: PublicationCreation | None) -> list[Executable]:
    """Return the statements that create the table, published in the log and writable only by its owner."""
    return [
        table_publications.make_record_step(),
        statement(_CREATE),
        statement(_REVOKE),
        statement(f"alter publication {quote(publication)} add table only rowtide.control"),
        text(_REGISTER).bindparams(log=LOG, publication=publication),
        *(table_publications.publish_control_steps(publication, making) if making is not None else ()),
    ]


def renew_steps(publication: str, making: PublicationCreation) -> list[Executable]:
    """Return the statements that create the table again, for an existing publication."""
    return [statement("drop table if exists rowtide.control"), *publish_steps(publication, making)]


def announce_step(kind: Announcement, content: str) -> Executable:
    """Return the statement that writes an announcement into the log."""
    return text("insert into rowtide.control (kind, content) values (:kind, :content)").bindparams(
        kind=kind.value, content=content
    )


def mark_log(connection: Connection) -> int:
    """Write a mark and return the log position before its commit."""
    return int(connection.execute(text(_MARK), {"kind": Announcement.MARK.value}).scalar_one())


def mark_target(connection: Connection) -> int:
    """Like `mark_log`, for a run that ends once everything before the mark is read: the next run need not decode it
    again.

    A slot's restart LSN advances only to records of running transactions, which the server writes every 15 seconds at
    most. This writes one if the role may (superusers, and roles that are granted `pg_log_standby_snapshot`). Without
    it, runs of a million rows each began 148 to 562 MB before what they had read. It costs a round trip, and a small
    file for each logical slot of the server.
    """
    # Before the mark, so that the record precedes what the run reads last.
    connection.execute(text(_LOG_RUNNING))
    return mark_log(connection)


def mark_end(connection: Connection) -> ControlRow:
    """Write a mark and return its row, which proves later that this server continued from here."""
    row = connection.execute(text(_MARK_END), {"kind": Announcement.MARK.value}).one()
    return ControlRow(row.xid, row.written_at)


def forget_before(connection: Connection, stored: ControlRow | None) -> None:
    """Delete the rows before the last one that the log store has; without one, delete none."""
    if stored is not None:
        connection.execute(text(_FORGET), {"stored": stored.xid})


def write_heartbeat(connection: Connection, next_xid: int, stored: ControlRow | None) -> int | None:
    """Write a heartbeat if other transactions wrote since a transaction id; return the id after the heartbeat's own.

    Also deletes the rows before the last one that the log store has. Transactions of other sessions are counted, not
    bytes, because WAL also grows without transactions: by the server's own records, and by segments that
    `archive_timeout` fills.
    """
    parameters = {
        "kind": Announcement.HEARTBEAT.value,
        "next": next_xid,
        "stored": stored.xid if stored is not None else None,
    }
    return connection.execute(text(_BEAT), parameters).scalar_one_or_none()


_CREATE = """
create table rowtide.control (
    id bigint generated always as identity primary key,
    kind text not null,
    content text not null,
    xid xid8 not null default pg_current_xact_id(),
    written_at timestamp with time zone not null default clock_timestamp()
)
"""

_REVOKE = """
do $$
declare
    granted record;
begin
    for granted in
        select distinct a.grantee
        from pg_class c, aclexplode(c.relacl) a
        where c.oid = 'rowtide.control'::regclass and a.grantee <> c.relowner
    loop
        execute format('revoke all on rowtide.control from %s',
                       case granted.grantee when 0 then 'public' else granted.grantee::regrole::text end);
    end loop;
end $$
"""
"""Default privileges may grant others rights on every new table."""

_REGISTER = """
insert into rowtide.members
    (member_id, feature, name, source_table_id, source_schema, source_name, publication_entry_id)
select 'control', :log, 'control', r.prrelid::bigint, 'rowtide', 'control', r.oid::bigint
from pg_publication_rel r join pg_publication p on p.oid = r.prpubid
where p.pubname = :publication and r.prrelid = 'rowtide.control'::regclass
on conflict (member_id) do update
set source_table_id = excluded.source_table_id, publication_entry_id = excluded.publication_entry_id
"""

_MARK_END = """
insert into rowtide.control (kind, content) values (:kind, '')
returning xid::text::bigint as xid, written_at::text as written_at
"""

_FORGET = """
delete from rowtide.control
where id in (select id from rowtide.control where xid < cast(cast(:stored as text) as xid8) for update skip locked)
"""

_LOG_RUNNING = """
do $$
begin
    if has_function_privilege(to_regprocedure('pg_catalog.pg_log_standby_snapshot()'), 'execute') then
        perform pg_catalog.pg_log_standby_snapshot();
    end if;
end $$
"""
_MARK = """
with written as (insert into rowtide.control (kind, content) values (:kind, '') returning id)
select (pg_current_wal_insert_lsn() - '0/0')::bigint from written
"""

# Log readers of other databases write heartbeats too, each of which would cause one here. A heartbeat takes one
# transaction number, so one of each reader advances it by their number. Below twice that nobody writes another one, so
# that heartbeats do not cause each other for ever.
_BEAT = f"""
with due as (
         select from (select count(*) from pg_replication_slots where slot_name like 'rowtide\\_%') slots (number)
         where pg_snapshot_xmax(pg_current_snapshot())::text::bigint - :next > 2 * slots.number),
     forgotten as ({_FORGET} and exists (select from due)),
     written as (insert into rowtide.control (kind, content) select :kind, '' from due returning xid)
select xid::text::bigint + 1 from written
"""  # noqa: S608 - of constants
