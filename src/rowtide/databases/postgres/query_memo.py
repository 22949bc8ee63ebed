"""Results of queries, kept for the rest of one reading of a database, and facts derived from them, kept for the next
one.

Does not import psycopg: modules that read definitions are imported without it too.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from sqlalchemy import Connection

if TYPE_CHECKING:
    import psycopg

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


@dataclass(slots=True)
class Answer:
    """The result of a query, with the query and its parameters; `is_used` says whether it was requested in this
    reading.
    """

    query: str
    params: Any
    columns: list[psycopg.Column]
    rows: list[tuple[Any, ...]]
    is_used: bool = False
    column: str = ""
    """The query as a column of a statement, once it was run in one."""
    received: bytes | None = None
    """The rows as the server sent them there."""


Answers = dict[tuple[str, ...], Answer]
"""Answers by the database, the role, the query and its parameters."""

KEPT: ContextVar[Answers | None] = ContextVar("KEPT", default=None)
"""The results of this thread's current operation; None outside of one."""


# Facts that are derived only from results: if no result differs from the previous reading, the facts are the same. A
# poll of 500 tables spent two thirds of its time on deriving facts again.


@dataclass(frozen=True, slots=True)
class MadeOnce:
    value: Any
    given: object
    used: Mapping[tuple[str, ...], list[tuple[Any, ...]]]
    """The results from which it was derived; rows that are received unchanged are the same object."""


_made: ContextVar[dict[Hashable, MadeOnce] | None] = ContextVar("_made", default=None)
"""Facts of the previous reading and of this one; None if a database is read once."""
_used: ContextVar[dict[tuple[str, ...], list[tuple[Any, ...]]] | None] = ContextVar("_used", default=None)
"""The results that the fact being derived has used."""


def make_once(name: Hashable, make: Callable[[], Result], given: object = None) -> Result:
    """Return a fact that depends only on queries' results, on `given` and on `name`; derive it once.

    Within a `RepeatedReading` the previous fact is returned if the results are the same objects, and `given` is equal.
    """
    made, answers = _made.get(), KEPT.get()
    if made is None or answers is None:
        return make()
    known = made.get(name)
    if (
        known is None
        or known.given != given
        or not all(key in answers and answers[key].rows is rows for key, rows in known.used.items())
    ):
        token = _used.set({})
        try:
            known = made[name] = MadeOnce(make(), given, _used.get() or {})
        finally:
            _used.reset(token)
    for key in known.used.keys() & answers.keys():
        answers[key].is_used = True
    note_used(known.used)
    found: Result = known.value
    return found


def note_used(answers: Mapping[tuple[str, ...], list[tuple[Any, ...]]]) -> None:
    """Note that the fact being derived depends on results."""
    used = _used.get()
    if used is not None:
        used.update(answers)


def made_once(
    read: Callable[Concatenate[Connection, Parameters], Result],
) -> Callable[Concatenate[Connection, Parameters], Result]:
    """Let a function be made once, as by `make_once`: it uses its connection's answers alone, and changes no result.

    SQLAlchemy needs more time for a query whose result is known than the server needs for most queries.
    """

    @wraps(read)
    def read_once(connection: Connection, /, *given: Parameters.args, **named: Parameters.kwargs) -> Result:
        if _made.get() is None:
            return read(connection, *given, **named)
        # Also of the database: a distribution database may be elsewhere.
        name = (read, connection.engine.url, given, tuple(named.items()))
        return make_once(name, lambda: read(connection, *given, **named))

    return read_once


@contextmanager
def keeping_facts(made: dict[Hashable, MadeOnce]) -> Iterator[None]:
    """Keep facts during the block, and use those that were derived before."""
    token = _made.set(made)
    try:
        yield
    finally:
        _made.reset(token)
