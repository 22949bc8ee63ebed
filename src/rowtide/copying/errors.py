"""Errors of copying tables."""

from __future__ import annotations

from rowtide.core.errors import Retryable, RowtideError, numbered
from rowtide.core.row_values import Said


class CopiedTableAltered(Exception):
    """A table that is copied, or one of its columns, has another name than it had: what is read would be others'.

    `error` is what to raise unless the alteration can be followed.
    """

    def __init__(self, error: RowtideError) -> None:
        super().__init__(str(error))
        self.error = error


@numbered
class CopiedTableUnreadable(RowtideError):
    """A table could not be read for a copy."""

    number = 4200
    fact = "table {table} could not be copied: {reason}"
    hint = "Grant select on it to the agent's role. If the table was altered, repeat the copy."
    table: str
    reason: Said


@numbered
class CopiedTableDropped(RowtideError):
    """A table that is copied was dropped."""

    number = 4201
    fact = "the table with oid {source_id} was dropped while it was copied"
    hint = "Nothing is to be done: its copy ends."
    source_id: int


@numbered
class CopiedTableLocked(Retryable):
    """A table that is copied is locked by another session, which alters or truncates it."""

    number = 4202
    fact = "the table with oid {source_id} is locked by a session that alters or truncates it, or waits to"
    hint = "It is copied once that session has committed."
    source_id: int


@numbered
class CopiedTableNotOwned(RowtideError):
    """A table cannot be read without calling code of its owner's with the rights of rowtide's role."""

    number = 4205
    fact = "to plan a query of table {table} calls {called}, which belongs to {author}, with the rights of {role}"
    hint = "Run `grant {owner} to {role}`: the table is then read as its owner. Or let rowtide connect as the owner."
    table: str
    owner: str
    called: str
    author: str
    role: str
