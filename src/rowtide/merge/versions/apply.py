"""The statements that apply the log of users' changes to the metadata of rows. Pure.

Triggers only append to a log, which keeps writers fast. The agent applies the log to MSmerge_contents and
MSmerge_tombstone before it reads them. Entries logged after that which the reading snapshot sees are applied to a
temporary table, whose rows replace those of the two tables for the reader.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from enum import IntEnum
from typing import Final, Protocol

from rowtide.core.values import frozen
from rowtide.merge.articles import Article
from rowtide.merge.versions.changes import TombstoneType

CONTENTS_COLUMNS: Final = ("stamp", "origin", "priority", "lineage", "last", "colv", "own_columns", "bases")
TOMBSTONE_COLUMNS: Final = ("stamp", "origin", "priority", "lineage", "last", "type")
APPLIED: Final = "rowtide_applied"
"""The temporary table; columns with `c_` are the row's new contents, with `d_` its new tombstone.

`has_contents` and `has_tombstone` say whether it has an entry in those tables now.
"""


OF_OTHERS: Final = -1
"""The generation, in a subscriber's partition membership, of a row that it wrote to and does not have."""


class Logged(IntEnum):
    """What a log entry says of a row."""

    INSERTED = 1
    UPDATED = 2
    DELETED = 3
    REPLACED = 5
    """REPLACE wrote this row in place of another one, whose rowguid it has now; of a SQLite file."""
    KEPT = 6
    """The values of a row that an action of a foreign key changed while another one was replaced; of a SQLite file."""


@frozen
class RecursionStep:
    """A step of a recursive query: the columns that it finds, and what follows the row that it starts from."""

    found: str
    rest: str


def changed_columns(article: Article, kind: Logged, columns: frozenset[int] | None) -> list[bool] | None:
    """Return which columns a log entry says are changed, all of them if `columns` is None; None if it does not say."""
    if kind is not Logged.UPDATED or not article.column_tracking:
        return None
    return [columns is None or index in columns for index in range(len(article.columns))]


@frozen
class Tables:
    """The database's table names, and its syntax for looking up and removing single rows."""

    contents: str
    tombstone: str
    log: str
    lookup: str = "left join {table} {alias} on {condition} "
    """A left join of each row on the left to its row in a table, if any."""
    removal: str = "delete from {table} where tablenick = {nickname} and rowguid in ({rows})"
    """Deletes an article's rows from a table, by a query of rowguids."""
    step_from: str = "{name} {row}"
    """What a step of a recursive query reads from, with the rows found so far as `row`."""
    steps: tuple[str, str] = ("{steps}", " union ")
    """The part of a recursive query `name` that its steps are, and what joins them."""
    listing: str = "group_concat({})"
    """The aggregate that joins texts by commas."""
    replaces: bool = True
    """Whether an insert can take the place of a row, for less than deleting that first."""
    mappings: str = field(kw_only=True)
    """The partition membership of subscribers."""

    def join(self, table: str, alias: str, condition: str) -> str:
        """Return the join that looks up, for each row on the left, the rows that satisfy a condition on an index."""
        return self.lookup.format(table=table, alias=alias, condition=condition)

    def recursive(self, name: str, columns: str, first: str, row: str, steps: Sequence[RecursionStep]) -> str:
        """Return the definition of a recursive query: rows `first`, and what each step finds from a row `row`."""
        pattern, joined = self.steps
        begun = self.step_from.format(name=name, row=row)
        written = joined.join(f"select {step.found} from {begun} {step.rest}" for step in steps)
        return f"{name} ({columns}) as ({first} union {pattern.format(name=name, row=row, steps=written)})"

    def join_metadata(self, nickname: int, row: str) -> str:
        """Return the joins of contents as `c` and tombstones as `d` to rows, without joining a table to itself."""
        joins = ""
        for table, alias in ((self.contents, "c"), (self.tombstone, "d")):
            if alias != row:
                joins += self.join(table, alias, f"{alias}.tablenick = {nickname} and {alias}.rowguid = {row}.rowguid")
        return joins


