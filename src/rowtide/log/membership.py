"""Members of the log: the tables that features read from a source, and the announcements in it that order them.

A feature enables a member (a capture instance, an article) in one transaction with the publication and its own
catalogue rows, and announces it by a row of `rowtide.control`. Readers learn of members only from these rows in the
log, so all agree on the LSN at which a member begins and ends.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from enum import StrEnum

from rowtide.core.json_records import JsonOf
from rowtide.core.lsn import CommitLsn
from rowtide.core.values import frozen
from rowtide.databases.source_table import SourceColumn

SCHEMA, TABLE = "rowtide", "control"
"""The table's schema and name; the schema holds the log's metadata, and only their owner can create objects in it."""


class Announcement(StrEnum):
    """The kind of a row of `rowtide.control`; it determines the row's content."""

    ENABLE = "enable"
    """A member begins."""
    DISABLE = "disable"
    """A member ends."""
    DDL = "ddl"
    """A statement altered a table; written by an event trigger."""
    HEARTBEAT = "heartbeat"
    TRACER = "tracer"
    MARK = "mark"
    """A location in the log, without content; no reader acts on it."""


@frozen
class ControlRow:
    """A mark or a heartbeat: the id of the transaction that wrote the row, and when. It identifies the server that
    wrote it.

    `written_at` is the timestamp as the server sends it, in UTC.
    """

    xid: int
    written_at: str


def later_row(one: ControlRow | None, other: ControlRow | None) -> ControlRow | None:
    """Return the row of the later transaction; of rows of one transaction the second. Transaction ids only increase."""
    if one is None or other is None:
        return other or one
    return one if one.xid > other.xid else other


LONGEST_STATEMENT = 10_000
"""Characters of a statement's text that are recorded."""


@frozen
class AlteredColumn:
    """A column of the table after the statement; `number` stays the same as long as the column exists.

    `base_type_text` is the type under a domain, None if the type is not a domain. `collation` is its quoted name, None
    if it is the type's. `missing_value` is what rows have that were there when the column was added with a default,
    None if they have null or values of their own. `default` of a generated column is its expression; one that
    `is_virtual` is computed on read.
    """

    number: int
    name: str
    type_text: str
    type_code: int
    type_modifier: int
    base_type_text: str | None
    is_nullable: bool
    is_generated: bool
    default: str | None
    collation: str | None = None
    missing_value: str | None = None
    is_virtual: bool = False


def as_altered(column: SourceColumn) -> AlteredColumn:
    """Return a column as the catalogue describes it, without the defaults of ordinary ones."""
    return AlteredColumn(
        number=column.number,
        name=column.name,
        type_text=column.type_text,
        type_code=column.type_code,
        type_modifier=column.type_modifier,
        base_type_text=column.base_type_text,
        is_nullable=column.is_nullable,
        is_generated=column.is_generated,
        default=column.expression,
        is_virtual=column.is_virtual,
    )


@frozen
class Alteration:
    """A table after a statement altered it.

    `statement` is the whole text that the client sent, which may hold several statements. `rewrites_values`: the server
    rewrote the values of a column, which leaves no change rows. `moves_rows`: partitions with rows were attached,
    detached or dropped, which leaves none either; without `brings_rows` none was attached. `is_inherited`: the
    statement altered a table or type from which this table has columns. `is_inferred`: no event trigger recorded the
    statement; the log's description and the later catalogue say which columns, with the pairs of old and new names
    in `renames`, but not what became of values or constraints. `keys` are the columns, by number, of each index by
    which rows differ at every moment: unique, not deferrable, of all rows, and of columns that are not null; None if
    they are not known, as of one that was inferred.
    """

    source_id: int
    schema: str
    table: str
    command: str
    statement: str
    rewrites_values: bool
    columns: tuple[AlteredColumn, ...]
    is_inherited: bool = False
    renames: tuple[tuple[str, str], ...] = ()
    is_inferred: bool = False
    moves_rows: bool = False
    brings_rows: bool = True
    keys: tuple[tuple[int, ...], ...] | None = None

    @property
    def casts_alone(self) -> bool:
        """Whether the statement alters one table, and a type in it by the server's cast: without `using`.

        False if the text may not be all that ran: it is cut off, has several statements, or calls a function.
        """
        text = self.statement
        return len(text) < LONGEST_STATEMENT and bool(_ALTERS_ONE_TABLE.fullmatch(text)) and not _COMPUTES.search(text)


_ALTERS_ONE_TABLE = re.compile(r"\s*alter\s+table\s[^;]*;?\s*", re.IGNORECASE)
_COMPUTES = re.compile(r"\busing\b", re.IGNORECASE)

_ALTERATION = JsonOf[Alteration](Alteration)


def encode_alteration(alteration: Alteration) -> str:
    """Return the content of a ddl announcement."""
    return _ALTERATION.encode(alteration)


def decode_alteration(content: str) -> Alteration:
    """Read the content of a ddl announcement. Raises `JsonInvalid`."""
    return _ALTERATION.decode(content)


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

    Written when a connection of the log reader first uses the version: also for a table's first version, and after a
    restart. Readers may see it any number of times.
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
    """The log reader's own transaction in the log: it advances LSNs and times while captured tables are idle."""

    commit_lsn: CommitLsn
    committed_at: datetime


@frozen
class Traced:
    """A tracer token of a publication, which every agent reads at its location in the log (SQL Server:
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
    """A change of a member's table is missing from the log store: the member has at most a part of this transaction.

    `is_unclear`: the change could be read, but it is not known which of its columns are the member's.
    """

    commit_lsn: CommitLsn
    member_id: str
    reason: str
    is_unclear: bool = False


Event = Enabled | Disabled | Reshaped | Altered | Heartbeat | Traced | ChangesOmitted
"""Whatever the log contains besides row changes; kept in the manifest, in log order."""


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
    """Return the member after an alteration of its table: with the columns' new names, and without dropped columns.

    Columns that are no longer generated are included, and added ones if it takes them. A member without column numbers
    continues to read columns of the same names.
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
