"""Statements that find what a change meets at a PostgreSQL subscriber, and make it.

Their values are the texts of rows: of an insert the new one, of a delete the old one, of an update the old one and then
the new one. They are one parameter, an array: a null among single parameters has no type where a statement does not use
it. Statements about the table's rows are run by functions of its writer (`owners.creations`). The unique indexes of a
table, whose values conflicts are about, are read here, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import psycopg
from psycopg.types.string import StrDumper

from rowtide.core.operations import Operation
from rowtide.core.values import frozen
from rowtide.databases.postgres.errors import translated
from rowtide.databases.postgres.quoting import EQUALS, quote, quote_qualified
from rowtide.databases.postgres.values import is_of_server, text_of
from rowtide.replication.articles.articles import Article, PublishedColumn
from rowtide.replication.errors.conflicts import IndexOfOther
from rowtide.replication.targets.postgres.calls import procedures
from rowtide.replication.targets.postgres.calls.procedures import read_text
from rowtide.replication.targets.postgres.calls.written_table import WrittenTable


@frozen
class UsedColumn:
    """A column that the SQL of an index uses; `collation` is its quoted name, None if it is the type's."""

    name: str
    collation: str | None


@frozen
class UniqueIndex:
    """A unique index: its `values` are SQL over the columns of a row, which for a column is its quoted name.

    `nulls_distinct`: rows with a null are no duplicates. `condition` is that of the rows that are in it, None for all.
    `used` are the columns of all that. `operators` are the index's equality, of each value. `author` is a role that
    could define what its expressions call, None if they call the server's functions alone, or the session's role or a
    superuser owns the table.
    """

    values: tuple[str, ...]
    nulls_distinct: bool = True
    condition: str | None = None
    used: tuple[UsedColumn, ...] = ()
    operators: tuple[str, ...] = ()
    author: str | None = None

    @property
    def name(self) -> str:
        """What is unique; differs between the indexes of a table, but for those that say the same."""
        values = ", ".join(self.values)
        return values if self.condition is None else f"{values} where {self.condition}"


def open_cursor(connection: psycopg.Connection[tuple[Any, ...]]) -> psycopg.RawCursor[tuple[Any, ...]]:
    """Return a cursor for the statements; it sends texts as such."""
    cursor = psycopg.RawCursor(connection)
    cursor.adapters.register_dumper(str, StrDumper)
    return cursor


FOUND = "found (row_texts text[], is_target bool, is_as_before bool, is_own bool, version bigint[])"
"""The columns of `find`'s rows, as a function's result is declared."""


def find(
    article: Article,
    operation: Operation,
    uniques: Iterable[UniqueIndex],
    table: WrittenTable,
    *,
    has_versions: bool,
) -> str:
    """Return the statement that locks and returns the rows that a change meets.

    Its columns: the values as texts; whether the row has the change's key, of an update the old one; whether it is as
    it was before the change; whether this transaction wrote it; and, with `has_versions`, an array of when it was
    committed, in microseconds since 1970, and the replication origin.
    """
    has_old_key = _old_key_condition(article, table)
    conditions = [has_old_key]
    if operation is not Operation.DELETE:
        keys = () if operation is Operation.INSERT else (_key_index(article),)
        conditions += [_values_condition(article, operation, index, table) for index in (*keys, *uniques)]
    is_own = f"t.xmin {EQUALS} pg_catalog.pg_current_xact_id()::pg_catalog.xid"
    return (
        f"select {_texts(article)}, {has_old_key}, {_unchanged_condition(article, operation)}, "
        f"{is_own}, {_VERSION if has_versions else _NO_VERSION} "
        f"from {_table(article)} t where {' or '.join(f'({one})' for one in conditions)} for update of t"
    )


def change(article: Article, operation: Operation, table: WrittenTable) -> str:
    """Return the statement that makes a change."""
    match operation:
        case Operation.INSERT:
            return insert(article)
        case Operation.UPDATE:
            new = _numbered(article, _first_new(article, operation))
            values = ", ".join(f"{quote(column.name)} = {_element(column, place)}" for column, place in new)
            return f"update {_table(article)} t set {values} where {_old_key_condition(article, table)}"
        case Operation.DELETE:
            return f"delete from {_table(article)} t where {_old_key_condition(article, table)}"
        case _:
            raise ValueError(operation)


def change_unless_met(article: Article, operation: Operation, table: WrittenTable) -> str:
    """Return the statement that makes a change, and fails if it meets a row that it was not made of, or none."""
    if operation is Operation.INSERT:
        return insert(article)
    # The division by zero fails the statement, and with it the pipeline, if no row was changed: the agent need not wait
    # for each answer before it sends the next statement.
    changing = f"{change(article, operation, table)} and {_unchanged_condition(article, operation)} returning 1"
    return f"with changed as ({changing}) select 1 operator(pg_catalog./) pg_catalog.count(*) from changed"


def overwrite(article: Article, table: WrittenTable) -> str:
    """Return the statement that gives the row with an inserted row's key its values."""
    values = ", ".join(f"{quote(column.name)} = {_element(column, place)}" for column, place in _numbered(article, 1))
    return f"update {_table(article)} t set {values} where {_old_key_condition(article, table)}"


