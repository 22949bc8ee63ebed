"""Members of the log on PostgreSQL: how they begin and end in the order that the log requires, and are found after a
restore.

All statements of one change run in one transaction. No writer of the table is open when it commits, so the log has
every row change either wholly before or wholly after it. (`alter publication … add table` does not wait for writers by
itself; an open transaction would be captured in part.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from sqlalchemy import Connection, Engine, Executable, delete, literal_column, select, text, update
from sqlalchemy.dialects.postgresql import insert

from rowtide.core.errors import RowtideError
from rowtide.core.tables import BeforeImages
from rowtide.core.values import frozen
from rowtide.databases.postgres import alterations
from rowtide.databases.postgres.advisory_locks import MEMBERS
from rowtide.databases.postgres.alterations import (
    Alterations,
    LockMode,
    execute_at_once,
    set_brief_lock_timeout,
    set_lock_timeout,
)
from rowtide.databases.postgres.altering_many import AlterationProgress, BriefAlteration, alter_each
from rowtide.databases.postgres.quoting import quote, quote_qualified, statement
from rowtide.databases.postgres.session_pool import keeping_sessions
from rowtide.databases.source_table import SourceTable, TablePartition
from rowtide.log.catalogue import identities_table, members_table
from rowtide.log.membership import Announcement, Member, encode_disable, encode_member, encode_token
from rowtide.log.postgres import control_table
from rowtide.log.postgres.table_publications import Publishing, publish_table_steps, unpublish_table_steps
from rowtide.log.source_definition import SourceDefinition

Plan = Callable[[Connection], Sequence[Executable]]
"""Returns the steps of a change of membership, in order."""

DEFAULT_IDENTITY, FULL_IDENTITY, INDEX_IDENTITY = "d", "f", "i"
"""Replica identities: the primary key, the full row, or an index's columns."""


@frozen
class _WantedIdentity:
    """The replica identity that a member needs: full, or the columns of the primary key or of an index."""

    before_images: BeforeImages
    key_index: str | None

    @property
    def clause(self) -> str:
        if self.before_images is BeforeImages.FULL:
            return "full"
        return "default" if self.key_index is None else _using_index(self.key_index)

    def is_met_by(self, holder: SourceTable | TablePartition) -> bool:
        if holder.identity == FULL_IDENTITY:
            return True
        if self.before_images is BeforeImages.FULL:
            return False
        if self.key_index is None:
            return holder.identity == DEFAULT_IDENTITY
        return holder.identity == INDEX_IDENTITY and holder.identity_index == self.key_index


@frozen
class EarlierIdentity:
    """The replica identity that a table had before its members: the clause that restores it."""

    schema: str
    name: str
    clause: str


def lock_steps(table: SourceTable | None) -> list[Executable]:
    """Wait until no writer of the table and its partitions is open, and block new ones until commit.

    None stands for a dropped table.
    """
    if table is None:
        return [set_lock_timeout()]
    # The weakest mode that conflicts with writers' `row exclusive` and with itself. Readers continue.
    return [set_lock_timeout(), statement(f"lock table {_quoted(table)} in share row exclusive mode")]


def lock_briefly_steps(table: SourceTable, before_images: BeforeImages, key_index: str | None) -> list[Executable]:
    """Lock a table as `lock_steps` does, but without a wait that its readers and writers would notice.

    The lock is already the one that a change of replica identity needs: a lock upgrade would wait while holding the
    weaker lock.
    """
    return alterations.lock_briefly_steps(table, find_lock_mode(table, before_images, key_index))


def find_lock_mode(table: SourceTable, before_images: BeforeImages, key_index: str | None) -> LockMode:
    """Return the strongest lock that a table's first member needs."""
    wanted = _WantedIdentity(before_images, key_index)
    is_met = wanted.is_met_by(table) and all(wanted.is_met_by(holder) for holder in table.row_holders)
    return LockMode.SHARE_ROW_EXCLUSIVE if is_met else LockMode.ACCESS_EXCLUSIVE


def join_steps(
    source: SourceDefinition,
    table: SourceTable,
    member: Member,
    before_images: BeforeImages,
    *,
    publishing: Publishing,
    key_index: str | None = None,
) -> list[Executable]:
    """Add the table to the publications with the replica identity that the member needs, and register the member.

    A key is the primary key, or `key_index`. A replica identity is never reduced: it stays as another member needs it
    until the last one leaves.
    """
    wanted = _WantedIdentity(before_images, key_index)
    # Identity first: once the table is published, the server refuses updates and deletes without a replica identity.
    steps = list(_identity_steps(table, wanted))
    if not publishing.with_others:
        steps.append(statement(f"alter publication {quote(source.publication)} add table only {_quoted(table)}"))
    if publishing.making is not None:
        steps += publish_table_steps(source, table, publishing.making)
    return [*steps, _register_step(source, member)]


def leave_steps(
    source: SourceDefinition, table: SourceTable | None, identities: Sequence[EarlierIdentity], source_table_id: int
) -> list[Executable]:
    """Remove a table without members from the publications, and restore its and its partitions' replica identities.

    `table` is None if it was dropped in the meantime; partitions detached from it before still exist.
    """
    own_rows = identities_table.c.captured_table_id == source_table_id
    kept = identities_table.c.source_table_id.in_(select(members_table.c.source_table_id))
    # A detached partition may have members of its own by now.
    hand_over = (
        update(identities_table).where(own_rows, kept).values(captured_table_id=identities_table.c.source_table_id)
    )
    publication = [f"alter publication {quote(source.publication)} drop table only {_quoted(table)}"] if table else []
    restored = [
        f"alter table {quote_qualified(earlier.schema, earlier.name)} replica identity {earlier.clause}"
        for earlier in identities
    ]
    return [
        # Publications first: while the table is published, a lesser identity would make the server refuse updates, or
        # old rows would be missing from the log.
        *(statement(sql) for sql in publication),
        *unpublish_table_steps(source, source_table_id),
        *(statement(sql) for sql in restored),
        hand_over,
        delete(identities_table).where(own_rows),
    ]


