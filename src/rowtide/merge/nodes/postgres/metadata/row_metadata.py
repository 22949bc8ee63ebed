"""Metadata of rows at a PostgreSQL node: read, and written from the log of users' changes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import psycopg
from psycopg import sql

from rowtide.core.values import frozen
from rowtide.databases.postgres.clock import BSN, unseen_by
from rowtide.databases.postgres.quoting import quote, quote_body, quote_literal, quote_qualified
from rowtide.merge.articles import ROWGUID, Article, ArticleReference
from rowtide.merge.nodes.postgres.metadata.generations import Generations
from rowtide.merge.nodes.postgres.metadata.system_tables import CONTENTS, LOG, TABLES, TOMBSTONE
from rowtide.merge.nodes.untyped_values import as_read_from_server, untyped_indexes
from rowtide.merge.partitions.belonging import FilterDialect
from rowtide.merge.versions import checked_metadata
from rowtide.merge.versions.apply import APPLIED, CONTENTS_COLUMNS, TOMBSTONE_COLUMNS, Logged, Tables, apply_lines, keep
from rowtide.merge.versions.changes import Row
from rowtide.merge.versions.comparison import in_all_columns, move_columns
from rowtide.merge.versions.stored_metadata import Contents, Tombstone


def escaped(sql_text: str) -> str:
    """Return a part of a query with parameters, in which a percent sign is itself."""
    return sql_text.replace("%", "%%")


def table_of(article: Article) -> str:
    """Return the quoted name of an article's table with its schema."""
    return quote_qualified(article.schema or article.place, article.table)


FILTERING = FilterDialect(TABLES, table_of)


def uuid_array(rowguids: Sequence[str]) -> str:
    """Return rowguids as one array literal: psycopg would format the elements of a list one by one.

    Without their dashes, which need not travel.
    """
    return f"{{{','.join(rowguids)}}}".replace("-", "")


def sent(article: Article, values: Sequence[str | None]) -> Row:
    """Return the values of a row as they travel."""
    return as_read_from_server(article, tuple(values)) if untyped_indexes(article) else tuple(values)


ROWGUIDS = "unnest(%s::uuid[])"
"""The rowguids that a query is asked about, as its parameter."""


@frozen
class PostgresReader:
    """See `RowMetadataDialect`."""

    generations: Generations
    tables: Tables = TABLES
    asked: str = f"select {ROWGUIDS} as rowguid"
    listing: str = "json_agg({})"

    def table_of(self, article: Article) -> str:
        return table_of(article)

    def columns_of(self, article: Article) -> Sequence[str]:
        return [f"t.{quote(column.name)}" for column in article.columns]

    def contents(self, values: Sequence[str | None]) -> Contents:
        stamp, origin, priority, lineage, last, columns, own_columns, bases = values
        return Contents(
            checked_metadata.read_version(self.generations.number_of(int(stamp or 0))),
            checked_metadata.read_origin(_integer(origin)),
            checked_metadata.read_priority(_real(priority)),
            checked_metadata.read_lineage(_bytes(lineage)),
            checked_metadata.read_last(_bytes(last)),
            checked_metadata.read_columns(_bytes(columns)),
            self._own_columns(own_columns),
            checked_metadata.read_bases(bases),
        )

    def tombstone(self, values: Sequence[str | None]) -> Tombstone:
        stamp, origin, priority, lineage, last, kind = values
        return Tombstone(
            checked_metadata.read_version(self.generations.number_of(int(stamp or 0))),
            checked_metadata.read_origin(_integer(origin)),
            checked_metadata.read_priority(_real(priority)),
            checked_metadata.read_lineage(_bytes(lineage)),
            checked_metadata.read_last(_bytes(last)),
            checked_metadata.read_tombstone_type(int(kind or 0)),
        )

    def values(self, article: Article, values: Sequence[str | None]) -> Row:
        return sent(article, values)

    def parent_of(self, reference: ArticleReference, parent: Article) -> str:
        pairs = zip(reference.parent_columns, reference.columns, strict=True)
        same = " and ".join(f"p.{quote(referenced)} = t.{quote(column)}" for referenced, column in pairs)
        return f"(select p.{ROWGUID} from {table_of(parent)} p where {same})"

    def _own_columns(self, array: str | None) -> Mapping[int, int]:
        if array is None:
            return {}
        stamps = enumerate(array.strip("{}").split(","))
        return {place: self.generations.number_of(int(stamp)) for place, stamp in stamps if stamp != "NULL"}


def stamps_of(metadata: Sequence[str | None]) -> Iterator[int]:
    """Yield the transactions that a row's metadata names, as the queries of `MetadataReader` return them."""
    for stamp in (metadata[_CONTENTS_STAMP], metadata[_TOMBSTONE_STAMP]):
        if stamp is not None:
            yield int(stamp)
    own = metadata[_OWN_COLUMNS]
    if own is not None:
        yield from (int(stamp) for stamp in own.strip("{}").split(",") if stamp != "NULL")


