"""Write received rows and their metadata to a PostgreSQL table.

Rows are copied to a temporary table with the columns' own types, so that each value is parsed by its type, and then
written by one statement per operation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import psycopg
from psycopg import sql

from rowtide.databases.postgres.copy_text import write_row
from rowtide.databases.postgres.quoting import quote
from rowtide.merge.articles import ROWGUID, Article
from rowtide.merge.nodes.postgres.row_metadata import table_of
from rowtide.merge.nodes.postgres.system_tables import CONTENTS, TOMBSTONE
from rowtide.merge.nodes.unique_swap import TemporaryValues
from rowtide.merge.versions.changes import Row, TombstoneType, Write, number_alike

Session = psycopg.Connection[tuple[Any, ...]]

_METADATA = (
    "rowtide_gone boolean, rowtide_live boolean, rowtide_type smallint, rowtide_origin bigint, "
    "rowtide_priority double precision, rowtide_lineage bytea, rowtide_last bytea, rowtide_colv bytea, "
    "rowtide_own bigint[]"
)
"""What is to be known of rows, and done to them."""


def make_staging(session: Session, article: Article) -> None:
    """Create the staging tables of an article if they do not exist, in the caller's transaction.

    Most rows share their metadata, which is therefore staged once.
    """
    columns = "".join(f", t.{quote(column.name)} as v{place}" for place, column in enumerate(article.columns))
    _run(
        session,
        f"create temporary table if not exists {_rows(article)} on commit delete rows as "
        f"select null::uuid as rowtide_guid, null::integer as rowtide_number{columns} "
        f"from {table_of(article)} t with no data",
    )
    _run(
        session,
        f"create temporary table if not exists {_known(article)} (rowtide_number integer, {_METADATA}) "
        "on commit delete rows",
    )
    _run(
        session,
        f"create or replace temporary view {_staging(article)} as "
        f"select * from {_rows(article)} join {_known(article)} using (rowtide_number)",
    )


def write(session: Session, article: Article, writes: Sequence[Write], updated: Sequence[str]) -> None:
    """Write rows in the caller's transaction; raises the server's errors. `updated` are the columns that updates set.

    Metadata is written first: what a user's trigger does to a row during the write is a later change.
    """
    stamp = _stamp(session)
    numbers, firsts = number_alike(writes)
    _copy(session, _rows(article), _row_lines(article, writes, numbers))
    _copy(session, _known(article), _known_lines(article, firsts, stamp))
    _forget(session, article)
    if any(one.row is not None for one in writes):
        _write_contents(session, article, stamp)
    if any(one.row is None for one in writes):
        _write_tombstones(session, article, stamp)
    _write_rows(session, article, writes, updated)


def write_temporary(session: Session, article: Article, values: Mapping[str, TemporaryValues]) -> None:
    """Give rows temporary values, in the caller's transaction; raises the server's errors."""
    types = {column.name: column.type_text for column in article.columns}
    for rowguid, temporary in values.items():
        settings = ", ".join(f"{quote(name)} = %s::{types[name]}" for name in temporary)
        update = f"update {table_of(article)} set {settings} where {ROWGUID} = %s::uuid"
        session.execute(sql.SQL(update), [*temporary.values(), rowguid])


def load(session: Session, article: Article, batches: Iterable[Sequence[tuple[str, Row]]]) -> int:
    """Copy rows into a table, in the caller's transaction, and return how many."""
    rows = 0
    names = ", ".join([*(quote(column.name) for column in article.columns), ROWGUID])
    with session.cursor().copy(sql.SQL(f"copy {table_of(article)} ({names}) from stdin")) as copy:
        for batch in batches:
            rows += len(batch)
            copy.write("".join(f"{write_row((*row, rowguid))}\n" for rowguid, row in batch))
    return rows


def find_updated(session: Session, article: Article) -> list[str]:
    """Return the columns that an update may set: not those that are always given by the server."""
    always = "select attname from pg_attribute where attrelid = %s::regclass and attidentity = 'a'"
    refused = {name for (name,) in session.execute(always, [table_of(article)])}
    return [column.name for column in article.columns if column.name not in refused]


def _staging(article: Article) -> str:
    """The name of the staged rows joined with their metadata."""
    return quote(f"rowtide_in_{article.nickname}")


def _rows(article: Article) -> str:
    return quote(f"rowtide_in_{article.nickname}_rows")


def _known(article: Article) -> str:
    return quote(f"rowtide_in_{article.nickname}_known")


