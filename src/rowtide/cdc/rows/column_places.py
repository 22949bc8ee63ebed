"""Places of captured columns in row images: by attribute numbers, which a rename does not change. Pure."""

from __future__ import annotations

from rowtide.cdc.instances import Instance
from rowtide.core.tables import TableShape

NO_INDEX = -1
"""The place of a column that the log does not have."""


def find_indexes(instance: Instance, shape: TableShape) -> dict[str, int]:
    """Return the places of captured columns, by their captured names.

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


def column_indexes(instance: Instance, shape: TableShape) -> list[int]:
    """Return the places of the captured columns, by ordinal; `NO_INDEX` for columns that the log lacks."""
    places = find_indexes(instance, shape)
    return [places.get(column.name, NO_INDEX) for column in instance.columns]


def key_indexes(instance: Instance, shape: TableShape) -> list[int]:
    """Return the places of the key's columns."""
    places = find_indexes(instance, shape)
    return [places[column.name] for column in instance.index_columns if column.name in places]