_CONTENTS_STAMP = 1 + CONTENTS_COLUMNS.index("stamp")
_OWN_COLUMNS = 1 + CONTENTS_COLUMNS.index("own_columns")
_TOMBSTONE_STAMP = 1 + len(CONTENTS_COLUMNS) + TOMBSTONE_COLUMNS.index("stamp")
"""Places in the metadata of a row, whose first says whether the row is there."""


def _integer(text: str | None) -> int | None:
    return None if text is None else int(text)


def _real(text: str | None) -> float | None:
    return None if text is None else float(text)


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text[2:])


_TABLES = (CONTENTS, TOMBSTONE)
Session = psycopg.Connection[tuple[Any, ...]]


def move_columns_of(session: Session, before: Article, after: Article) -> None:
    """Move what is known of rows' columns to the places of another definition; see `RowVersions.redefine`."""
    kept = after.indexes_in(before)
    of_table = f"where tablenick = {after.nickname}"
    if not before.column_tracking:
        stamped = f"array_fill(stamp, array[{len(after.columns)}])"
        session.execute(sql.SQL(f"update {CONTENTS} set own_columns = {stamped} {of_table} and origin is null"))
        found = f"select distinct last from {CONTENTS} {of_table} and origin is not null"
        lasts = [bytes(last) for (last,) in session.execute(sql.SQL(found))]
        known = [in_all_columns(last, len(after.columns)) for last in lasts]
        _replace(session, f"colv = n.now {of_table} and origin is not null and last = n.was", lasts, known)
    elif kept != list(range(len(before.columns))):
        moved = ", ".join(f"own_columns[{place + 1}]" for place in kept)
        own = f"set own_columns = array[{moved}] {of_table} and own_columns is not null"
        session.execute(sql.SQL(f"update {CONTENTS} {own}"))
        found = f"select distinct colv from {CONTENTS} {of_table} and colv is not null"
        known = [bytes(columns) for (columns,) in session.execute(sql.SQL(found))]
        now = [move_columns(columns, kept) for columns in known]
        _replace(session, f"colv = n.now {of_table} and colv = n.was", known, now)


def _replace(session: Session, settings: str, was: Sequence[bytes], now: Sequence[bytes]) -> None:
    settings, _, condition = settings.partition(" where ")
    replacing = f"update {CONTENTS} set {settings} from unnest(%s::bytea[], %s::bytea[]) n (was, now) where {condition}"
    session.execute(sql.SQL(replacing), [list(was), list(now)])


def lineages(session: Session, nickname: int, snapshot: str) -> Iterator[bytes]:
    """Yield the distinct lineages of a table's metadata that a generation's snapshot sees."""
    for table in _TABLES:
        distinct = f"select distinct lineage from {table} where {_seen(nickname, snapshot)} and lineage is not null"
        for (lineage,) in session.execute(sql.SQL(distinct)):
            yield bytes(lineage)


# `delete` has no limit. The array is made once, and its rows are read by their places.
def forget(session: Session, nickname: int, snapshot: str, most: int) -> int:
    """Remove a table's metadata that a generation's snapshot sees, and return how many rows."""
    return sum(
        session.execute(
            sql.SQL(
                f"delete from {table} where ctid = any(array("
                f"select ctid from {table} where {_seen(nickname, snapshot)} limit {most}))"
            )
        ).rowcount
        for table in _TABLES
    )


def _seen(nickname: int, snapshot: str) -> str:
    return f"tablenick = {nickname} and not {unseen_by('stamp', snapshot)}"


# Application of the log of users' changes; see `rowtide.merge.versions.apply`.

_COLUMNS = (
    "tablenick int, rowguid uuid, is_buried boolean, has_contents boolean, has_tombstone boolean, c_stamp bigint, "
    "c_origin bigint, c_priority double precision, c_lineage bytea, c_last bytea, c_colv bytea, "
    "c_own_columns bigint[], c_bases text, d_stamp bigint, d_origin bigint, d_priority double precision, "
    "d_lineage bytea, d_last bytea, d_type smallint"
)


@frozen
class _PostgresDialect:
    tables: Tables = TABLES

    @property
    def stamp(self) -> str:
        # What a generation has seen is applied when it is closed: all lines that are left are of the open one.
        return "max(stamp)"

    def changed(self, place: int) -> str:
        return f"coalesce(bool_or(columns[{place + 1}]), false)"

    def own_columns(self, changed: Sequence[str]) -> str:
        stamps = (
            f"case when {condition} then l.stamp else c.own_columns[{index}] end"
            for index, condition in enumerate(changed, 1)
        )
        return f"array[{', '.join(stamps)}]"

    @property
    def first_base(self) -> str:
        return "(array_agg(base order by ordinal) filter (where base is not null))[1]"

    def bases(self, base: str) -> str:
        return f"jsonb_build_array(jsonb_build_array(0, {base}))::text"


