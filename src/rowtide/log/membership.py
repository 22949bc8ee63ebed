"""Members of the log: the tables that features read from a source, as the log itself orders them.

A feature enables a member (a capture instance, an article) in one transaction with the publication and its own
catalogue rows, and announces it by a row of `rowtide.control`. Readers learn of members only from these rows in the
log, so all agree on the LSN at which a member begins and ends.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from rowtide.core.json_records import JsonOf
from rowtide.core.lsn import CommitLsn
from rowtide.core.values import frozen
from rowtide.log.announcements import Alteration


@frozen
class Member:
    """One feature's subscription to one table.

    `columns` are those that it needs, in the table's order; `column_numbers` are their attribute numbers, which outlive
    renames (empty if they were not announced). `definition` is the feature's own JSON, opaque to the log.
    `computed_numbers` are columns that it needs once they are no longer generated. `member_id` is unique over time: a
    reused name is another member. `takes_added`: it needs the columns too that are added to the table later.
    """

    member_id: str
    feature: str
    name: str
    source_id: int
    schema: str
    table: str
    columns: tuple[str, ...]
    definition: str
    column_numbers: tuple[int, ...] = ()
    computed_numbers: tuple[int, ...] = ()
    takes_added: bool = False


@frozen
class Enabled:
    """A member begins: it sees every change that commits after this transaction."""

    commit_lsn: CommitLsn
    member: Member


@frozen
class Disabled:
    """A member ends: it sees nothing that commits after this transaction."""

    commit_lsn: CommitLsn
    member_id: str


@frozen
class Reshaped:
    """Rows of a table have the shape of this table version from within this transaction on.

    Written at the version's first use on each connection of the log reader, so also for a table's first version and
    after a restart. Readers may see it any number of times.
    """

    commit_lsn: CommitLsn
    table_id: int


@frozen
class Altered:
    """A statement of this transaction altered a table; rows after it in the log have the altered shape.

    `is_delivered`: rowtide's delivery ran it, for a schema change at the database's own publisher. `seqval` is its
    place among the transaction's changes: those of lower numbers precede it.
    """

    commit_lsn: CommitLsn
    alteration: Alteration
    is_delivered: bool = False
    seqval: int = 0


@frozen
class Heartbeat:
    """The log reader's own transaction in the log: it moves LSNs and times on while captured tables are idle."""

    commit_lsn: CommitLsn
    committed_at: datetime


@frozen
class Traced:
    """A tracer token of a publication, which every agent reads at its place in the log (SQL Server:
    sp_posttracertoken).

    `stored_at` is set as it becomes durable.
    """

    commit_lsn: CommitLsn
    committed_at: datetime
    publication: str
    tracer_id: int
    stored_at: datetime | None = None


@frozen
class ChangesOmitted:
    """A change of a member's table is not in the log store: the member has this transaction at most in part.

    `is_unclear`: the change could be read, but not which columns are the member's.
    """

    commit_lsn: CommitLsn
    member_id: str
    reason: str
    is_unclear: bool = False


Event = Enabled | Disabled | Reshaped | Altered | Heartbeat | Traced | ChangesOmitted
"""What happens in the log besides row changes; kept in the manifest, in log order."""


@frozen
class _Leaving:
    """The fields of a disable announcement."""

    member_id: str


@frozen
class _Token:
    """The fields of a tracer announcement."""

    publication: str
    tracer_id: int


_MEMBER = JsonOf[Member](Member)
_TOKEN = JsonOf[_Token](_Token)
_LEAVING = JsonOf[_Leaving](_Leaving)


def encode_member(member: Member) -> str:
    """Return the content of an enable announcement."""
    return _MEMBER.encode(member)


def decode_member(content: str) -> Member:
    """Read the content of an enable announcement. Raises `JsonInvalid`."""
    return _MEMBER.decode(content)


def encode_disable(member_id: str) -> str:
    """Return the content of a disable announcement."""
    return _LEAVING.encode(_Leaving(member_id))


def decode_disable(content: str) -> str:
    """Read the content of a disable announcement: the member's id. Raises `JsonInvalid`."""
    return _LEAVING.decode(content).member_id


def encode_token(publication: str, tracer_id: int) -> str:
    """Return the content of a tracer announcement."""
    return _TOKEN.encode(_Token(publication, tracer_id))


def decode_token(content: str, commit_lsn: CommitLsn, committed_at: datetime) -> Traced:
    """Read the content of a tracer announcement. Raises `JsonInvalid`."""
    token = _TOKEN.decode(content)
    return Traced(commit_lsn, committed_at, token.publication, token.tracer_id)


def stamp(event: Event, stored_at: datetime) -> Event:
    """Return an event as it is stored."""
    return replace(event, stored_at=stored_at) if isinstance(event, Traced) else event


def needed_columns(members: Iterable[Member], source_id: int) -> frozenset[str]:
    """Return the union of the columns that any member needs of a table; other columns never reach a segment."""
    return frozenset(name for member in members if member.source_id == source_id for name in member.columns)


def follow_alteration(member: Member, alteration: Alteration) -> Member:
    """Return a member as it reads its table after an alteration: columns by their new names, without dropped ones.

    Columns that are no longer generated are included, and added ones if it takes them. A member without column numbers
    keeps reading columns of the same names.
    """
    if member.source_id != alteration.source_id:
        return member
    renamed = replace(member, schema=alteration.schema, table=alteration.table)
    if not member.column_numbers:
        return renamed
    generated = {column.number for column in alteration.columns if column.is_generated}
    computed = tuple(number for number in member.computed_numbers if number in generated)
    needed = {*member.column_numbers, *member.computed_numbers} - set(computed)
    kept = [
        column
        for column in alteration.columns
        if column.number in needed or (member.takes_added and not column.is_generated)
    ]
    return replace(
        renamed,
        columns=tuple(column.name for column in kept),
        column_numbers=tuple(column.number for column in kept),
        computed_numbers=computed,
    )