def insert(article: Article) -> str:
    """Return the statement that inserts a row."""
    names = ", ".join(quote(column.name) for column in article.columns)
    values = ", ".join(_element(column, place) for column, place in _numbered(article, 1))
    return f"insert into {_table(article)} ({names}) overriding system value values ({values})"


def delete_row(article: Article, table: WrittenTable) -> str:
    """Return the statement that deletes the row of a key, given as texts in the key's order."""
    pairs = (
        table.equals(column, f"t.{quote(column.name)}", _element(column, place)) for place, column in _keys(article)
    )
    return f"delete from {_table(article)} t where {' and '.join(pairs)}"


def truncate(article: Article) -> str:
    """Return the statement that empties a table."""
    return procedures.truncating(_table(article))


def delete_older(article: Article) -> str:
    """Return the statement that deletes the rows of which no version after a time is known, in microseconds."""
    # A row whose version is not known was written before commit times were kept: it is older than any time.
    known = f"coalesce(({VERSION_OF.format('t.xmin')})[1], 0)"
    return f"delete from {_table(article)} t where {known} operator(pg_catalog.<=) ($1)[1]::pg_catalog.int8"


def key_texts(article: Article) -> str:
    """Return a row's key as an array of texts in the server's own form."""
    places = dict(_numbered(article, 1))
    return f"array[{', '.join(_given_text(column, places[column]) for column in article.key_columns)}]"


def value_texts(article: Article, index: UniqueIndex) -> str:
    """Return a row's values in an index as an array of texts in the server's own form."""
    columns = {quote(column.name): (column, place) for column, place in _numbered(article, 1)}
    texts = (
        _given_text(*columns[value])
        if value in columns
        else f"({_evaluated(article, index, value, 1, _given_value)})::text"
        for value in index.values
    )
    return f"array[{', '.join(texts)}]"


def index_condition(article: Article, index: UniqueIndex) -> str:
    """Return whether a row is in an index that has a condition, as SQL."""
    assert index.condition is not None
    return _evaluated(article, index, index.condition, 1, _given_value)


def _evaluated(
    article: Article, index: UniqueIndex, expression: str, first: int, value: Callable[[PublishedColumn, int], str]
) -> str:
    """Return what SQL over columns of a row is for the row whose texts begin at a place."""
    row = {quote(column.name): value(column, place) for column, place in _numbered(article, first)}
    if expression in row:
        return row[expression]
    used = (
        f"{row[quote(one.name)]}{f' collate {one.collation}' if one.collation else ''} as {quote(one.name)}"
        for one in index.used
    )
    return f"(select {expression} from (select {', '.join(used)}) given)"


def _key_index(article: Article) -> UniqueIndex:
    return UniqueIndex(tuple(quote(column.name) for column in article.key_columns))


def _keys(article: Article) -> Iterable[tuple[int, PublishedColumn]]:
    return enumerate(article.key_columns, 1)


def _old_key_condition(article: Article, table: WrittenTable) -> str:
    places = dict(_numbered(article, 1))
    return " and ".join(
        table.equals(column, f"t.{quote(column.name)}", _element(column, places[column]))
        for column in article.key_columns
    )


def _values_condition(article: Article, operation: Operation, index: UniqueIndex, table: WrittenTable) -> str:
    first = _first_new(article, operation)
    columns = {quote(column.name): column for column in article.columns}
    conditions = []
    for number, value in enumerate(index.values):
        place = f"t.{value}" if value in columns else value
        given = _evaluated(article, index, value, first, _element)
        if value in columns:
            equal = table.equals(columns[value], place, given)
        else:
            equal = f"{place} {index.operators[number]} {given}"
        conditions.append(equal if index.nulls_distinct else f"({equal} or {place} is null and {given} is null)")
    if index.condition is not None:
        conditions += [f"({index.condition})", _evaluated(article, index, index.condition, first, _element)]
    return " and ".join(conditions)


def _unchanged_condition(article: Article, operation: Operation) -> str:
    if operation is Operation.INSERT:
        return "false"
    before = ", ".join(
        text_of(_element(column, place), column.value_type_text) for column, place in _numbered(article, 1)
    )
    return f"{_texts(article)} {EQUALS} array[{before}]"


def _texts(article: Article) -> str:
    texts = (text_of(f"t.{quote(column.name)}", column.value_type_text) for column in article.columns)
    return f"array[{', '.join(texts)}]"


def _first_new(article: Article, operation: Operation) -> int:
    return len(article.columns) + 1 if operation is Operation.UPDATE else 1


def _numbered(article: Article, first: int) -> Sequence[tuple[PublishedColumn, int]]:
    return [(column, index) for index, column in enumerate(article.columns, first)]


def given(place: int) -> str:
    """Return the text at a place of the values of a statement about rowtide's own rows."""
    return f"($1::text[])[{place}]"


def _given_value(column: PublishedColumn, place: int) -> str:
    return read_text(given(place), column.value_type_text)


