"""What it means that a PostgreSQL subscriber refuses a call. Pure."""

from __future__ import annotations

from rowtide.core.lsn import CommitLsn
from rowtide.databases.postgres.encodings import can_encode
from rowtide.databases.postgres.errors import find_outage
from rowtide.replication.articles.articles import Article
from rowtide.replication.distribution.calls.arguments import Arguments
from rowtide.replication.distribution.calls.ordered import ProcedureCall
from rowtide.replication.errors.delivery import CommandError, CommandRefused, RowNotFound
from rowtide.replication.targets.postgres.calls import procedures
from rowtide.replication.targets.postgres.delivery.pipeline import FailedStatement

_ROW_NOT_FOUND = "20598"
_CHARACTER_NOT_HELD = "22P05"
_TOO_LARGE = ("54000", "XX000")
"""SQLSTATEs for a row that exceeds the server's memory allocation limit."""
LARGE_BYTES = 1 << 25


def require_order(refused: FailedStatement) -> None:
    """Raise the server's own failures, such as a full disk, which no command caused.

    A retry needs a new session.
    """
    outage = find_outage(refused.sqlstate, refused.message)
    if outage is not None:
        raise outage


def is_too_large(refused: FailedStatement, call: ProcedureCall) -> bool:
    """Return whether a call was refused for the size of its values."""
    return refused.sqlstate in _TOO_LARGE and size_of(call.arguments) >= LARGE_BYTES


def explain_call(refused: FailedStatement, call: ProcedureCall, codec: str | None) -> CommandError:
    """Return the error of a refused call; `codec` is of the subscriber's encoding."""
    article, operation, arguments = call.article, call.operation, call.arguments
    table, key = article.qualified_name, procedures.key_of(article, operation, arguments)
    command, reason = operation.name.lower(), refused.message
    if refused.sqlstate == _ROW_NOT_FOUND:
        return RowNotFound(CommitLsn(call.lsn), call.seqval, table, key, command)
    if refused.sqlstate == _CHARACTER_NOT_HELD:
        reason += _name_columns(article, arguments, codec)
    return CommandRefused(CommitLsn(call.lsn), call.seqval, table, key, command, refused.sqlstate, reason)


def size_of(arguments: Arguments) -> int:
    """Return the number of bytes of a call's arguments."""
    return sum(len(value) for value in arguments if value is not None)


def _name_columns(article: Article, arguments: Arguments, codec: str | None) -> str:
    """Name the columns with values that the subscriber's encoding lacks, which the server does not do."""
    columns = article.columns
    named = dict.fromkeys(
        columns[place % len(columns)].name
        for place, value in enumerate(arguments)
        if value is not None and not can_encode(codec, value.decode(errors="ignore"))
    )
    return f", in column {', '.join(named)}" if named else ""
