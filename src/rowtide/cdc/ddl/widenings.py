"""Statements that rewrite a table and change no value: they only give numbers wider types. Pure.

The log has no rows of it, and needs none: the rows before it are the rows after it.
"""

from __future__ import annotations

from rowtide.cdc.instances import CapturedColumn, Instance
from rowtide.databases.postgres.types.widening import is_wider_number
from rowtide.log.alterations import Alteration

_WIDER_BY_DATABASE = {"postgres": is_wider_number}


def only_widens(before: Instance, after: Instance, alteration: Alteration) -> bool:
    """Return whether a statement that rewrote an instance's table left the value of every captured column as it was.

    Where the server casts by itself, from one type of numbers to a wider one, every value keeps its meaning.
    """
    pairs = zip(before.columns, after.columns, strict=True)
    return alteration.casts_alone and all(_is_as_it_was(before, old, new) for old, new in pairs)


def _is_as_it_was(instance: Instance, old: CapturedColumn, new: CapturedColumn) -> bool:
    if (old.type_code, old.type_modifier) == (new.type_code, new.type_modifier):
        return True
    is_wider = _WIDER_BY_DATABASE[instance.database_kind]
    return is_wider((old.type_code, old.value_type_text), (new.type_code, new.value_type_text))
