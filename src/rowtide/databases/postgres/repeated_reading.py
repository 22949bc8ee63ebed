"""Repeated reading of a database: each query runs once in a reading, and all of them run together in the next one."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self

import psycopg
from psycopg.adapt import Transformer
from psycopg.pq import Format
from sqlalchemy import Connection, Engine

from rowtide.core.errors import describe
from rowtide.databases.postgres.errors import translated
from rowtide.databases.postgres.poolers import place_of
from rowtide.databases.postgres.query_memo import KEPT, Answer, Answers, MadeOnce, keeping_facts, note_used
from rowtide.databases.postgres.session_pool import keeping_sessions

# Queries that run once in a reading: several packages check the same facts of a database. `check --as reader` ran 147
# statements, `replication status` 129; with this 99 and 76. Passing facts on would give a dozen functions of five
# packages parameters that only the diagnosis fills, and each new fact could be forgotten. All uses of a query see the
# same moment. A loop that waits for a change in the database must not run within it.


@contextmanager
def reading_once() -> Iterator[Answers]:
    """Let each query that this thread repeats on engines of `open_engine` return what it returned first.

    Sessions are kept as by `keeping_sessions`. For what reads a database and changes nothing, and waits for nothing in
    it. Files are read as they are: they may be newer than what the server has said. Yields the answers.
    """
    known = KEPT.get()
    if known is not None:
        yield known
        return
    answers: Answers = {}
    token = KEPT.set(answers)
    try:
        with keeping_sessions():
            yield answers
    finally:
        KEPT.reset(token)


def choose_cursor() -> type[psycopg.Cursor[tuple[Any, ...]]]:
    """Return the class of the cursors of a session that begins now."""
    return psycopg.Cursor if KEPT.get() is None else _RepeatingCursor


class _RepeatingCursor(psycopg.Cursor[tuple[Any, ...]]):
    """A cursor that reads all rows at once, and runs no query that was run before."""

    _answer: Answer | None = None
    _read = 0

    def execute(self, query: Any, params: Any = None, **options: Any) -> Self:
        answers = KEPT.get()
        self._answer, self._read = None, 0
        if answers is None:
            return super().execute(query, params, **options)
        key = (*place_of(self.connection), str(query), repr(params))
        if key not in answers:
            super().execute(query, params, **options)
            columns = super().description
            if columns is None:
                note_used({key: []})
                return self
            answers[key] = Answer(str(query), params, columns, super().fetchall())
        self._answer = answers[key]
        self._answer.is_used = True
        note_used({key: self._answer.rows})
        return self

    @property
    def description(self) -> list[psycopg.Column] | None:
        return super().description if self._answer is None else self._answer.columns

    @property
    def rowcount(self) -> int:
        return super().rowcount if self._answer is None else len(self._answer.rows)

    def fetchone(self) -> tuple[Any, ...] | None:
        return next(iter(self.fetchmany(1)), None)

    def fetchmany(self, size: int = 0) -> list[tuple[Any, ...]]:
        if self._answer is None:
            return super().fetchmany(size)
        return self._take(size or self.arraysize)

    def fetchall(self) -> list[tuple[Any, ...]]:
        return super().fetchall() if self._answer is None else self._take(len(self._answer.rows))

    def _take(self, size: int) -> list[tuple[Any, ...]]:
        assert self._answer is not None
        first, self._read = self._read, self._read + size
        return self._answer.rows[first : self._read]


# Polling: the queries of the previous reading run as one statement. A reading has about seventy queries, each of which
# would take a round trip. A poll repeats the same queries every few seconds: as they are known beforehand, they become
# columns of one statement, whose results are of one snapshot.

log = logging.getLogger("rowtide.databases")

_SAFE_TYPES = {
    *("bool", "int2", "int4", "int8", "oid", "float4", "float8", "numeric", "text", "varchar", "name", "bytea"),
    *("timestamptz", "timestamp", "date", "uuid", "json", "jsonb"),
}
"""Types whose values psycopg returns alike in both formats; so it does arrays of them."""
_QUERY = re.compile(r"\s*(select|with|values)\b", re.IGNORECASE)
_SETTINGS = {"jit": "off", "statement_timeout": "30s", "lock_timeout": "5s"}
"""JIT compilation of the statement would take longer than running it. Facts that would wait for a lock are unknown
instead of late.
"""
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
        self._made: dict[Hashable, MadeOnce] = {}
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
            with keeping_facts(self._made):
                yield connection
            place = place_of(session)
            self._known = {key: answer for key, answer in answers.items() if _can_be_asked_again(key, answer, place)}

    def _ask_again(self, connection: Connection, session: psycopg.Connection[tuple[Any, ...]]) -> Answers:
        try:
            return answer_together(session, self._known)
        except psycopg.Error as error:
            if session.broken:
                # Otherwise the pool would try to roll back, and log the failure.
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
        columns = [known[key].column or _as_column(session, known[key]) for key in together]
        with psycopg.Cursor(session) as cursor:
            statement = ",\n".join(columns)
            result = cursor.execute(f"select {statement}".encode(), binary=True, prepare=True).pgresult
        assert result is not None
        load = Transformer(session).get_loader(result.ftype(0), Format.BINARY).load
        for number, (key, column) in enumerate(zip(together, columns, strict=True)):
            answers[key] = _receive(known[key], column, bytes(result.get_value(0, number) or b""), load)
    return answers


def _receive(before: Answer, column: str, received: bytes, load: Callable[[bytes], Any]) -> Answer:
    """Return the answer that was received; rows that are the same as before are not decoded again."""
    rows = before.rows if received == before.received else list(map(tuple, load(received)))
    return Answer(before.query, before.params, before.columns, rows, column=column, received=received)


def _as_column(session: psycopg.Connection[tuple[Any, ...]], asked: Answer) -> str:
    """Return a query as an array of its rows; it may end with a comment."""
    text = psycopg.ClientCursor(session).mogrify(asked.query, asked.params)
    return f"array(select row(q.*) from (\n{text.rstrip().removesuffix(';')}\n) q)"


def _can_be_asked_again(key: tuple[str, ...], answer: Answer, place: tuple[str, ...]) -> bool:
    if not answer.is_used or key[: len(place)] != place:
        return False
    # Queries that are columns of the statement are known already.
    return bool(answer.column) or (_QUERY.match(answer.query) is not None and all(map(_is_safe, answer.columns)))


def _is_safe(column: psycopg.Column) -> bool:
    known = psycopg.adapters.types.get(column.type_code)
    return known is not None and known.name in _SAFE_TYPES