@frozen
class RowQuery:
    """A query to read rows from: it returns a column `rowguid`; with its alias, and what follows the joins.

    The alias is `c` or `d` if it returns all of the contents or tombstones.
    """

    query: str
    row: str = "k"
    rest: str = ""

    def joined(self, article: Article, table: str, tables: Tables, *, is_beside: bool) -> str:
        """Return the text after `from`: the rows, with `table` as `t` and their metadata as `c`, `d` and `n`."""
        return (
            f"({self.query}) {self.row} {tables.join(table, 't', f't.rowguid = {self.row}.rowguid')}"
            f"{tables.join_metadata(article.nickname, self.row)}"
            f"{join_applied(article.nickname, is_beside=is_beside)}{self.rest}"
        )


class MetadataDialect(Protocol):
    """The SQL that differs between databases."""

    @property
    def tables(self) -> Tables: ...

    @property
    def stamp(self) -> str:
        """The stamp of a row's changes, an aggregate over its log entries."""

    def changed(self, place: int) -> str:
        """The condition that any of a row's log entries changed a column, by its position from 0."""

    def own_columns(self, changed: Sequence[str]) -> str:
        """Stamps of columns: `l.stamp` for columns whose condition holds, else the one in `c.own_columns`."""

    @property
    def first_base(self) -> str:
        """The first recorded value of an additive column, an aggregate over a row's log entries."""

    def bases(self, base: str) -> str:
        """The list of one value with the number 0; see `stored_metadata`."""


def apply_lines(article: Article, table: str, dialect: MetadataDialect) -> str:
    """Return the statement that writes the log's effect on an article's rows, in `table`, to `APPLIED`.

    The table itself says whether a row exists. A row that was deleted and inserted again counts as changed in all
    columns.
    """
    contents = ", ".join(f"c_{name}" for name in CONTENTS_COLUMNS)
    tombstone = ", ".join(f"d_{name}" for name in TOMBSTONE_COLUMNS)
    nickname = article.nickname
    return (
        f"insert into {APPLIED} (tablenick, rowguid, is_buried, has_contents, has_tombstone, {contents}, {tombstone}) "
        f"select {nickname}, l.rowguid, {_IS_BURIED}, c.rowguid is not null, d.rowguid is not null, "
        f"{', '.join(_contents(article, dialect))}, "
        f"{', '.join(_tombstone())} from ({_by_row(article, dialect)}) l "
        f"{dialect.tables.join(table, 't', 't.rowguid = l.rowguid')}"
        f"{dialect.tables.join_metadata(nickname, 'l')}"
    )


def keep(tables: Tables, nicknames: Sequence[int]) -> tuple[str, ...]:
    """Return the statements that update contents and tombstones of articles from `APPLIED`, and empty the log.

    They delete and insert, or replace: on PostgreSQL that costs less than updating.
    """
    removed = [(tables.contents, f"has_contents{' and c_stamp is null' if tables.replaces else ''}")]
    if not tables.replaces:
        removed.append((tables.tombstone, "has_tombstone and is_buried"))
    removals = (
        tables.removal.format(
            table=table,
            nickname=nickname,
            rows=f"select rowguid from {APPLIED} where tablenick = {nickname} and {condition}",
        )
        for nickname in nicknames
        for table, condition in removed
    )
    insertion = "insert or replace" if tables.replaces else "insert"
    return (
        *removals,
        f"{insertion} {_applied(tables.contents, 'c', CONTENTS_COLUMNS, 'c_stamp is not null')}",
        f"{insertion} {_applied(tables.tombstone, 'd', TOMBSTONE_COLUMNS, 'is_buried')}",
        f"delete from {tables.log}",
    )


def select_known(
    article: Article, table: str, tables: Tables, source: RowQuery, listing: str, subscriber: int | None
) -> str:
    """Return the query of rows' metadata, grouped: the rowguids that share it, the metadata itself, and at the end
    whether a subscriber has them, if one is given.

    `listing` is the database's aggregate that makes a JSON array.
    """
    rowguids, metadata = listing.format(f"{source.row}.rowguid"), metadata_columns(is_beside=False)
    width, held = 1 + len(CONTENTS_COLUMNS) + len(TOMBSTONE_COLUMNS), ""
    if subscriber is not None:
        of_row = f"m.tablenick = {article.nickname} and m.rowguid = {source.row}.rowguid"
        held = tables.join(tables.mappings, "m", f"m.replnickname = {subscriber} and {of_row}")
        metadata, width = f"{metadata}, case when m.generation <> {OF_OTHERS} then 1 end", width + 1
    places = ", ".join(str(index) for index in range(2, 2 + width))
    joined = f"{source.joined(article, table, tables, is_beside=False)}{held}"
    is_known = " or ".join(f"{alias}.rowguid is not null" for alias in "tcd")
    return f"select {rowguids}, {metadata} from {joined} where {is_known} group by {places}"


