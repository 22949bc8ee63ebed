"""A device that reaches only a gateway: `rowtide.device(path, url)`, its requests, and its first file."""

from __future__ import annotations

import gzip
import hashlib
import os
import random
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from glob import escape
from pathlib import Path
from typing import Self

from rowtide.core.errors import FileNotWritable, Retryable
from rowtide.core.failpoints import failpoint
from rowtide.databases.passwords import FilePassword
from rowtide.gateway.client import GatewayClient, make_request_key, read_gateway_url, send_plain
from rowtide.gateway.errors import DeviceFileDamaged, DeviceNotRegistered, FileBeingMade, PublicationUnclear
from rowtide.gateway.limits import retry_pause_s
from rowtide.gateway.requests import (
    LONGEST_WAIT_S,
    DeviceConflict,
    DeviceConflicts,
    DeviceFile,
    DeviceRegistration,
    Done,
    FileRequest,
    More,
    MoreRequest,
    RegisteredDevice,
    Wait,
    Waited,
)
from rowtide.gateway.wire.envelopes import Envelope
from rowtide.merge.articles import DEFAULT_LIMITS, DeviceLimits, ExchangeType, Progress
from rowtide.merge.catalogue import get_publication, list_publications, read_nickname
from rowtide.merge.errors.devices import TokenRefused
from rowtide.merge.errors.nodes import NodeRestored
from rowtide.merge.errors.subscribing import PublicationsShared
from rowtide.merge.exchange_state import list_subscriptions
from rowtide.merge.inspection.device_validation import ValidateAnswer, ValidateRequest, validate_device
from rowtide.merge.inspection.validating import ArticleValidation
from rowtide.merge.nodes.connecting import open_synchronised
from rowtide.merge.nodes.node import Node
from rowtide.merge.publishing.device_requests import fill_again, follow_hub, recover_device, synchronise_device
from rowtide.merge.publishing.exchange_requests import Recovered
from rowtide.merge.publishing.rows_at_hub import RowsAnswer, RowsRequest
from rowtide.merge.publishing.schema_steps import SchemaStep
from rowtide.merge.publishing.snapshots import SnapshotProgress
from rowtide.merge.session.history import Summary
from rowtide.merge.session.messages import Acknowledgement, DeviceState, RowBatch, SyncAnswer, SyncRequest
from rowtide.merge.session.over_transport import RequestedExchange, find_device
from rowtide.merge.session.pending_changes import PendingAtHub, PendingChanges, list_pending_of_device


@dataclass(slots=True)
class GatewayTransport:
    """See `DeviceTransport`."""

    client: GatewayClient

    def synchronise(
        self, request: SyncRequest, batches: Callable[[], Iterator[RowBatch]]
    ) -> tuple[SyncAnswer, Sequence[RowBatch]]:
        answer = self.client.ask("sync", Envelope(request, list(batches())), SyncAnswer)
        return answer.message, answer.batches

    def working(self, step: Callable[[], bool]) -> AbstractContextManager[None]:
        return self.client.working(step)

    def follow(self, state: DeviceState) -> SchemaStep:
        step: SchemaStep = self.client.ask("follow", Envelope(state), SchemaStep).message
        return step

    def compare(self, request: RowsRequest) -> tuple[RowsAnswer, Sequence[RowBatch]]:
        answer = self.client.ask("compare", Envelope(request), RowsAnswer)
        return answer.message, answer.batches

    def fetch(self, session: int, generation: int, first: int) -> Sequence[RowBatch]:
        return self.client.ask("more", Envelope(MoreRequest(session, generation, first)), More).batches

    def list_pending(self, state: DeviceState) -> PendingAtHub:
        found: PendingAtHub = self.client.ask("pending", Envelope(state), PendingAtHub).message
        return found

    def validate(self, request: ValidateRequest) -> ValidateAnswer:
        answer: ValidateAnswer = self.client.ask("validate", Envelope(request), ValidateAnswer).message
        return answer

    def acknowledge(self, said: Acknowledgement) -> None:
        self.client.ask("acknowledge", Envelope(said), Done)


_PIECE = 1 << 20
_FIRST = FileRequest()


