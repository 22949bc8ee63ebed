"""Conflicts of delivered changes with other writes at a subscriber, and decisions about them. Pure.

The other writes are those of the subscriber's own sessions and of other publishers. Kinds are PostgreSQL 18's
(documentation, "Logical Replication: Conflicts"). A change of another origin counts only if the row is not what the
delivered change was made of: what was read there before it was changed is no conflict.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from rowtide.core.operations import Operation
from rowtide.core.values import frozen


class ConflictKind(StrEnum):
    """What a delivered change finds at the subscriber."""

    INSERT_EXISTS = "insert_exists"
    """Another row has the key, or unique values, of the inserted one."""
    UPDATE_ORIGIN_DIFFERS = "update_origin_differs"
    """The row was changed by others, and is not what was updated."""
    UPDATE_EXISTS = "update_exists"
    """Another row has the key, or unique values, of the updated one."""
    UPDATE_MISSING = "update_missing"
    DELETE_ORIGIN_DIFFERS = "delete_origin_differs"
    """The row was changed by others, and is not what was deleted."""
    DELETE_MISSING = "delete_missing"
    MULTIPLE_UNIQUE_CONFLICTS = "multiple_unique_conflicts"
    """Several rows have unique values of the inserted or updated one."""


class Resolver(StrEnum):
    """What is done about a conflict."""

    NONE = "none"
    """Conflicts are not looked for."""
    STOP = "stop"
    """The subscription stops."""
    APPLY = "apply"
    """The delivered change is made, whatever is there."""
    SKIP = "skip"
    """What is there stays."""
    LAST_COMMIT_TIME = "last-commit-time"
    """The change that committed later stays; at the same time, the one of the greater originator."""


class Resolution(StrEnum):
    """What was done about a conflict."""

    STOPPED = "stopped"
    APPLIED = "applied"
    SKIPPED = "skipped"


@frozen(order=True)
class Version:
    """When a row's last change committed, in microseconds since 1970, and in which database."""

    committed_us: int
    originator: str


@frozen
class PresentRow:
    """A row at the subscriber, with the published values as texts.

    `version` None: not known. `is_as_before`: it is what the change was made of. `is_own`: this transaction wrote it.
    """

    values: tuple[str | None, ...]
    version: Version | None = None
    is_as_before: bool = False
    is_own: bool = False


@frozen
class Found:
    """What a change finds: the row of its key, and other rows with unique values of its new row.

    The key is that before the change, of an insert the new one. `deleted`: when the key was deleted, if it is known;
    `released`: the last version that had one of its unique values and has it no longer.
    """

    target: PresentRow | None = None
    others: Sequence[PresentRow] = ()
    deleted: Version | None = None
    released: Version | None = None


def detect(operation: Operation, found: Found) -> ConflictKind | None:
    """Return the conflict of an insert, an update or a delete; None if there is none."""
    match operation:
        case Operation.INSERT:
            return _detect_duplicate(ConflictKind.INSERT_EXISTS, len(found.others) + (found.target is not None))
        case Operation.UPDATE:
            if found.target is None:
                return ConflictKind.UPDATE_MISSING
            duplicate = _detect_duplicate(ConflictKind.UPDATE_EXISTS, len(found.others))
            return duplicate or _detect_change(ConflictKind.UPDATE_ORIGIN_DIFFERS, found.target)
        case _:
            if found.target is None:
                return ConflictKind.DELETE_MISSING
            return _detect_change(ConflictKind.DELETE_ORIGIN_DIFFERS, found.target)


def _detect_duplicate(kind: ConflictKind, rows: int) -> ConflictKind | None:
    return None if rows == 0 else kind if rows == 1 else ConflictKind.MULTIPLE_UNIQUE_CONFLICTS


def _detect_change(kind: ConflictKind, target: PresentRow) -> ConflictKind | None:
    return None if target.is_own or target.is_as_before else kind


_ALWAYS = {
    Resolver.STOP: Resolution.STOPPED,
    Resolver.APPLY: Resolution.APPLIED,
    Resolver.SKIP: Resolution.SKIPPED,
}


@frozen
class Decision:
    """What is done about a change, and the conflict if there is one.

    By last commit time `displaced` rows, which have unique values of the change's row, give way to it. `is_hidden`: its
    row itself gives way; it is the last of its key, and not there.
    """

    resolution: Resolution
    kind: ConflictKind | None
    displaced: Sequence[PresentRow] = ()
    is_hidden: bool = False


def decide(resolver: Resolver, operation: Operation, found: Found, incoming: Version | None) -> Decision:
    """Return what is done about a change, whose version only the last commit time needs."""
    kind = detect(operation, found)
    if resolver is Resolver.LAST_COMMIT_TIME:
        return _decide_last(operation, found, incoming, kind)
    return Decision(Resolution.APPLIED if kind is None else _ALWAYS[resolver], kind)


def _decide_last(operation: Operation, found: Found, incoming: Version | None, kind: ConflictKind | None) -> Decision:
    """Keep the last version of each key, its absence included, and of rows of several keys with the same unique value
    the last: so all databases come to the same rows.

    A row gives way to every later one that ever had its value, even if that is gone, or was never written because it
    had to give way itself. Otherwise the order of arrival would decide. A version that is not known is older than any.
    """
    assert incoming is not None
    displaced = tuple(row for row in found.others if row.version is None or row.version < incoming)
    is_hidden = len(displaced) < len(found.others) or _is_later(found.released, incoming)
    if is_hidden and kind is None:
        kind = ConflictKind.INSERT_EXISTS if operation is Operation.INSERT else ConflictKind.UPDATE_EXISTS
    present = found.target.version if found.target is not None else None
    if _is_later(present, incoming) or _is_later(found.deleted, incoming):
        has_lost = found.target is not None and operation is not Operation.INSERT
        return Decision(Resolution.SKIPPED, kind or (_CHANGED[operation] if has_lost else None), displaced)
    return Decision(Resolution.SKIPPED if is_hidden else Resolution.APPLIED, kind, displaced, is_hidden)


def _is_later(version: Version | None, than: Version) -> bool:
    return version is not None and version > than


_CHANGED = {
    Operation.UPDATE: ConflictKind.UPDATE_ORIGIN_DIFFERS,
    Operation.DELETE: ConflictKind.DELETE_ORIGIN_DIFFERS,
}
