"""Events: what they have in common, the scope in which they are emitted, and their fields' units.

An event is declared once, in `rowtide.events.catalogue`, as a value with typed fields, so that no other can be emitted.
What emits one knows neither the log nor the terminal.
"""

from __future__ import annotations

import contextvars
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from enum import StrEnum
from typing import Annotated, ClassVar, ParamSpec, TypeVar

from rowtide.core.values import frozen

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class Level(StrEnum):
    """How important an event is; each is more so than those before it."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"

    @property
    def severity(self) -> int:
        """Its number in Python's `logging`."""
        return 10 * (1 + list(Level).index(self))


class Event:
    """Base of all events. The name is the class's, in lower case: `CyclePublished` is `cycle_published`."""

    __slots__ = ()
    name: ClassVar[str]
    level: ClassVar[Level]

    def __init_subclass__(cls) -> None:
        cls.name = _WORD.sub("_", cls.__name__).lower()


_WORD = re.compile(r"(?<!^)(?=[A-Z])")


@frozen
class Scope:
    """What emits: the database that it works on, and the job. Both may be empty."""

    database: str = ""
    job: str = ""


@frozen
class Emitted:
    """An event with its time, database and job."""

    time: datetime
    event: Event
    scope: Scope


_scope: ContextVar[Scope | None] = ContextVar("rowtide_scope", default=None)


_of_process = [Scope()]
"""The scope of threads without one."""


def current_scope() -> Scope:
    """Return the scope of this thread, else of the process."""
    return _scope.get() or _of_process[0]


@contextmanager
def scope(database: str | None = None, job: str | None = None) -> Iterator[None]:
    """Name what this thread works on during the block; None: as before."""
    before = current_scope()
    token = _scope.set(Scope(before.database if database is None else database, before.job if job is None else job))
    try:
        yield
    finally:
        _scope.reset(token)


def inheriting(function: Callable[Parameters, Result], *, job: str | None = None) -> Callable[Parameters, Result]:
    """Return a function for another thread that emits as this one does, or as a job of its own."""
    context = contextvars.copy_context()

    def run(*arguments: Parameters.args, **named: Parameters.kwargs) -> Result:
        with scope(job=job):
            return function(*arguments, **named)

    return lambda *arguments, **named: context.copy().run(run, *arguments, **named)


def format_places(error: BaseException) -> str:
    """Return the places in the code that an error went through, without what it says."""
    import traceback

    return "".join(traceback.format_tb(error.__traceback__))


@contextmanager
def process_scope(database: str, job: str) -> Iterator[None]:
    """Name what threads without a scope work on, during the block."""
    before, _of_process[0] = _of_process[0], Scope(database, job)
    try:
        yield
    finally:
        _of_process[0] = before


Seconds = Annotated[float, "seconds"]
Bytes = Annotated[int, "bytes"]
Rows = Annotated[int, "rows"]
RowsPerSecond = Annotated[int, "rows a second"]
Milliseconds = Annotated[int, "milliseconds"]
Count = Annotated[int, "count"]