_DIALECT = _PostgresDialect()


def is_logged(session: Session) -> bool:
    """Whether the log has entries that the session sees; false if there is no log."""
    if session.execute(sql.SQL("select 1 from pg_class where oid = to_regclass(%s)"), [LOG]).fetchone() is None:
        return False
    return session.execute(sql.SQL(f"select 1 from {LOG} limit 1")).fetchone() is not None


def apply_statements(articles: Sequence[Article]) -> list[str]:
    """Return the statements that apply the log of articles as the caller's transaction sees it, but for emptying it."""
    *kept, _ = keep(TABLES, [article.nickname for article in articles])
    return [*_beside_statements(articles), *kept]


def emptying(articles: Sequence[Article]) -> str:
    """Return the statement that removes the log entries of articles, once they are applied."""
    listed = ", ".join(str(article.nickname) for article in articles) or "null"
    return f"delete from {LOG} where tablenick in ({listed})"


def apply_log(session: Session, articles: Sequence[Article]) -> int:
    """Apply the log as the caller's transaction sees it, in one snapshot; return the number of entries."""
    apply_beside(session, articles)
    lines = 0
    for statement in keep(TABLES, [article.nickname for article in articles]):
        lines = session.execute(sql.SQL(statement)).rowcount
    return lines


def tidy(session: Session) -> None:
    """Vacuum and analyze the tables, outside of transactions: plans stay right, and the log's space is reused."""
    # To give pages back, vacuum would lock the table against the triggers of programs.
    session.execute(sql.SQL(f"vacuum (truncate false, skip_locked) {LOG}"))
    session.execute(sql.SQL(f"analyze (skip_locked) {TABLES.contents}, {TABLES.tombstone}"))


def looking_again(articles: Sequence[Article]) -> str:
    """Return the statement that analyzes joined tables that the planner believes empty, for outside of transactions.

    Join conditions are the user's own: the planner chooses how to evaluate them.
    """
    joined = {name for each in articles for join in each.join_filters for name in (each.name, join.parent)}
    tables = ", ".join(f"to_regclass({quote_literal(table_of(each))})" for each in articles if each.name in joined)
    body = (
        "declare name text; begin for name in select oid::regclass::text from pg_class "
        f"where oid = any (array[{tables}]::oid[]) and reltuples = 0 and pg_relation_size(oid) > 0 "
        "loop execute 'analyze (skip_locked) ' || name; end loop; end"
    )
    return f"do {quote_body(body)}"


def apply_beside(session: Session, articles: Iterable[Article]) -> None:
    """Apply the log as seen by the caller's transaction to temporary tables, for this session alone."""
    for statement in _beside_statements(articles):
        session.execute(sql.SQL(statement))


def _beside_statements(articles: Iterable[Article]) -> list[str]:
    return [
        f"create temporary table if not exists {APPLIED} ({_COLUMNS}) on commit delete rows",
        f"truncate {APPLIED}",
        *(apply_lines(article, table_of(article), _DIALECT) for article in articles),
        # Autovacuum does not see temporary tables: the planner would assume a size of its own.
        f"analyze {APPLIED}",
    ]


def log_update(session: psycopg.Connection[tuple[Any, ...]], article: Article, rowguid: str) -> bool:
    """Log a row as updated, without any changed column; return whether it exists."""
    listed = (
        f"select {article.nickname}, {ROWGUID}, {Logged.UPDATED.value}, (select {BSN}) "
        f"from {escaped(table_of(article))} where {ROWGUID}::text = %s"
    )
    statement = sql.SQL(f"insert into {LOG} (tablenick, rowguid, kind, stamp) {listed}")
    return session.execute(statement, [rowguid]).rowcount > 0


def log_own(
    session: psycopg.Connection[tuple[Any, ...]], article: Article, columns: Sequence[str], without: Collection[str]
) -> None:
    """Log updates of the rows that have a value in any of some columns, but for those omitted."""
    is_any = " or ".join(f"{quote(name)} is not null" for name in columns)
    changed = ", ".join(str(column.name in columns).lower() for column in article.columns)
    tracked = f"array[{changed}]" if article.column_tracking else "null::boolean[]"
    session.execute(
        sql.SQL(
            f"insert into {LOG} (tablenick, rowguid, kind, stamp, columns) "
            f"select {article.nickname}, {ROWGUID}, {Logged.UPDATED.value}, (select {BSN}), {tracked} "
            f"from {escaped(f'{table_of(article)} where ({is_any})')} and {ROWGUID} <> all (%s::uuid[])"
        ),
        [uuid_array(list(without))],
    )