def fetch_first_file(client: GatewayClient, path: Path, key: str, wanted: FileRequest = _FIRST) -> None:
    """Download a device's first file; a repeated call resumes an interrupted one.

    The file gets its name once it is complete. Raises `DeviceHasFile`, `DeviceFileDamaged`, `FileNotWritable`, and what
    `GatewayClient.ask` raises.
    """
    said = _ask_for_file(client, key, wanted)
    part = path.with_name(f"{path.name}.{said.sha256[:12]}.part")
    try:
        _fetch(client, said, part)
        _require_same(client, said, part)
        _unpack(part, path)
    except OSError as error:
        raise FileNotWritable(str(path), error.strerror or str(error)) from error


def _ask_for_file(client: GatewayClient, key: str, wanted: FileRequest) -> DeviceFile:
    """Wait until the gateway has made the device's file, and return its description."""
    while True:
        try:
            return send_plain(client, "file", wanted, DeviceFile, key=key)
        except FileBeingMade as error:
            # A file of millions of rows takes longer than a request may. FileBeingMade means that it is still made: a
            # process that ended holds no lock.
            client.pause(retry_pause_s(error.after_s, 0, random.random()))  # noqa: S311


def _fetch(client: GatewayClient, said: DeviceFile, part: Path) -> None:
    """Append what is missing. Every attempt that receives bytes resets the number of further attempts."""
    failures = 0
    with open(part, "ab") as file:
        while (begin := file.tell()) < said.size:
            try:
                file.writelines(client.fetch(f"files/{said.name}", begin))
            except Retryable:
                failures = 1 if file.tell() > begin else failures + 1
                if failures >= client.attempts:
                    raise
                client.pause(retry_pause_s(None, failures - 1, random.random()))  # noqa: S311


