"""The audit of a SQLite file: a table beside rowtide's other ones."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta

from rowtide.actions.entries import (
    FORMAT,
    TABLE,
    ActionEntry,
    ActionOutcome,
    ActionRequest,
    BegunAction,
)
from rowtide.databases.sqlite.catalogue import has_table
from rowtide.databases.sqlite.connect import open_url, path_of, write_transaction
from rowtide.databases.sqlite.errors import FileFailed, translated
from rowtide.databases.sqlite.guarding import format_creation, read_format

UNWRITABLE = (FileFailed,)
FORMAT_VIEW = f"{TABLE}_format"
_FORMATS_OF_OTHERS = ("MSmerge_format", "MSreplication_format", "__sysFormat")


def begin(url: str, request: ActionRequest, keep_days: int) -> BegunAction:
    """Commit the entry of an action, unless its id has one, and delete those that are too old.

    Raises `FileBusy`, `FileFailed`, and of another format.
    """
    with _opened(url) as connection:
        if not _is_used(connection):
            return BegunAction(None, is_audited=False)
        with write_transaction(connection):
            if has_table(connection, TABLE):
                FORMAT.require_writable(path_of(connection), read_format(connection, FORMAT_VIEW))
            for creation in CREATIONS:
                connection.execute(creation)
            is_new = connection.execute(_BEGIN, _values_of(request)).rowcount == 1
            if is_new:
                connection.execute(_PURGE, (_days_ago(keep_days),))
            return BegunAction(None if is_new else _find(connection, request.action_id), is_audited=True)


def end(url: str, action_id: str, outcome: ActionOutcome, result: str, error_number: int | None) -> None:
    """Commit the end of an action that has none."""
    with _opened(url) as connection, write_transaction(connection):
        connection.execute(_END, (outcome, _now(), result, error_number, action_id))


def purge(url: str, days: int) -> int:
    """Delete the entries that began more than a number of days ago; return how many."""
    with _opened(url) as connection:
        if not _is_there(connection):
            return 0
        with write_transaction(connection):
            return connection.execute(_PURGE, (_days_ago(days),)).rowcount


def find_entry(url: str, action_id: str) -> ActionEntry | None:
    """Return the entry of an id."""
    with _opened(url) as connection:
        return _find(connection, action_id) if _is_there(connection) else None


def list_entries(url: str, limit: int) -> Sequence[ActionEntry]:
    """Return the last entries, newest first; none where there is no audit."""
    with _opened(url) as connection:
        if not _is_there(connection):
            return ()
        return tuple(_entry(row) for row in connection.execute(_LIST, (limit,)))


@contextmanager
def _opened(url: str) -> Iterator[sqlite3.Connection]:
    with closing(open_url(url)) as connection, translated(path_of(connection)):
        yield connection


def _is_used(connection: sqlite3.Connection) -> bool:
    """Whether rowtide keeps anything in the file."""
    return any(read_format(connection, view) is not None for view in _FORMATS_OF_OTHERS)


def _is_there(connection: sqlite3.Connection) -> bool:
    if not has_table(connection, TABLE):
        return False
    FORMAT.require_readable(path_of(connection), read_format(connection, FORMAT_VIEW))
    return True


def _find(connection: sqlite3.Connection, action_id: str) -> ActionEntry | None:
    row = connection.execute(_FIND, (action_id,)).fetchone()
    return _entry(row) if row is not None else None


def _entry(row: Sequence[str]) -> ActionEntry:
    action_id, begun_at, actor, channel, action, subject, arguments, outcome, ended_at, result, number = row
    return ActionEntry(
        action_id=action_id,
        begun_at=datetime.fromisoformat(begun_at),
        actor=actor,
        channel=channel,
        action=action,
        subject=subject,
        arguments=arguments,
        outcome=ActionOutcome(outcome),
        ended_at=datetime.fromisoformat(ended_at) if ended_at is not None else None,
        result=result,
        error_number=int(number) if number is not None else None,
    )


def _values_of(request: ActionRequest) -> tuple[str, ...]:
    return (
        request.action_id,
        _now(),
        request.actor,
        request.channel,
        request.action,
        request.subject,
        request.arguments_json,
    )


def _now() -> str:
    return datetime.now(UTC).isoformat()


def _days_ago(days: int) -> str:
    return (datetime.now(UTC) - timedelta(days=days)).isoformat()


CREATIONS = (
    f"""create table if not exists {TABLE} (
    action_id text primary key,
    begun_at text not null,
    actor text not null,
    channel text not null,
    action text not null,
    subject text not null,
    arguments text not null,
    outcome text not null default 'begun',
    ended_at text,
    result text,
    error_number integer)""",
    format_creation(FORMAT_VIEW, FORMAT),
)
"""The statements that create the audit if it does not exist."""

_COLUMNS = "action_id, begun_at, actor, channel, action, subject, arguments, outcome, ended_at, result, error_number"
_BEGIN = f"""insert into {TABLE} (action_id, begun_at, actor, channel, action, subject, arguments)
values (?, ?, ?, ?, ?, ?, ?) on conflict do nothing"""
_END = f"""update {TABLE} set outcome = ?, ended_at = ?, result = ?, error_number = ?
where action_id = ? and ended_at is null"""
_PURGE = f"delete from {TABLE} where begun_at < ?"
_FIND = f"select {_COLUMNS} from {TABLE} where action_id = ?"
_LIST = f"select {_COLUMNS} from {TABLE} order by begun_at desc, action_id limit ?"
