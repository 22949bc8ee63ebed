"""PostgreSQL's errors as errors of rowtide; importable without the extra `postgres`."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rowtide.core.errors import Denied, Invalid, NotFound, Retryable, RowtideError
from rowtide.core.redaction import Said
from rowtide.databases.postgres.functions import OF_OTHERS

if TYPE_CHECKING:
    import psycopg
    from sqlalchemy.exc import DBAPIError, PendingRollbackError

    from rowtide.databases.postgres.denied import MissingGrant


class ConnectionFailed(Retryable, number=1101):
    """The server cannot be reached, or the connection broke."""

    fact = "no connection to the database: {reason}"
    hint = "Check the URL (--db or ROWTIDE_DB), that the server runs and has connections left, and its pg_hba.conf."
    reason: str


class HostNotAllowed(RowtideError, number=1169):
    """No line of the server's pg_hba.conf lets this role connect from here; a person has to change the file."""

    fact = "no line of the server's pg_hba.conf lets this role connect from here: {reason}"
    hint = """Add a line for the role, the database and this host to the server's pg_hba.conf, let the server reload its
        configuration, and start it again."""
    reason: str


NOT_CONNECTED = (ConnectionFailed, HostNotAllowed)
"""Errors of a server that cannot be reached, or refuses connections from here."""


class ServerSilent(ConnectionFailed, number=1130):
    """The server did not answer, although it was idle."""

    fact = "the server has not answered for {silence_s} s: {reason}"
    hint = """The network lost a message, or a device between the two ends keeps a dead connection: run it
        again. End a session that is named, with `select pg_terminate_backend(PID)`. On a network that is slower than 64
        kbit/s set `rowtide.silence_timeout`, in seconds."""
    silence_s: int


class TransactionsPooled(Invalid, number=1147):
    """The URL leads to a connection pooler in transaction mode, but the request needs a session of its own."""

    fact = "{place} is a connection pooler in transaction mode: locks, leases and settings need a session of their own"
    hint = """Let the pooler lend sessions (`pool_mode = session` for this database in pgbouncer.ini), or connect to the
        server itself. Commands that only read do without a session."""
    place: str


class ReplicationPooled(Invalid, number=1148):
    """The URL goes to a connection pooler, which does not pass on replication connections."""

    fact = "a connection pooler refused the replication connection: {reason}"
    hint = """Write the server's own address as `replication_url` of the database into the configuration file, and give
        the database by its name there: --db NAME."""
    reason: str


class WalLevelNotLogical(Invalid, number=1102):
    """The server's wal_level is below logical."""

    fact = "wal_level is {wal_level}, not logical"
    hint = "Run `alter system set wal_level = logical` as a superuser and restart the server."
    wal_level: str


class NoFreeSlot(RowtideError, number=1103):
    """max_replication_slots is used up."""

    fact = "the server has no free replication slot"
    hint = "Drop an unused slot, or raise max_replication_slots and restart the server."


class NoFreeSender(Retryable, number=1104):
    """max_wal_senders is used up."""

    fact = "the server has no free WAL sender"
    hint = "Stop an unused replication connection, or raise max_wal_senders and restart the server."


class NoReplicationRight(Denied, number=1105):
    """The server refused the role a replication connection."""

    fact = 'role "{role}" has no right to replicate'
    hint = """Let a superuser run `alter role {quoted} replication`; a managed service may give the right by a group,
        such as rds_replication."""
    role: str
    quoted: str
    """The role as SQL takes it."""


class RightMissing(Denied, number=1106):
    """The role lacks another privilege."""

    fact = "the server refused: {reason}"
    hint = "Grant the right, or connect as the owner of the database and its tables."
    reason: Said


class GrantMissing(RightMissing, number=1143):
    """The role lacks a privilege that a statement grants."""

    fact = "the server refused: {reason}"
    hint = "Run `{statement}` as {owner}, or connect as {owner}."
    statement: str
    owner: str


class AdministrationDenied(GrantMissing, number=1149):
    """The role lacks rights in what rowtide has made, which its owner and members of it administer."""

    fact = "the server refused: {reason}"
    hint = """To administer what {owner} owns, become a member: `{membership}`. To watch it, run `{statement}` as
        {owner}."""
    membership: str


class SchemaOfOthers(Denied, number=1127):
    """A schema of rowtide's, or a table in it, belongs to a role that could give it code."""

    fact = "{what} belongs to role {owner}: code that this role gives it would run with the rights of yours"
    hint = """Connect as that role; or give everything in the schema away with `alter schema ... owner to` and `alter
        table ... owner to`; or drop the schema if rowtide has not made it."""
    what: str
    owner: str