def _require_same(client: GatewayClient, said: DeviceFile, part: Path) -> None:
    with open(part, "rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != said.sha256:
        part.unlink()
        raise DeviceFileDamaged(client.url)


def _unpack(part: Path, path: Path) -> None:
    whole = path.with_name(f"{path.name}.new")
    with gzip.open(part, "rb") as source, open(whole, "wb") as target:
        shutil.copyfileobj(source, target, _PIECE)
        target.flush()
        # Synced before it gets its name: else the name could stand for an incomplete file after a crash of the machine.
        os.fsync(target.fileno())
    # Never replaces a file that was created meanwhile.
    failpoint("first_file.before")
    os.link(whole, path)
    failpoint("first_file.after")
    whole.unlink()
    # Also discards the part of a file that another gateway has since made again.
    for left in path.parent.glob(f"{escape(path.name)}.*.part"):
        left.unlink()


class Device:
    """A SQLite file that is synchronised over HTTP. Its token is stored beside it, readable by the owner alone."""

    def __init__(
        self,
        path: str | Path,
        url: str,
        token: str | None = None,
        *,
        claims: Callable[[], str] | None = None,
        publication: str | None = None,
    ) -> None:
        self.path = Path(path).absolute()
        self.publication = publication
        read_gateway_url(url)
        self._client = GatewayClient(url, token or "", claims)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.close()

    @property
    def client(self) -> GatewayClient:
        """The client, which counts requests and bytes."""
        return self._client

    @property
    def token_path(self) -> Path:
        """The path of the token's file, beside the device's file."""
        return self._beside("token")

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def register(self, code: str = "") -> None:
        """Exchange a registration code for the device's token, and store it; without a code, the JSON Web Token that
        `claims` returns.

        Raises `CodeRefused`, `FileNotWritable`, and what `GatewayClient.ask` raises; without a code
        `RegistrationNeedsCode`, `DeviceClaimMissing`, `JwtRefused`, `DeviceExists`, `DeviceRevoked`, `TokenOfAnother`.
        """
        # The key is stored before the request is sent: a call after a lost answer repeats the request, and gets the
        # same token.
        key_path = self._beside("registering")
        key = _read_key(key_path) or make_request_key()
        _write_private(key_path, key)
        registered = send_plain(self._client, "register", DeviceRegistration(code), RegisteredDevice, key=key)
        _write_private(self.token_path, registered.token)
        key_path.unlink(missing_ok=True)
        self._client.token, self.publication = registered.token, registered.publication

    def sync(
        self,
        *,
        exchange: ExchangeType = ExchangeType.BOTH,
        replace: bool = False,
        on_progress: Progress = lambda _phase, _done, _all: None,
        limits: DeviceLimits = DEFAULT_LIMITS,
    ) -> Summary:
        """Exchange all changes with the hub, or those of one direction; a missing or empty file is downloaded first.

        With `replace`, a device whose file was lost gets a new one. Raises `DeviceNotRegistered`, `PublicationUnclear`,
        what `MergeReplication.sync` raises, and what `GatewayClient.ask` raises.
        """
        self._find_token()
        key_path = self._beside("fetching")
        self._remove_empty()
        if not self.path.exists():
            key = _read_key(key_path) or make_request_key()
            _write_private(key_path, key)
            fetch_first_file(self._client, self.path, key, FileRequest(replaces=replace))
        # Also what an interrupted call left: another file needs another key.
        key_path.unlink(missing_ok=True)
        with open_synchronised(f"sqlite:///{self.path}", limits) as node:
            return self._exchange(node, exchange, on_progress)

    def reinitialize(
        self,
        *,
        upload_first: bool = False,
        absent_is_delete: bool = False,
        on_upload: Progress = lambda _phase, _done, _all: None,
        on_recovered: Callable[[Recovered], None] = lambda _recovered: None,
        on_progress: SnapshotProgress = lambda _article, _rows: None,
        limits: DeviceLimits = DEFAULT_LIMITS,
    ) -> Summary | None:
        """Copy the device's tables again, as the hub has them; return what was uploaded before.

        Without `upload_first`, what was changed since the last synchronisation is lost. With it, also what was changed
        in rebuilt tables is uploaded, as by `MergeReplication.reinitialize`, and programs wait until the rows are
        there. A repeated call resumes an interrupted one. Tables that the device created itself stay.

        Raises `DeviceNotRegistered`, `PublicationUnclear`, `PublicationsShared`, `SchemaNotFollowed`, `NodeBusy`,
        `UploadNotComparable`, `TablesUnfit`, and what `GatewayClient.ask` raises.
        """
        self._find_token()
        key_path = self._beside("reinitializing")
        with open_synchronised(f"sqlite:///{self.path}", limits) as node:
            name = self.publication or self._find_publication(node)
            key, summary = _read_key(key_path), None
            if key is None:
                if upload_first:
                    transport = GatewayTransport(self._client)
                    found = recover_device(transport, node, name, str(self.path), absent_is_delete=absent_is_delete)
                    for recovered in found:
                        on_recovered(recovered)
                    summary = self._exchange(node, ExchangeType.UPLOAD, on_upload, reinitializes=True)
                follow_hub(GatewayTransport(self._client), node, name, str(self.path))
                key = make_request_key()
            fetching = partial(self._fetch_again, key_path, key, node, name)
            fill_again(node, name, str(self.path), fetching, is_uploaded=upload_first, on_progress=on_progress)
        for path in (self._beside("again"), *map(self._beside, ("again-wal", "again-shm")), key_path):
            path.unlink(missing_ok=True)
        return summary

    @contextmanager
    def _fetch_again(self, key_path: Path, key: str, node: Node, name: str) -> Iterator[Node]:
        """Yield a new file for the device, downloaded beside its own. Raises `PublicationsShared`."""
        _write_private(key_path, key)
        path, state = self._beside("again"), None
        if len(list_publications(node.connection)) > 1:
            # The hubs of its other publications know the device by its nickname, which the new file has to keep.
            state = find_device(node, name, str(self.path)).describe_for_question()
        try:
            if not path.exists():
                fetch_first_file(self._client, path, key, FileRequest(replaces=True, state=state))
        except NodeRestored as error:
            key_path.unlink()
            raise PublicationsShared(str(self.path), name) from error
        with open_synchronised(f"sqlite:///{path}") as made:
            yield made

    def _exchange(
        self, node: Node, exchange: ExchangeType, on_progress: Progress, *, reinitializes: bool = False
    ) -> Summary:
        return synchronise_device(
            GatewayTransport(self._client),
            node,
            self.publication or self._find_publication(node),
            str(self.path),
            on_progress,
            RequestedExchange(exchange, reinitializes=reinitializes, confirmed=self._beside("sending")),
        )

    def _beside(self, what: str) -> Path:
        """Return the path of a file beside the device's."""
        return self.path.with_name(f"{self.path.name}.{what}")

    def list_pending(self) -> Sequence[PendingChanges]:
        """Return the numbers of changes that a synchronisation would send, by article and direction; writes nothing at
        either end.

        Raises `DeviceNotRegistered`, `PublicationUnclear`, what `MergeReplication.list_pending` raises, and what
        `GatewayClient.ask` raises.
        """
        self._find_token()
        with open_synchronised(f"sqlite:///{self.path}") as node:
            own = find_device(node, self.publication or self._find_publication(node), str(self.path))
            return list_pending_of_device(own, str(self.path), GatewayTransport(self._client).list_pending)

    def validate(
        self, *, checksum: bool = False, on_progress: Callable[[str], None] = lambda _article: None
    ) -> Sequence[ArticleValidation]:
        """Compare the device's rows with the hub's: row counts, or all values too.

        Changes that are not exchanged yet count as differences. Raises `DeviceNotRegistered`, `PublicationUnclear`,
        `DefinitionsDiffer`, `MergedTableAltered`, and what `GatewayClient.ask` raises.
        """
        self._find_token()
        with open_synchronised(f"sqlite:///{self.path}") as node:
            own = find_device(node, self.publication or self._find_publication(node), str(self.path))
            ask = GatewayTransport(self._client).validate
            return validate_device(own, str(self.path), ask, checksum=checksum, on_progress=on_progress)

    def _remove_empty(self) -> None:
        """Remove an empty file, as left by a program that opened its database before the first download."""
        try:
            if self.path.exists() and not self.path.stat().st_size:
                self.path.unlink()
        except OSError as error:
            raise FileNotWritable(str(self.path), error.strerror or str(error)) from error

    def sign_in(self) -> None:
        """Use a new token of `claims` from now on: another user has signed in."""
        self._client.forget_claims()

    def wait(self, wait_s: float = LONGEST_WAIT_S) -> bool:
        """Wait until the hub has changes for the device, and return whether it has; at most 60 seconds."""
        self._find_token()
        with open_synchronised(f"sqlite:///{self.path}") as node:
            name = self.publication or self._find_publication(node)
            own = list_subscriptions(node.connection, get_publication(node.connection, name).pubid)
        received = max((one.received for one in own), default=0)
        return send_plain(self._client, "wait", Wait(received, wait_s), Waited).has_changes

    def list_conflicts(self) -> Sequence[DeviceConflict]:
        """Return the conflicts in which changes of this device lost, as the hub keeps them."""
        self._find_token()
        return send_plain(self._client, "conflicts", Done(), DeviceConflicts).conflicts

    def logout(self) -> None:
        """Revoke the token and remove it; unsynchronised changes stay in the file."""
        self._find_token()
        with suppress(TokenRefused):  # a request whose answer was lost has done it
            send_plain(self._client, "logout", Done(), Done)
        self.token_path.unlink(missing_ok=True)
        self._client.token = ""

    def _find_publication(self, node: Node) -> str:
        listed = list_publications(node.connection) if node.tables.is_prepared() else ()
        names = [one.name for one in listed if one.publisher != read_nickname(node.connection)]
        if len(names) != 1:
            raise PublicationUnclear(str(self.path), ", ".join(names) or "no publication")
        return names[0]

    def _find_token(self) -> None:
        if not self._client.token:
            if not self.token_path.exists() and self._client.claims is not None:
                self.register()
                return
            if not self.token_path.exists():
                raise DeviceNotRegistered(str(self.path))
            self._client.token = FilePassword(str(self.token_path)).read()


def _read_key(path: Path) -> str | None:
    return path.read_text().strip() or None if path.exists() else None


def _write_private(path: Path, text: str) -> None:
    """Write a file atomically, readable by its owner alone."""
    new = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    try:
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(f"{text}\n")
            file.flush()
            os.fsync(file.fileno())
        failpoint("device_token.before")
        os.replace(new, path)
        failpoint("device_token.after")
    except OSError as error:
        raise FileNotWritable(str(path), error.strerror or str(error)) from error
