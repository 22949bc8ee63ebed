"""Write received rows and their metadata to PostgreSQL tables.

Rows travel as arrays of texts to temporary tables with the columns' own types, so that each value is parsed by its
type; then one block on the server writes them by one statement per operation, and finds those that are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, cast

import psycopg
from psycopg import sql

from rowtide.databases.postgres.batching import BatchingConnection
from rowtide.databases.postgres.clock import BSN
from rowtide.databases.postgres.copy_text import write_row
from rowtide.databases.postgres.quoting import quote, quote_body, quote_literal
from rowtide.merge.articles import ROWGUID, Article
from rowtide.merge.errors.rows import OUTSIDE_REASON
from rowtide.merge.nodes.postgres.key_moves import Referrer, moves_of_staged, read_referrers, referrers_request
from rowtide.merge.nodes.postgres.refused_rows import (
    INVALID,
    OUTSIDE,
    REFUSED,
    WITHIN,
    finding_refused,
    in_retry,
    retrying,
)
from rowtide.merge.nodes.postgres.row_metadata import FILTERING, escaped, table_of, uuid_array
from rowtide.merge.nodes.postgres.sequences import advances, sequences_request
from rowtide.merge.nodes.postgres.system_tables import CONTENTS, LOG, LOG_ORDER, TOMBSTONE
from rowtide.merge.nodes.unique_swap import FIRST_TEMPORARY, TemporaryKind, temporary_kinds
from rowtide.merge.nodes.untyped_values import as_stored_by_server, untyped_places
from rowtide.merge.partitions.belonging import ROW, belongs
from rowtide.merge.partitions.filters import RowFilter
from rowtide.merge.versions.apply import Logged
from rowtide.merge.versions.changes import Row, Write, number_alike

_METADATA = {
    "rowtide_number": "integer",
    "rowtide_gone": "boolean",
    "rowtide_live": "boolean",
    "rowtide_type": "smallint",
    "rowtide_origin": "bigint",
    "rowtide_priority": "double precision",
    "rowtide_lineage": "bytea",
    "rowtide_last": "bytea",
    "rowtide_colv": "bytea",
    "rowtide_own": "bigint[]",
}
"""What is to be known of rows, and done to them, once for all rows with the same."""
_ORDINAL = "rowtide_ordinal"
"""The place of a row among those that a statement brings, from 1."""
_BETWEEN, _NULL = "\x1f", "\x02"
"""What separates the texts of a row in its checksum, and what stands there for NULL."""
_ZERO = "a text has a character 0"
_PATIENCE = "1s"
"""How long a lock is waited for first; then only for a moment."""


@dataclass(frozen=True, slots=True)
class StoredColumn:
    """A column as the server has it: `base_type` is its type without a length, `full_type` with it.

    `is_given`: an update may not set it.

    `is_cast`: a text becomes the type by a function of its own, which does not take all that the type's input takes.
    """

    name: str
    base_type: str
    full_type: str
    is_given: bool
    is_cast: bool

    def parse(self, value: str) -> str:
        """Return the expression that parses a text as the type's input does."""
        return f"((array[{value}])::text::{self.base_type}[])[1]" if self.is_cast else f"{value}::{self.base_type}"


@dataclass(frozen=True, slots=True)
class StoredTable:
    """An article's columns, in its order, the sequences that belong to them, by column, and the foreign keys to it."""

    columns: Sequence[StoredColumn]
    sequences: dict[str, str]
    referrers: Sequence[Referrer]


@dataclass(frozen=True, slots=True)
class Staged:
    """Writes of an article, the first of which has a place among all that are written together.

    `bound` is the partition that the rows have to be in, if any.
    """

    article: Article
    table: StoredTable
    writes: Sequence[Write]
    first: int
    bound: RowFilter | None = None


def table_requests(article: Article) -> tuple[tuple[str, Sequence[object]], ...]:
    """Return the queries of what is to be known of an article's table; `read_table` reads their rows."""
    return _columns_request(article), sequences_request(article), referrers_request(article)


def _columns_request(article: Article) -> tuple[str, Sequence[object]]:
    listed = (
        "select attname::text, format_type(atttypid, -1), format_type(atttypid, atttypmod), attidentity = 'a', "
        "exists (select from pg_cast "
        "where castsource = 'text'::regtype and casttarget = atttypid and castmethod = 'f') from pg_attribute "
        "where attrelid = %s::regclass and attnum > 0 and not attisdropped"
    )
    return listed, [table_of(article)]


