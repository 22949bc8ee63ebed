"""What a gateway answers when it cannot serve: a hub that cannot be used, and a request that comes slowly."""

from __future__ import annotations

import socket
import sqlite3
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path

import pytest

import rowtide
from rowtide import http_connections
from rowtide.core.addresses import Address
from rowtide.core.formats import FormatNewer, FormatUnnumbered, StoredFormat, format_row
from rowtide.gateway.client import GatewayClient, make_request_key, send_plain
from rowtide.gateway.errors import HubNotReached
from rowtide.gateway.http_server import serving_gateway
from rowtide.gateway.hubs import Hub
from rowtide.gateway.limits import GatewayLimits
from rowtide.gateway.requests import DeviceRegistration, RegisteredDevice
from rowtide.gateway.tls import TlsOptions

CODE = "00000-00000-00000-00000-00000"


def test_a_hub_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    """One that is down, one of an earlier build, and one of a later: each is an error of its own."""
    hubs = {"down": Hub("down", "postgresql://sync@127.0.0.1:1/none")}
    for name in ("earlier", "later"):
        path = tmp_path / f"{name}.db"
        path.touch()
        hubs[name] = Hub(name, f"sqlite:///{path}")
        rowtide.connect(hubs[name].url).merge.add_publication("shop")
        with closing(sqlite3.connect(path)) as program, program:
            program.execute('drop view "MSmerge_format"')
            if name == "later":
                program.execute(f'create view "MSmerge_format" as {format_row(StoredFormat(9, 9, 9))}')
    with serving_gateway(hubs, Address("127.0.0.1", 0), TlsOptions()) as address:
        for name, expected, problem in (
            ("down", HubNotReached, "the database of hub down"),
            ("earlier", FormatUnnumbered, "before formats had numbers"),
            ("later", FormatNewer, "it has format 9"),
        ):
            client = GatewayClient(f"http://{address}/{name}", pause=lambda _seconds: None)
            with closing(client), pytest.raises(expected, match=problem):
                send_plain(client, "register", DeviceRegistration(CODE), RegisteredDevice, key=make_request_key())


def test_a_request_that_comes_slowly_is_refused(tmp_path: Path) -> None:
    hubs = {"shop": Hub("shop", f"sqlite:///{tmp_path / 'shop.db'}")}
    limits = GatewayLimits(body_s=0.1)
    head = b"POST /shop/register HTTP/1.1\r\nHost: gateway\r\nContent-Length: 100\r\n\r\n{"
    with (
        serving_gateway(hubs, Address("127.0.0.1", 0), TlsOptions(), limits=limits) as address,
        socket.create_connection((address.host, address.port), timeout=60) as device,
        device.makefile("rb") as answer,
    ):
        device.sendall(head)
        assert answer.readline().split()[1] == b"408"
        said = b""
        while b"RT-8415" not in said:
            more = answer.read1()
            assert more, said
            said += more


@pytest.mark.parametrize(
    "begun", [b"", b"POST /shop/sync HTTP/1.1\r\nHost: x\r\nX-", b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /he"]
)
def test_who_never_sends_a_request_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begun: bytes) -> None:
    """As many connections as a process may have would keep all others out."""
    monkeypatch.setattr(http_connections, "HEAD_S", 0.2)
    hubs = {"shop": Hub("shop", f"sqlite:///{tmp_path / 'shop.db'}")}
    with (
        serving_gateway(hubs, Address("127.0.0.1", 0), TlsOptions()) as address,
        socket.create_connection((address.host, address.port), timeout=60) as device,
    ):
        device.sendall(begun)
        while device.recv(1000):
            pass
        status = HTTPConnection(address.host, address.port, timeout=60)
        with closing(status):
            status.request("GET", "/healthz")
            assert status.getresponse().status == 200
