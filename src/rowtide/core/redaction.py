"""What errors, logs and histories must not show: keys and values of rows, passwords and tokens."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TypeAlias, TypeVar

MASK = "***"
SECRET_PARAMETERS = frozenset(
    {"password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key"}
)
"""libpq's connection parameters that are secrets."""

_IN_USERINFO = re.compile(r"(?P<before>\w[\w+.-]*://[^\s:/?#@]*:)\S+@")
"""Greedy, so that a password with an unescaped @ or / is masked entirely."""
_IN_PARAMETER = re.compile(
    rf"(?P<before>\b(?:{'|'.join(sorted(SECRET_PARAMETERS))}|pgpassword|aws_secret_access_key)\s*=\s*)"
    r"(?:'(?:[^'\\]|\\.)*'?|[^\s&'\",;]+)",
    re.IGNORECASE,
)


_OF_STORES = (
    r"[\w.-]*(?:secret[.-]?(?:access[.-])?key|account\.key|session[.-]token|sas\.(?:fixed\.)?token)[\w.-]*|accountkey"
)
"""Settings of object stores: Hadoop's (`fs.s3a.secret.key`, `fs.azure.account.key.NAME.dfs…`), and Azure's own."""
_IN_SETTING = re.compile(
    rf"(?P<before>\b(?:{_OF_STORES}|sig|x-amz-(?:signature|credential|security-token))[\"']?\s*[=:]\s*)"
    r"(?:'[^']*'?|\"[^\"]*\"?|[^\s&'\",;]+)",
    re.IGNORECASE,
)


def redact(text: str) -> str:
    """Return text with `***` for passwords in URLs and libpq's keyword strings, and for keys of object stores."""
    if "=" not in text and ":" not in text:
        # Every pattern needs one of these characters; the patterns are slow on long words.
        return text
    for pattern in (_IN_USERINFO, _IN_PARAMETER, _IN_SETTING):
        text = pattern.sub(lambda found: found["before"] + MASK + "@" * found[0].endswith("@"), text)
    return text


RowKey: TypeAlias = str
"""A row's key: hidden entirely."""
Said: TypeAlias = str
"""A message about a row from a database, a driver or the user's program: only parts that quote no value are shown."""
Result = TypeVar("Result")
Quoted: TypeAlias = str
"""The text of another rowtide error, in which values were hidden or not when it was raised. Logs omit it, since they
never contain keys.
"""
KINDS = ("RowKey", "Said", "Quoted")
"""The names of the types above, as annotations have them."""

HIDING = "ROWTIDE_HIDE_KEYS"
"""The environment variable that hides keys and values in a process and its children, if it is 1."""

_lock = threading.Lock()
_runs: list[int] = []
"""The threads of active `hiding` blocks. Meanwhile every other thread of the process hides keys too."""
_earlier: list[str | None] = []
"""The environment variable's value before the first of these blocks."""


def are_hidden() -> bool:
    """Return whether keys and values are hidden in this process."""
    return os.environ.get(HIDING) == "1"


@contextmanager
def hiding(*, wanted: bool) -> Iterator[None]:
    """If `wanted`, hide keys and values in this process and in those that it starts meanwhile.

    An error of rowtide's leaves the block without its causes, because a driver's message may contain values.
    """
    if not wanted:
        yield
        return
    _begin()
    try:
        yield
    except Exception as error:
        # Not by class: this module is below every module that defines errors.
        if hasattr(error, "row_fields"):
            error.__cause__ = error.__context__ = None
        raise
    finally:
        _end()


def hiding_alike(work: Callable[[int], Result]) -> Callable[[int], Result]:
    """Wrap a function for another process, such as a Spark task, so that it hides keys and values if this process
    does.
    """
    wanted = are_hidden()

    def run(argument: int) -> Result:
        with hiding(wanted=wanted):
            return work(argument)

    return run


def shown_key(key: str) -> str:
    """Return a key, or the mask if keys are hidden."""
    return MASK if are_hidden() else key


def shown(text: str) -> str:
    """Return the message of a database or program about a row; while values are hidden, only the part that quotes none.

    Messages are recognised by their English beginnings. Of any other message, which may come from a trigger, nothing is
    shown.
    """
    return without_row("Said", text) if are_hidden() else text