def read_table(
    article: Article,
    columns: Iterable[tuple[Any, ...]],
    sequences: Iterable[tuple[Any, ...]],
    referrers: Iterable[tuple[Any, ...]],
    merged: Sequence[Article] = (),
) -> StoredTable:
    """Return an article's table from the rows of `table_requests`, as texts; `merged` are the articles of this node."""
    found = {
        name: StoredColumn(name, base, full, is_given == "t", is_cast == "t")
        for name, base, full, is_given, is_cast in columns
    }
    listed = [found[column.name] for column in article.columns]
    return StoredTable(listed, dict(sequences), read_referrers(referrers, merged))


def make_staging(session: BatchingConnection, article: Article) -> None:
    """Create the staging tables of an article if they do not exist, in the caller's transaction."""
    columns = "".join(f", t.{quote(column.name)} as v{place}" for place, column in enumerate(article.columns))
    places = (
        "null::integer as rowtide_place, null::uuid as rowtide_guid, null::integer as rowtide_number, "
        "null::bigint as rowtide_sent"
    )
    session.put(
        f"create temporary table if not exists {_rows(article)} on commit delete rows as "
        f"select {places}{columns} from {table_of(article)} t with no data"
    )
    metadata = ", ".join(f"{name} {type_}" for name, type_ in _METADATA.items())
    session.put(f"create temporary table if not exists {_known(article)} ({metadata}) on commit delete rows")
    session.put(
        f"create or replace temporary view {_staging(article)} as "
        f"select * from {_rows(article)} join {_known(article)} using (rowtide_number)"
    )
    for table in (REFUSED, INVALID):
        session.put(
            f"create temporary table if not exists {table} (rowtide_place integer, state text, message text) "
            "on commit delete rows"
        )


def stage(session: BatchingConnection, staged: Staged, stamp: int, *, is_tolerant: bool = False) -> None:
    """Send rows with their metadata to the staging tables, in the caller's transaction, in place of what was there.

    With `is_tolerant`, rows with values that their columns' types do not take are listed in `INVALID` instead.

    Raises `ValueError` for a text that no server takes.
    """
    article = staged.article
    numbers, firsts = number_alike(staged.writes)
    nothing = (None,) * len(article.columns)
    values = _stored_rows(article, [nothing if one.row is None else one.row for one in staged.writes])
    rows = [
        uuid_array([one.rowguid for one in staged.writes]),
        *(array_of([row[place] for row in values]) for place in range(len(article.columns))),
    ]
    parsed = {"rowtide_guid": "rowtide_guid::uuid"}
    number = "0"
    if len(firsts) > 1:
        rows.append(array_of(map(str, numbers)))
        number = "number::integer"
    known = [(number, *_metadata(article, one, stamp)) for number, one in enumerate(firsts)]
    described = [array_of(map(_text, column)) for column in zip(*known, strict=True)]
    own = {f"v{place}": column.parse(f"v{place}") for place, column in enumerate(staged.table.columns)}
    place = f"{staged.first - 1} + {_ORDINAL}"
    others = {
        "rowtide_place": place,
        "rowtide_number": number,
        "rowtide_sent": _digest_of([(name, name) for name in own]),
    }
    session.put(f"delete from {_rows(article)}")
    session.put(f"delete from {_known(article)}")
    unread = () if len(firsts) == 1 else ("number",)
    condition = ""
    if is_tolerant:
        values_of = rows[1 : 1 + len(article.columns)]
        session.put(_finding_invalid(staged.table.columns, place), values_of)
        condition = f" where {place} not in (select rowtide_place from {INVALID})"
    session.put(_insertion(_rows(article), parsed | own, others, unread) + condition, rows)
    session.put(_insertion(_known(article), {name: f"{name}::{kind}" for name, kind in _METADATA.items()}), described)


def fill(session: psycopg.Connection[tuple[Any, ...]], article: Article, rows: Sequence[tuple[str, Row]]) -> None:
    """Write values into the article's columns of rows that exist, in the caller's transaction."""
    columns = read_table(article, _read_columns(session, article), (), ()).columns
    names = [f"v{place}" for place in range(len(columns))]
    settings = ", ".join(
        escaped(f"{quote(column.name)} = {column.parse(f'n.{name}')}")
        for column, name in zip(columns, names, strict=True)
    )
    stored = _stored_rows(article, [row for _, row in rows])
    texts = ", ".join(["%s::uuid[]", *(["%s::text[]"] * len(names))])
    session.execute(
        sql.SQL(
            f"update {escaped(table_of(article))} t set {settings} from unnest({texts}) n (guid, {', '.join(names)}) "
            f"where t.{ROWGUID} = n.guid"
        ),
        [
            uuid_array([rowguid for rowguid, _ in rows]),
            *(array_of(row[place] for row in stored) for place in range(len(names))),
        ],
    )


