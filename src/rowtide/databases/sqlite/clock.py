"""The change clock of a SQLite file: which changes committed after an anchor.

Triggers run in programs that do not know rowtide, and cannot identify transactions. So they stamp rows with an epoch,
the begin sequence number (BSN), stored in one row; only an anchor, or a transaction of rowtide's own, ends an epoch.
SQLite has one writer at a time: everything committed before an anchor ended its epoch has that number or a lower one,
everything later a higher one, and commit order is begin order (CSN = BSN).
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from uuid import UUID

from rowtide.core.anchors import Anchor, UnknownAnchor
from rowtide.databases.sqlite.connect import IN_MEMORY, limits_of, open_file, path_of
from rowtide.databases.sqlite.errors import FileFailed
from rowtide.databases.sqlite.guarding import WRITING, create_flag, guard, writing

CLOCK_TABLE = "__sysClock"
ANCHORS_TABLE = "__sysAnchors"
ALL_SEEN = 2**63 - 1

_USERS = ("__sysOCSTrackedObjects", "MSmerge_log")
"""A table of each feature that stamps with the clock; it drops its own before the clock."""

BSN = f"(select __sysBsn from {CLOCK_TABLE})"
"""What a trigger stamps: the open epoch."""


def create(connection: sqlite3.Connection) -> None:
    """Create the clock if it does not exist, in the caller's transaction."""
    connection.execute(
        f"create table if not exists {CLOCK_TABLE} "
        "(__sysBsn integer not null, __sysContext text, __sysContextCsn integer)"
    )
    connection.execute(
        f"create table if not exists {ANCHORS_TABLE} "
        "(__sysId integer primary key, __sysCsn integer not null, __sysToken text not null, "
        "__sysTakenTime text not null)"
    )
    create_flag(connection)
    with writing(connection):
        connection.execute(f"insert into {CLOCK_TABLE} (__sysBsn) select 1 where not exists {BSN}")
    for table in (CLOCK_TABLE, ANCHORS_TABLE):
        guard(connection, table)


def drop(connection: sqlite3.Connection) -> None:
    """Drop the clock and all anchors, in the caller's transaction, if no feature and no trigger uses it any more."""
    used = (
        "select 1 from main.sqlite_schema where (type = 'trigger' and instr(sql, ?) and tbl_name <> ?) "
        "or (type = 'table' and name in (?, ?))"
    )
    if connection.execute(used, (CLOCK_TABLE, CLOCK_TABLE, *_USERS)).fetchone() is None:
        connection.execute(f"drop table if exists {CLOCK_TABLE}")
        connection.execute(f"drop table if exists {ANCHORS_TABLE}")
        connection.execute(f"drop table if exists {WRITING}")


def read(connection: sqlite3.Connection) -> int:
    """Return the open epoch's BSN. Raises `FileFailed` if a program has made something else of it."""
    row = connection.execute(f"select __sysBsn from {CLOCK_TABLE}").fetchone()
    if row is None or not isinstance(row[0], int) or not 0 < row[0] < ALL_SEEN:
        raise FileFailed(path_of(connection), f"{CLOCK_TABLE} has no number, or none that it can have")
    return row[0]


def end_epoch(connection: sqlite3.Connection) -> int:
    """End the open epoch, in the caller's write transaction; return the BSN of the next one."""
    ended = "__sysBsn = __sysBsn + 1, __sysContext = null, __sysContextCsn = null"
    with writing(connection):
        connection.execute(f"update {CLOCK_TABLE} set {ended}")
    return read(connection)


def set_context(connection: sqlite3.Connection, context: UUID, seen: Anchor | None) -> None:
    """Give the changes of the caller's write transaction a context, until its epoch ends.

    A row that others changed after `seen` gets none: a reader that excludes this context would miss their change too.
    """
    with writing(connection):
        connection.execute(
            f"update {CLOCK_TABLE} set __sysContext = ?, __sysContextCsn = ?",
            (str(context), ALL_SEEN if seen is None else seen.csn),
        )


def check(connection: sqlite3.Connection, anchor: Anchor) -> None:
    """Raise `UnknownAnchor` for an anchor of another history of the file, or one that was removed."""
    statement = f"select 1 from {ANCHORS_TABLE} where __sysCsn = ? and __sysToken = ?"
    if connection.execute(statement, (anchor.csn, anchor.token)).fetchone() is None:
        raise UnknownAnchor(anchor)


def take_anchor(connection: sqlite3.Connection, *, changed_since: Callable[[int], bool]) -> Anchor:
    """Return an anchor of everything committed, in the caller's write transaction.

    `changed_since` returns whether anything is stamped above a CSN. If nothing is since the last anchor, that anchor is
    returned and nothing is written.
    """
    last = _last_anchor(connection)
    if last is not None and not changed_since(last.csn):
        return last
    # The anchor has the number of the open epoch, which ends with it: every later change has a higher one.
    anchor = _put_anchor(connection, read(connection))
    end_epoch(connection)
    return anchor


def renew(connection: sqlite3.Connection, anchor: Anchor) -> Anchor:
    """Return an anchor of the same CSN that exists only if the caller's write transaction does.

    A reader that stores it is refused by a history without that transaction, for example after a restore. Raises
    `UnknownAnchor`.
    """
    check(connection, anchor)
    return _put_anchor(connection, anchor.csn)


def forget_anchors(connection: sqlite3.Connection, below_csn: int) -> None:
    """Remove anchors that every table refuses, in the caller's write transaction."""
    with writing(connection):
        connection.execute(f"delete from {ANCHORS_TABLE} where __sysCsn < ?", (below_csn,))


@contextmanager
def snapshot(writer: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """Yield a connection that sees exactly what is committed while `writer` holds the write lock.

    With WAL it is another connection, which keeps its snapshot after `writer` has committed, and blocks nobody.
    Otherwise readers and a committing writer exclude each other: it is `writer` itself, and blocks other writers until
    `writer` commits.
    """
    if not has_own_snapshots(writer):
        yield writer
        return
    with closing(open_file(path_of(writer), limits_of(writer))) as reader:
        # `begin` alone takes no snapshot: the first read does.
        reader.execute("begin")
        read(reader)
        yield reader


def has_own_snapshots(connection: sqlite3.Connection) -> bool:
    """Whether a second connection can read a snapshot while others write: in a file with WAL."""
    mode = connection.execute("pragma main.journal_mode").fetchone()[0]
    return path_of(connection) != IN_MEMORY and mode == "wal"


def _last_anchor(connection: sqlite3.Connection) -> Anchor | None:
    statement = f"select __sysCsn, __sysToken from {ANCHORS_TABLE} order by __sysCsn desc, __sysId limit 1"
    row = connection.execute(statement).fetchone()
    return None if row is None else Anchor(*row)


def _put_anchor(connection: sqlite3.Connection, csn: int) -> Anchor:
    anchor = Anchor(csn, secrets.token_hex(16))
    statement = f"insert into {ANCHORS_TABLE} (__sysCsn, __sysToken, __sysTakenTime) values (?, ?, datetime('now'))"
    with writing(connection):
        connection.execute(statement, (anchor.csn, anchor.token))
    return anchor