class TableNotFound(NotFound, number=22931):
    """The table does not exist (SQL Server: 22931)."""

    fact = "there is no table {name} in this database"
    hint = "Write it as schema.table, quoted as in SQL where the name needs it."
    name: str


class LockNotObtained(RowtideError, number=22840):
    """A lock was not granted within its timeout (SQL Server: 22840)."""

    fact = "table {table} stayed locked through {attempts} attempts of {timeout_s} s, by {holders}"
    hint = "End those transactions, prepared ones by `rollback prepared`, or run the command again at a quieter time."
    table: str
    attempts: int
    timeout_s: int
    holders: str


class TableHeld(RowtideError, number=1110):
    """One of many tables stayed in use until the wait ended."""

    fact = "table {table} was in use for {waited_s} s, by {holders}"
    hint = "End those transactions, or repeat the command later: tables that are enabled stay enabled."
    table: str
    waited_s: int
    holders: str


class ServerIsStandby(RowtideError, number=1108):
    """Changes can only be read from a primary."""

    fact = "the server is a standby, read-only"
    hint = "Connect to its primary: membership and identity can be changed only there."


class TextInvalid(Invalid, number=2152):
    """A SQL_ASCII database has names that are not UTF-8."""

    fact = "the server has text that is not valid in its encoding: {reason}"
    hint = """In a database with encoding SQL_ASCII, names must be UTF-8: rename that table or column. Values with other
        bytes are captured unchanged."""
    reason: Said


class UnexpectedSqlError(RowtideError, number=1109):
    """Any other error of the server."""

    fact = "the server refused a statement ({sqlstate}): {reason}"
    hint = "Run with --debug to see the statement."
    sqlstate: str
    reason: Said


class RowsHidden(Denied, number=1040):
    """Row-level security hides rows of a table that must be read in full."""

    fact = "row-level security keeps this role from a table's rows: {reason}"
    hint = """Run `alter role NAME bypassrls` for it as a superuser, or connect as a role that sees all rows. If the
        table keeps its own owner from rows, run `alter table NAME no force row level security`."""
    reason: Said


class StatementCancelled(Retryable, number=1041):
    """A statement was cancelled by another session.

    Timeouts of roles and databases do not apply to rowtide's sessions.
    """

    fact = "a statement was cancelled at the server: {reason}"
    hint = "Run the command again; another session called pg_cancel_backend, and the server's log says when."
    reason: Said


class WritesRefused(Retryable, number=1042):
    """Transactions are read-only."""

    fact = "the session is read-only: the server is a standby, or default_transaction_read_only is on"
    hint = """Connect to the primary; or find out why writing was disabled, such as a nearly full disk, and run `begin
        read write; alter database NAME reset default_transaction_read_only; commit`, or `alter role` if it is set for
        the role. Sessions that are opened afterwards may write."""


class ServerOutOfResources(Retryable, number=7180):
    """The server's disk or memory is exhausted or faulty."""

    fact = "the server ran out of resources ({sqlstate}): {reason}"
    hint = "Free disk space or memory on the server, or raise its limits. The statement is retried."
    sqlstate: str
    reason: Said


class TransactionAborted(Retryable, number=7181):
    """Another session's work ended the transaction: a deadlock, a serialization failure, a table dropped meanwhile."""

    fact = "the server rolled back a transaction because of another session's ({sqlstate}): {reason}"
    hint = "The transaction is retried; find out which program changes the same rows or tables."
    sqlstate: str
    reason: Said


_SESSION_ENDED = ("25P03", "25P04")
"""SQLSTATEs of timeouts that end the session; a pooler may set the timeouts again."""
_EXHAUSTED = ("53", "58")
"""SQLSTATE classes: insufficient resources, and system errors."""
_ABORTED = ("40001", "40P01")
_DROPPED_MEANWHILE = re.compile(r"could not open relation with OID|cache lookup failed for (relation|type|function)")
"""Errors (XX000) of catalogue functions for an object that was dropped while they waited for its lock."""
_ATTEMPT = re.compile(r'(?:, port \d+|on socket "[^"]*") failed:\s*(?:FATAL:\s*)?([^:]*)')
_NOT_ALLOWED = re.compile("no pg_hba.conf entry|pg_hba.conf rejects")
"""Messages of the server (28000) in English; in other languages the connection is retried."""
_POLICY = "would be affected by row-level security policy"


_OF_VALUES = ("22", "23", "44", "P0")
"""SQLSTATE classes of errors about values, or from users' code, whose detail may contain values of a row."""
_ROWS_IN_CONTEXT = ("COPY ", "with parameters")
"""How a context names the row that was copied, or the values of parameters (log_parameter_max_length_on_error)."""


