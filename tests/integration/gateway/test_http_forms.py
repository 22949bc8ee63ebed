"""Requests that a proxy may read as others than the gateway does: refused, and their connection is closed."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

import pytest

import rowtide
from rowtide.core.addresses import Address
from rowtide.gateway.errors import TooManyRequests
from rowtide.gateway.http_server import serving_gateway
from rowtide.gateway.hubs import Hub
from rowtide.gateway.limits import GatewayLimits
from rowtide.gateway.tls import TlsOptions

HEAD = b"POST /shop/conflicts HTTP/1.1\r\nHost: x\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
HIDDEN = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
"""What a proxy would have seen as part of the request before."""

AMBIGUOUS = (
    HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    b"POST /shop/sync HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcde",
    HEAD + b"Content-Length: +5\r\n\r\nabcde",
    HEAD + b"Content-Length: 0_5\r\n\r\nabcde",
    HEAD + b"Content-Length: 0x5\r\n\r\nabcde",
    HEAD + b"Content-Length: \r\n\r\n",
    HEAD + b"Content-Length: 9999999999999999999999999\r\n\r\n",
    HEAD + b"Content-Length : 5\r\n\r\nabcde",
    HEAD + b" Content-Length: 5\r\n\r\nabcde",
    HEAD + b"Content-Length:\r\n 5\r\n\r\nabcde",
    HEAD + b"X-A: b\r\n\tc\r\nContent-Length: 5\r\n\r\nabcde",
    HEAD + b"X-A: b\rContent-Length: 0\r\nContent-Length: 5\r\n\r\nabcde",
    HEAD + b"X-A: b\nContent-Length: 5\r\n\r\nabcde",
    HEAD + b"X-A: b\0\r\nContent-Length: 5\r\n\r\nabcde",
    HEAD + b"Host: y\r\nContent-Length: 0\r\n\r\n",
    b"POST /shop/sync HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
    HEAD + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    HEAD + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    CHUNKED + b"+2\r\n{}\r\n0\r\n\r\n",
    CHUNKED + b"0x2\r\n{}\r\n0\r\n\r\n",
    CHUNKED + b"0_2\r\n{}\r\n0\r\n\r\n",
    CHUNKED + b" 2\r\n{}\r\n0\r\n\r\n",
    CHUNKED + b"2\n{}\n0\n\n",
    CHUNKED + b"2;a\nb\r\n{}\r\n0\r\n\r\n",
    CHUNKED + b"2\r\n{}XX0\r\n\r\n",
    CHUNKED + b"FFFFFFFFFFFFFFFFFFFFFFFFFFFF\r\n{}\r\n0\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
)
UNAMBIGUOUS = (
    HEAD + b"Content-Length: 2\r\n\r\n{}",
    HEAD + b"Content-Length: 2, 2\r\n\r\n{}",
    CHUNKED + b"2\r\n{}\r\n0\r\n\r\n",
    CHUNKED + b"2;name=value\r\n{}\r\n0\r\n\r\n",
    CHUNKED + b"2\r\n{}\r\n0\r\nAuthorization: Bearer other\r\n\r\n",
)


@pytest.fixture
def address(tmp_path: Path) -> Iterator[Address]:
    hubs = {"shop": Hub("shop", f"sqlite:///{tmp_path / 'shop.db'}")}
    (tmp_path / "shop.db").touch()
    rowtide.connect(hubs["shop"].url).merge.add_publication("shop")
    with serving_gateway(
        hubs, Address("127.0.0.1", 0), TlsOptions(), limits=GatewayLimits(refusals_per_minute=10)
    ) as served:
        yield served


def send(address: Address, sent: bytes) -> bytes:
    """Return all that comes until the connection is closed."""
    with socket.create_connection((address.host, address.port), timeout=60) as connection:
        connection.sendall(sent)
        came = b""
        while more := connection.recv(65536):
            came += more
        return came


def test_an_ambiguous_request_ends_its_connection(address: Address) -> None:
    for ambiguous in AMBIGUOUS:
        came = send(address, ambiguous + HIDDEN)
        head, _, body = came.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 400 "), ambiguous
        problem = json.loads(body)
        assert (problem["code"], problem["status"]) == ("RT-8411", 400)


def test_what_is_unambiguous_is_answered(address: Address) -> None:
    last = HIDDEN.replace(b"Host: x", b"Host: x\r\nConnection: close")
    for sent in UNAMBIGUOUS:
        statuses = [part[:3] for part in send(address, sent + last).split(b"HTTP/1.1 ")[1:]]
        assert statuses == [b"401", b"200"], sent


def test_no_address_is_redirected(address: Address) -> None:
    """A redirection would have the address as the proxy wrote it, without TLS."""
    connection = HTTPConnection(address.host, address.port, timeout=60)
    connection.request("POST", "/shop/sync/")
    answer = connection.getresponse()
    assert (answer.status, json.loads(answer.read())["code"]) == (404, "RT-8417")
    connection.close()


def test_a_made_up_address_is_not_that_of_a_proxy(address: Address) -> None:
    """Some proxies append a line of their own to the header that the client has sent."""
    connection = HTTPConnection(address.host, address.port, timeout=60)
    for number in range(12):
        connection.putrequest("POST", "/shop/conflicts")
        connection.putheader("X-Forwarded-For", f"192.0.2.{number}")
        connection.putheader("X-Forwarded-For", "198.51.100.7")
        connection.putheader("Content-Length", "0")
        connection.endheaders()
        answer = connection.getresponse()
        code = json.loads(answer.read())["code"]
    assert code == f"RT-{TooManyRequests.number}"
    connection.close()
