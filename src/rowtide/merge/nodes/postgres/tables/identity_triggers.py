"""Statements by which programs at a PostgreSQL node get numbers of its identity ranges.

The sequence of the key is bounded by the range in use, so that no number of another node is given. A trigger before
inserting statements continues to the secondary range once the primary one is used up; rows that the agent writes have
their keys already. A statement that needs more numbers than are left in the primary range fails, and works when it is
repeated, as in SQL Server.
"""

from __future__ import annotations

from collections.abc import Iterator

from rowtide.databases.postgres.advisory_locks import FIRST_IDENTITY_RANGE
from rowtide.databases.postgres.functions import DEFINER, close_function
from rowtide.databases.postgres.quoting import quote, quote_body, quote_literal, quote_qualified
from rowtide.merge.articles import Article
from rowtide.merge.definitions import SCHEMA, identity_ranges
from rowtide.merge.identity_range_policy import IdentityRange
from rowtide.merge.nodes.postgres.metadata.row_metadata import escaped, table_of

_RANGES = quote_qualified(SCHEMA, identity_ranges.name)


def numbering_request(article: Article) -> tuple[str, list[object]]:
    """Return the query of the last number that an article's key was given, and of its highest value."""
    (column,) = article.key_columns
    query = (
        "select pg_sequence_last_value(pg_get_serial_sequence(%s, %s)::regclass), "
        f"(select max({escaped(quote(column.name))}) from {escaped(table_of(article))})"
    )
    return query, [table_of(article), column.name]


def bounding(article: Article, owned: IdentityRange) -> str:
    """Return the block that bounds the sequence of an article's key by the range that its last number is in.

    That is the primary one if the number is in neither.
    """
    secondary = f"last between {owned.next_begin} and {owned.next_end}"
    primary = f"last between {owned.begin} and {owned.end}"
    body = (
        f"declare last bigint := pg_sequence_last_value({_sequence(article)}::regclass); begin "
        f"if {secondary} then {_bound(article, owned.next_begin, owned.next_end, restarts=False)} "
        f"elsif {primary} then {_bound(article, owned.begin, owned.end, restarts=False)} "
        f"else {_bound(article, owned.begin, owned.end, restarts=True)} end if; end"
    )
    return f"do {quote_body(body)}"


def unbounding(article: Article) -> str:
    """Return the block that lets the sequence of an article's key continue without bounds, behind all keys."""
    (column,) = article.key_columns
    body = (
        f"declare sequence text := {_sequence(article)}; highest bigint; begin if sequence is not null then "
        f"execute format('alter sequence %s no minvalue no maxvalue start 1', sequence); "
        f"select greatest(max({quote(column.name)}), 1) into highest from {table_of(article)}; "
        "if highest is not null then perform setval(sequence::regclass, highest); end if; end if; end"
    )
    return f"do {quote_body(body)}"


def range_function_statements(article: Article, name: str) -> Iterator[str]:
    """Yield the statements that create the function of the trigger that continues to the secondary range."""
    (column,) = article.key_columns
    # The function's search path does not find the table, but names it so that it is found.
    sequence = f"pg_get_serial_sequence(tg_relid::regclass::text, {quote_literal(column.name)})::regclass"
    is_at_end = "last >= r.range_end and (last < r.next_range_begin or last >= r.next_range_end)"
    message = (
        f"RT-8053: the identity ranges of {article.qualified_name} are used up: synchronise this database, which gives "
        "it new ones"
    )
    body = (
        "declare r record; last bigint; begin "
        f"select * into r from {_RANGES} where artid = {article.nickname} and is_own and is_pub_range = 0; "
        f"last := pg_sequence_last_value({sequence}); "
        f"if not found or last is null or not ({is_at_end}) then return null; end if; "
        f"perform pg_advisory_xact_lock({FIRST_IDENTITY_RANGE + article.nickname}); "
        f"last := pg_sequence_last_value({sequence}); "
        f"if last >= r.next_range_end then raise exception using message = {quote_literal(message)}; end if; "
        f"if {is_at_end} then "
        "execute format('alter sequence %1$s minvalue %2$s maxvalue %3$s start %2$s restart %2$s', "
        f"{sequence}, r.next_range_begin, r.next_range_end); end if; return null; end"
    )
    yield (
        f"create or replace function {SCHEMA}.{name}() returns trigger language plpgsql {DEFINER} as {quote_body(body)}"
    )
    yield close_function(f"{SCHEMA}.{name}()")


def range_trigger_statements(article: Article, name: str, condition: str) -> Iterator[str]:
    """Yield the statements that create the trigger."""
    yield (
        f"create trigger {name} before insert on {table_of(article)} for each statement when ({condition}) "
        f"execute function {SCHEMA}.{name}()"
    )
    yield f"alter table {table_of(article)} enable always trigger {name}"


def _sequence(article: Article) -> str:
    (column,) = article.key_columns
    return f"pg_get_serial_sequence({quote_literal(table_of(article))}, {quote_literal(column.name)})"


def _bound(article: Article, begin: int, end: int, *, restarts: bool) -> str:
    restart = f" restart {begin}" if restarts else ""
    changed = f"alter sequence %s minvalue {begin} maxvalue {end} start {begin}{restart}"
    return f"execute format({quote_literal(changed)}, {_sequence(article)}::regclass);"
