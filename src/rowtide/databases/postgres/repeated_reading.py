"""Reading a database again and again: the queries of the reading before are run as one statement.

How a database stands is said by some seventy queries of many parts of rowtide, each of which takes a round trip. Who
looks every few seconds runs the same ones again: they are known beforehand, and become columns of one statement, whose
answers are of one snapshot. No fact needs a second query for that.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import psycopg
from sqlalchemy import Connection, Engine

from rowtide.core.errors import describe
from rowtide.databases.postgres.errors import translated
from rowtide.databases.postgres.kept_sessions import Answer, Answers, reading_once
from rowtide.databases.postgres.poolers import place_of

log = logging.getLogger("rowtide.databases")

_SAFE_TYPES = {
    *("bool", "int2", "int4", "int8", "oid", "float4", "float8", "numeric", "text", "varchar", "name", "bytea"),
    *("timestamptz", "timestamp", "date", "uuid", "json", "jsonb"),
}
"""Types whose values psycopg returns alike in both formats; so it does arrays of them."""
_QUERY = re.compile(r"\s*(select|with|values)\b", re.IGNORECASE)
_SETTINGS = {"jit": "off", "statement_timeout": "30s", "lock_timeout": "5s"}
"""To compile the statement takes longer than to run it. What waits for a lock is not known, instead of being late."""
_MOST_TOGETHER = 400
"""Of the columns of a statement: PostgreSQL allows 1664."""


class RepeatedReading:
    """Opens sessions of an engine of `open_engine`, in which the queries of the session before are run together.

    For one thread, within `keeping_sessions`, so that the session stays the same. A query that begins to fail, makes
    all of them be run one by one, once.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._known: Answers = {}
        self._session: psycopg.Connection[tuple[Any, ...]] | None = None

    @contextmanager
    def opened(self) -> Iterator[Connection]:
        """Yield a session in which each query is run once, and every statement commits. Raises what connecting raises.

        For what reads alone, as `reading_once`.
        """
        engine = self._engine
        with reading_once() as answers, translated(), engine.connect() as begun:
            connection = begun.execution_options(isolation_level="AUTOCOMMIT")
            session = connection.connection.driver_connection
            assert isinstance(session, psycopg.Connection)
            if session is not self._session:
                pinned = ", ".join(f"set_config('{name}', '{value}', false)" for name, value in _SETTINGS.items())
                session.execute(f"select {pinned}".encode())
                self._session = session
            answers.update(self._ask_again(connection, session))
            yield connection
            self._known = {key: answer for key, answer in answers.items() if _can_be_asked_again(key, answer, session)}

    def _ask_again(self, connection: Connection, session: psycopg.Connection[tuple[Any, ...]]) -> Answers:
        try:
            return answer_together(session, self._known)
        except psycopg.Error as error:
            if session.broken:
                # The pool would try to roll back, and log that it cannot.
                connection.invalidate(error)
                raise
            log.info("queries_run_one_by_one: %s", describe(error))
            return {}


def answer_together(session: psycopg.Connection[tuple[Any, ...]], known: Mapping[tuple[str, ...], Answer]) -> Answers:
    """Run queries that were run before, as columns of as few statements as possible."""
    answers: Answers = {}
    keys = list(known)
    for begin in range(0, len(keys), _MOST_TOGETHER):
        together = keys[begin : begin + _MOST_TOGETHER]
        columns = ",\n".join(_as_column(session, known[key]) for key in together)
        with psycopg.Cursor(session) as cursor:
            found = cursor.execute(f"select {columns}".encode(), binary=True, prepare=True).fetchone()
        assert found is not None
        for key, value in zip(together, found, strict=True):
            answers[key] = replace(known[key], rows=list(map(tuple, value)), is_used=False)
    return answers


def _as_column(session: psycopg.Connection[tuple[Any, ...]], asked: Answer) -> str:
    """Return a query as an array of its rows; it may end with a comment."""
    text = psycopg.ClientCursor(session).mogrify(asked.query, asked.params)
    return f"array(select row(q.*) from (\n{text.rstrip().removesuffix(';')}\n) q)"


def _can_be_asked_again(key: tuple[str, ...], answer: Answer, session: psycopg.Connection[tuple[Any, ...]]) -> bool:
    of_session = key[: len(place_of(session))] == place_of(session)
    return (
        of_session and answer.is_used and _QUERY.match(answer.query) is not None and all(map(_is_safe, answer.columns))
    )


def _is_safe(column: psycopg.Column) -> bool:
    known = psycopg.adapters.types.get(column.type_code)
    return known is not None and known.name in _SAFE_TYPES
