"""Places of an instance's captured columns in the log: by attribute numbers, which a rename does not change. Pure."""

from __future__ import annotations

from rowtide.cdc.definitions import Instance
from rowtide.core.tables import TableShape


def find_places(instance: Instance, shape: TableShape) -> dict[str, int]:
    """Return the places of captured columns in row images, by their captured names.

    A dropped column has none, nor has a generated one, whatever the log carries of it. A column whose number the log
    reader does not know is the captured one of its name.
    """
    numbered = {column.number: place for place, column in enumerate(shape.columns) if column.number is not None}
    named = {column.name: place for place, column in enumerate(shape.columns) if column.number is None}
    found = {
        column.name: numbered.get(column.column_id, named.get(column.name))
        for column in instance.columns
        if not column.is_computed
    }
    return {name: place for name, place in found.items() if place is not None}
