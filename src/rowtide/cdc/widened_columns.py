"""What is done with tables whose columns get wider types: of an instance, else of its database.

It is looked up when a type changes, so that a running capture follows a setting that is changed.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, Executable, delete, insert, select

from rowtide.cdc.definitions import widened_columns
from rowtide.core.tables import Widened

_columns = widened_columns.c


def read_widened(connection: Connection, member_id: str | None = None) -> Widened:
    """Return the setting that counts for an instance, by default for those without one of their own."""
    own = read_own(connection, member_id) if member_id is not None else None
    of_database = connection.execute(select(_columns.setting).where(_columns.member_id.is_(None))).scalar()
    return own or Widened(of_database or Widened.AUTO)


def read_own(connection: Connection, member_id: str) -> Widened | None:
    """Return an instance's own setting, None if it has none."""
    found = connection.execute(select(_columns.setting).where(_columns.member_id == member_id)).scalar()
    return Widened(found) if found is not None else None


def own_steps(member_id: str, setting: Widened | None) -> Sequence[Executable]:
    """Return the steps that give a new instance a setting of its own; none without one."""
    return [] if setting is None else [insert(widened_columns).values(member_id=member_id, setting=setting.value)]


def set_of_database(connection: Connection, setting: Widened) -> None:
    """Set what counts for instances without a setting of their own."""
    connection.execute(delete(widened_columns).where(_columns.member_id.is_(None)))
    connection.execute(insert(widened_columns).values(setting=setting.value))
