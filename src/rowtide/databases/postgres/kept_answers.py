"""Answers of queries that are kept for the rest of a reading, and facts that are kept for the next one.

Without psycopg, as what reads definitions is imported where there is none.
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
    """What a query has returned, with the query and its parameters; `is_used` by somebody who ran it."""

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
"""What the operation that this thread is in has read; None outside of one."""


# Facts that are made of answers alone: where none of the answers differs from those of the reading before, they are the
# same. A poll of 500 tables spent two thirds of its time on making what it had made before.


@dataclass(frozen=True, slots=True)
class MadeOnce:
    value: Any
    given: object
    used: Mapping[tuple[str, ...], list[tuple[Any, ...]]]
    """The answers of which it was made: rows that were received again are the same object."""


_made: ContextVar[dict[Hashable, MadeOnce] | None] = ContextVar("_made", default=None)
"""What was made by the reading before, and by this one; None where a database is read once."""
_used: ContextVar[dict[tuple[str, ...], list[tuple[Any, ...]]] | None] = ContextVar("_used", default=None)
"""The answers that were used by what is being made."""


def make_once(name: Hashable, make: Callable[[], Result], given: object = None) -> Result:
    """Return what is made of queries' answers and of what is `given`, and of nothing else that `name` does not have.

    Within a `RepeatedReading` that was made before, if the answers are the same, and what is given is equal.
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
    """Note that what is being made depends on answers."""
    used = _used.get()
    if used is not None:
        used.update(answers)


def made_once(
    read: Callable[Concatenate[Connection, Parameters], Result],
) -> Callable[Concatenate[Connection, Parameters], Result]:
    """Let a function be made once, as by `make_once`: it uses its connection's answers alone, and changes no result.

    SQLAlchemy takes longer to run a query whose answer is known than the server takes for most of them.
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
    """Keep what is made once during the block, with what was made before."""
    token = _made.set(made)
    try:
        yield
    finally:
        _made.reset(token)
