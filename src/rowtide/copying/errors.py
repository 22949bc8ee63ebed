"""Errors of copying tables."""

from __future__ import annotations

from rowtide.core.errors import Retryable, RowtideError
from rowtide.core.redaction import Said


class CopiedTableAltered(Exception):
    """A table that is copied, or one of its columns, was renamed: what would be read is not what was to be copied.

    `error` is what to raise unless the alteration can be followed.
    """

    def __init__(self, error: RowtideError) -> None:
        super().__init__(str(error))
        self.error = error


class CopiedTableUnreadable(RowtideError, number=4200):
    """A table could not be read for a copy."""

    fact = "table {table} could not be copied: {reason}"
    hint = "Grant select on it to the agent's role. If the table was altered, repeat the copy."
    table: str
    reason: Said


class CopiedTableDropped(RowtideError, number=4201):
    """A table that is copied was dropped."""

    fact = "the table with oid {source_id} was dropped while it was copied"
    hint = "No action is needed: its copy ends."
    source_id: int


class CopiedTableLocked(Retryable, number=4202):
    """A table that is copied is locked by another session, which alters or truncates it."""

    fact = "the table with oid {source_id} is locked by a session that alters or truncates it, or waits to"
    hint = "It is copied once that session has committed."
    source_id: int


class CopiedTableNotOwned(RowtideError, number=4205):
    """A table cannot be read without running its owner's code with the rights of rowtide's role."""

    fact = "planning a query of table {table} calls {called}, which belongs to {author}, with the rights of {role}"
    hint = "Run `grant {owner} to {role}`: the table is then read as its owner. Or let rowtide connect as the owner."
    table: str
    owner: str
    called: str
    author: str
    role: str
