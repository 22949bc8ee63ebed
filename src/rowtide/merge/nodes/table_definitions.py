"""Definitions of a node's tables: their parts beside columns and keys, and what distinguishes two of them. Pure.

Subscribers' tables get the parts that their database has. A part is given as its own database writes it; `for_sqlite`
and `for_postgres` write it for the other one: an expression without its casts, which the subscriber's database itself
then accepts or refuses, tried in a temporary table. A translation of all expressions would take a grammar of all SQL;
and most schemas have such parts. What a subscriber lacks is listed, and prevents nothing: the hub still checks every
row.

Triggers are not copied: what they do at one node is merged; at two nodes it would be done twice. Actions of foreign
keys are for a device's own programs: what the hub's actions did arrives as changes of rows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from enum import Enum

from rowtide.core.values import frozen
from rowtide.databases.types.registry import find_type, kind_of
from rowtide.databases.types.value_type import TypeKind
from rowtide.databases.urls import DatabaseKind
from rowtide.merge.articles import Article, ArticleColumn


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
        """Whether an expression, the terms of an index or its condition name a column; a word alike counts too."""
        word = re.compile(rf"(?<!\w){re.escape(column)}(?!\w)", re.IGNORECASE)
        return any(
            word.search(text) for text in (self.sql, *self.terms, self.where or "", self.statement.partition("(")[2])
        )


@frozen
class Omission:
    """A part of a table that a subscriber does not get, and why."""

    table: str
    part: Part
    reason: str

    def __str__(self) -> str:
        return f"{self.part.kind.value} {self.part.name} of {self.table}: {self.reason}"


ON_ANOTHER_DATABASE = "the subscriber's database has none like it"
HAS_EFFECTS = "it calls a function that may do more than compute, with the rights of the role that writes rows there"
TRIGGERS_STAY = "triggers run at the node that has them, and what they write is merged"

_CAST = re.compile(
    r"::(?:\"[^\"]*\"|[a-z_][\w.]*)(?: varying| precision| with(?:out)? time zone)?(?:\([\d, ]+\))?(?:\[\])?"
)
_ANY = re.compile(r"= ANY \((\()?ARRAY\[([^\]]*)\](?(1)\))\)")
_ALL = re.compile(r"<> ALL \((\()?ARRAY\[([^\]]*)\](?(1)\))\)")
_QUOTED_LITERAL = re.compile(r"('(?:[^']|'')*')")
_ESCAPED = re.compile(r"(?<![\w'])[eE]'")
_UUID = (
    "lower(hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-4' || substr(hex(randomblob(2)), 2) || '-' || "
    "substr('89ab', 1 + (random() & 3), 1) || substr(hex(randomblob(2)), 2) || '-' || hex(randomblob(6)))"
)
_NOW = ("now()", "CURRENT_TIMESTAMP", "transaction_timestamp()", "clock_timestamp()", "statement_timestamp()")
_LOCAL_NOW = ("LOCALTIMESTAMP", "CURRENT_DATE", "LOCALTIME", "CURRENT_TIME")
_NEW_UUID = ("gen_random_uuid()", "uuidv4()", "uuidv7()")
_SQLITE_NOW = {"current_timestamp": "now()", "current_date": "current_date", "current_time": "localtime"}


def for_sqlite(expression: str, type_text: str) -> str | None:
    """Return a PostgreSQL expression as SQLite would have it; SQLite itself says whether it has it."""
    bare, value_type = _without_casts(expression), find_type(type_text).value_type
    if bare is None or value_type.kind is TypeKind.BYTES:
        return None
    if bare in _NOW or bare in _LOCAL_NOW:
        return value_type.now
    if bare in _NEW_UUID:
        return _UUID
    return bare


def for_postgres(expression: str, type_text: str) -> str | None:
    """Return an SQLite expression as PostgreSQL would have it; PostgreSQL itself says whether it has it."""
    if expression.strip("()").lower() in _SQLITE_NOW:
        return _SQLITE_NOW[expression.strip("()").lower()]
    if kind_of(type_text) is TypeKind.BOOLEAN and expression in ("0", "1"):
        return "true" if expression == "1" else "false"
    return expression


def _without_casts(expression: str) -> str | None:
    """Return an expression without casts, which SQLite does not need; None for text that it would read otherwise."""
    if _ESCAPED.search(expression):
        return None
    pieces = _QUOTED_LITERAL.split(expression)
    literals = iter(pieces[1::2])
    # Literals are set aside, so that what looks like a cast in them stays.
    marked = "\0".join(pieces[::2])
    bare = _ALL.sub(r"not in (\2)", _ANY.sub(r"in (\2)", _CAST.sub("", marked)))
    return re.sub("\0", lambda _found: next(literals), bare)


_GONE = "MSmerge_gone_"
_SHAPED = (PartKind.DEFAULT, PartKind.IDENTITY, PartKind.GENERATED, PartKind.CHECK, PartKind.COLLATION)
_OF_COLUMNS = (PartKind.DEFAULT, PartKind.IDENTITY, PartKind.COLLATION)


def write_shape(parts: Iterable[Part]) -> str:
    """Return the parts that definitions are compared by, as `Article.shape` stores them."""
    listed = [part for part in parts if part.kind in _SHAPED]
    return json.dumps([[each.kind.value, each.name, each.sql, each.type_text, each.statement] for each in listed])


def read_shape(article: Article) -> tuple[Part, ...]:
    """Read what `write_shape` wrote."""
    return tuple(
        Part(PartKind(kind), name, sql, type_text=type_text, statement=statement)
        for kind, name, sql, type_text, statement in json.loads(article.shape or "[]")
    )


@frozen
class TableChange:
    """The difference between an article's definition at a node, `before`, and the hub's.

    `kind` is the hub's kind of database, `statement` what created the table there, where the catalogue keeps that.
    `by_hand` are the numbers of columns whose change is left to the node's user.
    """

    before: Article
    after: Article
    kind: DatabaseKind
    statement: str | None = None
    by_hand: Collection[int] = ()

    @property
    def renamed(self) -> dict[str, str]:
        """The columns' new names, by the old ones."""
        return {was.name: now.name for was, now in self._kept() if was.name != now.name}

    @property
    def dropped(self) -> tuple[ArticleColumn, ...]:
        gone = (column for column in self.before.columns if self.after.same_column(column) is None)
        return tuple(column for column in gone if not self._is_by_hand(column))

    @property
    def added(self) -> tuple[ArticleColumn, ...]:
        new = (column for column in self.after.columns if self.before.same_column(column) is None)
        return tuple(column for column in new if not self._is_by_hand(column))

    def names_until_dropped(self, folded: Callable[[str], str]) -> dict[str, str]:
        """Return the names that dropped columns have until they are, by their own: others if these are given away.

        `folded` returns what is the same in names that are one to the database.
        """
        given = {folded(name) for name in (*self.renamed.values(), *(column.name for column in self.added))}
        return {
            column.name: f"{_GONE}{index}" if folded(column.name) in given else column.name
            for index, column in enumerate(self.dropped)
        }

    @property
    def retyped(self) -> tuple[ArticleColumn, ...]:
        return tuple(now for was, now in self._kept() if was.type_text != now.type_text)

    @property
    def loosened(self) -> tuple[ArticleColumn, ...]:
        """The columns that may be null now."""
        return tuple(now for was, now in self._kept() if now.is_nullable and not was.is_nullable)

    @property
    def tightened(self) -> tuple[ArticleColumn, ...]:
        """The columns that may not be null any more."""
        return tuple(now for was, now in self._kept() if was.is_nullable and not now.is_nullable)

    @property
    def redefaulted(self) -> tuple[ArticleColumn, ...]:
        """The columns that were there and have another default now, or none."""
        was, now = self._was(PartKind.DEFAULT), self._now(PartKind.DEFAULT)
        return tuple(column for _, column in self._kept() if was.get(column.name) != now.get(column.name))

    @property
    def filled(self) -> tuple[ArticleColumn, ...]:
        """The columns whose values the node is to read from the hub."""
        return tuple(sorted((*self.added, *self.retyped), key=self.after.columns.index))

    def parts_gone(self, kind: PartKind) -> tuple[str, ...]:
        """Return the names of generated columns or checks that no longer exist, or are made again."""
        now = self._now(kind)
        return tuple(name for name, sql in self._was(kind).items() if now.get(name) != sql or self._is_again(kind))

    def parts_new(self, kind: PartKind) -> tuple[Part, ...]:
        """Return generated columns or checks that are new, or are made again."""
        was = self._was(kind)
        return tuple(
            part
            for part in read_shape(self.after)
            if part.kind is kind and (was.get(part.name) != part.sql or self._is_again(kind))
        )

    def _is_again(self, kind: PartKind) -> bool:
        """Whether parts of a kind are made again: a column that another is generated from cannot get another type."""
        return kind is PartKind.GENERATED and bool(self.retyped)

    def parts_of(self, column: ArticleColumn) -> tuple[Part, ...]:
        """Return the default, identity and collation of a column."""
        return tuple(part for part in read_shape(self.after) if part.kind in _OF_COLUMNS and part.name == column.name)

    def default_of(self, column: ArticleColumn) -> Part | None:
        """Return the default of a column; None if it has none."""
        return next((part for part in self.parts_of(column) if part.kind is PartKind.DEFAULT), None)

    @property
    def is_of_table(self) -> bool:
        """Whether the table is to be altered; else only its definition, or its triggers."""
        columns = (self.renamed, self.dropped, self.added, self.retyped, self.loosened, self.tightened)
        kinds = (PartKind.GENERATED, PartKind.CHECK)
        return (
            any(columns)
            or bool(self.redefaulted)
            or any(self.parts_gone(kind) or self.parts_new(kind) for kind in kinds)
        )

    def steps(self) -> Iterator[tuple[str, int | None, str]]:
        """Yield each change as the catalogue of changes has it: its type, its column's number, and its text."""
        renamed = {now: was for was, now in self.renamed.items()}
        # Each of these looks at all columns: asked per column, a thousand of them would take hours.
        added = set(self.added)
        altered = {*self.retyped, *self.loosened, *self.tightened, *self.redefaulted}
        for column in self.dropped:
            yield "drop column", column.number, f"drop column {column.name}"
        for column in self.after.columns:
            if column.name in renamed:
                yield "rename column", column.number, f"rename column {renamed[column.name]} to {column.name}"
            if column in added:
                yield "add column", column.number, f"add column {self._describe(column)}"
            elif column in altered:
                yield "alter column", column.number, f"alter column {self._describe(column)}"
        for name in self.parts_gone(PartKind.GENERATED):
            yield "drop column", None, f"drop column {name}"
        for part in self.parts_new(PartKind.GENERATED):
            yield (
                "add column",
                None,
                f"add column {part.name} {part.type_text} generated always as ({part.sql})".strip(),
            )
        for name in self.parts_gone(PartKind.CHECK):
            yield "drop constraint", None, f"drop constraint {name}"
        for part in self.parts_new(PartKind.CHECK):
            yield "add constraint", None, f"add constraint {part.name} check ({part.sql})"

    def _describe(self, column: ArticleColumn) -> str:
        default = self.default_of(column)
        terms = [column.name, column.type_text, "" if column.is_nullable else "not null"]
        return " ".join(filter(None, [*terms, "" if default is None else f"default {default.sql}"]))

    def _was(self, kind: PartKind) -> Mapping[str, str]:
        renamed = self.renamed
        return {renamed.get(part.name, part.name): part.sql for part in read_shape(self.before) if part.kind is kind}

    def _now(self, kind: PartKind) -> Mapping[str, str]:
        return {part.name: part.sql for part in read_shape(self.after) if part.kind is kind}

    def _kept(self) -> Iterator[tuple[ArticleColumn, ArticleColumn]]:
        for now in self.after.columns:
            was = self.before.same_column(now)
            if was is not None and not self._is_by_hand(now):
                yield was, now

    def _is_by_hand(self, column: ArticleColumn) -> bool:
        return column.number is not None and column.number in self.by_hand
