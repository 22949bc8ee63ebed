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
        # What all patterns need: they take long for long words.
        return text
    for pattern in (_IN_USERINFO, _IN_PARAMETER, _IN_SETTING):
        text = pattern.sub(lambda found: found["before"] + MASK + "@" * found[0].endswith("@"), text)
    return text


RowKey: TypeAlias = str
"""A row's key: hidden whole."""
Said: TypeAlias = str
"""What a database, a driver or a program of the user's says of a row: only what quotes no value is shown."""
Result = TypeVar("Result")
Quoted: TypeAlias = str
"""What other errors of rowtide's say, hidden or not as they were made: logs, which never have keys, leave it out."""
KINDS = ("RowKey", "Said", "Quoted")
"""The names of the types above, as annotations have them."""

HIDING = "ROWTIDE_HIDE_KEYS"
"""The environment variable that hides keys and values in a process and its children, if it is 1."""

_lock = threading.Lock()
_runs: list[int] = []
"""The threads whose runs hide keys: other work of the process hides them meanwhile, too."""
_earlier: list[str | None] = []
"""What the environment said before the first of these runs."""


def are_hidden() -> bool:
    """Return whether keys and values are hidden in this process."""
    return os.environ.get(HIDING) == "1"


@contextmanager
def hiding(*, wanted: bool) -> Iterator[None]:
    """Hide keys and values, if that is wanted, in this process and in those that it starts meanwhile.

    An error of ours leaves the block without those that caused it: a driver's message has values, too.
    """
    if not wanted:
        yield
        return
    _begin()
    try:
        yield
    except Exception as error:
        # Not by class: this module is below all that have errors.
        if hasattr(error, "row_fields"):
            error.__cause__ = error.__context__ = None
        raise
    finally:
        _end()


def hiding_alike(work: Callable[[int], Result]) -> Callable[[int], Result]:
    """Return work for another process, such as a task of Spark, that hides keys and values if this process does."""
    wanted = are_hidden()

    def run(argument: int) -> Result:
        with hiding(wanted=wanted):
            return work(argument)

    return run


def shown_key(key: str) -> str:
    """Return a key, or the mark."""
    return MASK if are_hidden() else key


def shown(text: str) -> str:
    """Return what a database or a program says of a row; while values are hidden, as far as it quotes none.

    Messages are known by their beginnings, in English; of any other, which may be a trigger's own, nothing is shown.
    """
    return without_row("Said", text) if are_hidden() else text


def as_shown(kind: str, value: object) -> object:
    """Return the value of an error's field by the name of its type."""
    return value if value is None or kind == "Quoted" or not are_hidden() else without_row(kind, str(value))


def without_row(kind: str, text: str) -> str:
    """Return the text of a field as it is hidden, by the name of its type, whether values are hidden or not."""
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
    # PostgreSQL's of constraints and types.
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
    # Its others, of statements that are rowtide's.
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
    # SQLite's.
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
    # Python's and the file system's.
    r"'[\w-]+' codec can't (?:de|en)code",
    r"\[Errno \d+\] [A-Z][A-Za-z ]+",
    r"(?:Permission denied|No such file or directory|No space left on device|Read-only file system)",
    # rowtide's own.
    r"it was about one row and changed -?\d+",
    r"it is outside of the subscriber's partition",
    r"a text in the row is not valid UTF-8",
    r"its parent in [^,]+",
    r"rows of \S+ reference it",
    r"the row's logical record was changed meanwhile, or another row of it was refused",
    r"two nodes inserted a row with the same primary key",
    r"the row has a column of type \S+",
)
"""The beginnings of messages that quote no value of a row; a value in them would have to be a name."""


@cache
def _without_values() -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{message})" for message in _MESSAGES))
