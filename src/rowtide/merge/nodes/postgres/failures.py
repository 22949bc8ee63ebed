"""What the server's errors mean for a merge."""

from __future__ import annotations

import psycopg

from rowtide.core.formats import FormatNewer
from rowtide.databases.postgres.errors import describe, translate
from rowtide.databases.postgres.functions import recorded_definition
from rowtide.databases.postgres.owners import DEFERRED
from rowtide.databases.postgres.quoting import quote_body, quote_literal, quote_qualified
from rowtide.merge.articles import Subscription
from rowtide.merge.definitions import SCHEMA, subscriptions
from rowtide.merge.errors.nodes import DeferredCodeOfOwner, NodeBusy, SessionReplaced
from rowtide.merge.errors.rows import NOT_UTF_8, RowOutsidePartition, RowsRefused
from rowtide.merge.nodes.postgres.metadata.completing import FORMAT

OF_ROWS = ("22", "23", "42", "44", "0A", "P0", "38")
"""SQLSTATE classes of errors about a row: its values, constraints, a user's trigger."""
NO_RIGHT = "42501"
"""Of the same class as errors about a row, but mostly about the role; a user's trigger may raise it for a row."""
LOCKED = "55P03"
"""SQLSTATE of a row that another transaction has locked for too long."""
OUTSIDE = "RT819"
"""SQLSTATE of ours: a row is outside of the partition that it has to be in."""
UNKNOWN_LINES = "RT818"
"""SQLSTATE of ours: the log has entries of tables that were not expected."""
_BUSY = ("40001", "40P01", "55P03")
"""SQLSTATEs of conflicts with other sessions."""
_RAISE = "exec_stmt_raise"
"""The server's function that raises what a user's trigger does."""
_REPLACED = "RT817"
"""SQLSTATE of ours: another synchronisation has begun."""
_MIGRATED = "RT820"
"""SQLSTATE of ours: the node's metadata were migrated meanwhile; the message is the database, the detail the format."""


class UnexpectedLines(Exception):
    """The log has entries of tables that were not expected."""


def failure(error: Exception, subject: str, node: str) -> Exception:
    """Return our error for one that was raised at a node while working on a subject, often an article."""
    if isinstance(error, UnicodeError):
        return RowsRefused(subject, *NOT_UTF_8)
    if not isinstance(error, psycopg.Error):
        return RowsRefused(subject, type(error).__name__, " ".join(str(error).split()))
    reason, state = describe(error), error.sqlstate or ""
    if state == _REPLACED:
        return SessionReplaced(error.diag.message_primary or "")
    if state == _MIGRATED:
        found = int(error.diag.message_detail or 0)
        return FormatNewer(FORMAT.store, error.diag.message_primary or node, found, FORMAT.number)
    if state == UNKNOWN_LINES:
        return UnexpectedLines()
    if state == DEFERRED:
        return DeferredCodeOfOwner(subject, error.diag.message_primary or reason)
    if state == OUTSIDE:
        return RowOutsidePartition.of(subject)
    if state in _BUSY or error.diag.schema_name == SCHEMA:
        # What is known of a row was removed before it is inserted: another has inserted it since.
        return NodeBusy(node, reason)
    if state.startswith(OF_ROWS) and (state != NO_RIGHT or error.diag.source_function == _RAISE):
        return RowsRefused(subject, state, error.diag.message_primary or reason)
    return translate(error)


def require_session(subscription: Subscription) -> str:
    """Return the statement that fails if another synchronisation of a subscription has begun, or if an upgrade has
    migrated the metadata since they were accepted.
    """
    table = quote_qualified(SCHEMA, subscriptions.name)
    session = f"select session from {table} where subid = {quote_literal(subscription.subid)}"
    name = quote_literal(subscription.subscriber)
    failing = f"raise exception using errcode = '{_REPLACED}', message = {name}"
    definition = f"declare d text := {recorded_definition(SCHEMA)};"
    migrated = (
        f"raise exception using errcode = '{_MIGRATED}', message = current_database()::text, "
        r"detail = substring(d from '(?i)(\d+) as number')"
    )
    is_newer = rf"substring(d from '(?i)(\d+) as least_writer')::int > {FORMAT.number}"
    body = (
        f"{definition} begin if {is_newer} then {migrated}; end if; "
        f"if ({session}) is distinct from {subscription.session} then {failing}; end if; end"
    )
    return f"do {quote_body(body)}"
