"""Instances that are made for targets that follow columns: which they are, and which others have taken the place of.

They do not count for the two instances of a table that its users have.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, Executable, exists, insert, select

from rowtide.cdc.definitions import (
    EnabledTable,
    change_tables,
    consumer_instances,
    followed_instances,
    list_enabled,
)


def list_followed(connection: Connection) -> frozenset[str]:
    """Return the member ids of these instances."""
    return frozenset(connection.execute(select(followed_instances.c.member_id)).scalars())


def mark_steps(member_id: str) -> Sequence[Executable]:
    """Return the step that makes a new instance one of them."""
    return [insert(followed_instances).values(member_id=member_id)]


def list_superseded(connection: Connection) -> tuple[EnabledTable, ...]:
    """Return those of them that no consumer has any more, while one has a later one of the same table."""
    own, later, own_mark, later_mark = (
        change_tables.alias(),
        change_tables.alias(),
        followed_instances.alias(),
        followed_instances.alias(),
    )
    consumed, consumed_later = consumer_instances.alias(), consumer_instances.alias()
    query = (
        select(own.c.member_id)
        .join(own_mark, own_mark.c.member_id == own.c.member_id)
        .where(
            ~exists().where(consumed.c.member_id == own.c.member_id),
            exists().where(
                later.c.source_object_id == own.c.source_object_id,
                later.c.object_id > own.c.object_id,
                later_mark.c.member_id == later.c.member_id,
                consumed_later.c.member_id == later.c.member_id,
            ),
        )
    )
    found = set(connection.execute(query).scalars())
    return tuple(one for one in list_enabled(connection) if one.member_id in found)
