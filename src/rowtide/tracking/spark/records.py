"""What the tasks of an enumeration write: a record for each change, and for each device how it came out. Pure."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from pydantic import TypeAdapter

from rowtide.databases.kinds import DatabaseKind
from rowtide.tracking.changes import Change, DeclaredColumn, Operation

OPERATIONS = {Operation.DELETE: 1, Operation.INSERT: 2, Operation.UPDATE: 4}
"""`__$operation`, in SQL Server's numbers, as in change tables."""

CHANGE = "device string, operation int, texts array<string>, outcome string"
RECORD = f"part string, {CHANGE}"
"""`part` says which records lie together: outcomes, or changes of one table whose rows have one shape. `texts` are a
row's values at the places of the shape's columns, null also where a delete does not have them."""
OUTCOMES = "outcomes"

Record = tuple[str, str, int | None, list[str | None] | None, str | None]


@dataclass(frozen=True, slots=True)
class Shape:
    """What the rows of a table are on one kind of database; `place` is the table's among those that were asked for."""

    place: int
    kind: DatabaseKind
    columns: tuple[DeclaredColumn, ...]

    @property
    def part(self) -> str:
        """The name of the part that has such rows."""
        return f"{self.place}-{hashlib.sha256(repr(self).encode()).hexdigest()[:16]}"


@dataclass(frozen=True, slots=True)
class DeviceOutcome:
    """How one device came out: its next anchor, or why there is none.

    `shapes` are its tables', in the order in which they were asked for; `rows` says how many changes of each were
    written, also of a device that failed after some.
    """

    device: str
    anchor: str | None
    failure: str | None
    shapes: tuple[Shape, ...] = ()
    rows: tuple[int, ...] = ()

    def as_record(self) -> Record:
        """Return the record that keeps it."""
        return OUTCOMES, self.device, None, None, _OUTCOME.dump_json(self).decode()


_OUTCOME = TypeAdapter(DeviceOutcome)


def read_outcome(text: str) -> DeviceOutcome:
    """Return what a record of an outcome says."""
    return _OUTCOME.validate_json(text)


def change_record(device: str, change: Change, shape: Shape) -> Record:
    """Return the record of a change; its values are texts."""
    texts: dict[str, str | None] = {
        name: None if text is None else str(text) for name, text in change.as_dict().items()
    }
    row = [texts.get(column.name) for column in shape.columns]
    return shape.part, device, OPERATIONS[change.operation], row, None
