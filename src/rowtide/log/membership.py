"""Members of the log: what features want to read of a source, ordered by the log itself.

A feature enables a member (a capture instance, an article) in one transaction with the publication and
its own catalogue rows, and announces it by a row of `rowtide.control`. Readers learn of members only from
these rows in the log, so all agree at which LSN a member begins and ends.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from pydantic import TypeAdapter

from rowtide.core.lsn import CommitLsn
from rowtide.log.alterations import Alteration


@dataclass(frozen=True, slots=True)
class Member:
    """One reader's interest in one table.

    `columns` are those that it needs, in the table's order, `column_numbers` what the database knows them by, whatever
    they are called (empty where that was not told); `definition` is the feature's own JSON, opaque to the log.
    `computed_numbers` are columns that it needs once they are no longer generated.
    `member_id` is unique over time: a name used again is another member.
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


@dataclass(frozen=True, slots=True)
class Enabled:
    """A member begins: it sees every change that commits after this transaction."""

    commit_lsn: CommitLsn
    member: Member


@dataclass(frozen=True, slots=True)
class Disabled:
    """A member ends: it sees nothing that commits after this transaction."""

    commit_lsn: CommitLsn
    member_id: str


@dataclass(frozen=True, slots=True)
class Reshaped:
    """Rows of a table have the shape of this table version from within this transaction on.

    It comes at the version's first use on each connection of the log reader, so also for a table's first version, and
    again after a restart: a reader may meet it any number of times.
    """

    commit_lsn: CommitLsn
    table_id: int


@dataclass(frozen=True, slots=True)
class Altered:
    """A statement of this transaction altered a table; rows that follow it in the log are of the altered table."""

    commit_lsn: CommitLsn
    alteration: Alteration


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The log reader's own transaction in the log: a point in time where captured tables are idle."""

    commit_lsn: CommitLsn
    committed_at: datetime


@dataclass(frozen=True, slots=True)
class Traced:
    """A tracer token of a publication, which every agent meets in its place; `stored_at` is set as it becomes durable.

    (SQL Server: sp_posttracertoken.)
    """

    commit_lsn: CommitLsn
    committed_at: datetime
    publication: str
    tracer_id: int
    stored_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Upgraded:
    """A database of an earlier build announces by rows from this transaction on: logical messages count no more."""

    commit_lsn: CommitLsn


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A change of a member's table is not in the log store: of this transaction the member has a part at most."""

    commit_lsn: CommitLsn
    member_id: str
    reason: str


Event = Enabled | Disabled | Reshaped | Altered | Heartbeat | Traced | Upgraded | LeftOut
"""What happens in the log besides rows; kept in the manifest, in log order."""


@dataclass(frozen=True, slots=True)
class _Leaving:
    """The fields of a disable announcement."""

    member_id: str


@dataclass(frozen=True, slots=True)
class _Token:
    """The fields of a tracer announcement."""

    publication: str
    tracer_id: int


_MEMBER = TypeAdapter(Member)
_TOKEN = TypeAdapter(_Token)
_LEAVING = TypeAdapter(_Leaving)


def encode_member(member: Member) -> str:
    """Return the content of an enable announcement."""
    return _MEMBER.dump_json(member).decode()


def decode_member(content: str) -> Member:
    """Read the content of an enable announcement. Raises `pydantic.ValidationError`."""
    return _MEMBER.validate_json(content)


def encode_disable(member_id: str) -> str:
    """Return the content of a disable announcement."""
    return _LEAVING.dump_json(_Leaving(member_id)).decode()


def decode_disable(content: str) -> str:
    """Read the content of a disable announcement: the member's id. Raises `pydantic.ValidationError`."""
    return _LEAVING.validate_json(content).member_id


def encode_token(publication: str, tracer_id: int) -> str:
    """Return the content of a tracer announcement."""
    return _TOKEN.dump_json(_Token(publication, tracer_id)).decode()


def decode_token(content: str, commit_lsn: CommitLsn, committed_at: datetime) -> Traced:
    """Read the content of a tracer announcement. Raises `pydantic.ValidationError`."""
    token = _TOKEN.validate_json(content)
    return Traced(commit_lsn, committed_at, token.publication, token.tracer_id)


def stamp(event: Event, stored_at: datetime) -> Event:
    """Return an event as it is stored."""
    return replace(event, stored_at=stored_at) if isinstance(event, Traced) else event


def needed_columns(members: Iterable[Member], source_id: int) -> frozenset[str]:
    """Return the union of the columns that any member needs of a table; other columns never reach a segment."""
    return frozenset(name for member in members if member.source_id == source_id for name in member.columns)


def follow_alteration(member: Member, alteration: Alteration) -> Member:
    """Return a member as it reads its table from an alteration on: columns by their new names, without dropped ones.

    Columns that are no longer generated are among them. A member that does not know its columns' numbers goes on
    reading columns of those names.
    """
    if member.source_id != alteration.source_id:
        return member
    renamed = replace(member, schema=alteration.schema, table=alteration.table)
    if not member.column_numbers:
        return renamed
    generated = {column.number for column in alteration.columns if column.is_generated}
    computed = tuple(number for number in member.computed_numbers if number in generated)
    needed = {*member.column_numbers, *member.computed_numbers} - set(computed)
    kept = [column for column in alteration.columns if column.number in needed]
    return replace(
        renamed,
        columns=tuple(column.name for column in kept),
        column_numbers=tuple(column.number for column in kept),
        computed_numbers=computed,
    )
