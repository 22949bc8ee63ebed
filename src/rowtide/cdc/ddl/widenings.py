"""Statements that rewrite a table and change no value: they only give numbers wider types. Pure.

The log has no rows of it, and needs none: the rows before it are the rows after it.
"""

from __future__ import annotations

import re

from rowtide.cdc.instances import CapturedColumn, Instance
from rowtide.cdc.rows.change_columns import column_type
from rowtide.databases.lake_types import can_widen
from rowtide.databases.postgres import type_codes
from rowtide.log.alterations import LONGEST_STATEMENT

_NUMBERS_BY_DATABASE = {"postgres": type_codes.NUMBERS}
_ALTERS_ONE_TABLE = re.compile(r"\s*alter\s+table\s[^;]*;?\s*", re.IGNORECASE)
_COMPUTES = re.compile(r"\busing\b", re.IGNORECASE)


def only_widens(before: Instance, after: Instance, statement: str) -> bool:
    """Return whether a statement that rewrote an instance's table left the value of every captured column as it was.

    Without `using` the server casts: from one type of numbers to a wider one every value keeps its meaning. A text that
    may not be all that ran (cut off, several statements, a function) says nothing.
    """
    if len(statement) >= LONGEST_STATEMENT or not _ALTERS_ONE_TABLE.fullmatch(statement) or _COMPUTES.search(statement):
        return False
    pairs = zip(before.columns, after.columns, strict=True)
    return all(_is_as_it_was(before, old, new) for old, new in pairs)


def _is_as_it_was(instance: Instance, old: CapturedColumn, new: CapturedColumn) -> bool:
    if (old.type_code, old.type_modifier) == (new.type_code, new.type_modifier):
        return True
    numbers = _NUMBERS_BY_DATABASE[instance.database_kind]
    is_number = old.type_code in numbers and new.type_code in numbers
    return is_number and can_widen(column_type(instance, old).name, column_type(instance, new).name)
