"""The conflicts of a device's changes, for the device."""

from __future__ import annotations

from sqlalchemy import select

from rowtide.gateway.requests import DeviceConflict, DeviceConflicts
from rowtide.merge.catalogue import get_publication
from rowtide.merge.definitions import conflicts_info, subscriptions
from rowtide.merge.devices.registered import KnownDevice
from rowtide.merge.nodes.node import Node


def list_own_conflicts(hub: Node, device: KnownDevice) -> DeviceConflicts:
    """Return the conflicts in which a device's change lost, as its hub keeps them, oldest first."""
    c, pubid = conflicts_info.c, get_publication(hub.connection, device.publication).pubid
    nickname = select(subscriptions.c.replnickname).where(subscriptions.c.subid == (device.subid or ""))
    own = (c.pubid == pubid) & (c.origin_datasource_id == nickname.scalar_subquery())
    rows = hub.connection.execute(select(conflicts_info).where(own).order_by(c.MSrepl_create_time, c.conflict_id))
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
                winning_row=row.winning_row,
                is_resolved=row.resolved_time is not None,
            )
            for row in rows
        )
    )
