"""Keep the sequences of a PostgreSQL table's columns behind the values that other nodes gave.

A sequence whose next value a received row already has would make the next insert of the application fail.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
from psycopg import sql

from rowtide.databases.postgres.quoting import quote, quote_literal
from rowtide.merge.articles import Article
from rowtide.merge.nodes.postgres.metadata.row_metadata import escaped, table_of

Session = psycopg.Connection[tuple[Any, ...]]


def find_sequences(session: Session, article: Article) -> dict[str, str]:
    """Return the ascending sequences that belong to an article's columns, serial or identity, by column."""
    return dict(session.execute(*sequences_request(article)).fetchall())


def sequences_request(article: Article) -> tuple[str, Sequence[object]]:
    """Return the query of `find_sequences`."""
    return _SEQUENCES, [table_of(article), [column.name for column in article.columns]]


def advance_sequences(session: Session, sequences: dict[str, str], highest: dict[str, str]) -> None:
    """Set sequences to the highest values of queries, by column, unless they are further.

    Not undone by a rollback, as with any sequence: a gap does no harm.
    """
    for statement in advances(sequences, highest):
        session.execute(sql.SQL(statement))


def advances(sequences: dict[str, str], highest: dict[str, str]) -> Iterator[str]:
    """Yield the queries that do what `advance_sequences` does."""
    for name, sequence in sequences.items():
        if name in highest:
            yield (
                "select setval(s.name::regclass, s.highest) "
                f"from (select {quote_literal(sequence)}::text as name, ({highest[name]})::bigint as highest) s "
                "join pg_sequence q on q.seqrelid = s.name::regclass "
                "where s.highest <= q.seqmax "
                "and s.highest > coalesce(pg_sequence_last_value(s.name::regclass), q.seqstart - 1)"
            )


def highest_in_table(article: Article, sequences: dict[str, str]) -> dict[str, str]:
    """Return the queries of the highest values in a table, by column."""
    return {name: f"select max({quote(name)}) from {table_of(article)}" for name in sequences}


def next_values(article: Article, sequences: dict[str, str]) -> str:
    """Return the query of a number of next values, a parameter, of the one column of an article's primary key."""
    (column,) = article.key_columns
    if column.name in sequences:
        return f"select nextval({escaped(quote_literal(sequences[column.name]))}) from generate_series(1, %s)"
    highest = f"(select coalesce(max({quote(column.name)}), 0) from {table_of(article)})"
    return f"select n + {escaped(highest)} from generate_series(1, %s) n"


_SEQUENCES = """
select a.attname::text, quote_ident(n.nspname) || '.' || quote_ident(s.relname)
from pg_attribute a
join pg_depend d on d.classid = 'pg_class'::regclass and d.refclassid = 'pg_class'::regclass
  and d.refobjid = a.attrelid and d.refobjsubid = a.attnum and d.deptype in ('a', 'i')
join pg_class s on s.oid = d.objid and s.relkind = 'S'
join pg_namespace n on n.oid = s.relnamespace
join pg_sequence q on q.seqrelid = s.oid and q.seqincrement > 0
where a.attrelid = %s::regclass and a.attname = any(%s)
"""