def _read_columns(session: psycopg.Connection[tuple[Any, ...]], article: Article) -> list[tuple[Any, ...]]:
    query, parameters = _columns_request(article)
    flags = {True: "t", False: "f"}
    return [
        (name, base, full, flags[is_given], flags[is_cast])
        for name, base, full, is_given, is_cast in session.execute(sql.SQL(query), parameters)
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
    """Log updates of the rows that have a value in any of some columns, but for those left out."""
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


def are_sendable(article: Article, writes: Sequence[Write]) -> bool:
    """Whether no row has a text that no server takes; all texts together are looked at faster than each."""
    rows = [one.row for one in writes if one.row is not None]
    for place in range(len(article.columns)):
        texts = "".join([row[place] or "" for row in rows])
        if "\0" in texts or not (texts.isascii() or _is_encodable(texts)):
            return False
    return True


def _is_encodable(texts: str) -> bool:
    try:
        texts.encode()
    except UnicodeEncodeError:
        return False
    return True


def require_sendable(one: Write) -> None:
    """Raise `ValueError` if a row has a text that no server takes: with a character 0, or not UTF-8."""
    for value in one.row or ():
        if value is not None and not value.isascii():
            value.encode()
        if value is not None and "\0" in value:
            raise ValueError(_ZERO)


def write(session: BatchingConnection, staged: Staged, *, is_deferred: bool = False) -> None:
    """Write staged rows, in the caller's transaction; with `is_deferred` with temporary values of unique columns first.

    Metadata is written first: what a user's trigger does to a row during the write is a later change.
    """
    moves = [f"do {quote_body(f'begin {move}; end')}" for move in _moves(staged, "true")] if is_deferred else []
    temporary = _temporary(staged, "true") if is_deferred else ()
    for statement in (*moves, *temporary, *_statements(staged, "true")):
        session.put(statement)


def require_inside(session: BatchingConnection, parts: Sequence[Staged]) -> None:
    """Let the transaction fail if rows that it has written are outside of their bound."""
    for bounding in _bounding(parts, "true"):
        session.put(f"do {quote_body(f'begin {bounding}; end')}")


def write_each(session: BatchingConnection, parts: Sequence[Staged], late: Collection[str] | None) -> None:
    """Write those of the staged rows that the database takes, and list the others in `REFUSED`.

    With `late`, these rows are only retried, with those that are refused; see `retrying`.
    """
    statements = [_in_block(statement) for part in parts for statement in _statements(part, WITHIN)]
    statements += _bounding(parts, WITHIN)
    rowguids = [one.rowguid for part in parts for one in part.writes]
    tables = [table_of(part.article) for part in parts]
    if late is None:
        block = finding_refused(tables, statements, range(len(rowguids)))
    else:
        waiting = [place for place, rowguid in enumerate(rowguids) if rowguid in late]
        early = sorted(set(range(len(rowguids))).difference(waiting))
        retry = retrying(waiting, list(_exchanges(parts)))
        block = finding_refused(tables, [_in_retry(parts), *statements], early, retry)
    session.put(f"delete from {REFUSED}")
    session.put(f"set local lock_timeout = '{_PATIENCE}'")
    session.put(f"do {quote_body(block)}")
    session.put("set local lock_timeout = 0")


def _in_block(statement: str) -> str:
    return f"perform {statement.removeprefix('select ')}" if statement.startswith("select ") else statement


def holders_query(article: Article) -> str:
    """Return the query of the rows that have the primary keys of refused rows: the place of each, and their rowguid."""
    return (
        f"select i.rowtide_place, t.{ROWGUID} from {REFUSED} r join {_rows(article)} i using (rowtide_place) "
        f"join {table_of(article)} t on {_has_key_of_staged(article)} where t.{ROWGUID} <> i.rowtide_guid "
        # Mostly there are none; the server does not know that, and would read all staged rows.
        f"and exists (select from {REFUSED})"
    )


def _has_key_of_staged(article: Article, row: str = "t", staged: str = "i") -> str:
    """Return the condition that a row of the table has the primary key of a staged one, by their aliases."""
    places = {column.name: place for place, column in enumerate(article.columns)}
    return " and ".join(
        f"{row}.{quote(column.name)} = {staged}.v{places[column.name]}" for column in article.key_columns
    )


def _in_retry(parts: Sequence[Staged]) -> str:
    """Return the statement of a block that prepares a retry of staged rows."""
    moves = [each for part in parts for each in (*_moves(part, WITHIN), *_temporary(part, WITHIN))]
    return in_retry(["set constraints all deferred", *moves])


def _exchanges(parts: Sequence[Staged]) -> Iterator[str]:
    """Yield the queries of staged rows that take the key of another, which is removed or takes theirs: both places."""
    for staged in parts:
        article, staging = staged.article, _staging(staged.article)
        holding = (
            f"select d.rowtide_place, i.rowtide_place from {staging} i "
            f"join {table_of(article)} t on {_has_key_of_staged(article)} "
            f"join {staging} d on d.rowtide_guid = t.{ROWGUID}"
        )
        if {True, False} <= {one.row is None for one in staged.writes}:
            yield f"{holding} where d.rowtide_gone and not i.rowtide_gone"
        if sum(one.row is not None and one.is_live for one in staged.writes) > 1:
            yield (
                f"{holding} join {table_of(article)} o on o.{ROWGUID} = i.rowtide_guid "
                f"and {_has_key_of_staged(article, 'o', 'd')} "
                "where i.rowtide_place < d.rowtide_place and not i.rowtide_gone and not d.rowtide_gone"
            )


def _bounding(parts: Sequence[Staged], within: str) -> Iterator[str]:
    """Yield the statements of a block that fail if staged rows, once written, are outside of their bound."""
    for staged in parts:
        if staged.bound is not None and any(one.row is not None for one in staged.writes):
            written = _those(staged.article, f"not rowtide_gone and {within}")
            outside = f"{ROW}.{written} and not {belongs(staged.bound, FILTERING)}"
            yield (
                f"if exists (select from {table_of(staged.article)} as {ROW} where {outside}) "
                f"then raise exception using errcode = '{OUTSIDE}', message = {quote_literal(OUTSIDE_REASON)}; end if"
            )


def _moves(staged: Staged, within: str) -> Iterator[str]:
    """Yield the statements of a block that give rows their new keys, with the rows that reference them."""
    article, table = staged.article, staged.table
    given = {column.name for column in table.columns if column.is_given}
    referrers = [each for each in table.referrers if not given.intersection(each.columns.values())]
    if referrers and any(one.row is not None and one.is_live for one in staged.writes):
        types = {column.name: column.base_type for column in table.columns}
        temporary = {
            name: _TEMPORARY[kind](types[name])
            for name, kind in temporary_kinds(article).items()
            if kind is not TemporaryKind.NULL
        }
        is_moving = f"i.rowtide_live and not i.rowtide_gone and {within}"
        yield from moves_of_staged(article, referrers, _staging(article), is_moving, temporary)


_TEMPORARY: Mapping[TemporaryKind, Callable[[str], str]] = {
    TemporaryKind.NULL: lambda _type: "null",
    TemporaryKind.NUMBER: lambda type_: f"({FIRST_TEMPORARY} - i.rowtide_place)::{type_}",
    TemporaryKind.ROWGUID: lambda type_: f"i.rowtide_guid::text::{type_}",
}
"""The expressions of a staged row's temporary values, from the column's type."""


def _temporary(staged: Staged, within: str) -> Iterator[str]:
    """Yield the statement that gives rows temporary values of unique columns that change."""
    article = staged.article
    types = {column.name: column.base_type for column in staged.table.columns}
    places = {column.name: place for place, column in enumerate(article.columns)}
    settings = ", ".join(
        f"{quote(name)} = case when t.{quote(name)} is distinct from i.v{places[name]} "
        f"then {_TEMPORARY[kind](types[name])} else t.{quote(name)} end"
        for name, kind in temporary_kinds(article).items()
    )
    if settings:
        live = f"rowtide_live and not rowtide_gone and {within}"
        yield (
            f"update {table_of(article)} t set {settings} from {_staging(article)} i "
            f"where t.{ROWGUID} = i.rowtide_guid and {live}"
        )


def _statements(staged: Staged, within: str) -> list[str]:
    """Return the statements that write those of the staged rows for which a condition holds."""
    article, writes = staged.article, staged.writes
    if not article.is_tracked:
        return list(_row_statements(staged, within))
    statements = list(_removals(article, within))
    if any(one.row is not None for one in writes):
        statements.append(_contents_insertion(article, within))
    if any(one.row is None for one in writes):
        statements.append(_tombstones_insertion(article, within))
    return [*statements, *_row_statements(staged, within), _alterations_insertion(article, within)]


def load(session: BatchingConnection, article: Article, batches: Iterable[Sequence[tuple[str, Row]]]) -> int:
    """Copy rows into a table, in the caller's transaction, and return how many."""
    rows = 0
    names = ", ".join([*(quote(column.name) for column in article.columns), ROWGUID])
    with session.cursor().copy(sql.SQL(f"copy {table_of(article)} ({names}) from stdin")) as copy:
        for batch in batches:
            rows += len(batch)
            stored = _stored_rows(article, [row for _, row in batch])
            lines = (write_row((*row, rowguid)) for row, (rowguid, _) in zip(stored, batch, strict=True))
            copy.write("".join(f"{line}\n" for line in lines))
    return rows


def _staging(article: Article) -> str:
    """The name of the staged rows joined with their metadata."""
    return quote(f"rowtide_in_{article.nickname}")


def _rows(article: Article) -> str:
    return quote(f"rowtide_in_{article.nickname}_rows")


def _known(article: Article) -> str:
    return quote(f"rowtide_in_{article.nickname}_known")


def _those(article: Article, condition: str) -> str:
    """Return the condition that selects the staged rows.

    It makes the planner look rows up by rowguid, even in a join and with wrong statistics; see `system_tables`.
    """
    return f"{ROWGUID} = any (array(select rowtide_guid from {_staging(article)} where {condition}))"


def _insertion(
    table: str, parsed: Mapping[str, str], others: Mapping[str, str] = MappingProxyType({}), unread: Sequence[str] = ()
) -> str:
    """Return the statement that fills a table from arrays of texts, one per column; others are expressions of them.

    `unread` are the names of further arrays. Each text is parsed by the type without a length: the assignment checks
    that, as it does for any insert.
    """
    names = [*parsed, *unread]
    values = [value.replace("%", "%%") for value in parsed.values()]
    arrays = ", ".join("%s::text[]" for _ in names)
    return (
        f"insert into {table} ({', '.join([*parsed, *others])}) select {', '.join([*values, *others.values()])} "
        f"from unnest({arrays}) with ordinality u ({', '.join([*names, _ORDINAL])})"
    )


def _finding_invalid(columns: Sequence[StoredColumn], place: str) -> str:
    """Return the statement that lists rows in `INVALID`, from arrays of texts, one per column."""
    names = [f"v{number}" for number in range(len(columns))]
    types = (escaped(quote_literal(column.full_type)) for column in columns)
    pairs = ", ".join(f"({name}, {type_})" for name, type_ in zip(names, types, strict=True))
    return (
        f"insert into {INVALID} select {place}, e.state, e.message "
        f"from unnest({', '.join('%s::text[]' for _ in names)}) with ordinality u ({', '.join([*names, _ORDINAL])}) "
        f"cross join lateral (select i.sql_error_code, i.message from (values {pairs}) c (value, kind) "
        "cross join lateral pg_input_error_info(c.value, c.kind) i where i.message is not null limit 1) "
        "e (state, message)"
    )


def array_of(values: Iterable[str | None]) -> str:
    """Return texts as an array's text. Raises `ValueError` for a text with a character 0, which no server takes."""
    listed = list(values)
    array = None if None in listed else _array_of_plain(cast("list[str]", listed))
    if array is None:
        array = f"{{{','.join(['null' if value is None else _quoted(value) for value in listed])}}}"
    if "\0" in array:
        raise ValueError(_ZERO)
    if not array.isascii():
        array.encode()
    return array


def _array_of_plain(values: Sequence[str]) -> str | None:
    """Return texts as an array's text if none of them needs escapes; numbers without quotes, which are many bytes."""
    joined = "".join(values)
    if joined.isdecimal() and joined.isascii() and "" not in values:
        return f"{{{','.join(values)}}}"
    return None if "\\" in joined or '"' in joined or not values else f"""{{"{'","'.join(values)}"}}"""


def _quoted(value: str) -> str:
    if "\\" in value or '"' in value:
        value = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{value}"'


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


_STAMP = f"(select {BSN})"


def _contents_insertion(article: Article, within: str) -> str:
    return (
        f"insert into {CONTENTS} (tablenick, rowguid, stamp, origin, priority, lineage, last, colv, own_columns) "
        f"select {article.nickname}, rowtide_guid, {_STAMP}, rowtide_origin, rowtide_priority, rowtide_lineage, "
        f"rowtide_last, rowtide_colv, rowtide_own from {_staging(article)} where not rowtide_gone and {within}"
    )


def _tombstones_insertion(article: Article, within: str) -> str:
    return (
        f"insert into {TOMBSTONE} (tablenick, rowguid, stamp, type, origin, priority, lineage, last) "
        f"select {article.nickname}, rowtide_guid, {_STAMP}, rowtide_type, rowtide_origin, rowtide_priority, "
        f"rowtide_lineage, rowtide_last from {_staging(article)} "
        f"where rowtide_gone and {within}"
    )


def _removals(article: Article, within: str) -> Iterator[str]:
    """Yield the statements that delete the metadata of the rows: deleting and inserting costs less than updating."""
    for table in (CONTENTS, TOMBSTONE):
        yield f"delete from {table} where tablenick = {article.nickname} and {_those(article, within)}"


def _row_statements(staged: Staged, within: str) -> Iterator[str]:
    article, writes = staged.article, staged.writes
    table, staging = table_of(article), _staging(article)
    names = [quote(column.name) for column in article.columns]
    values = [f"v{place}" for place in range(len(names))]
    if any(one.row is None and one.is_live for one in writes):
        yield f"delete from {table} where {_those(article, f'rowtide_gone and {within}')}"
    if any(one.row is not None and one.is_live for one in writes):
        settings = ", ".join(
            f"{quote(column.name)} = i.v{place}"
            for place, column in enumerate(staged.table.columns)
            if not column.is_given
        )
        yield (
            f"update {table} t set {settings} from {staging} i where t.{ROWGUID} = i.rowtide_guid "
            f"and t.{_those(article, f'rowtide_live and not rowtide_gone and {within}')}"
        )
    if any(one.row is not None and not one.is_live for one in writes):
        yield (
            f"insert into {table} ({', '.join([*names, ROWGUID])}) overriding system value "
            f"select {', '.join([*values, 'rowtide_guid'])} from {staging} "
            f"where not rowtide_live and not rowtide_gone and {within} order by rowtide_place"
        )
        yield from advances(staged.table.sequences, _highest_inserted(staged, within))


def _highest_inserted(staged: Staged, within: str) -> dict[str, str]:
    """Return the queries of the highest staged values of columns with a sequence, by column."""
    inserted = f"from {_staging(staged.article)} where not rowtide_live and not rowtide_gone and {within}"
    return {
        column.name: f"select max(v{place}) {inserted}"
        for place, column in enumerate(staged.article.columns)
        if column.name in staged.table.sequences
    }


def _alterations_insertion(article: Article, within: str) -> str:
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
    return (
        f"insert into {LOG} (tablenick, rowguid, kind, stamp{names}) "
        f"select {article.nickname}, i.rowtide_guid, {kind}, {_STAMP}{values} "
        f"from {_staging(article)} i left join {table_of(article)} t on t.{ROWGUID} = i.rowtide_guid "
        f"and t.{_those(article, within)} "
        f"where {within} and case when i.rowtide_gone then t.{ROWGUID} is not null "
        f"else t.{ROWGUID} is null or {_digest_of_row(article, 't')} <> i.rowtide_sent end"
    )


def _digest_of(values: Iterable[tuple[str, str]]) -> str:
    """Return the expression of the checksum of a row, from expressions of its values and of their texts."""
    texts = f" || {_character(_BETWEEN)} || ".join(
        f"case when {value} is not distinct from null then {_character(_NULL)} else {text} end"
        for value, text in values
    )
    return f'hashtextextended(({texts}) collate "C", 0)'


def _digest_of_row(article: Article, row: str) -> str:
    """Return the expression of the checksum of a row as the server prints it.

    `concat` calls a type's output function, where a cast to text may print something else.
    """
    values = (f"{row}.{quote(column.name)}" for column in article.columns)
    return _digest_of((value, f"concat({value})") for value in values)


def _character(character: str) -> str:
    return f"E'\\x{ord(character):02x}'"


def _stored_rows(article: Article, rows: Sequence[Row]) -> Sequence[Row]:
    return [as_stored_by_server(article, row) for row in rows] if untyped_places(article) else rows
