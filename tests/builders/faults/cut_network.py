"""A network to several servers that delays, limits the rate, and cuts connections at a byte; any protocol over TCP."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from builders.faults.slow_network import serving_network

_PIECE_BYTES = 1 << 14
_MOST_UNDER_WAY = 64
"""Of pieces in one direction: who sends more waits."""


@dataclass
class CutNetwork:
    """Leads each new connection to the next server of 127.0.0.1; one that refuses it, refuses it."""

    ports: Sequence[int]
    delay_s: float = 0.0
    """In one direction: half a round trip."""
    bytes_per_s: float | None = None
    passed: int = 0
    """The number of bytes, in both directions together."""
    cut_at: int | None = None
    """The connection that passes this byte is cut, once: an even one is closed, an odd one reset."""
    again: Callable[[], int] | None = None
    """After how many bytes more it is cut again: a device may go on over a new connection without a pause."""
    cuts: int = 0
    port: int = 0
    connections: int = 0

    def cut_after(self, count: int) -> None:
        """Cut a connection once so many more bytes have passed."""
        self.cut_at = self.passed + count

    async def serve(self, started: Callable[[], None]) -> None:
        """Accept connections until cancelled; call `started` once it does."""
        server = await asyncio.start_server(self._lead, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        started()
        async with server:
            await server.serve_forever()

    async def _lead(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        port = self.ports[self.connections % len(self.ports)]
        self.connections += 1
        try:
            server_reader, server_writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            writer.transport.abort()
            return
        passing = [
            asyncio.ensure_future(self._pass(reader, server_writer)),
            asyncio.ensure_future(self._pass(server_reader, writer)),
        ]
        try:
            done, _ = await asyncio.wait(passing, return_when=asyncio.FIRST_COMPLETED)
            if any(task.result() for task in done):
                writer.transport.abort()
        except asyncio.CancelledError:
            pass
        finally:
            for task in passing:
                task.cancel()
            writer.close()
            server_writer.close()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Pass bytes on until the end, or the cut; return whether the connection is to be reset."""
        pieces: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_MOST_UNDER_WAY)
        taking = asyncio.ensure_future(self._take(reader, pieces))
        try:
            with suppress(ConnectionError):
                while (come := await pieces.get())[1]:
                    due, piece = come
                    await asyncio.sleep(due - asyncio.get_running_loop().time())
                    cut = self.cut_at
                    if cut is not None and cut < self.passed + len(piece):
                        piece = piece[: max(0, cut - self.passed)]
                        self.cut_at, self.cuts = None, self.cuts + 1
                        if self.again is not None:
                            self.cut_after(self.again())
                        writer.write(piece)
                        await writer.drain()
                        return cut % 2 == 1
                    self.passed += len(piece)
                    writer.write(piece)
                    await writer.drain()
            return False
        finally:
            taking.cancel()

    async def _take(self, reader: asyncio.StreamReader, pieces: asyncio.Queue[tuple[float, bytes]]) -> None:
        """Put pieces with the times at which they arrive: one is sent while those before it are under way."""
        loop, free_at, piece = asyncio.get_running_loop(), 0.0, b"-"
        while piece:
            try:
                piece = await reader.read(_PIECE_BYTES)
            except ConnectionError:
                piece = b""
            free_at = max(free_at, loop.time()) + (len(piece) / self.bytes_per_s if self.bytes_per_s else 0.0)
            await pieces.put((free_at + self.delay_s, piece))


@contextmanager
def cut_network(*ports: int) -> Iterator[CutNetwork]:
    """Run a network to servers."""
    network = CutNetwork(ports)
    with serving_network(network.serve):
        yield network