def metadata_columns(*, is_beside: bool) -> str:
    """Return whether a row `t` exists, its contents `c` and tombstone `d`, or `n` if the temporary table has them."""
    columns = [("c", name) for name in CONTENTS_COLUMNS] + [("d", name) for name in TOMBSTONE_COLUMNS]
    said = "case when n.rowguid is null then {0}.{1} else n.{0}_{1} end" if is_beside else "{0}.{1}"
    return ", ".join([f"case when {_IS_LIVE} then 1 end", *(said.format(table, name) for table, name in columns)])


def join_applied(nickname: int, *, is_beside: bool) -> str:
    """Return the join of `n` to rows `k`; empty if the log was not applied to the temporary table."""
    return f"left join {APPLIED} n on n.tablenick = {nickname} and n.rowguid = k.rowguid " if is_beside else ""


def applied_rows(nickname: int) -> str:
    """Return what to unite with the query of a window's rowguids: the temporary table's rows belong to every window."""
    return f" union select rowguid from {APPLIED} where tablenick = {nickname}"


_IS_LIVE = "t.rowguid is not null"
_IS_BURIED = f"(not ({_IS_LIVE}) or l.deleted = 1)"
_IS_PUT_BACK = "(l.deleted = 1 or (l.inserted = 1 and d.rowguid is not null))"


def _by_row(article: Article, dialect: MetadataDialect) -> str:
    said = {kind: f"max(case when kind = {kind.value} then 1 else 0 end)" for kind in (Logged.INSERTED, Logged.DELETED)}
    terms = [
        f"{dialect.stamp} as stamp",
        f"{said[Logged.INSERTED]} as inserted",
        f"{said[Logged.DELETED]} as deleted",
    ]
    if article.column_tracking:
        terms += [f"{dialect.changed(index)} as changed_{index}" for index in range(len(article.columns))]
    if article.additive_column is not None:
        terms.append(f"{dialect.first_base} as base")
    lines = f"{dialect.tables.log} where tablenick = {article.nickname}"
    return f"select rowguid, {', '.join(terms)} from {lines} group by rowguid"


def _contents(article: Article, dialect: MetadataDialect) -> list[str]:
    """Return the contents of an existing row: the received version remains the base of later changes."""
    stays = f"{_IS_LIVE} and l.deleted = 0"
    own_columns, bases = "c.own_columns", "c.bases"
    if article.column_tracking:
        changed = [f"({_IS_PUT_BACK} or l.changed_{index})" for index in range(len(article.columns))]
        own_columns = dialect.own_columns(changed)
    if article.additive_column is not None:
        bases = f"coalesce(c.bases, case when l.base is not null then {dialect.bases('l.base')} end)"
    kept = [f"case when {stays} then c.{name} end" for name in ("lineage", "last", "colv")]
    own = f"case when {_IS_LIVE} then {own_columns} end"
    return [f"case when {_IS_LIVE} then l.stamp end", "null", "null", *kept, own, f"case when {stays} then {bases} end"]


def _tombstone() -> list[str]:
    """Return the tombstone of a row; its lineage is that of the deleted version, or of the one before."""
    return [
        f"case when {_IS_BURIED} then l.stamp else d.stamp end",
        f"case when not {_IS_BURIED} then d.origin end",
        f"case when not {_IS_BURIED} then d.priority end",
        f"case when {_IS_BURIED} then coalesce(c.lineage, d.lineage) else d.lineage end",
        "d.last",
        f"case when {_IS_BURIED} then {TombstoneType.USER.value} else d.type end",
    ]


def _applied(table: str, prefix: str, columns: Sequence[str], condition: str) -> str:
    values = ", ".join(f"{prefix}_{name}" for name in columns)
    return (
        f"into {table} (tablenick, rowguid, {', '.join(columns)}) "
        f"select tablenick, rowguid, {values} from {APPLIED} where {condition} order by tablenick, rowguid"
    )
