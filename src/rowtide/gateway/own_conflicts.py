"""The conflicts of a device's changes, for the device."""

from __future__ import annotations

from sqlalchemy import ColumnElement, cast, select

from rowtide.gateway.requests import DeviceConflict, DeviceConflicts
from rowtide.merge.catalogue import get_publication, list_articles
from rowtide.merge.definitions import conflicts_info, partition_mappings, subscriptions
from rowtide.merge.devices.registered import KnownDevice
from rowtide.merge.nodes.node import Node
from rowtide.merge.partitions.filters import bind_articles


def list_own_conflicts(hub: Node, device: KnownDevice) -> DeviceConflicts:
    """Return the conflicts in which a device's change lost, as its hub keeps them, oldest first.

    The row that won is given while the device has it: of a row that it has no more, or never had, it reads nothing.
    """
    c, pubid = conflicts_info.c, get_publication(hub.connection, device.publication).pubid
    of_device = subscriptions.c.subid == (device.subid or "")
    nickname = select(subscriptions.c.replnickname).where(of_device).scalar_subquery()
    own = (c.pubid == pubid) & (c.origin_datasource_id == nickname)
    is_there = _is_there(hub, pubid, nickname).label("is_there")
    rows = hub.connection.execute(
        select(conflicts_info, is_there).where(own).order_by(c.MSrepl_create_time, c.conflict_id)
    )
    return DeviceConflicts(
        tuple(
            DeviceConflict(
                conflict_id=row.conflict_id,
                article=row.article,
                rowguid=row.rowguid,
                conflict_type=row.conflict_type,
                reason_code=row.reason_code,
                reason_text=row.reason_text,
                losing_row=row.losing_row,
                winning_row=row.winning_row if row.is_there else None,
                is_resolved=row.resolved_time is not None,
            )
            for row in rows
        )
    )


def _is_there(hub: Node, pubid: str, nickname: ColumnElement[int]) -> ColumnElement[bool]:
    """Return the condition of conflicts whose rows a subscriber has: by the membership, if the article is filtered."""
    filtered = bind_articles(list_articles(hub.connection, pubid), None)
    members = partition_mappings.c
    is_member = (
        (members.replnickname == nickname)
        & (members.tablenick == conflicts_info.c.tablenick)
        & (members.rowguid == cast(conflicts_info.c.rowguid, members.rowguid.type))
        & (members.generation >= 0)
        & ~members.is_leaving
    )
    has_row = select(members.rowguid).where(is_member).exists()
    return conflicts_info.c.tablenick.not_in([*filtered]) | has_row
