"""A merge filter is one expression over the row, whatever is written in it, and means the same to every hub."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st

from fixtures.servers import fresh_database
from rowtide.databases.filter_words import FilterUnreadable
from rowtide.databases.postgres.connect import open_url
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.merge.api import MergeReplication
from rowtide.merge.articles import Article, ArticleColumn, Partition
from rowtide.merge.nodes.connecting import open_node
from rowtide.merge.nodes.node import Node
from rowtide.merge.partitions.expressions import NameScope, ScopeTable, SubscriberValue, as_sql, read_expression
from rowtide.merge.partitions.expressions.grammar import FUNCTIONS
from rowtide.merge.partitions.filters import bind

ODD = 'od"d) or (1=1'
SCOPE = NameScope(
    (ScopeTable("t", ("id", "qty", "region", ODD), {"id": "integer", "qty": "integer", "region": "text"}),)
)
TABLE = 'create table t (id integer primary key, qty integer, region text {0}, "od""d) or (1=1" text {0})'
COLUMNS = tuple(ArticleColumn(name, "text", is_nullable=True, key_ordinal=None) for name in SCOPE.tables[0].columns)
ARTICLE = Article("t", "public", "t", 1, COLUMNS, processing_order=1)
Row = tuple[int, int | None, str | None, str | None]

PIECES = (
    *("id", "region", "t", ".", "nothing", '"od""d) or (1=1"', '"', '""', "'", "''", "'x'", "\\", "1", "0.5", "(", ")"),
    *(",", "=", "<>", "!=", "<", "+", "-", "*", "/", "%", "||", "::", ":", ";", "--", "/*", "*/", "$$", "$a$", "$1"),
    *("cast", "as", "text", "bigint", "cast(host_name() as date)", "cast(id as text)"),
    *("and", "or", "not", "in", "is", "null", "true", "like", "between", "select", "from", "union", "exists", "case"),
    *("host_name()", "suser_sname()", "lower", "abs", "coalesce", "random", "pg_sleep", "load_extension", "e'", "U&'"),
    *("\n", "\t", "\u00a0", "é", "\U0001f600", "?", "[", "]", "`", "@", "date '2024-01-01'"),
)
VALUES = st.sampled_from(["", "north", "'", "''", "') or (true", "--", "\\", "\\'", "%s", ":x", "?1", "$$", "é"])


class Watching:
    """Takes what SQLite says that a statement would do: nothing but read `t` and call what may be called."""

    def __init__(self) -> None:
        self.selects = 0

    def __call__(self, action: int, first: str | None, second: str | None, *_where: str | None) -> int:
        if action == sqlite3.SQLITE_SELECT:
            self.selects += 1
        is_read = action == sqlite3.SQLITE_READ and first == "t"
        is_called = action == sqlite3.SQLITE_FUNCTION and str(second).lower() in (*FUNCTIONS, "like")
        return sqlite3.SQLITE_OK if action == sqlite3.SQLITE_SELECT or is_read or is_called else sqlite3.SQLITE_DENY


@settings(max_examples=600, deadline=None)
@example(pieces=["id", "=", "1", ")", "or", "pg_sleep", "(", "0", ")", "is", "null", "or", "(", "true"], host="x")
@example(pieces=["region", "=", "host_name()", "or", "'", "')", "or", "('", "'"], host="') or (true")
@given(pieces=st.lists(st.sampled_from(PIECES), max_size=14), host=VALUES)
def test_whatever_is_taken_is_one_expression_over_the_row(pieces: list[str], host: str) -> None:
    written = " ".join(pieces)
    try:
        expression = read_expression(written, SCOPE)
    except FilterUnreadable:
        return
    sql = as_sql(expression, {SubscriberValue.HOST_NAME: host, SubscriberValue.SUSER_NAME: host})
    with closing(sqlite3.connect(":memory:", cached_statements=0)) as connection:
        connection.execute(TABLE.format(""))
        watching = Watching()
        connection.set_authorizer(watching)
        refused, columns = prepare(connection, f"select {sql}, 'only' from t")
    # What only the database can say is not of the words: a column that is not there.
    assert "syntax" not in refused
    assert "incomplete" not in refused
    assert refused or (columns, watching.selects) == (2, 1)


def prepare(connection: sqlite3.Connection, query: str) -> tuple[str, int]:
    """Return why a query is refused, if it is, and how many columns it has."""
    try:
        return "", len(connection.execute(query).description)
    except sqlite3.OperationalError as error:
        return str(error), 0


NUMBER_COLUMNS = st.sampled_from(["id", "qty", "t.qty", "cast(qty as bigint)", "cast(suser_name() as int)"])
TEXT_COLUMNS = st.sampled_from(["region", '"od""d) or (1=1"', "cast(qty as text)", "cast(region as varchar)"])
NUMBERS = st.integers(-3, 12).map(str)
TEXTS = st.sampled_from(["''", "'n'", "'north'", "'it''s'", "'\\'", "host_name()", "'é'"])


def _number(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    joined = st.tuples(inner, st.sampled_from([" + ", " * ", " - "]), inner).map("".join)
    divided = st.tuples(inner, st.sampled_from([" / ", " % "]), st.sampled_from(["2", "5"])).map("".join)
    functions = st.one_of(
        inner.map("abs({})".format), st.tuples(inner, inner).map(lambda two: f"coalesce({two[0]}, {two[1]})")
    )
    return st.one_of(joined.map("({})".format), joined, divided, functions, inner.map("- {}".format))


def _text(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    functions = st.sampled_from(
        ["lower({})", "trim({})", "nullif({}, 'n')", "replace({}, 'o', 'oo')", "substr({}, 2)", "coalesce({}, 'n')"]
    )
    called = st.tuples(functions, inner).map(lambda two: two[0].format(two[1]))
    return st.one_of(called, st.tuples(inner, inner).map(" || ".join))


ANY_NUMBER = st.recursive(NUMBER_COLUMNS | NUMBERS, _number, max_leaves=4)
ANY_TEXT = st.recursive(TEXT_COLUMNS | TEXTS, _text, max_leaves=3)
COMPARISONS = st.sampled_from([" = ", " <> ", " != ", " < ", ">=", " <= "])
PREDICATES = st.one_of(
    st.tuples(ANY_NUMBER, COMPARISONS, ANY_NUMBER).map("".join),
    st.tuples(ANY_TEXT, COMPARISONS, ANY_TEXT).map("".join),
    st.tuples(ANY_NUMBER, st.sampled_from([" in ({}, 3)", " not in ({})", " between 0 and {}"]), ANY_NUMBER).map(
        lambda three: three[0] + three[1].format(three[2])
    ),
    st.tuples(ANY_NUMBER | ANY_TEXT, st.sampled_from([" is null", " IS NOT NULL"])).map("".join),
    st.tuples(TEXT_COLUMNS | TEXTS, st.sampled_from([" like 'n%'", " not like '_o%'"])).map("".join),
    st.tuples(TEXTS, COMPARISONS, TEXTS).map("".join),
    st.tuples(ANY_TEXT, st.sampled_from([" in ('n', {})", " not in ({})", " between '' and {}"]), ANY_TEXT).map(
        lambda three: three[0] + three[1].format(three[2])
    ),
)
FILTERS = st.recursive(
    PREDICATES,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from([" and ", " or ", "\nAND not "]), inner).map("".join),
        inner.map("({})".format),
        inner.map("not {}".format),
        inner.map("({}) is not true".format),
    ),
    max_leaves=5,
)
ROWS: list[Row] = [
    (n, quantity, region, other)
    for n, (quantity, region, other) in enumerate(
        (quantity, region, other)
        for quantity in (None, -2, 0, 7)
        for region in (None, "", "north", " n ")
        for other in (None, "it's", "\\", "é")
    )
]


@pytest.fixture(scope="module")
def hubs(server: EmbeddedServer) -> Iterator[tuple[sqlite3.Connection, psycopg.Connection, Node]]:
    """The same rows in a file and in a server, and the server as a hub."""
    file = sqlite3.connect(":memory:")
    file.execute(TABLE.format(""))
    file.executemany("insert into t values (?, ?, ?, ?)", ROWS)
    with fresh_database(server) as url, open_url(url) as session:
        session.execute("set search_path = public")
        session.execute(TABLE.format('collate "C"').encode())
        session.cursor().executemany("insert into t values (%s, %s, %s, %s)", ROWS)
        MergeReplication(url).add_publication("shop")
        with open_node(url) as hub:
            yield file, session, hub
    file.close()


@pytest.mark.parametrize("examples", [150, pytest.param(5000, marks=pytest.mark.soak)])
def test_hubs_of_both_kinds_choose_the_same_rows(
    hubs: tuple[sqlite3.Connection, psycopg.Connection, Node], examples: int
) -> None:
    file, session, hub = hubs

    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
    @given(filter_text=FILTERS, host=VALUES)
    def compare(filter_text: str, host: str) -> None:
        values = {SubscriberValue.HOST_NAME: host, SubscriberValue.SUSER_NAME: "7"}
        expression = read_expression(filter_text, SCOPE)
        hub.tables.check_filter(ARTICLE, bind(expression, Partition()))
        sql = as_sql(expression, values)
        query = f"select id from t where {sql} order by id"
        assert file.execute(query).fetchall() == session.execute(query.encode()).fetchall()

    compare()
