"""A network between a program and a PostgreSQL server that counts round trips, delays, limits the rate, and fails.

A round trip is a message that the program sends once it has the whole answer to everything before: what is sent
together, or before an answer, is one. Connecting is not counted. The network is a thread of the test's own process, so
a program that holds the interpreter's lock while it waits for an answer waits for ever.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

_HEAD_BYTES = 5
_PIECE_BYTES = 1 << 16
_ANSWERED = (b"Q", b"S")
"""A query, and a Sync: each is answered by a ReadyForQuery."""
_READY, _COPY_IN = b"Z", b"G"
_ASKING_NOTHING = {b"H", b"X"}
"""A Flush, which libpq sends after a Sync, so that it may come after the answer to that; and the end."""


@dataclass
class _Messages:
    """Yields the kinds of the messages in a stream, whatever pieces it comes in."""

    awaited: int = 0
    held: bytes = b""

    def kinds(self, piece: bytes) -> Iterator[bytes]:
        data = self.held + piece
        place = self.awaited
        while place + _HEAD_BYTES <= len(data):
            yield data[place : place + 1]
            place += 1 + int.from_bytes(data[place + 1 : place + _HEAD_BYTES], "big")
        self.held = data[place:]
        self.awaited = max(0, place - len(data))


@dataclass
class Conversation:
    """What is asked and not answered yet on a connection; `is_open` once the server has accepted it.

    It is asking from the first message until the server is ready again, or waits for the data of a copy.
    """

    network: SlowNetwork
    is_open: bool = False
    is_asking: bool = False
    unanswered: int = 0
    asked: _Messages = field(default_factory=_Messages)
    answered: _Messages = field(default_factory=_Messages)

    def ask(self, piece: bytes) -> None:
        if not self.is_open:
            return
        kinds = list(self.asked.kinds(piece))
        self.unanswered += sum(kind in _ANSWERED for kind in kinds)
        if not self.is_asking and not _ASKING_NOTHING.issuperset(kinds):
            self.network.trips += 1
            self.is_asking = True

    def answer(self, piece: bytes) -> None:
        for kind in self.answered.kinds(piece):
            if kind == _READY:
                self.unanswered -= self.is_open
                self.is_open = True
            if kind == _COPY_IN or (kind == _READY and not self.unanswered):
                self.is_asking = False


@dataclass
class SlowNetwork:
    """Leads to a server; `trips` counts round trips on all connections, `sent` and `received` the bytes."""

    database_url: str
    delay_s: float = 0.0
    """Of a message in one direction: half a round trip."""
    bytes_per_s: float | None = None
    """In each direction."""
    trips: int = 0
    connections: int = 0
    sent: int = 0
    received: int = 0
    port: int = 0
    silent_after: int | None = None
    """From so many bytes on nothing passes any more; of a piece, what comes before passes."""
    tells: bool = False
    """Whether both ends are told of that: their connections are closed."""

    _never: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def url(self) -> str:
        """The URL by which a program reaches the database through this network."""
        parts = urlsplit(self.database_url)
        return f"postgresql://{parts.username}@127.0.0.1:{self.port}{parts.path}?sslmode=disable&gssencmode=disable"

    def within(self, silence_s: int) -> str:
        """Return the URL of a program whose sessions are silent after a time."""
        return f"{self.url}&options=-c%20rowtide.silence_timeout%3D{silence_s}&connect_timeout={silence_s}"

    @property
    def is_silent(self) -> bool:
        """Whether nothing passes."""
        return self.silent_after is not None and self.sent + self.received >= self.silent_after

    def cut(self, piece: bytes) -> bytes:
        """Return what passes of a piece."""
        if self.silent_after is None:
            return piece
        return piece[: max(0, self.silent_after - self.sent - self.received)]

    def reset(self) -> None:
        """Count from 0."""
        self.trips = self.connections = self.sent = self.received = 0

    async def serve(self, started: Callable[[], None]) -> None:
        server = await asyncio.start_server(self._lead, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        started()
        async with server:
            await server.serve_forever()

    async def _lead(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        found = parse_qs(urlsplit(self.database_url).query)
        path = f"{found['host'][0]}/.s.PGSQL.{found['port'][0]}"
        server_reader, server_writer = await asyncio.open_unix_connection(path)
        conversation = Conversation(self)

        def ask(piece: bytes) -> None:
            self.sent += len(piece)
            conversation.ask(piece)

        def answer(piece: bytes) -> None:
            self.received += len(piece)

        try:
            with suppress(ConnectionError, asyncio.CancelledError):
                await asyncio.gather(
                    self._pass(reader, server_writer, ask, lambda _piece: None),
                    self._pass(server_reader, writer, answer, conversation.answer),
                )
        finally:
            writer.close()
            server_writer.close()

    async def _fail(self) -> None:
        """Once nothing passes, wait for ever, or end the connection."""
        if self.is_silent:
            if self.tells:
                raise ConnectionResetError
            await self._never.wait()

    async def _pass(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        come: Callable[[bytes], None],
        gone: Callable[[bytes], None],
    ) -> None:
        """Pass bytes on, each piece after the delay, no faster than the rate."""
        loop = asyncio.get_running_loop()
        pieces: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def take() -> None:
            free_at = 0.0
            while True:
                piece = await reader.read(_PIECE_BYTES)
                await self._fail()
                if piece:
                    piece = self.cut(piece)
                    come(piece)
                now = loop.time()
                free_at = max(free_at, now) + (len(piece) / self.bytes_per_s if self.bytes_per_s else 0.0)
                await pieces.put((free_at + self.delay_s, piece))
                if self.tells:
                    await self._fail()
                if not piece:
                    return

        async def give() -> None:
            while True:
                due, piece = await pieces.get()
                if due > loop.time():
                    await asyncio.sleep(due - loop.time())
                if not piece:
                    writer.close()
                    return
                gone(piece)
                writer.write(piece)
                await writer.drain()

        try:
            await asyncio.gather(take(), give())
        finally:
            writer.close()


@contextmanager
def slow_network(database_url: str, *, delay_s: float = 0.0, bytes_per_s: float | None = None) -> Iterator[SlowNetwork]:
    """Run a network to a database of a server on a local socket."""
    network = SlowNetwork(database_url, delay_s, bytes_per_s)
    with serving_network(network.serve):
        yield network


@contextmanager
def serving_network(serve: Callable[[Callable[[], None]], Coroutine[None, None, None]]) -> Iterator[None]:
    """Run a server in a thread during the block, which begins once the server has called its argument."""
    started = threading.Event()
    loop = asyncio.new_event_loop()

    def run() -> None:
        task = loop.create_task(serve(started.set))
        with suppress(asyncio.CancelledError):
            loop.run_until_complete(task)
        while left := asyncio.all_tasks(loop):
            for each in left:
                each.cancel()
            loop.run_until_complete(asyncio.wait(left))
        loop.close()

    thread = threading.Thread(target=run, name="slow-network", daemon=True)
    thread.start()
    started.wait()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(lambda: [task.cancel() for task in asyncio.all_tasks(loop)])
        thread.join()
