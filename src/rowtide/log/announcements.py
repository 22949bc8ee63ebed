"""What rowtide writes into the log: announcements, as rows of rowtide.control, and marks of delivered transactions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum

from rowtide.core.json_records import JsonInvalid, JsonOf
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
    """A place in the log, without content; no reader acts on it."""


@frozen
class ControlRow:
    """A mark or a heartbeat: the id of the transaction that wrote the row, and when. It identifies the server that
    wrote it.

    `written_at` is the text that the server sends for it, in UTC.
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

        A text that may not be all that ran (cut off, several statements, a function) says nothing.
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


# Marks of the transactions that rowtide's delivery commits at a subscriber, in that database's own log. The first
# thing in such a transaction is a logical message. Any role can emit one, so it carries the subscription's secret,
# which only the subscriber's database has; a message without it marks nothing.

MESSAGE_PREFIX = "rowtide.origin"
"""The prefix of the logical message; its content is that of a `OriginMark`, as JSON."""
_ORIGIN_PREFIX = f"{MESSAGE_PREFIX}/"


class SecretWanted(Exception):
    """A subscription's mark was read: decode again with its secret, None if the database has no such subscription."""

    def __init__(self, subscription: str) -> None:
        super().__init__(subscription)
        self.subscription = subscription


@frozen
class OriginMark:
    """The content of a mark: the subscription's guid, the publisher's database, and the subscription's secret."""

    subscription: str
    originator: str
    secret: str


Secrets = Mapping[str, str | None]
"""The secrets of subscriptions by guid; None for one that the database does not have."""

_MARK = JsonOf[OriginMark](OriginMark)


def decode_mark(content: bytes) -> OriginMark | None:
    """Read a message's content; None if it is none of a mark."""
    try:
        return _MARK.decode(content)
    except JsonInvalid:
        return None


def verify_mark(content: bytes, secrets: Secrets) -> str | None:
    """Return the origin of a transaction's changes in log records; None if its mark is not verified.

    Raises `SecretWanted`.
    """
    mark = decode_mark(content)
    if mark is None:
        return None
    if mark.subscription not in secrets:
        raise SecretWanted(mark.subscription)
    return _ORIGIN_PREFIX + mark.subscription if mark.secret == secrets[mark.subscription] else None


def is_marked(origin: str | None) -> bool:
    """Return whether the origin of a log record is that of a marked transaction."""
    return origin is not None and origin.startswith(_ORIGIN_PREFIX)
