"""What each request of a device does at its hub."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rowtide.core.errors import RowtideError
from rowtide.core.values import frozen
from rowtide.gateway.errors import MessageMalformed
from rowtide.gateway.hubs import Hub, Workers
from rowtide.gateway.jwt_identity import Issuer
from rowtide.gateway.requests import Done, Registered, Registration
from rowtide.gateway.wire.envelopes import SPOKEN, Envelope, read
from rowtide.merge.devices.credentials import SHORTEST_KEY, read_code, read_token
from rowtide.merge.devices.registered import KnownDevice, forget_token, has_devices, know_device, register
from rowtide.merge.errors.devices import CodeRefused, TokenRefused
from rowtide.merge.nodes.node import Node

_NO_TOKEN = "none was sent as Authorization: Bearer"  # noqa: S105 - it says that there is none


@frozen
class Asked:
    """A request of a device: its body, unpacked, and who it says it is of."""

    hub: Hub
    body: bytes
    token: str
    key: str
    claims: str | None
    client: str

    @property
    def who(self) -> str:
        """The ID of the device that a token names, whether it is in force or not; it is no secret."""
        credential = read_token(self.token)
        return "" if credential is None else credential.device_id


@dataclass(slots=True)
class Answering:
    """Answers requests by threads that have the hubs' databases."""

    workers: Workers
    issuer: Issuer | None = None

    @property
    def steps(self) -> Mapping[str, Callable[[Node, Asked], Envelope]]:
        """What can be asked, by the last part of its address."""
        return {"register": self._register, "logout": self._logout}

    async def answer(self, step: str, asked: Asked) -> Envelope:
        """Return the answer to a request. Raises what the step raises."""
        work = self.steps[step]
        return await asyncio.wrap_future(self.workers.submit(asked.hub, lambda node: work(node, asked)))

    async def is_ready(self, hub: Hub) -> bool:
        """Return whether a hub's database answers."""
        try:
            return await asyncio.wrap_future(self.workers.submit(hub, lambda node: node.tables.is_prepared()))
        except RowtideError:
            return False

    def _register(self, node: Node, asked: Asked) -> Envelope:
        """Exchange a registration code for a token."""
        wanted: Registration = read(asked.body, Registration).message
        code = read_code(wanted.code)
        if len(asked.key) < SHORTEST_KEY:
            raise MessageMalformed("header Idempotency-Key", f"it has fewer than {SHORTEST_KEY} characters", _spoken())
        if code is None or not has_devices(node.connection):
            raise CodeRefused("it is unknown, or was used")
        token, device = register(node, code, asked.key, asked.client)
        return Envelope(Registered(token, device.name, device.publication))

    def _logout(self, node: Node, asked: Asked) -> Envelope:
        """Forget a device's token; its changes stay on it."""
        device = self._know(node, asked)
        read(asked.body, Done)
        forget_token(node, device)
        return Envelope(Done())

    def _know(self, node: Node, asked: Asked) -> KnownDevice:
        """Return the device that asks. Raises `TokenRefused`, `DeviceRevoked`."""
        if not asked.token:
            raise TokenRefused(_NO_TOKEN)
        if not has_devices(node.connection):
            raise TokenRefused("it is unknown")
        return know_device(node, read_token(asked.token), asked.client)


def _spoken() -> str:
    return ", ".join(map(str, SPOKEN))
