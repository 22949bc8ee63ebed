"""What arrives over a local socket, in whatever pieces."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from psycopg.pq.abc import PGconn

from rowtide.log.log_source import Keepalive, ReceivedMessages
from rowtide.log.postgres.stream import local_copy
from rowtide.log.postgres.stream.copy_data import CopyEnded, Report
from rowtide.log.postgres.stream.local_copy import FRAME_HEAD, LocalCopy

HEADER = b"w" + bytes(24)
NOTICE = b"SWARNING\0C55000\0Mskipped\0\0"
ERROR = b"SERROR\0C22021\0Minvalid byte\0Dthe byte\0Wwhile sending\0\0"
KEEPALIVE = struct.pack(">cqqb", b"k", 1, 2, 0)


@dataclass(frozen=True)
class Connection:
    """A connection as far as it is used: its descriptor."""

    socket: int


@dataclass
class Wire:
    """Both ends of a socket: what the server writes, and how it is read."""

    server: socket.socket
    copy: LocalCopy
    received: ReceivedMessages

    def send(self, *frames: tuple[bytes, bytes]) -> None:
        self.server.sendall(b"".join(map(frame, frames)))

    def fetch(self, max_size: int = 1 << 20, max_messages: int = 1000) -> bytes | None:
        return self.copy.fetch(self.received, max_size=max_size, max_messages=max_messages)

    @property
    def contents(self) -> list[bytes]:
        return [message.removeprefix(HEADER) for message in self.received.messages]


def frame(parts: tuple[bytes, bytes]) -> bytes:
    kind, body = parts
    return FRAME_HEAD.pack(kind, FRAME_HEAD.size - 1 + len(body)) + body


def row(content: bytes) -> tuple[bytes, bytes]:
    return b"d", HEADER + content


@pytest.fixture
def wire() -> Iterator[Wire]:
    server, client = socket.socketpair()
    connection: PGconn = Connection(client.fileno())  # type: ignore[assignment]
    copy = LocalCopy(connection, lambda report: report.sqlstate == "55000")
    with server, client:
        yield Wire(server, copy, ReceivedMessages())
        copy.close()


def test_messages_arrive_in_order_in_whatever_pieces(wire: Wire) -> None:
    sent = [f"I{number}".encode() for number in range(20)]
    for byte in b"".join(frame(row(content)) for content in sent):
        wire.server.sendall(bytes([byte]))
        assert wire.fetch() is None
    assert wire.contents == sent
    assert wire.received.size == sum(len(HEADER + content) for content in sent)


def test_a_message_larger_than_the_buffer_arrives_whole(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_copy, "_READ_BYTES", 16)
    sent = [b"I" + bytes(size) for size in (0, 1, 30_000, 2, 60_000, 3)]
    for count, content in enumerate(sent, 1):
        wire.send(row(content))
        while len(wire.received.messages) < count:
            assert wire.fetch() is None
    assert wire.contents == sent


def test_a_keepalive_is_returned_at_its_place(wire: Wire) -> None:
    wire.received.keepalive = Keepalive(1, None)
    wire.send(row(b"I1"), (b"d", KEEPALIVE), row(b"I2"))

    assert wire.fetch() == KEEPALIVE
    assert wire.contents == [b"I1"]
    assert wire.received.keepalive is None
    assert wire.fetch() is None
    assert wire.contents == [b"I1", b"I2"]


def test_what_is_beyond_a_limit_waits(wire: Wire) -> None:
    wire.send(*(row(b"I%d" % number) for number in range(5)))

    wire.fetch(max_messages=2)
    assert wire.contents == [b"I0", b"I1"]
    wire.fetch(max_size=wire.received.size + 1)
    assert wire.contents == [b"I0", b"I1", b"I2"]
    wire.fetch()
    assert len(wire.contents) == 5


def test_a_large_message_of_an_application_is_left_out(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_copy, "LARGE_MESSAGE_BYTES", len(HEADER) + 4)
    wire.send(row(b"I"), row(b"M large"), row(b"I large"), row(b"M"))

    wire.fetch()
    assert wire.contents == [b"I", b"I large", b"M"]


@pytest.mark.parametrize("end", [(b"N", NOTICE), (b"c", b""), (b"C", b"COPY 0\0")])
def test_the_stream_ends_after_what_came_before(wire: Wire, end: tuple[bytes, bytes]) -> None:
    wire.send((b"S", b"TimeZone\0UTC\0"), (b"N", NOTICE.replace(b"55000", b"00000")), row(b"I"), end)

    with pytest.raises(CopyEnded) as ended:
        wire.fetch()
    assert (ended.value.report, wire.contents) == (None, [b"I"])


def test_an_error_is_reported_with_its_details(wire: Wire) -> None:
    wire.send(row(b"I"), (b"E", ERROR))

    with pytest.raises(CopyEnded) as ended:
        wire.fetch()
    text = "ERROR: invalid byte DETAIL: the byte CONTEXT: while sending"
    assert ended.value.report == Report("22021", "invalid byte", text)


def test_the_other_sides_end_comes_after_what_it_sent(wire: Wire) -> None:
    wire.send(row(b"I"))
    wire.server.close()

    with pytest.raises(CopyEnded, match="closed the connection"):
        wire.fetch()
    assert wire.contents == [b"I"]


def test_what_is_no_frame_ends_the_stream(wire: Wire) -> None:
    wire.server.sendall(b"d\0\0\0\0w")

    with pytest.raises(CopyEnded, match="no frame"):
        wire.fetch()


def test_a_refusal_of_the_first_command_is_returned(wire: Wire) -> None:
    wire.send((b"E", ERROR))

    refused = wire.copy.start(b"START_REPLICATION")
    assert wire.server.recv(100) == frame((b"Q", b"START_REPLICATION\0"))
    assert refused is not None
    assert refused.sqlstate == "22021"
