"""Partitions of devices whose users sign in with JSON Web Tokens: changed claims move a device.

The device's own token uploads the changes of any user within the partition that was recorded when they were made; the
download follows the claims of the current user. So a tablet that is handed on neither stops nor loses changes.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from sqlalchemy import select

from rowtide.gateway.errors import DeviceMoved
from rowtide.gateway.jwt_identity import Claims, must_move
from rowtide.merge.articles import ExchangeType, Partition
from rowtide.merge.catalogue import get_publication, list_articles
from rowtide.merge.definitions import partition_groups, subscriptions
from rowtide.merge.devices.registered import KnownDevice, note_claims
from rowtide.merge.nodes.node import Node
from rowtide.merge.partitions.filters import require_values
from rowtide.merge.publishing.partition_moves import move
from rowtide.merge.session.messages import SyncRequest
from rowtide.merge.session.pairing import read_hub


def partition_of(hub: Node, subid: str) -> Partition | None:
    """Return the partition of a subscription; None if there is no such subscription."""
    functions = (partition_groups.c.HOST_NAME_FN, partition_groups.c.SUSER_NAME_FN)
    joined = subscriptions.outerjoin(partition_groups, partition_groups.c.partition_id == subscriptions.c.partition_id)
    row = hub.connection.execute(select(*functions).select_from(joined).where(subscriptions.c.subid == subid)).first()
    return None if row is None else Partition(*row)


def claimed(hub: Node, device: KnownDevice, claims: Claims) -> Claims:
    """Return claims with only the values that filters use. Raises `PartitionValueMissing`, `PartitionValueUnfit`."""
    publication = get_publication(hub.connection, device.publication)
    articles = list_articles(hub.connection, publication.pubid)
    return replace(claims, partition=require_values(publication, articles, claims.partition))


def is_to_move(hub: Node, device: KnownDevice, claims: Claims) -> bool:
    """Return whether a device has to be moved before it downloads. Raises `ClaimsOlder`."""
    recorded = None if device.subid is None else partition_of(hub, device.subid)
    return recorded is not None and must_move(device, claims, recorded)


def without_download(request: SyncRequest) -> SyncRequest:
    """Return a request as one that only uploads."""
    return replace(request, exchange=ExchangeType.UPLOAD)


def move_device(hub: Node, device: KnownDevice, claims: Claims) -> DeviceMoved:
    """Move a device that has uploaded; return the error that makes it repeat the request. Raises `SessionReplaced`."""
    assert device.subid is not None
    found = read_hub(hub, device.publication, [device.subid])
    move(hub, found.pair(found.subscriptions[0], found.subscriptions[0], ()), claims.partition)
    note_claims(hub, device, claims.issued)
    return DeviceMoved(device.name)


def as_claimed(hub: Node, device: KnownDevice, claims: Claims, issued: datetime) -> KnownDevice:
    """Return a new device, in the partition of its user."""
    note_claims(hub, device, issued)
    return replace(device, partition=claims.partition)
