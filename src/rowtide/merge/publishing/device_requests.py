"""Synchronise a device by requests, schema changes included: what it does, and what its hub answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol

from rowtide.merge.articles import DEFAULT_LIMITS, DeviceLimits, ExchangeType, Progress
from rowtide.merge.catalogue import get_publication
from rowtide.merge.errors.subscribing import SchemaNotFollowed
from rowtide.merge.nodes.node import Node
from rowtide.merge.nodes.table_changes import Omission
from rowtide.merge.publishing.following import follow_filters, follow_sent
from rowtide.merge.publishing.publications import finish_drops
from rowtide.merge.publishing.schema_changes import notice
from rowtide.merge.publishing.schema_steps import SchemaStep, describe_schema, reading_schema
from rowtide.merge.session.device_half import DeviceHalf
from rowtide.merge.session.history import Summary
from rowtide.merge.session.messages import DeviceState, RowBatch, SyncRequest, Transport
from rowtide.merge.session.over_transport import synchronise_over
from rowtide.merge.session.pairing import Pairing
from rowtide.merge.session.serving import SessionAnswer, meet, serve, serve_upload

Admit = Callable[[Pairing], None]
"""Raises an error for a subscription that is not that of the device which asks."""


class DeviceTransport(Transport, Protocol):
    """Carries the messages of a device to its hub, and schema changes to the device."""

    def follow(self, state: DeviceState) -> SchemaStep:
        """Return what a device needs that has earlier definitions than the hub, and has uploaded all."""


def synchronise_device(
    transport: DeviceTransport,
    node: Node,
    publication: str,
    subscriber_name: str,
    on_progress: Progress = lambda _phase, _done, _all: None,
    exchange: ExchangeType = ExchangeType.BOTH,
    *,
    defers: bool = True,
    confirmed: Path | None = None,
) -> Summary:
    """Synchronise a device; one whose publisher's schema was changed uploads and follows first.

    `confirmed` is as in `synchronise_over`. Raises what `synchronise_over` and `follow` raise.
    """
    omissions: list[Omission] = []

    def follow(device: DeviceHalf, state: DeviceState) -> None:
        follow_sent(device, transport.follow(state), on_omission=omissions.append)

    summary = synchronise_over(
        transport,
        node,
        publication,
        subscriber_name,
        on_progress,
        exchange,
        defers=defers,
        follow=follow,
        confirmed=confirmed,
    )
    summary.omissions = omissions
    return summary


def serve_device(
    hub: Node,
    request: SyncRequest,
    batches: Iterable[RowBatch],
    limits: DeviceLimits = DEFAULT_LIMITS,
    admit: Admit = lambda _pairing: None,
) -> SessionAnswer:
    """Return the answer to a device's request; one that has earlier definitions uploads by these.

    Raises what `serve` and `serve_upload` raise, and `notice`.
    """
    try:
        served = serve(hub, request, batches, limits, admit)
    except SchemaNotFollowed:
        notice(hub, get_publication(hub.connection, request.state.publication))
        hub.forget_tables()
        return serve_upload(hub, request, batches, limits, admit)
    if served.half is not None and served.half.pairing.leaving:
        finish_drops(hub, served.half.pairing.publication)
    return served


def serve_schema(hub: Node, state: DeviceState, admit: Admit = lambda _pairing: None) -> SchemaStep:
    """Return what a device needs to follow the hub's schema. Idempotent.

    Raises `SchemaNotFollowed` for a device that has the hub's definitions; what `meet` raises; `NodeBusy`.
    """
    found = meet(hub, state)
    if not isinstance(found, Pairing):
        raise SchemaNotFollowed(state.subid, state.publication)
    admit(found)
    follow_filters(hub, found)
    found = meet(hub, state)
    assert isinstance(found, Pairing)
    with reading_schema(hub, found) as schema:
        return describe_schema(schema)
