"""Write received rows and their metadata to a PostgreSQL table.

Rows are copied to a temporary table with the columns' own types, so that each value is parsed by its type, and then
written by one statement per operation.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from rowtide.databases.postgres.clock import BSN
from rowtide.databases.postgres.copy_text import write_row
from rowtide.databases.postgres.quoting import quote
from rowtide.merge.articles import ROWGUID, Article
from rowtide.merge.nodes.postgres.row_metadata import table_of
from rowtide.merge.nodes.postgres.sequences import advance_sequences
from rowtide.merge.nodes.postgres.system_tables import CONTENTS, LOG, LOG_ORDER, TOMBSTONE
from rowtide.merge.nodes.unique_swap import TemporaryValues
from rowtide.merge.nodes.untyped_values import as_stored_by_server, server_type, untyped_places
from rowtide.merge.versions.apply import Logged
from rowtide.merge.versions.changes import Row, TombstoneType, Write, number_alike

Session = psycopg.Connection[tuple[Any, ...]]

_METADATA = (
    "rowtide_gone boolean, rowtide_live boolean, rowtide_type smallint, rowtide_origin bigint, "
    "rowtide_priority double precision, rowtide_lineage bytea, rowtide_last bytea, rowtide_colv bytea, "
    "rowtide_own bigint[]"
)
"""What is to be known of rows, and done to them."""
_BETWEEN, _NULL = "\x1f", "\x02"
"""What separates the texts of a row in its checksum, and what stands there for NULL."""


def make_staging(session: Session, article: Article) -> None:
    """Create the staging tables of an article if they do not exist, in the caller's transaction.

    Most rows share their metadata, which is therefore staged once.
    """
    columns = "".join(f", t.{quote(column.name)} as v{place}" for place, column in enumerate(article.columns))
    _run(
        session,
        f"create temporary table if not exists {_rows(article)} on commit delete rows as "
        f"select null::uuid as rowtide_guid, null::integer as rowtide_number, null::bytea as rowtide_sent{columns} "
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


@dataclass(frozen=True, slots=True)
class Prepared:
    """What is known of an article's table in a transaction: the columns that updates set, and owned sequences."""

    updated: Sequence[str]
    sequences: dict[str, str]


def write(session: Session, article: Article, writes: Sequence[Write], prepared: Prepared) -> None:
    """Write rows in the caller's transaction; raises the server's errors.

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
    _write_rows(session, article, writes, prepared)
    _log_alterations(session, article)


def write_temporary(session: Session, article: Article, values: Mapping[str, TemporaryValues]) -> None:
    """Give rows temporary values, in the caller's transaction; raises the server's errors."""
    types = {column.name: server_type(column) for column in article.columns}
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
            copy.write("".join(f"{write_row((*_stored(article, row), rowguid))}\n" for rowguid, row in batch))
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
        if one.row is None:
            yield f"{one.rowguid}\t{number}\t\\N\t{nothing}\n"
        else:
            row = _stored(article, one.row)
            yield f"{one.rowguid}\t{number}\t\\\\x{_digest(row)}\t{write_row(row)}\n"


def _digest(row: Row) -> str:
    """Return the checksum of a row's texts; see `_digest_of`."""
    joined = _BETWEEN.join([_NULL if value is None else value for value in row])
    return hashlib.sha256(joined.encode()).hexdigest()


def _digest_of(article: Article, row: str) -> str:
    """Return the expression of the checksum of a row as the server prints it.

    `concat` calls a type's output function, where a cast to text may print something else.
    """
    values = (f"{row}.{quote(column.name)}" for column in article.columns)
    texts = f" || {_quoted(_BETWEEN)} || ".join(
        f"case when {value} is null then {_quoted(_NULL)} else concat({value}) end" for value in values
    )
    return f"sha256(convert_to({texts}, 'UTF8'))"


def _quoted(character: str) -> str:
    return f"E'\\x{ord(character):02x}'"


def _stored(article: Article, row: Row) -> Row:
    return as_stored_by_server(article, row) if untyped_places(article) else row


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


def _write_rows(session: Session, article: Article, writes: Sequence[Write], prepared: Prepared) -> None:
    table, staging = table_of(article), _staging(article)
    names = [quote(column.name) for column in article.columns]
    values = [f"v{place}" for place in range(len(names))]
    if any(one.row is None and one.is_live for one in writes):
        _run(session, f"delete from {table} where {_those(article, 'rowtide_gone')}")
    if any(one.row is not None and one.is_live for one in writes):
        settings = ", ".join(
            f"{quote(column.name)} = i.v{place}"
            for place, column in enumerate(article.columns)
            if column.name in prepared.updated
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
        advance_sequences(session, prepared.sequences, _highest_inserted(article, prepared))


def _highest_inserted(article: Article, prepared: Prepared) -> dict[str, str]:
    """Return the queries of the highest staged values of columns with a sequence, by column."""
    return {
        column.name: f"select max(v{place}) from {_staging(article)} where not rowtide_live and not rowtide_gone"
        for place, column in enumerate(article.columns)
        if column.name in prepared.sequences
    }


def _log_alterations(session: Session, article: Article) -> None:
    """Log what triggers, rules and types made of the rows as changes of this node, which go back to their writer.

    With column tracking, a column counts as changed if its value differs, and not only the text of its value.
    """
    names = values = ""
    pairs = [(f"t.{quote(column.name)}", f"i.v{place}") for place, column in enumerate(article.columns)]
    if article.column_tracking:
        changed = ", ".join(f"row({here})::record operator(pg_catalog.*<>) row({sent})::record" for here, sent in pairs)
        names, values = ", columns", f", array[{changed}]"
    if article.additive_column is not None:
        place = article.place_of(article.additive_column.name)
        names += ", base, ordinal"
        values += f", (i.v{place})::text, nextval('{LOG_ORDER}')"
    kind = (
        f"case when t.{ROWGUID} is null then {Logged.DELETED.value} "
        f"when i.rowtide_gone then {Logged.INSERTED.value} else {Logged.UPDATED.value} end"
    )
    _run(
        session,
        f"insert into {LOG} (tablenick, rowguid, kind, stamp{names}) "
        f"select {article.nickname}, i.rowtide_guid, {kind}, (select {BSN}){values} "
        f"from {_staging(article)} i left join {table_of(article)} t on t.{ROWGUID} = i.rowtide_guid "
        f"and t.{_those(article, 'true')} "
        f"where case when i.rowtide_gone then t.{ROWGUID} is not null "
        f"else t.{ROWGUID} is null or {_digest_of(article, 't')} <> i.rowtide_sent end",
    )


def _run(session: Session, statement: str) -> None:
    session.execute(sql.SQL(statement))
