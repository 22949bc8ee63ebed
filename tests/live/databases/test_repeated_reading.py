"""Queries of the reading before are run together, and answered as if each was run by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.engine import make_url

from builders.capture.captured_databases import LoggedDatabase
from rowtide.databases.postgres import repeated_reading
from rowtide.databases.postgres.connect import open_engine
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.databases.postgres.query_memo import made_once, make_once
from rowtide.databases.postgres.repeated_reading import RepeatedReading
from rowtide.databases.postgres.session_pool import keeping_sessions

TYPES = text(
    "select null::int as a, 7::int8 as b, 'x''y\\ %(z)s'::text as c, '2026-11-30T12:00+01'::timestamptz as d, "
    "1.50::numeric as e, "
    "true as f, '\\xff00'::bytea as g, '00000000-0000-0000-0000-000000000001'::uuid as h, array['a', null] as i, "
    "'{\"k\": [1]}'::jsonb as j, 1.5::float8 as k, 'n'::name as l -- a comment"
)
IDS = text("select id, id as twice from public.item where id >= :least order by id desc;")


def test_answers_together_are_those_of_each(logged: LoggedDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    logged.execute("create table item (id int)", "insert into item values (1), (2)")
    together: list[int] = []
    run = repeated_reading.answer_together

    def count(session: Any, known: Any) -> Any:
        together.append(len(known))
        return run(session, known)

    monkeypatch.setattr(repeated_reading, "answer_together", count)
    reading = RepeatedReading(open_engine(logged.url))

    def read(*least: int) -> list[Sequence[Any]]:
        with reading.opened() as connection:
            found = [connection.execute(TYPES).all()]
            return [*found, *(connection.execute(IDS, {"least": one}).all() for one in least)]

    with keeping_sessions():
        first = read(1, 2)
        assert read(1, 2) == first
        logged.execute("insert into item values (3)")
        assert read(2)[1] == [(3, 3), (2, 2)]
        # What is not asked any more is forgotten.
        assert read(5)[1] == []
        assert read(1)[0] == first[0]
    # The first session asks the server what it is, too.
    assert together[2:] == [3, 2, 2]


def test_a_query_that_begins_to_fail_fails_alone(logged: LoggedDatabase) -> None:
    logged.execute("create table item (id int)", "create table other (id int)")
    reading = RepeatedReading(open_engine(logged.url))
    other = text("select count(*) from public.other")
    with keeping_sessions():
        with reading.opened() as connection:
            assert connection.execute(IDS, {"least": 0}).all() == []
            assert connection.execute(other).scalar_one() == 0
        logged.execute("drop table item", "insert into other values (1)")
        with reading.opened() as connection:
            with pytest.raises(Exception, match='relation "public.item" does not exist'):
                connection.execute(IDS, {"least": 0})
            assert connection.execute(other).scalar_one() == 1


def test_what_is_made_of_the_same_answers_is_kept(logged: LoggedDatabase) -> None:
    logged.execute("create table item (id int)", "insert into item values (1)")
    reading = RepeatedReading(open_engine(logged.url))
    made: list[str] = []

    def read(*, asks_itself: bool = False) -> list[int]:
        def list_ids() -> list[int]:
            made.append("ids")
            return [row.id for row in connection.execute(IDS, {"least": 0})]

        def sum_ids() -> list[int]:
            made.append("sum")
            return [sum(make_once("ids", list_ids))]

        with reading.opened() as connection:
            return list_ids() if asks_itself else make_once("sum", sum_ids)

    with keeping_sessions():
        # The first answers come one by one.
        assert [read(), read()] == [[1], [1]]
        made.clear()
        assert [read(), read()] == [[1], [1]]
        assert made == []
        logged.execute("insert into item values (2)")
        assert [read(), read()] == [[3], [3]]
        assert made == ["sum", "ids"]
        # What others have read meanwhile is not what it was made of.
        logged.execute("insert into item values (3)")
        assert read(asks_itself=True) == [3, 2, 1]
        assert read() == [6]
        logged.execute("drop table item")
        with pytest.raises(Exception, match='relation "public.item" does not exist'):
            read()
        logged.execute("create table item (id int)")
        assert read() == [0]


def test_a_fact_is_of_its_database_and_of_what_is_given(logged: LoggedDatabase, server: EmbeddedServer) -> None:
    found: list[str] = []
    others = server.url("postgres")

    @made_once
    def name_of(connection: Connection, prefix: str) -> str:
        found.append(prefix)
        return prefix + str(connection.execute(text("select current_database()::text")).scalar_one())

    reading = RepeatedReading(open_engine(logged.url))

    def read(version: int) -> Sequence[object]:
        with reading.opened() as connection, open_engine(others).connect() as elsewhere:
            versioned = make_once("version", lambda: [version], given=version)
            return name_of(connection, "a "), name_of(connection, "b "), name_of(elsewhere, "a "), versioned

    names = [make_url(one).database for one in (logged.url, others)]
    with keeping_sessions():
        for version in (1, 1, 1, 2):
            assert read(version) == (f"a {names[0]}", f"b {names[0]}", f"a {names[1]}", [version])
    # The first answers come one by one.
    assert found.count("b ") == 2


def test_a_database_that_is_read_once_keeps_nothing(logged: LoggedDatabase) -> None:
    with keeping_sessions(), open_engine(logged.url).connect() as connection:
        found = [make_once("one", lambda: connection.execute(text("select random()")).scalar()) for _ in range(2)]
    assert found[0] != found[1]
