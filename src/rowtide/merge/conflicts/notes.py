"""What people wrote about stored conflicts, and who decided: kept where the conflicts are.

The table is made with the first note. A note has the conflict's id and no value of a row that nobody wrote into it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from uuid import uuid4

from sqlalchemy import Connection, delete, insert, inspect, select, update

from rowtide.core.values import frozen
from rowtide.merge.definitions import (
    conflict_notes,
    conflicts_info,
    notes_metadata,
    replinfo,
)
from rowtide.merge.exchange_state import as_utc
from rowtide.merge.nodes.node import Node


@frozen
class ConflictNote:
    """A comment on a conflict, or a decision about it; of the other, `note` or `winner` is None."""

    conflict_id: str
    noted_at: datetime
    noted_by: str
    winner: str | None
    note: str | None


def add_note(
    node: Node,
    conflict_ids: Sequence[str],
    noted_by: str,
    *,
    winner: str | None = None,
    note: str | None = None,
) -> None:
    """Record a comment or a decision, in the caller's transaction; notes of conflicts that are gone go."""
    connection = node.connection
    if not _is_made(connection):
        # Another session may be about to make it: this row is written by one transaction at a time.
        connection.execute(update(replinfo).values(nickname=replinfo.c.nickname))
        if not _is_made(connection):
            node.tables.add(notes_metadata)
    known = select(conflicts_info.c.conflict_id)
    connection.execute(delete(conflict_notes).where(conflict_notes.c.conflict_id.not_in(known)))
    now = datetime.now(UTC)
    for conflict_id in conflict_ids:
        connection.execute(
            insert(conflict_notes).values(
                note_id=str(uuid4()),
                conflict_id=conflict_id,
                noted_at=now,
                noted_by=noted_by,
                winner=winner,
                note=note,
            )
        )


def list_notes(connection: Connection, conflict_id: str | None = None) -> Mapping[str, Sequence[ConflictNote]]:
    """Return the notes of each conflict that has any, or of one, oldest first."""
    found: dict[str, list[ConflictNote]] = {}
    if not _is_made(connection):
        return found
    c = conflict_notes.c
    columns = (c.conflict_id, c.noted_at, c.noted_by, c.winner, c.note)
    noted = select(*columns).order_by(c.noted_at, c.note_id)
    wanted = noted if conflict_id is None else noted.where(c.conflict_id == conflict_id)
    for of_conflict, noted_at, *rest in connection.execute(wanted):
        found.setdefault(of_conflict, []).append(ConflictNote(of_conflict, as_utc(noted_at), *rest))
    return found


def find_decider(connection: Connection, conflict_id: str) -> str | None:
    """Return who decided last about a conflict; None if that is not known."""
    if not _is_made(connection):
        return None
    c = conflict_notes.c
    decided = select(c.noted_by).where(c.conflict_id == conflict_id, c.winner.is_not(None))
    found: str | None = connection.scalar(decided.order_by(c.noted_at.desc(), c.note_id.desc()).limit(1))
    return found


def _is_made(connection: Connection) -> bool:
    mapped = connection.get_execution_options().get("schema_translate_map") or {}
    return inspect(connection).has_table(conflict_notes.name, schema=mapped.get(None))
