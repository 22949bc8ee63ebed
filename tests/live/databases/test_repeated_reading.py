"""Queries of the reading before are run together, and answered as if each was run by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from sqlalchemy import text

from builders.capture.captured_databases import LoggedDatabase
from rowtide.databases.postgres import kept_sessions
from rowtide.databases.postgres.connect import open_engine
from rowtide.databases.postgres.kept_sessions import RepeatedReading, keeping_sessions

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
    run = kept_sessions.answer_together

    def count(session: Any, known: Any) -> Any:
        together.append(len(known))
        return run(session, known)

    monkeypatch.setattr(kept_sessions, "answer_together", count)
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