def as_shown(kind: str, value: object) -> object:
    """Return the value of an error's field as it may be shown, given the name of the field's type."""
    return value if value is None or kind == "Quoted" or not are_hidden() else without_row(kind, str(value))


def without_row(kind: str, text: str) -> str:
    """Return the text of a field without values of rows, given the name of its type, whether or not values are
    hidden.
    """
    if kind == "Quoted":
        head, colon, said = text.partition(": ")
        return f"{head}{colon}{without_row('Said', said)}" if colon else text
    known = _without_values().match(text) if kind == "Said" else None
    return known[0] if known is not None else MASK


def _begin() -> None:
    with _lock:
        if not _earlier:
            _earlier.append(os.environ.get(HIDING))
            os.environ[HIDING] = "1"
        _runs.append(threading.get_ident())


def _end() -> None:
    with _lock:
        _runs.remove(threading.get_ident())
        if not _runs and _earlier.pop() is None:
            del os.environ[HIDING]


_NAME = r'"[^"]*"'
_MESSAGES = (
    # PostgreSQL, constraints and types.
    rf"duplicate key value violates unique constraint {_NAME}",
    rf"null value in column {_NAME}(?: of relation {_NAME})? violates not-null constraint",
    rf"new row for relation {_NAME} violates (?:check constraint {_NAME}|partition constraint)",
    rf"(?:insert or update|update or delete) on table {_NAME} violates foreign key constraint {_NAME}",
    rf"conflicting key value violates exclusion constraint {_NAME}",
    rf"no partition of relation {_NAME} found for row",
    r"value for domain [^\s:]+ violates check constraint \"[^\"]*\"",
    r"domain \S+ does not allow null values",
    r"value too long for type [a-z ]+\(\d+\)",
    r"(?:integer|bigint|smallint) out of range",
    r"numeric field overflow",
    r"division by zero",
    rf"new row violates row-level security policy(?: {_NAME})? for table {_NAME}",
    rf"cannot insert a non-DEFAULT value into column {_NAME}",
    r"invalid byte sequence for encoding \"[^\"]*\"",
    r"character with byte sequence",
    # PostgreSQL, other errors of rowtide's own statements.
    rf"permission denied for [a-z ]+(?: {_NAME}| \S+)?",
    r"must be (?:owner of|superuser|able to)[^:\"]*",
    rf"(?:relation|table|schema|type|role|database|constraint|index|publication|slot) {_NAME} does not exist",
    rf"column {_NAME} of relation {_NAME} does not exist",
    rf"cannot (?:truncate|drop|alter) [a-z ]+{_NAME}?",
    r"deadlock detected",
    r"could not serialize access due to [a-z/ ]+",
    r"canceling statement due to [a-z ]+",
    r"canceling autovacuum task",
    r"could not (?:extend|write|read|open) (?:file|to file|from file|directory)[^:]*: [A-Za-z ]+",
    r"out of (?:memory|shared memory)",
    r"too many clients already|sorry, too many clients already",
    r"the database system is [a-z ]+",
    # SQLite.
    r"(?:UNIQUE|NOT NULL|PRIMARY KEY) constraint failed(?:: [\w., ]+)?",
    r"(?:CHECK|FOREIGN KEY) constraint failed",
    r"cannot store [A-Z]+ value in [A-Z]+ column \S+",
    r"datatype mismatch",
    r"string or blob too big",
    r"no such (?:table|column|function): [\w.]+",
    r"database (?:is locked|disk image is malformed|or disk is full)",
    r"attempt to write a readonly database",
    r"disk I/O error",
    r"unable to open database file",
    # Python and the file system.
    r"'[\w-]+' codec can't (?:de|en)code",
    r"\[Errno \d+\] [A-Z][A-Za-z ]+",
    r"(?:Permission denied|No such file or directory|No space left on device|Read-only file system)",
    # rowtide.
    r"it was about one row and changed -?\d+",
    r"it is outside of the subscriber's partition",
    r"a text in the row is not valid UTF-8",
    r"its parent in [^,]+",
    r"rows of \S+ reference it",
    r"the row's logical record was changed meanwhile, or another row of it was refused",
    r"two nodes inserted a row with the same primary key",
    r"the row has a column of type \S+",
)
"""The beginnings of messages that quote no value of a row: only names can follow the fixed words."""


@cache
def _without_values() -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{message})" for message in _MESSAGES))