def _given_text(column: PublishedColumn, place: int) -> str:
    """Return the text at a place in the server's own form; a type of a user's has it already."""
    if not is_of_server(column.value_type_text):
        return given(place)
    return text_of(_given_value(column, place), column.value_type_text)


def _element(column: PublishedColumn, place: int) -> str:
    return read_text(f"($1)[{place}]", column.type_text)


def _table(article: Article) -> str:
    return quote_qualified(article.schema, article.table)


VERSION_OF = (
    "(select array[(extract(epoch from o.timestamp) operator(pg_catalog.*) 1000000)::pg_catalog.int8, "
    "o.roident::pg_catalog.int8] from pg_catalog.pg_xact_commit_timestamp_origin({}) o)"
)
"""When a transaction committed, in microseconds since 1970, and its replication origin; nulls if that is not known."""
_VERSION = VERSION_OF.format("t.xmin")
_NO_VERSION = "null::pg_catalog.int8[]"


def read_uniques(connection: psycopg.Connection[tuple[Any, ...]], article: Article) -> Sequence[UniqueIndex]:
    """Return the unique indexes over published columns, without the key's.

    Their SQL has names as the session's search_path needs them.
    """
    with translated():
        rows = connection.execute(_UNIQUES, (quote_qualified(article.schema, article.table),)).fetchall()
    published = {column.name for column in article.columns}
    key = {quote(column.name) for column in article.key_columns}
    found = [
        UniqueIndex(
            tuple(values), distinct, condition, tuple(UsedColumn(*one) for one in used), tuple(operators), author
        )
        for values, distinct, condition, used, operators, author in rows
    ]
    return [
        index
        for index in found
        if published.issuperset(one.name for one in index.used)
        and (index.condition is not None or set(index.values) != key)
    ]


def require_evaluable(article: Article, uniques: Sequence[UniqueIndex]) -> None:
    """Raise `IndexOfOther` if an index evaluates what another role, with fewer rights than the session's, can define.

    Triggers with the session's rights, and its statements, evaluate what the indexes do.
    """
    for index in uniques:
        if index.author is not None:
            raise IndexOfOther(article.qualified_name, index.name, index.author)


_UNIQUES = """
select key.values, not coalesce((to_jsonb(i) ->> 'indnullsnotdistinct')::boolean, false),
    pg_get_expr(i.indpred, i.indrelid, true), used.columns, key.operators,
    case when (i.indexprs is not null or i.indpred is not null) and o.rolname <> current_user and not o.rolsuper
              and (used.has_own_types or exists (
                  select from pg_depend d
                  where d.classid = 'pg_class'::regclass and d.objid = i.indexrelid and d.refobjid >= 16384
                      and d.refclassid in ('pg_proc'::regclass, 'pg_operator'::regclass, 'pg_type'::regclass)))
         then o.rolname::text end
from pg_index i join pg_class c on c.oid = i.indrelid join pg_roles o on o.oid = c.relowner
cross join lateral (
    select array_agg(case k.number when 0 then pg_get_indexdef(i.indexrelid, k.place::int, true)
                     else '"' || replace(a.attname, '"', '""') || '"' end order by k.place) as values,
        array_agg(coalesce((
            select format('operator(%%I.%%s)', y.nspname, o.oprname)
            from pg_opclass class
            join pg_amop m on m.amopfamily = class.opcfamily and m.amoplefttype = class.opcintype
                and m.amoprighttype = class.opcintype and m.amopstrategy = 3
            join pg_operator o on o.oid = m.amopopr join pg_namespace y on y.oid = o.oprnamespace
            where class.oid = i.indclass[k.place - 1]), 'operator(pg_catalog.=)') order by k.place) as operators
    from unnest(i.indkey::int2[]) with ordinality k (number, place)
    left join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.number
    where k.place <= i.indnkeyatts
) key
cross join lateral (
    select coalesce(json_agg(json_build_array(c.attname, case when c.attcollation <> y.typcollation then
               quote_ident(n.nspname) || '.' || quote_ident(l.collname) end)), '[]') as columns,
        coalesce(bool_or(c.atttypid >= 16384 and (y.typtype <> 'd' or y.typbasetype >= 16384)), false) as has_own_types
    from pg_attribute c join pg_type y on y.oid = c.atttypid
    left join pg_collation l on l.oid = c.attcollation left join pg_namespace n on n.oid = l.collnamespace
    where c.attrelid = i.indrelid and c.attnum > 0 and (
        c.attnum = any((i.indkey::int2[])[0:i.indnkeyatts - 1])
        or (i.indexprs is not null or i.indpred is not null) and exists (
            select from pg_depend d
            where d.classid = 'pg_class'::regclass and d.objid = i.indexrelid and d.objsubid = 0
                and d.refclassid = 'pg_class'::regclass and d.refobjid = i.indrelid and d.refobjsubid = c.attnum))
) used
where i.indrelid = to_regclass(%s) and i.indisunique
order by i.indexrelid
"""
"""Objects from number 16384 on are not the server's own.

Of a constraint's index the columns are in `indkey`; on what expressions and conditions use, the index depends."""
