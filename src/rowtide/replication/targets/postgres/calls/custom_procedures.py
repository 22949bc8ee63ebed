"""Custom procedures, checked when a subscription is added, not when the first change arrives."""

from __future__ import annotations

import re

import psycopg
from psycopg import pq

from rowtide.core.operations import Operation
from rowtide.databases.postgres.errors import translated
from rowtide.databases.postgres.functions import USERS_PATH
from rowtide.replication.articles.articles import Article
from rowtide.replication.errors.subscribing import ProcedureEndsTransaction, ProcedureUnfit
from rowtide.replication.targets.postgres.calls.procedures import (
    parameters_of,
)
from rowtide.replication.targets.postgres.calls.statements import resolving

_NOT_CODE = re.compile(r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"", re.DOTALL)
_ENDS_TRANSACTION = re.compile(r"(?:^|;|\bbegin|\bthen|\belse|\bloop)\s*(commit|rollback)\b", re.IGNORECASE)


def require_custom(connection: psycopg.Connection, article: Article) -> None:
    """Raise `ProcedureUnfit` or `ProcedureEndsTransaction` for a custom procedure that cannot be called.

    The server itself resolves a call with the published types.
    """
    for operation in (Operation.INSERT, Operation.UPDATE, Operation.DELETE):
        procedure = article.command(operation).procedure
        if procedure is not None:
            wanted = ", ".join(" ".join(parameter) for parameter in parameters_of(article, operation))
            refusal = _refusal(connection, resolving(article, operation))
            if refusal is not None:
                raise ProcedureUnfit(procedure, operation.name.lower(), wanted, refusal)
            _require_no_end(connection, procedure)


def _refusal(connection: psycopg.Connection, call: str) -> str | None:
    with translated(), connection.transaction() as finding:
        connection.execute(USERS_PATH)
        result = connection.pgconn.prepare(b"", call.encode())
        # The path is as before then.
        raise psycopg.Rollback(finding)
    if result.status == pq.ExecStatus.COMMAND_OK:
        return None
    return (result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or b"").decode(errors="replace")


def _require_no_end(connection: psycopg.Connection, procedure: str) -> None:
    """Raise `ProcedureEndsTransaction`: a procedure runs within its batch's transaction."""
    with translated():
        rows = connection.execute(_SOURCES, (procedure,)).fetchall()
    for (source,) in rows:
        found = _ENDS_TRANSACTION.search(_NOT_CODE.sub(" ", source))
        if found is not None:
            raise ProcedureEndsTransaction(procedure, found[1].lower())


# Of all procedures of the name: which one a call finds, the server alone knows.
_SOURCES = """
select p.prosrc from pg_proc p, parse_ident(%s) name where p.proname = name[cardinality(name)]
"""
