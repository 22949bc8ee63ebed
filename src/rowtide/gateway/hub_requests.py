"""The steps of the wire protocol at the hub: one function for each request of a device."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from rowtide.core.errors import RowtideError
from rowtide.core.failpoints import failpoint
from rowtide.core.values import frozen
from rowtide.gateway.device_files import DeviceFiles
from rowtide.gateway.device_sessions import (
    Downloads,
    answer_acknowledgement,
    answer_comparison,
    answer_more,
    answer_pending,
    answer_schema,
    answer_sync,
    answer_validation,
    list_own_conflicts,
    require_own_state,
)
from rowtide.gateway.errors import (
    BodyTooLarge,
    GatewayAddressUnknown,
    JwtRefused,
    MessageMalformed,
    PublicationNotServed,
    RegistrationNeedsCode,
)
from rowtide.gateway.hubs import Hub, Workers
from rowtide.gateway.jwt_identity import Claims, Issuer
from rowtide.gateway.limits import DEFAULT_GATEWAY_LIMITS
from rowtide.gateway.requests import DeviceRegistration, Done, FileRequest, More, MoreRequest, RegisteredDevice
from rowtide.gateway.user_partitions import as_claimed, claimed, is_to_move, move_device, without_download
from rowtide.gateway.wire.envelopes import SPOKEN_TEXT, Envelope, read
from rowtide.merge.catalogue import has_devices
from rowtide.merge.devices.credentials import SHORTEST_KEY, read_code, read_token
from rowtide.merge.devices.registered import (
    KnownDevice,
    forget_token,
    know_device,
    register,
    register_named,
)
from rowtide.merge.errors.devices import CodeRefused, TokenRefused
from rowtide.merge.errors.subscribing import DownloadLost
from rowtide.merge.inspection.device_validation import ValidateRequest
from rowtide.merge.nodes.node import Node
from rowtide.merge.publishing.rows_at_hub import RowsRequest
from rowtide.merge.session.messages import (
    Acknowledgement,
    DeviceState,
    SyncAnswer,
    SyncRequest,
    UploadHeader,
    UploadResult,
)

STEPS_OF_STRANGERS = frozenset({"register"})
"""Steps of devices without a token."""
_NO_TOKEN = "none was sent as Authorization: Bearer"  # noqa: S105 - it says that there is none


@frozen
class DeviceRequest:
    """A request of a device: its unpacked body and its credentials."""

    hub: Hub
    body: bytes
    token: str
    key: str
    claims: str | None
    client: str

    @property
    def who(self) -> str:
        """The ID of the device that a token names, valid or not; the ID is no secret."""
        credential = read_token(self.token)
        return "" if credential is None else credential.device_id


@frozen
class AuditedStep:
    """An entry for the audit of a hub, named after a step.

    `key` is the key of the request: a repeated request makes the same entry. `replaces`: the device had a file before,
    whose subscription has ended.
    """

    hub: Hub
    step: str
    device_id: str
    device: str
    key: str
    replaces: bool = False


@dataclass(slots=True)
class Answering:
    """Answers requests, in the threads that have connections to the hubs' databases."""

    workers: Workers
    files: DeviceFiles
    issuer: Issuer | None = None
    most_rows: int = DEFAULT_GATEWAY_LIMITS.rows
    downloads: Downloads = field(default_factory=Downloads)
    publications: frozenset[str] = frozenset()
    """The publications that are served; empty: all."""
    record: Callable[[AuditedStep], None] = lambda _step: None
    """Writes an entry to the audit, before the device gets its answer."""
    note_known: Callable[[str], None] = lambda _token: None
    """Called with each valid token."""

    @property
    def steps(self) -> Mapping[str, Callable[[Node, DeviceRequest], Envelope]]:
        """The steps, by the last part of their addresses."""
        return {
            "register": self._register,
            "file": self._file,
            "sync": self._sync,
            "follow": self._follow,
            "more": self._more,
            "acknowledge": self._acknowledge,
            "pending": self._pending,
            "validate": self._validate,
            "compare": self._compare,
            "conflicts": self._conflicts,
            "logout": self._logout,
        }

    async def answer(self, step: str, asked: DeviceRequest) -> Envelope:
        """Return the answer to a request. Raises what the step raises."""
        work = self.steps[step]
        envelope = await asyncio.wrap_future(self.workers.submit(asked.hub, lambda node: work(node, asked)))
        failpoint("gateway_answer.before")
        return envelope

    async def is_ready(self, hub: Hub) -> bool:
        """Return whether a hub's database answers, with metadata that this build can use, or without any.

        A hub that publishes nothing yet does not make the gateway unready for the devices of the others.
        """
        try:
            await asyncio.wrap_future(self.workers.submit(hub, lambda node: node.tables.is_prepared()))
        except RowtideError:
            return False
        return True

    def _register(self, node: Node, asked: DeviceRequest) -> Envelope:
        """Exchange a registration code for a token."""
        wanted: DeviceRegistration = read(asked.body, DeviceRegistration).message
        _require_key(asked)
        if not wanted.code:
            return self._register_named(node, asked)
        code = read_code(wanted.code)
        if code is None or not has_devices(node.connection):
            raise CodeRefused("it is unknown, or was used")
        token, device = register(node, code, asked.key, asked.client)
        self._require_served(device)
        self.record(AuditedStep(asked.hub, "register", device.device_id, device.name, asked.key))
        return Envelope(RegisteredDevice(token, device.name, device.publication))

    def _register_named(self, node: Node, asked: DeviceRequest) -> Envelope:
        """Issue a token to a device whose user has a JSON Web Token that may register devices."""
        if self.issuer is None:
            raise RegistrationNeedsCode
        if asked.claims is None:
            raise JwtRefused("none was sent as Rowtide-Claims")
        claims = self.issuer.read(asked.claims)
        token, device = register_named(node, self.issuer.name_device(claims), claims.issued, asked.key, asked.client)
        self._require_served(device)
        self.record(AuditedStep(asked.hub, "register", device.device_id, device.name, asked.key))
        return Envelope(RegisteredDevice(token, device.name, device.publication))

    def _logout(self, node: Node, asked: DeviceRequest) -> Envelope:
        """Revoke a device's token; its changes stay on the device."""
        device = self._know(node, asked)
        read(asked.body, Done)
        forget_token(node, device)
        return Envelope(Done())

    def _file(self, node: Node, asked: DeviceRequest) -> Envelope:
        """Create a device's first file."""
        device = self._know(node, asked)
        wanted = read(asked.body, FileRequest).message
        _require_key(asked)
        claims = self._claims(node, device, asked)
        if claims is not None:
            if is_to_move(node, device, claims):
                self.files.discard(device.device_id)
            device = as_claimed(node, device, claims, claims.issued)
        made = self.files.make(node, device, wanted, asked.key, partial(require_own_state, node, device))
        replaces = wanted.replaces and device.subid is not None
        self.record(AuditedStep(asked.hub, "file", device.device_id, device.name, asked.key, replaces=replaces))
        return Envelope(made)

    async def find_file(self, asked: DeviceRequest, name: str) -> Path:
        """Return the path of a device's file.

        Raises `GatewayAddressUnknown`, and what a download raises without a token of the user.
        """

        def find(node: Node) -> Path:
            device = self._know(node, asked)
            if self._is_for_another(node, device, asked):
                raise GatewayAddressUnknown(f"files/{name[:80]}")
            return self.files.find(device.device_id, name)

        return await asyncio.wrap_future(self.workers.submit(asked.hub, find))

    def _sync(self, node: Node, asked: DeviceRequest) -> Envelope:
        """Apply an upload, and return the first batches of the download."""
        device = self._know(node, asked)
        given = read(asked.body, SyncRequest)
        if sum(len(batch.changes) for batch in given.batches) > self.most_rows:
            raise BodyTooLarge(f"{self.most_rows:,} rows")
        request: SyncRequest = given.message
        claims = self._claims(node, device, asked) if request.exchange.downloads else None
        kept = self.files.keep_parts(asked.hub.name, device)
        if claims is None or not is_to_move(node, device, claims):
            return answer_sync(node, asked.hub.name, device, given, self.downloads, kept)
        # Changes of the previous user are checked against the partition in which they were made.
        uploading = replace(given, message=without_download(request))
        answer = answer_sync(node, asked.hub.name, device, uploading, self.downloads, kept)
        said: SyncAnswer = answer.message
        if said.must_follow:
            return answer
        if request.upload is not None and not _is_complete(request.upload, said.result):
            return answer
        moved = move_device(node, device, claims)
        self.files.discard(device.device_id)
        raise moved

    def _follow(self, node: Node, asked: DeviceRequest) -> Envelope:
        """Return the hub's definitions, for a device that has earlier ones."""
        device = self._know_user(node, asked)
        return Envelope(answer_schema(node, device, read(asked.body, DeviceState).message))

    def _validate(self, node: Node, asked: DeviceRequest) -> Envelope:
        """Return the counts and checksums with which a device compares its rows."""
        device = self._know_user(node, asked)
        return Envelope(answer_validation(node, device, read(asked.body, ValidateRequest).message))

    def _compare(self, node: Node, asked: DeviceRequest) -> Envelope:
        """Return what the hub has of the rows of a device whose tables were rebuilt."""
        device = self._know_user(node, asked)
        request: RowsRequest = read(asked.body, RowsRequest).message
        if request.size > self.most_rows:
            raise BodyTooLarge(f"{self.most_rows:,} rows")
        return answer_comparison(node, device, request)

    def _pending(self, node: Node, asked: DeviceRequest) -> Envelope:
        """Return the number of changes that the hub has for a device."""
        device = self._know(node, asked)
        return Envelope(answer_pending(node, device, read(asked.body, DeviceState).message))

    def _more(self, node: Node, asked: DeviceRequest) -> Envelope:
        """Return further batches of a download."""
        device = self._know(node, asked)
        request: MoreRequest = read(asked.body, MoreRequest).message
        if self._is_for_another(node, device, asked):
            raise DownloadLost(device.name, request.generation)
        return Envelope(More(), answer_more(asked.hub.name, device, request, self.downloads))

    def _acknowledge(self, node: Node, asked: DeviceRequest) -> Envelope:
        """Record how far a device has applied a download."""
        device = self._know(node, asked)
        said: Acknowledgement = read(asked.body, Acknowledgement).message
        answer_acknowledgement(node, asked.hub.name, device, said, self.downloads)
        return Envelope(Done())

    def _conflicts(self, node: Node, asked: DeviceRequest) -> Envelope:
        """Return the conflicts that a device's changes lost."""
        device = self._know_user(node, asked)
        read(asked.body, Done)
        return Envelope(list_own_conflicts(node, device))

    async def know(self, asked: DeviceRequest) -> KnownDevice:
        """Return the device that asks. Raises `TokenRefused`, `DeviceRevoked`."""
        return await asyncio.wrap_future(self.workers.submit(asked.hub, lambda node: self._know(node, asked)))

    async def run(self, hub: Hub, work: Callable[[Node], object]) -> object:
        """Run a function with a hub's node in one of its threads, and return the result."""
        return await asyncio.wrap_future(self.workers.submit(hub, work))

    def _claims(self, node: Node, device: KnownDevice, asked: DeviceRequest) -> Claims | None:
        """Return the claims of the device's user; None where devices have no users of their own.

        Raises `JwtRefused`, `ClaimMissing`, `KeySetNotRead`, `PartitionValueMissing`, `PartitionValueUnfit`.
        """
        if self.issuer is None:
            return None
        if asked.claims is None:
            raise JwtRefused("none was sent as Rowtide-Claims")
        return claimed(node, device, self.issuer.read(asked.claims))

    def _know(self, node: Node, asked: DeviceRequest) -> KnownDevice:
        """Return the device that asks. Raises `TokenRefused`, `DeviceRevoked`."""
        if not asked.token:
            raise TokenRefused(_NO_TOKEN)
        if not has_devices(node.connection):
            raise TokenRefused("it is unknown")
        device = know_device(node, read_token(asked.token), asked.client)
        self.note_known(asked.token)
        self._require_served(device)
        return device

    def _know_user(self, node: Node, asked: DeviceRequest) -> KnownDevice:
        """Return the device that asks for what rows are: as for a download, its user has a token, where users have one.

        Raises what `_know` and `_claims` raise.
        """
        device = self._know(node, asked)
        self._claims(node, device, asked)
        return device

    def _is_for_another(self, node: Node, device: KnownDevice, asked: DeviceRequest) -> bool:
        """Return whether what was made for a device, as for a download, is of the partition of another user.

        Raises what `_claims` raises.
        """
        claims = self._claims(node, device, asked)
        return claims is not None and is_to_move(node, device, claims)

    def _require_served(self, device: KnownDevice) -> None:
        if self.publications and device.publication not in self.publications:
            raise PublicationNotServed(device.publication)


def _is_complete(upload: UploadHeader, result: UploadResult | None) -> bool:
    """Whether the hub has all changes of the device."""
    return result is not None and result.is_complete and not upload.has_more


def _require_key(asked: DeviceRequest) -> None:
    if len(asked.key) < SHORTEST_KEY:
        raise MessageMalformed("header Idempotency-Key", f"it has fewer than {SHORTEST_KEY} characters", SPOKEN_TEXT)