def find_values(error: psycopg.Error) -> tuple[str, ...]:
    """Return the parts of a server error that may contain values of a row."""
    detail, context = error.diag.message_detail, error.diag.context
    if (error.sqlstate or "").startswith(_OF_VALUES):
        return tuple(filter(None, (detail, context)))
    return (context,) if context is not None and any(mark in context for mark in _ROWS_IN_CONTEXT) else ()


def find_values_behind(error: BaseException | None) -> Iterator[str]:
    """Return the parts that may contain values of a row, of all server errors in an error's chain."""
    import psycopg

    seen: set[int] = set()
    waiting = [error]
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        waiting += [one.__cause__, one.__context__]
        if isinstance(one, psycopg.Error):
            yield from find_values(one)


def describe(error: psycopg.Error) -> str:
    """Return the server's message in one line, without parts that may contain values of a row."""
    hides = error.diag.message_primary is not None and bool(find_values(error))
    return " ".join((error.diag.message_primary or "" if hides else str(error)).split())


def translate(error: psycopg.Error) -> RowtideError:
    """Return rowtide's error for a psycopg error."""
    import psycopg

    from rowtide.databases.postgres.silent_sessions import MISSING_GRANT, NotAnswered

    if isinstance(error, NotAnswered):
        return ServerSilent(error.reason, error.silence_s)
    reason = describe(error)
    sqlstate = error.sqlstate
    if sqlstate is None:
        is_of_connection = isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError))
        return translate_connection_text(reason) if is_of_connection else UnexpectedSqlError("none", reason)
    if sqlstate.startswith(("08", "57P")) or sqlstate in _SESSION_ENDED:
        return translate_connection_text(reason)
    if sqlstate == OF_OTHERS:
        return SchemaOfOthers(error.diag.message_primary or "", error.diag.message_detail or "")
    if sqlstate == "42501":
        missing: MissingGrant | None = getattr(error, MISSING_GRANT, None)
        if missing is not None and missing.membership is not None:
            return AdministrationDenied(reason, missing.statement, missing.owner, missing.membership)
        if missing is not None:
            return GrantMissing(reason, missing.statement, missing.owner)
        return RowsHidden(reason) if _POLICY in reason else RightMissing(reason)
    if sqlstate == "53400" and "replication slots" in reason:
        return NoFreeSlot()
    if sqlstate == "53300":
        return NoFreeSender()
    if sqlstate == "55000" and "wal_level" in reason:
        return WalLevelNotLogical("too low")
    if sqlstate == "22021":
        return TextInvalid(reason)
    return find_outage(sqlstate, reason) or UnexpectedSqlError(sqlstate, reason)


def find_outage(sqlstate: str, reason: str) -> RowtideError | None:
    """Return the error if the statement is not at fault, so that it can be retried unchanged; else None."""
    if sqlstate == "57014":
        return StatementCancelled(reason)
    if sqlstate == "25006":
        return WritesRefused()
    if sqlstate in _ABORTED or (sqlstate == "XX000" and _DROPPED_MEANWHILE.search(reason)):
        return TransactionAborted(sqlstate, reason)
    if sqlstate[:2] in _EXHAUSTED:
        return ServerOutOfResources(sqlstate, reason)
    return None


def translate_connection_text(reason: str) -> RowtideError:
    """Return rowtide's error for libpq's message about a connection that failed or was lost."""
    if "max_wal_senders" in reason:
        return NoFreeSender()
    # libpq tries each address of a host, with and without TLS: some addresses may merely be down.
    attempts = _ATTEMPT.findall(reason)
    if attempts and all(map(_NOT_ALLOWED.match, attempts)):
        return HostNotAllowed(reason)
    return ConnectionFailed(reason)


@contextmanager
def translated() -> Iterator[None]:
    """Raise rowtide's errors for those of the server, whether psycopg or SQLAlchemy raised them."""
    import psycopg

    try:
        yield
    except psycopg.Error as error:
        raise translate(error) from error
    except _sqlalchemy_errors() as error:
        if error.code == _LOST_BEFORE:
            raise ConnectionFailed("it was lost before") from error
        if isinstance(cause := getattr(error, "orig", None), psycopg.Error):
            raise translate(cause) from error
        raise


_LOST_BEFORE = "8s2b"
"""SQLAlchemy's code for the use of a connection that an earlier statement, perhaps of another thread, found broken."""


def _sqlalchemy_errors() -> tuple[type[DBAPIError | PendingRollbackError], ...]:
    """Return SQLAlchemy's errors of drivers and of lost connections; none if it was never imported."""
    module = sys.modules.get("sqlalchemy.exc")
    return (module.DBAPIError, module.PendingRollbackError) if module is not None else ()
