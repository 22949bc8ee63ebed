"""Operations of log records; separate from their schema, so that only code that reads records imports Arrow."""

from __future__ import annotations

from enum import IntEnum


class Operation(IntEnum):
    """The `operation` column of a log record."""

    INSERT = 1
    UPDATE = 2
    DELETE = 3
    TRUNCATE = 4
    # Reserved: no record has it, because DDL is announced by a MESSAGE.
    DDL = 5
    MESSAGE = 6


NO_TABLE = -1
"""`table_id` of records that belong to no table (announcements)."""
