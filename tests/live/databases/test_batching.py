"""A connection whose statements wait for the next answer."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from rowtide.databases.postgres.batching import BatchingConnection, open_batching_engine, session_of

pytestmark = pytest.mark.live

TIMES = 8
"""More often than the driver sends a statement before it prepares it."""
SLOW = ("select pg_sleep(0.2)", None)


@pytest.fixture
def session(database: str) -> Iterator[BatchingConnection]:
    with open_batching_engine(database).connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        yield session_of(connection)


def test_steps_are_taken_until_the_answer_is_there(session: BatchingConnection) -> None:
    taken = 0

    def step() -> bool:
        nonlocal taken
        taken += 1
        return True

    with session.working(step):
        answers = session.read(SLOW, ("select 5", None), texts=True)
    within = taken
    session.read(SLOW, ("select 6", None))

    assert answers[1] == [("5",)]
    assert within > 1
    assert taken == within


def test_the_answer_is_waited_for_where_no_step_is_left(session: BatchingConnection) -> None:
    left = [True, True, False]
    with session.working(lambda: left.pop(0)):
        answers = session.read(SLOW, ("select 5", None))

    assert left == []
    assert answers[1] == [(5,)]


def test_a_failing_statement_is_raised_with_steps(session: BatchingConnection) -> None:
    session.begin("begin")
    session.put("select 1 / 0")
    with session.working(lambda: True), pytest.raises(psycopg.errors.DivisionByZero):
        session.read(("select 5", None))
    session.roll_back()

    assert session.read(("select 6", None)) == [[(6,)]]


def test_what_is_read_last_is_committed_with(session: BatchingConnection) -> None:
    session.execute("create table public.t (n int)")
    session.begin("begin")
    session.put("insert into public.t values (1)")
    assert session.read_last(("select n from public.t", None), texts=True) == [[("1",)]]

    assert not session.is_in_transaction
    session.roll_back()
    assert session.read(("select n from public.t", None)) == [[(1,)]]


def test_a_deferred_error_undoes_what_is_read_last(session: BatchingConnection) -> None:
    session.execute("create table public.t (n int unique deferrable initially deferred)")
    session.begin("begin")
    session.put("insert into public.t values (1), (1)")
    with pytest.raises(psycopg.errors.UniqueViolation):
        session.read_last(("select n from public.t", None))
    session.roll_back()

    assert not session.is_in_transaction
    assert session.read(("select n from public.t", None)) == [[]]


def test_statements_after_a_failed_one_are_prepared_again(database: str) -> None:
    with open_batching_engine(database).connect() as connection:
        session = session_of(connection)
        for time in range(TIMES):
            for fails in (True, False):
                session.begin("begin")
                session.put(f"select {int(fails)} as time_{time}")
                failing = [("select 1 / 0", None)] if fails else []
                if fails:
                    with pytest.raises(psycopg.errors.DivisionByZero):
                        session.read(*failing, ("select 7", None))
                    session.roll_back()
                else:
                    assert session.read(("select 7", None), ("select 8", None)) == [[(7,)], [(8,)]]
                    session.commit_open()