def _copy(session: Session, table: str, lines: Iterable[str]) -> None:
    _run(session, f"delete from {table}")
    with session.cursor().copy(sql.SQL(f"copy {table} from stdin")) as copy:
        copy.write("".join(lines))


def _those(article: Article, condition: str) -> str:
    """Return the condition that selects the staged rows.

    It makes the planner look rows up by rowguid, even in a join and with wrong statistics; see `system_tables`.
    """
    return f"{ROWGUID} = any (array(select rowtide_guid from {_staging(article)} where {condition}))"


def _stamp(session: Session) -> int:
    row = session.execute("select pg_current_xact_id()::text").fetchone()
    assert row is not None
    return int(row[0])


def _row_lines(article: Article, writes: Sequence[Write], numbers: Sequence[int]) -> Iterator[str]:
    nothing = write_row((None,) * len(article.columns))
    for one, number in zip(writes, numbers, strict=True):
        yield f"{one.rowguid}\t{number}\t{nothing if one.row is None else write_row(one.row)}\n"


def _known_lines(article: Article, firsts: Sequence[Write], stamp: int) -> Iterator[str]:
    for number, one in enumerate(firsts):
        yield write_row([_text(value) for value in (number, *_metadata(article, one, stamp))]) + "\n"


def _metadata(article: Article, one: Write, stamp: int) -> tuple[object, ...]:
    own = ",".join(str(stamp) if place in one.own_columns else "null" for place in range(len(article.columns)))
    return (
        one.row is None,
        one.is_live,
        one.tombstone.value,
        one.origin,
        one.priority,
        one.lineage,
        one.last,
        one.columns,
        f"{{{own}}}" if one.own_columns else None,
    )


def _text(value: object) -> str | None:
    """Return a value in the server's text form."""
    return f"\\x{value.hex()}" if isinstance(value, bytes) else None if value is None else str(value)


def _write_contents(session: Session, article: Article, stamp: int) -> None:
    _run(
        session,
        f"insert into {CONTENTS} (tablenick, rowguid, stamp, origin, priority, lineage, last, colv, own_columns) "
        f"select {article.nickname}, rowtide_guid, {stamp}, rowtide_origin, rowtide_priority, rowtide_lineage, "
        f"rowtide_last, rowtide_colv, rowtide_own from {_staging(article)} where not rowtide_gone",
    )


def _write_tombstones(session: Session, article: Article, stamp: int) -> None:
    _run(
        session,
        f"insert into {TOMBSTONE} (tablenick, rowguid, stamp, type, origin, priority, lineage, last) "
        f"select {article.nickname}, rowtide_guid, {stamp}, rowtide_type, rowtide_origin, rowtide_priority, "
        f"rowtide_lineage, rowtide_last from {_staging(article)} "
        f"where rowtide_gone and rowtide_type <> {TombstoneType.LEFT.value}",
    )


def _forget(session: Session, article: Article) -> None:
    """Delete the metadata of the rows: deleting and inserting costs less than updating."""
    left = f"rowtide_gone and rowtide_type = {TombstoneType.LEFT.value}"
    for table, condition in ((CONTENTS, "true"), (TOMBSTONE, f"not ({left})")):
        _run(session, f"delete from {table} where tablenick = {article.nickname} and {_those(article, condition)}")


def _write_rows(session: Session, article: Article, writes: Sequence[Write], updated: Sequence[str]) -> None:
    table, staging = table_of(article), _staging(article)
    names = [quote(column.name) for column in article.columns]
    values = [f"v{place}" for place in range(len(names))]
    if any(one.row is None and one.is_live for one in writes):
        _run(session, f"delete from {table} where {_those(article, 'rowtide_gone')}")
    if any(one.row is not None and one.is_live for one in writes):
        settings = ", ".join(
            f"{quote(column.name)} = i.v{place}"
            for place, column in enumerate(article.columns)
            if column.name in updated
        )
        _run(
            session,
            f"update {table} t set {settings} from {staging} i where t.{ROWGUID} = i.rowtide_guid "
            f"and t.{_those(article, 'rowtide_live and not rowtide_gone')}",
        )
    if any(one.row is not None and not one.is_live for one in writes):
        _run(
            session,
            f"insert into {table} ({', '.join([*names, ROWGUID])}) overriding system value "
            f"select {', '.join([*values, 'rowtide_guid'])} from {staging} "
            "where not rowtide_live and not rowtide_gone",
        )


def _run(session: Session, statement: str) -> None:
    session.execute(sql.SQL(statement))
