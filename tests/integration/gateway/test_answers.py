"""What else than a gateway may answer a device: a network's sign-in page, half an answer, another version."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any, ClassVar

import pytest

from builders.servers.http_servers import serving
from rowtide.core.errors import Invalid, Retryable
from rowtide.gateway.client import GatewayClient, send_plain
from rowtide.gateway.errors import (
    GatewayNotReached,
)
from rowtide.gateway.requests import Done, Wait, Waited
from rowtide.gateway.wire.envelopes import CONTENT_TYPE, Envelope, pack, write

GOOD = write(Envelope(Waited(has_changes=True)))
PLAIN = {"protocol": 1, "batches": [], "is_last": True}
LONG, _ = pack(b" " * 10_000 + GOOD)
OF_GATEWAY = {"Content-Type": CONTENT_TYPE, "Rowtide-Protocol": "1"}
Answer = tuple[int, dict[str, str], bytes, int]
"""A status, headers, a body, and how many bytes it says that this has."""
PAGE = b"<html>Welcome to the Hotel. Please accept our terms.</html>"


class Answering(BaseHTTPRequestHandler):
    """Gives the next of some answers."""

    answers: ClassVar[list[Answer]] = []
    seen: ClassVar[list[bytes]] = []

    def do_POST(self) -> None:
        self.seen.append(self.rfile.read(int(self.headers["Content-Length"])))
        status, headers, body, length = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def answered(*answers: Answer) -> Iterator[GatewayClient]:
    """Yield a client of what gives these answers, the last one again and again; it does not wait between attempts."""
    Answering.answers, Answering.seen = list(answers), []
    with serving(Answering) as url:
        client = GatewayClient(f"{url}/hub", "token", pause=lambda _seconds: None)
        try:
            yield client
        finally:
            client.close()


def given(body: bytes, headers: dict[str, str] | None = None, *, missing: int = 0, status: int = 200) -> Answer:
    """Return an answer, of which some bytes do not come."""
    return status, headers or OF_GATEWAY, body[: len(body) - missing], len(body)


def ask(client: GatewayClient) -> bool:
    return send_plain(client, "wait", Wait(1), Waited).has_changes


JSON, HTML = {"Content-Type": CONTENT_TYPE}, {"Content-Type": "text/html"}
PACKED = OF_GATEWAY | {"Content-Encoding": "gzip"}
BAD = {
    "a sign-in page": (given(PAGE, HTML), "no gateway of rowtide: status 200, text/html"),
    "a page that says it is JSON": (
        given(PAGE, {"Content-Type": CONTENT_TYPE}),
        "no gateway of rowtide: status 200",
    ),
    "an error of a proxy": (given(PAGE, HTML, status=502), "no gateway of rowtide: status 502"),
    "a redirect": (
        given(b"", {"Location": "https://login.example"}, status=302),
        "no gateway of rowtide: status 302",
    ),
    "half of an answer": (given(GOOD, missing=20), "is incomplete: 20 bytes are missing"),
    "half of a packed answer": (given(LONG, PACKED, missing=20), "is incomplete: 20 bytes are missing"),
    "a packed answer that is none": (given(GOOD, PACKED), "is incomplete"),
}


@pytest.mark.parametrize("bad", BAD)
def test_what_is_no_answer_is_asked_for_again(bad: str) -> None:
    answer, problem = BAD[bad]
    with answered(answer, answer, given(GOOD)) as client:
        assert ask(client)
    assert len(Answering.seen) == 3
    assert len(set(Answering.seen)) == 1
    with answered(answer) as client, pytest.raises(Retryable, match=problem):
        ask(client)


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({"protocol": 2, "message": {}, "news": []}, "has version 2 of the wire protocol; 1 is spoken here"),
        (
            {"protocol": 1, "message": {"has_changes": True, "news": 1}, "batches": [], "is_last": True},
            "unknown field 'news'",
        ),
        (
            {"protocol": 1, "message": {"has_changes": "yes"}, "batches": [], "is_last": True},
            "neither true nor false",
        ),
    ],
)
def test_another_version_is_not_asked_again(document: Any, problem: str) -> None:
    with answered(given(json.dumps(document).encode())) as client, pytest.raises(Invalid, match=problem):
        ask(client)
    assert len(Answering.seen) == 1


def test_a_gateway_that_is_not_there_is_named() -> None:
    with answered(given(GOOD)) as client:
        url = client.url
    gone = GatewayClient(url, "secret-token", pause=lambda _seconds: None)
    with pytest.raises(GatewayNotReached) as refused:
        send_plain(gone, "logout", Done(), Done)
    assert url in str(refused.value)
    assert "secret-token" not in str(refused.value)
