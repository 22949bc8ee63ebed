"""What a log record says was done; apart from the record's schema, since only who reads records needs Arrow."""

from __future__ import annotations

from enum import IntEnum


class Operation(IntEnum):
    """The `operation` column of a log record."""

    INSERT = 1
    UPDATE = 2
    DELETE = 3
    TRUNCATE = 4
    DDL = 5
    MESSAGE = 6


NO_TABLE = -1
"""`table_id` of records that belong to no table (announcements)."""
