"""A row filter chooses from the text of rows what the server chooses from the rows themselves."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from builders.values.row_filters import (
    COLUMNS,
    EDGES,
    NUMBERS,
    ODD_LITERALS,
    TYPES,
    Row,
    edge_rows,
    filters,
    rows,
    transpose,
)
from fixtures.servers import fresh_database
from rowtide.databases.filter_words import RESERVED_WORDS
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.databases.postgres.quoting import quote, quote_literal
from rowtide.databases.postgres.session_settings import PINNED_SETTINGS, pin_settings
from rowtide.replication.errors.publishing import FilterColumnUnpublished, FilterMalformed, FilterTypeInexact
from rowtide.replication.filters import FilterColumn, as_sql, parse_filter
from rowtide.replication.filters.evaluation import matches

REFUSALS = (FilterMalformed, FilterTypeInexact, FilterColumnUnpublished)
A_USERS_SETTINGS = {"DateStyle": "SQL, DMY", "TimeZone": "America/New_York", "IntervalStyle": "sql_standard"}
"""Under which a filter has to choose the same: a snapshot need not pin any."""

Session = psycopg.Connection[tuple[object, ...]]


@pytest.fixture(scope="module")
def session(server: EmbeddedServer) -> Iterator[Session]:
    columns = ", ".join(f"{quote(name)} {type_text}" for name, type_text in TYPES.items())
    with fresh_database(server) as url, psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"create unlogged table t (number int, {columns})".encode())
        yield connection


def is_taken(filter_text: str) -> bool:
    try:
        parse_filter(filter_text, COLUMNS)
    except REFUSALS:
        return False
    return True


def fill(session: Session, written: list[Row]) -> None:
    session.execute("truncate t")
    casts = ", ".join(f"%s::{type_text}" for type_text in TYPES.values())
    with session.cursor() as cursor:
        cursor.executemany(f"insert into t values (%s, {casts})".encode(), [(n, *row) for n, row in enumerate(written)])


def read_printed(session: Session) -> list[list[bytes | None]]:
    """Return the rows as the log has them: what the server's output functions print."""
    session.execute(pin_settings(PINNED_SETTINGS).encode())
    cursor = session.execute(f"select {', '.join(map(quote, TYPES))} from t order by number".encode())
    result = cursor.pgresult
    assert result is not None
    return [[result.get_value(row, column) for column in range(result.nfields)] for row in range(result.ntuples)]


def ask_server(session: Session, conditions: list[str]) -> list[tuple[object, ...]]:
    """Return for each condition which rows it chooses."""
    session.execute(pin_settings(A_USERS_SETTINGS).encode())
    answers = ", ".join(f"coalesce(({condition}), false)" for condition in conditions)
    return list(zip(*session.execute(f"select {answers} from t order by number".encode()), strict=True))


def assert_chosen_alike(session: Session, written: list[Row], filter_texts: list[str]) -> None:
    """Compare with the server's choice by the text as the user wrote it, and by the one that we make of it."""
    fill(session, written)
    values = transpose(read_printed(session))
    conditions = [parse_filter(filter_text, COLUMNS) for filter_text in filter_texts]
    ours = [tuple(matches(condition, values).tolist()) for condition in conditions]
    by_text = dict(zip(filter_texts, ask_server(session, filter_texts), strict=True))

    assert dict(zip(filter_texts, ours, strict=True)) == by_text
    assert ask_server(session, [as_sql(condition) for condition in conditions]) == ours


@pytest.mark.parametrize("examples", [60, pytest.param(5000, marks=pytest.mark.soak)])
def test_a_filter_chooses_the_rows_that_the_server_chooses(session: Session, examples: int) -> None:
    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
    @given(written=rows(), filter_texts=st.lists(filters(is_taken), min_size=1, max_size=12))
    def compare(written: list[Row], filter_texts: list[str]) -> None:
        assert_chosen_alike(session, written, filter_texts)

    compare()


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: column.type_text)
def test_every_literal_that_is_taken_is_what_the_server_reads(session: Session, column: FilterColumn) -> None:
    edges = [quote_literal(edge) for edge in EDGES[column.type_text]]
    bare = [edge for edge in EDGES[column.type_text] if column.type_text in NUMBERS]
    literals = (*edges, *bare, *ODD_LITERALS)
    compared = [f"{quote(column.name)} {test} {literal}" for literal in literals for test in ("=", "<", ">=")]
    listed = [f"{quote(column.name)} in ({literal}, {edges[0]})" for literal in literals]
    taken = [f"{quote(column.name)} is null", *filter(is_taken, (*compared, *listed))]

    assert_chosen_alike(session, edge_rows(), taken)


def test_words_the_server_reserves_are_not_taken_as_columns(session: Session) -> None:
    words = session.execute("select word from pg_get_keywords() where catcode in ('R', 'T')").fetchall()

    assert {word for (word,) in words} <= RESERVED_WORDS
