"""Row counts and checksums of an article's rows, for comparing two databases.

A row's text consists of its published values' texts, under fixed settings and with the published types, each preceded
by its length in bytes; NULL has its own sign, and a floating point number is represented by its bits. The row's hash is
the first 64 bits of that text's SHA-256. The sum of hashes does not depend on row order, and counts duplicates.
"""

from __future__ import annotations

from collections.abc import Sequence

import psycopg
from psycopg import sql

from rowtide.databases.postgres.connect import PINNED_SETTINGS, WHOLE_TABLES
from rowtide.databases.postgres.errors import translated
from rowtide.databases.postgres.quoting import quote, quote_qualified
from rowtide.replication.articles import Article, PublishedColumn
from rowtide.replication.filters import as_sql
from rowtide.replication.targets.fingerprints import FLOATING, Fingerprint
from rowtide.replication.targets.postgres.connecting import connect


def read_published(url: str, articles: Sequence[Article], *, with_checksum: bool) -> Sequence[Fingerprint]:
    """Return the fingerprints of the published rows, in one snapshot."""
    return _read(url, [query(article, _published(article), with_checksum=with_checksum) for article in articles])


def read_subscribed(url: str, articles: Sequence[Article], *, with_checksum: bool) -> Sequence[Fingerprint]:
    """Return the fingerprints of all rows of a subscriber's tables, in one snapshot."""
    return _read(url, [query(article, None, with_checksum=with_checksum) for article in articles])


def query(article: Article, condition: str | None, *, with_checksum: bool) -> str:
    """Return the statement that counts rows and sums their hashes."""
    values = ", ".join(map(_value, article.columns))
    row_hash = (
        f"('x' || encode(substring(sha256(convert_to(concat({values}), 'UTF8')) from 1 for 8), 'hex'))::bit(64)::bigint"
    )
    checksum = f"coalesce(sum({row_hash}), 0)::text" if with_checksum else "null"
    where = f" where {condition}" if condition is not None else ""
    return f"select count(*), {checksum} from {quote_qualified(article.schema, article.table)}{where}"


def _value(column: PublishedColumn) -> str:
    typed = f"{quote(column.name)}::{column.type_text}"
    if column.value_type_text in FLOATING:
        # As SQLite keeps it: the number that the text of a real names; and minus zero is zero.
        text = f"encode(float8send({typed}::text::double precision + 0.0), 'hex')"
    else:
        # What the log has: a cast would write true for t, and leave the blanks behind a char(n) away.
        text = f"format('%s', {typed})"
    # A composite value whose parts are null is no null.
    return f"case num_nulls({typed}) when 0 then octet_length(convert_to({text}, 'UTF8')) || ':' || {text} else '-' end"


def _published(article: Article) -> str | None:
    condition = article.condition
    return as_sql(condition) if condition is not None else None


def _read(url: str, queries: Sequence[str]) -> Sequence[Fingerprint]:
    opened = connect(url, application_name="rowtide validation", settings=PINNED_SETTINGS | WHOLE_TABLES)
    with opened as connection, translated():
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        with connection.transaction():
            return [_read_one(connection, text) for text in queries]


def _read_one(connection: psycopg.Connection, text: str) -> Fingerprint:
    row = connection.execute(sql.SQL(text)).fetchone()
    assert row is not None
    return Fingerprint(int(row[0]), row[1])
