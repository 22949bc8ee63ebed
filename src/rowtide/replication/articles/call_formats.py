"""Call formats: how an article's changes are passed to a subscriber, as SQL Server documents them, or as statements.

A format is a sequence of parts. Generated procedures, the check of custom ones and the encoding of changes all follow
it. Source: documents 003, "call syntax"; specification 2.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, StrEnum
from typing import Any

from rowtide.core.operations import Operation
from rowtide.core.options import WordUnknown, member_of
from rowtide.core.values import frozen
from rowtide.replication.errors.publishing import CommandInvalid, UpdatableCallRefused


class KeyUpdates(StrEnum):
    """How an update that changes a row's key reaches the subscriber."""

    UPDATE = "update"
    DELETE_INSERT = "delete-insert"
    """As SQL Server's deferred updates: rows that reference the row by a cascading foreign key are deleted too."""


class CallFormat(StrEnum):
    """How one operation of an article reaches the subscriber."""

    CALL = "CALL"
    SCALL = "SCALL"
    MCALL = "MCALL"
    XCALL = "XCALL"
    SQL = "SQL"
    """A statement instead of a procedure call."""
    NONE = "NONE"
    """Not propagated."""


class ArgumentGroup(Enum):
    """A group of arguments, one per column: all published columns, or the key's."""

    NEW = "new"
    """The values after the change, c1 to cn."""
    CHANGED = "changed"
    """As NEW; null where the bitmap says that the column did not change."""
    OLD_KEY = "old key"
    """The key before the change, pkc1 to pkcm."""
    OLD = "old"
    """The values before the change."""
    BITMAP = "bitmap"
    """One argument: which columns changed."""


@frozen
class Command:
    """How an operation is propagated: a format, and the custom procedure to call; None for the generated one."""

    call_format: CallFormat
    procedure: str | None = None

    def __str__(self) -> str:
        return f"{self.call_format} {self.procedure}" if self.procedure is not None else str(self.call_format)


DEFAULTS: Mapping[Operation, Command] = {
    Operation.INSERT: Command(CallFormat.CALL),
    Operation.UPDATE: Command(CallFormat.SCALL),
    Operation.DELETE: Command(CallFormat.CALL),
}

_PARTS: Mapping[tuple[Operation, CallFormat], tuple[ArgumentGroup, ...]] = {
    (Operation.INSERT, CallFormat.CALL): (ArgumentGroup.NEW,),
    (Operation.UPDATE, CallFormat.CALL): (ArgumentGroup.NEW, ArgumentGroup.OLD_KEY),
    (Operation.UPDATE, CallFormat.SCALL): (ArgumentGroup.CHANGED, ArgumentGroup.OLD_KEY, ArgumentGroup.BITMAP),
    (Operation.UPDATE, CallFormat.MCALL): (ArgumentGroup.NEW, ArgumentGroup.OLD_KEY, ArgumentGroup.BITMAP),
    (Operation.UPDATE, CallFormat.XCALL): (ArgumentGroup.OLD, ArgumentGroup.NEW),
    (Operation.DELETE, CallFormat.CALL): (ArgumentGroup.OLD_KEY,),
    (Operation.DELETE, CallFormat.XCALL): (ArgumentGroup.OLD,),
    # A statement takes what the plain call does.
    (Operation.INSERT, CallFormat.SQL): (ArgumentGroup.NEW,),
    (Operation.UPDATE, CallFormat.SQL): (ArgumentGroup.NEW, ArgumentGroup.OLD_KEY),
    (Operation.DELETE, CallFormat.SQL): (ArgumentGroup.OLD_KEY,),
}
_OF_UPDATABLE = "VCALL"
_WITHOUT_PROCEDURE = (CallFormat.SQL, CallFormat.NONE)


def parts_of(operation: Operation, call_format: CallFormat) -> tuple[ArgumentGroup, ...]:
    """Return the parts of an operation's format, in order.

    Raises `KeyError` for a format that the operation does not have.
    """
    return _PARTS[operation, call_format]


def formats_of(operation: Operation) -> tuple[CallFormat, ...]:
    """Return the formats that an operation has."""
    return (*(call_format for known, call_format in _PARTS if known is operation), CallFormat.NONE)


def read_commands(given: Mapping[Any, Any]) -> Mapping[Operation, Command]:
    """Return commands by their operations; both may be given as texts. Raises as `parse_command`, and `WordUnknown`."""
    return {
        (operation := _read_operation(key)): parse_command(operation, str(command)) for key, command in given.items()
    }


def _read_operation(given: object) -> Operation:
    found = member_of(Operation, given, "commands")
    if found not in DEFAULTS:
        raise WordUnknown("commands", repr(given), "insert, update or delete")
    return found


def parse_command(operation: Operation, text: str) -> Command:
    """Parse a command: a format, and optionally a custom procedure. Raises `CommandInvalid`, `UpdatableCallRefused`."""
    word, _, procedure = text.strip().partition(" ")
    if word.upper() == _OF_UPDATABLE:
        raise UpdatableCallRefused
    formats = formats_of(operation)
    found = next((known for known in formats if known == word.upper()), None)
    name = procedure.strip() or None
    if found is None or (name is not None and found in _WITHOUT_PROCEDURE):
        raise CommandInvalid(text, operation.name.lower(), ", ".join(formats))
    return Command(found, name)
