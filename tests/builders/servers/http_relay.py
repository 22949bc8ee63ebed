"""Messages of HTTP/1.1 passed on between two connections, as bytes: bodies are streamed, nothing is rewritten."""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass, field

PIECE_BYTES = 256 << 10
_PIECES_PER_S = 20
"""On a slow network: so often something comes."""
_BODILESS = (204, 304)


@dataclass(frozen=True, slots=True)
class Head:
    """The first line and the headers of a message, as they came."""

    first: bytes
    headers: tuple[bytes, ...]

    @property
    def status(self) -> int:
        """The status of a reply."""
        return int(self.first.split(b" ", 2)[1])

    @property
    def closes(self) -> bool:
        return self.value(b"connection") == b"close"

    def value(self, name: bytes) -> bytes:
        """Return a header's value in lower case, nothing where it is not there."""
        parted = (header.partition(b":") for header in self.headers)
        return next((value.strip().lower() for found, _, value in parted if found.lower() == name), b"")

    def without(self, name: bytes) -> Head:
        return Head(self.first, tuple(each for each in self.headers if each.partition(b":")[0].lower() != name))

    def encoded(self) -> bytes:
        return b"\r\n".join((self.first, *self.headers, b"", b""))


@dataclass
class Pace:
    """How fast a network passes the bytes of each connection on; it may be changed at any time."""

    bytes_per_s: float | None = None
    silent_after: int | None = None
    """From so many bytes on nothing passes any more, and neither end is told."""
    passed: int = 0
    """Of all connections together."""
    _never: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def piece_bytes(self) -> int:
        """How many bytes are passed on at once."""
        return PIECE_BYTES if self.bytes_per_s is None else max(1, int(self.bytes_per_s / _PIECES_PER_S))

    async def take(self, count: int) -> None:
        """Wait until this many bytes have passed."""
        if self.silent_after is not None and self.passed + count > self.silent_after:
            await self._never.wait()
        self.passed += count
        if self.bytes_per_s is not None:
            await asyncio.sleep(count / self.bytes_per_s)


class Relay:
    """A client's connection, and one to the server for it, made when there is something to pass on."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, upstream: tuple[str, int], pace: Pace
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._upstream = upstream
        self._pace = pace
        self._server: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def next_request(self) -> Head | None:
        """Read the head of a request; None where the client has closed the connection."""
        head = await _read_head(self._reader)
        if head is not None and head.value(b"expect") == b"100-continue":
            self._writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            return head.without(b"expect")
        return head

    async def exchange(self, request: Head, *, is_reply_lost: bool) -> bool:
        """Pass a request and its reply on; return whether the connection can be kept."""
        await self._pace.take(len(request.encoded()))
        from_server, to_server = await self._connected()
        to_server.write(request.encoded())
        body = asyncio.ensure_future(_copy_body(request, self._reader, to_server, self._pace))
        try:
            reply = await _read_head(from_server)
            if reply is None:
                raise ConnectionResetError("the server has closed the connection")
            to_client = None if is_reply_lost else self._writer
            if to_client is not None:
                to_client.write(reply.encoded())
            is_delimited = await _copy_reply_body(request, reply, from_server, to_client, self._pace)
            if is_reply_lost:
                await body
                self.reset()
        finally:
            is_whole = body.done()
            body.cancel()
        return is_whole and is_delimited and not (is_reply_lost or request.closes or reply.closes)

    async def refuse(self, request: Head, status: bytes, code: bytes) -> bool:
        """Answer with an error of S3 in the server's place; return whether the connection can be kept."""
        await _copy_body(request, self._reader, None, self._pace)
        error = (
            b"<?xml version='1.0' encoding='UTF-8'?><Error><Code>%s</Code><Message>injected</Message></Error>" % code
        )
        shown = b"" if request.first.startswith(b"HEAD ") else error
        head = b"HTTP/1.1 %s\r\nContent-Type: application/xml\r\nContent-Length: %d\r\n\r\n" % (status, len(error))
        self._writer.write(head + shown)
        await self._writer.drain()
        return not request.closes

    def reset(self) -> None:
        """Close the client's connection with RST, whatever has not been sent."""
        connection = self._writer.get_extra_info("socket")
        with suppress(OSError):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()

    def close(self) -> None:
        """Close both connections, the client's once what it was answered is sent."""
        self._writer.close()
        if self._server is not None:
            self._server[1].close()

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._server is None or self._server[0].at_eof():
            if self._server is not None:
                self._server[1].close()
            self._server = await asyncio.open_connection(*self._upstream, limit=PIECE_BYTES)
        return self._server


async def _read_head(reader: asyncio.StreamReader) -> Head | None:
    try:
        encoded = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise
        return None
    first, *headers = encoded[:-4].split(b"\r\n")
    return Head(first, tuple(headers))


async def _copy_reply_body(
    request: Head, reply: Head, reader: asyncio.StreamReader, writer: asyncio.StreamWriter | None, pace: Pace
) -> bool:
    """Copy a reply's body; return whether its end was told from that of the connection."""
    if request.first.startswith(b"HEAD ") or reply.status in _BODILESS:
        return True
    if reply.value(b"content-length") or reply.value(b"transfer-encoding"):
        await _copy_body(reply, reader, writer, pace)
        return True
    while piece := await reader.read(PIECE_BYTES):
        await _write(writer, piece)
    return False


async def _copy_body(head: Head, reader: asyncio.StreamReader, writer: asyncio.StreamWriter | None, pace: Pace) -> None:
    if head.value(b"transfer-encoding") != b"chunked":
        await _copy_bytes(int(head.value(b"content-length") or 0), reader, writer, pace)
        return
    size = -1
    while size != 0:
        line = await reader.readuntil(b"\r\n")
        size = int(line.partition(b";")[0], 16)
        await _write(writer, line)
        if size:
            await _copy_bytes(size + len(b"\r\n"), reader, writer, pace)
    trailer = b""
    while trailer != b"\r\n":
        trailer = await reader.readuntil(b"\r\n")
        await _write(writer, trailer)


async def _copy_bytes(
    count: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter | None, pace: Pace
) -> None:
    while count:
        piece = await reader.read(min(count, pace.piece_bytes))
        if not piece:
            raise asyncio.IncompleteReadError(b"", count)
        count -= len(piece)
        await pace.take(len(piece))
        await _write(writer, piece)


async def _write(writer: asyncio.StreamWriter | None, piece: bytes) -> None:
    if writer is not None:
        writer.write(piece)
        await writer.drain()
