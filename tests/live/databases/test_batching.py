"""A connection whose statements wait for the next answer."""

from __future__ import annotations

import psycopg
import pytest

from rowtide.databases.postgres.batching import open_batching_engine, session_of

TIMES = 8
"""More often than the driver sends a statement before it prepares it."""


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
