"""Events: what they have in common, the scope in which they are emitted, and emission to the log and to listeners.

An event is declared once, in `rowtide.events.catalogue`, as a value with typed fields, so that no other can be emitted.
Code that emits an event knows neither the log nor the terminal.
"""

from __future__ import annotations

import contextvars
import json
import logging
import math
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import fields
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any, ClassVar, ParamSpec, TypeVar

from rowtide.core.errors import RowtideError
from rowtide.core.lsn import CommitLsn, Position
from rowtide.core.redaction import KINDS, redact, without_row
from rowtide.core.values import frozen

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class Level(StrEnum):
    """The importance of an event, in ascending order."""

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
    """The origin of an event: the database that is worked on, and the job. Both may be empty."""

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
    """Set the scope of this thread during the block; None leaves it unchanged."""
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
    """Return the traceback of an error, without its message."""
    import traceback

    return "".join(traceback.format_tb(error.__traceback__))


@contextmanager
def process_scope(database: str, job: str) -> Iterator[None]:
    """Set the scope of threads without one, during the block."""
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


def record_of(emitted: Emitted) -> dict[str, Any]:
    """Return an event as JSON values by name, in their order.

    They have no keys or values of rows, with or without `--hide-keys`: errors are written without the fields that may
    hold them, errors that are not rowtide's by their kind alone, and fields of the types `RowKey` and `Said` as in
    errors. Names come from users: characters that a terminal or a parser of lines could interpret are escaped.
    """
    return {
        "time": format_time(emitted.time),
        "level": str(emitted.event.level),
        "event": emitted.event.name,
        "database": emitted.scope.database,
        "job": emitted.scope.job,
        **fields_of(emitted.event),
    }


def write_text(record: Mapping[str, Any]) -> str:
    """Return a record as a line: time, level and event, then what is not empty as name=value."""
    return f"{record['time']} {record['level']} {write_message(record)}"


def write_message(record: Mapping[str, Any]) -> str:
    """Return a record as the message of Python's `logging`, which knows time and level."""
    named = [(name, value) for name, value in record.items() if name not in ("time", "level", "event")]
    words = [f"{name}={_as_word(value)}" for name, value in named if value not in (None, "", [])]
    return " ".join([record["event"], *words])


def fields_of(event: Event) -> dict[str, Any]:
    """Return an event's own fields as JSON values. An error becomes `number`, if it is rowtide's, and `error`."""
    found: dict[str, Any] = {}
    for each in fields(event):  # type: ignore[arg-type]
        value = getattr(event, each.name)
        if isinstance(value, BaseException):
            if isinstance(value, RowtideError):
                found["number"] = value.number
            found[each.name] = describe_without_row(value)
        else:
            kind = str(each.type).removesuffix(" | None")
            found[each.name] = _plain(without_row(kind, value) if kind in KINDS and value is not None else value)
    return found


def describe_without_row(error: BaseException) -> str:
    """Return an error's message without keys and values of rows; for one that is not rowtide's, its class."""
    return error.without_row if isinstance(error, RowtideError) else type(error).__name__


def format_time(time: datetime) -> str:
    """Return a time as RFC 3339 has it, in UTC, with six digits of a second."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def write_json(values: Mapping[str, Any]) -> str:
    """Return JSON in which every character that is not printable is escaped."""
    return _escape(json.dumps(values, ensure_ascii=False))


def _plain(value: Any) -> Any:
    """Return a value for JSON: numbers exact; LSNs, times, infinities and NaN as texts."""
    match value:
        case CommitLsn() | Position() | Decimal():
            return str(value)
        case float() if not math.isfinite(value):
            return {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
        case datetime():
            return format_time(value)
        case tuple() | list() | frozenset():
            return [_plain(item) for item in value]
        case str():
            return redact(str(value))
        case _:
            return value


def _as_word(value: object) -> str:
    """Return a value of logfmt, quoted where needed."""
    if isinstance(value, list) and all(isinstance(item, str) and "," not in item for item in value):
        value = ",".join(value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    is_bare = text.isprintable() and not any(character in ' "=\\' for character in text)
    return text if is_bare else _escape(json.dumps(text, ensure_ascii=False))


def _escape(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else _escape_one(one) for one in text)


def _escape_one(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at] << 8 | units[at + 1]:04x}" for at in range(0, len(units), 2))


Listener = Callable[[Emitted], None]


class _Process:
    """The receivers of this process's events."""

    log: Listener | None = None
    """None: Python's `logging`."""
    listeners: tuple[Listener, ...] = ()
    lock = threading.Lock()


def emit(event: Event) -> None:
    """Report an event, from any thread."""
    deliver(emitted_now(event))


def emitted_now(event: Event) -> Emitted:
    """Return an event as this thread emits it now."""
    return Emitted(datetime.now(UTC), event, current_scope())


def deliver(emitted: Emitted) -> None:
    """Give an event, which may be another process's, to the log and to all listeners."""
    (_Process.log or log_as_usual)(emitted)
    for listener in _Process.listeners:
        listener(emitted)


def log_nothing(_emitted: Emitted) -> None:
    """Log nothing, where the command prints or shows events itself."""


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Call a function with each event during the block, in the thread that emits it."""
    with _Process.lock:
        _Process.listeners = (*_Process.listeners, listener)
    try:
        yield
    finally:
        with _Process.lock:
            _Process.listeners = tuple(one for one in _Process.listeners if one is not listener)


def use_log(log: Listener | None) -> Listener | None:
    """Set the function that writes events, instead of Python's `logging` (None); return the earlier one."""
    before, _Process.log = _Process.log, log
    return before


log = logging.getLogger("rowtide.events")


def log_as_usual(emitted: Emitted) -> None:
    """Log an event as a record, whose message is its name and fields, and which has it as the attribute `event`."""
    severity = emitted.event.level.severity
    if log.isEnabledFor(severity):
        log.log(severity, "%s", write_message(record_of(emitted)), extra={"event": emitted.event})
