"""The parts of a table beside its columns and keys, which subscribers' tables get as far as their database has them.

Pure. A part is given as its own database writes it; `for_sqlite` and `for_postgres` write it for the other one: an
expression without its casts, which the subscriber's database itself then accepts or refuses, tried in a temporary
table. To translate all expressions takes a grammar of all SQL; and to refuse tables with such parts would refuse most
schemas. What a subscriber lacks is listed, and is no obstacle: the hub still checks every row.

Triggers are not copied. What they do at one node is merged; at two nodes they would do it twice. Actions of foreign
keys are for a device's own programs: what the hub's actions did arrives as changes of rows.
"""

from __future__ import annotations

import re
from enum import Enum

from rowtide.core.values import frozen


class PartKind(Enum):
    """The kind of a part; the value is its name for users."""

    DEFAULT = "default"
    IDENTITY = "identity"
    GENERATED = "generated column"
    CHECK = "check"
    INDEX = "index"
    COLLATION = "collation"
    EXCLUSION = "exclusion constraint"
    UNIQUE = "unique key"
    FOREIGN_KEY = "foreign key"
    TRIGGER = "trigger"


@frozen
class Part:
    """A part of a table, named as in its database; keys are parts in omissions alone.

    `sql` is the expression of a default, a generated column or a check, the terms of an index, the name of a collation;
    `where` the condition of a partial index; `type_text` the type of a generated column, a `PostgreSQL` name;
    `statement` what creates the part in a database of the same kind. `has_effects`: its expression calls what does more
    than compute, and would have the rights of those who write rows elsewhere.
    """

    kind: PartKind
    name: str
    sql: str = ""
    terms: tuple[str, ...] = ()
    where: str | None = None
    is_unique: bool = False
    type_text: str = ""
    statement: str = ""
    has_effects: bool = False

    def names(self, column: str) -> bool:
        """Whether the terms of an index, or its condition, name a column; a word alike in them counts too."""
        word = re.compile(rf"(?<!\w){re.escape(column)}(?!\w)", re.IGNORECASE)
        return any(word.search(text) for text in (*self.terms, self.where or "", self.statement.partition("(")[2]))


@frozen
class Omission:
    """A part of a table that a subscriber does not get, and why."""

    table: str
    part: Part
    reason: str

    def __str__(self) -> str:
        return f"{self.part.kind.value} {self.part.name} of {self.table}: {self.reason}"


ON_ANOTHER_DATABASE = "the subscriber's database has none like it"
HAS_EFFECTS = "it calls a function that may do more than compute, with the rights of whoever writes rows there"
TRIGGERS_STAY = "triggers run at the node that has them, and what they write is merged"

_CAST = re.compile(
    r"::(?:\"[^\"]*\"|[a-z_][\w.]*)(?: varying| precision| with(?:out)? time zone)?(?:\([\d, ]+\))?(?:\[\])?"
)
_ANY = re.compile(r"= ANY \((\()?ARRAY\[([^\]]*)\](?(1)\))\)")
_ALL = re.compile(r"<> ALL \((\()?ARRAY\[([^\]]*)\](?(1)\))\)")
_LITERAL = re.compile(r"('(?:[^']|'')*')")
_ESCAPED = re.compile(r"(?<![\w'])[eE]'")
_UUID = (
    "lower(hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-4' || substr(hex(randomblob(2)), 2) || '-' || "
    "substr('89ab', 1 + (random() & 3), 1) || substr(hex(randomblob(2)), 2) || '-' || hex(randomblob(6)))"
)
_ZONED = "strftime('%Y-%m-%d %H:%M:%f+00', 'now')"
_UNZONED = "strftime('%Y-%m-%d %H:%M:%f', 'now')"
_OF_NOW = {
    "timestamp with time zone": _ZONED,
    "timestamp without time zone": _UNZONED,
    "date": "date('now')",
    "time without time zone": "strftime('%H:%M:%f', 'now')",
}
_NOW = ("now()", "CURRENT_TIMESTAMP", "transaction_timestamp()", "clock_timestamp()", "statement_timestamp()")
_LOCAL_NOW = ("LOCALTIMESTAMP", "CURRENT_DATE", "LOCALTIME", "CURRENT_TIME")
_NEW_UUID = ("gen_random_uuid()", "uuidv4()", "uuidv7()")
_MODIFIER = re.compile(r"\(\d+\)")
_NO_TEXT = ("bytea",)
_SQLITE_NOW = {"current_timestamp": "now()", "current_date": "current_date", "current_time": "localtime"}


def for_sqlite(expression: str, type_text: str) -> str | None:
    """Return a PostgreSQL expression as SQLite would have it; SQLite itself says whether it has it."""
    bare = _without_casts(expression)
    if bare is None or type_text in _NO_TEXT:
        return None
    if bare in _NOW or bare in _LOCAL_NOW:
        return _OF_NOW.get(_MODIFIER.sub("", type_text))
    if bare in _NEW_UUID:
        return _UUID
    return bare


def for_postgres(expression: str, type_text: str) -> str | None:
    """Return an SQLite expression as PostgreSQL would have it; PostgreSQL itself says whether it has it."""
    if expression.strip("()").lower() in _SQLITE_NOW:
        return _SQLITE_NOW[expression.strip("()").lower()]
    if type_text == "boolean" and expression in ("0", "1"):
        return "true" if expression == "1" else "false"
    return expression


def _without_casts(expression: str) -> str | None:
    """Return an expression without casts, which SQLite does not need; None for text that it would read otherwise."""
    if _ESCAPED.search(expression):
        return None
    pieces = _LITERAL.split(expression)
    literals = iter(pieces[1::2])
    # Literals are set aside, so that what looks like a cast in them stays.
    marked = "\0".join(pieces[::2])
    bare = _ALL.sub(r"not in (\2)", _ANY.sub(r"in (\2)", _CAST.sub("", marked)))
    return re.sub("\0", lambda _found: next(literals), bare)
