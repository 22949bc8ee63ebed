"""A gateway before a hub, on this machine, and devices that only reach it."""

from __future__ import annotations

import http.client
import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from builders.merge.merged_databases import PUBLICATION, FileMember, Merge
from rowtide.core.addresses import Address
from rowtide.gateway.client import GatewayClient, make_request_key, send_plain
from rowtide.gateway.http_server import serving_gateway
from rowtide.gateway.hubs import Hub
from rowtide.gateway.jwt_identity import Issuer
from rowtide.gateway.limits import DEFAULT_GATEWAY_LIMITS, GatewayLimits
from rowtide.gateway.requests import DeviceRegistration, RegisteredDevice
from rowtide.gateway.tls import TlsOptions

HUB = "hub"


@dataclass
class Gateway:
    """A gateway that runs, before the hub of a merge."""

    address: Address
    merged: Merge
    pauses: list[float] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://{self.address}/{HUB}"

    def client(self, token: str = "", **options: Any) -> GatewayClient:
        """Return a client that does not wait between attempts."""
        return GatewayClient(self.url, token, pause=self.pauses.append, **options)

    def register(self, code: str, **options: Any) -> GatewayClient:
        """Return the client of a device that has exchanged its code."""
        client = self.client(**options)
        client.token = send_plain(
            client, "register", DeviceRegistration(code), RegisteredDevice, key=make_request_key()
        ).token
        return client

    def add(self, name: str, **options: Any) -> GatewayClient:
        """Return the client of a new device."""
        return self.register(self.merged.merge.add_device(name, publication=PUBLICATION, **options))

    def send(
        self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> tuple[int, http.client.HTTPMessage, bytes]:
        """Send any request, and return the status, the headers and the body of its answer."""
        connection = http.client.HTTPConnection(self.address.host, self.address.port, timeout=20)
        try:
            connection.request(method, path, body or None, dict(headers or {}))
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def problem(self, path: str, document: object, **headers: str) -> tuple[int, str]:
        """Send a document, and return the status and the number of the error that answers it."""
        status, said, body = self.send("POST", f"/{HUB}/{path}", json.dumps(document).encode(), headers)
        assert said["content-type"] == "application/problem+json", body
        problem = json.loads(body)
        assert problem["status"] == status
        return status, problem["code"]


@contextmanager
def serving_hub(
    merged: Merge,
    *,
    limits: GatewayLimits = DEFAULT_GATEWAY_LIMITS,
    issuer: Issuer | None = None,
    origins: tuple[str, ...] = (),
    files: str | None = None,
    publications: tuple[str, ...] = (),
) -> Iterator[Gateway]:
    """Serve the hub of a merge during the block."""
    hubs = {HUB: Hub(HUB, merged.hub.url)}
    options = TlsOptions(origins=origins, files=files)
    with serving_gateway(
        hubs, Address("127.0.0.1", 0), options, limits=limits, issuer=issuer, publications=publications
    ) as address:
        yield Gateway(address, merged)


def run_at(path: Path, *statements: str) -> list[Any]:
    """Run statements in one transaction, as a program of a device; return the rows of the last."""
    with closing(sqlite3.connect(path)) as program, program:
        return [program.execute(sql).fetchall() for sql in statements][-1]


def file_of(merged: Merge, number: int = 0) -> FileMember:
    """Return a subscriber that is a file."""
    member = merged.subscribers[number]
    assert isinstance(member, FileMember)
    return member