def unregister_step(member_id: str) -> Executable:
    """Return the statement that removes a member from the list that the log reader verifies."""
    return delete(members_table).where(members_table.c.member_id == member_id)


def announce_enabled(member: Member) -> Executable:
    """Write the member's whole definition into the log; the last statement of its transaction."""
    return control_table.announce_step(Announcement.ENABLE, encode_member(member))


def announce_disabled(member_id: str) -> Executable:
    """Write the member's end into the log; the last statement of its transaction."""
    return control_table.announce_step(Announcement.DISABLE, encode_disable(member_id))


def announce_token(publication: str, tracer_id: int) -> Executable:
    """Write a tracer token into the log."""
    return control_table.announce_step(Announcement.TRACER, encode_token(publication, tracer_id))


def count_members(connection: Connection, source_table_id: int) -> int:
    """Return how many members read a table."""
    matching = select(members_table.c.member_id).where(members_table.c.source_table_id == source_table_id)
    return len(connection.execute(matching).all())


def earlier_identities(connection: Connection, source_table_id: int) -> tuple[EarlierIdentity, ...]:
    """Return the replica identities to restore of a table and its partitions, if they exist and rowtide changed
    them.
    """
    rows = connection.execute(text(_EARLIER), {"table": source_table_id})
    clauses = {DEFAULT_IDENTITY: "default", "n": "nothing"}
    return tuple(
        EarlierIdentity(row.schema, row.name, clauses.get(row.identity) or _using_index(row.identity_index))
        for row in rows
    )


@frozen
class MembershipChange:
    """A change of a table's members, which locks the table with `lock_briefly_steps` in this mode."""

    source_id: int
    table: str
    mode: LockMode
    plan: Plan


@keeping_sessions()
def run_membership_change(alterations: Alterations, table_name: str, plan: Plan) -> None:
    """Plan and run a change of members in one transaction; retry if a lock was not obtained in time.

    Raises `LockNotObtained`, naming the session that holds the table, and what `plan` raises.
    """
    alterations.transact(partial(_run, plan), table=table_name)


def run_membership_changes(
    engine: Engine,
    changes: Sequence[MembershipChange],
    wait_s: float,
    on_progress: Callable[[AlterationProgress], None],
) -> dict[int, RowtideError | None]:
    """Plan and run changes of the members of many tables, each in a transaction, in the rounds of `alter_each`."""
    alterations = [
        BriefAlteration(change.source_id, change.table, change.mode, partial(_run_at_once, change.plan))
        for change in changes
    ]
    return alter_each(engine, alterations, wait_s, on_progress)


def _run_at_once(plan: Plan, connection: Connection) -> None:
    # One change of members at a time: two that counted the same table's members before either commits would both add it
    # to the publication, or both restore its replica identity.
    connection.execute(set_brief_lock_timeout())
    connection.execute(text("select pg_advisory_xact_lock(:class, :key)"), MEMBERS)
    execute_at_once(connection, plan(connection))


def _run(plan: Plan, connection: Connection) -> None:
    connection.execute(text("select pg_advisory_xact_lock(:class, :key)"), MEMBERS)
    for step in plan(connection):
        connection.execute(step)


def _using_index(name: str) -> str:
    return f"using index {quote(name)}"


def _quoted(table: SourceTable | TablePartition) -> str:
    return quote_qualified(table.schema, table.name)


def _identity_steps(table: SourceTable, wanted: _WantedIdentity) -> Iterator[Executable]:
    """Each partition has its own replica identity; that of the partitioned table determines how the log describes
    old rows.
    """
    holders: tuple[SourceTable | TablePartition, ...] = (table, *table.row_holders)
    for holder in holders:
        if not wanted.is_met_by(holder):
            # In the same transaction, before the change: otherwise the identity could not be restored when the last
            # member leaves.
            yield _remember_step(holder, table)
            yield statement(f"alter table {_quoted(holder)} replica identity {wanted.clause}")


def _remember_step(holder: SourceTable | TablePartition, table: SourceTable) -> Executable:
    remembered = insert(identities_table).values(
        source_table_id=holder.source_id,
        identity=holder.identity,
        identity_index=holder.identity_index,
        captured_table_id=table.source_id,
    )
    # A replica identity that somebody else has changed since stays.
    return remembered.on_conflict_do_nothing()


def _register_step(source: SourceDefinition, member: Member) -> Executable:
    entry = (
        select(text("oid::bigint"))
        .select_from(text("pg_publication_rel"))
        .where(literal_column("prpubid::bigint") == source.publication_id)
        .where(literal_column("prrelid::bigint") == member.source_id)
    )
    return insert(members_table).values(
        member_id=member.member_id,
        feature=member.feature,
        name=member.name,
        source_table_id=member.source_id,
        source_schema=member.schema,
        source_name=member.table,
        publication_entry_id=entry.scalar_subquery(),
    )


_EARLIER = """
select n.nspname::text as schema, c.relname::text as name, i.identity, i.identity_index
from rowtide.identities i
join pg_class c on c.oid = i.source_table_id
join pg_namespace n on n.oid = c.relnamespace
where i.captured_table_id = :table
  and (i.source_table_id = :table
       or not exists (select from rowtide.members m where m.source_table_id = i.source_table_id))
order by i.source_table_id
"""
