"""A proxy before an S3 server that delays requests, loses replies, refuses, cuts the network, counts and pauses.

It also passes bytes on slowly, or none any more.

Headers pass as they are, `Host` too, which signatures of S3 cover. Which requests are hit follows from the seed and the
order in which they arrive.
"""

from __future__ import annotations

import asyncio
import random
import socket
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from builders.servers.http_relay import Head, Pace, Relay


class Fault(Enum):
    """What can be done to a request."""

    LOST_REPLY = "carried out; the connection is reset in place of the reply"
    SLOW_DOWN = "answered 503 SlowDown, not passed on"
    INTERNAL_ERROR = "answered 500 InternalError, not passed on"
    IGNORED_CONDITION = "carried out without its If-None-Match, as by a store that knows no conditions"


_ANSWERS = {
    Fault.SLOW_DOWN: (b"503 Slow Down", b"SlowDown"),
    Fault.INTERNAL_ERROR: (b"500 Internal Server Error", b"InternalError"),
}


@dataclass(frozen=True, slots=True)
class Request:
    """The first line of a request, by which faults choose."""

    method: str
    target: str

    @property
    def key(self) -> str:
        """The object's name, quoted as in the URL; empty for requests of a bucket."""
        return self.target.partition("?")[0].lstrip("/").partition("/")[2]

    @property
    def kind(self) -> str:
        """The method; LIST for a GET of a bucket."""
        return "LIST" if self.method == "GET" and not self.key else self.method


Choice = Callable[[Request], bool]
_HELD_BYTES = 32 << 10


def every(_: Request) -> bool:
    """Choose each request."""
    return True


class Pause:
    """A request held before it is passed on: `arrived` is set once it is there, `release` lets it go."""

    def __init__(self, where: Choice) -> None:
        self.where = where
        self.arrived = threading.Event()
        self._released = threading.Event()

    def release(self) -> None:
        """Let the request go, or pass if it comes later."""
        self._released.set()

    async def hold(self) -> None:
        """Wait for `release` in the proxy's loop."""
        self.arrived.set()
        while not self._released.is_set():
            await asyncio.sleep(0.001)


class FaultyProxy:
    """A proxy on a free port of 127.0.0.1, in a thread of its own while its `with` lasts."""

    def __init__(self, upstream: str, *, seed: int = 0, latency_s: float = 0.0) -> None:
        address = urlsplit(upstream)
        assert address.hostname is not None
        assert address.port is not None
        self.latency_s = latency_s
        """How long each request is held before it is passed on; may be changed at any time."""
        self.pace = Pace()
        self._upstream = (address.hostname, address.port)
        self._seed = seed
        self._lock = threading.Lock()
        self._rules: list[_Rule] = []
        self._rules_made = 0
        self._pauses: list[Pause] = []
        self._seen: list[Request] = []
        self._connections: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="faulty-proxy", daemon=True)
        self._listener = _bound_socket(0)
        self._port: int = self._listener.getsockname()[1]
        self._server: asyncio.Server | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        self._run(self._listen())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._run(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def endpoint(self) -> str:
        """What clients use in place of the server's endpoint."""
        return f"http://127.0.0.1:{self._port}"

    def inject(self, fault: Fault, *, one_in: int, where: Choice = every) -> None:
        """Do this to one of each `one_in` requests in a row that `where` chooses, until `heal`."""
        self._add(fault, one_in, where, is_for_once=False)

    def inject_once(self, fault: Fault, where: Choice = every) -> None:
        """Do this to the next request that `where` chooses."""
        self._add(fault, 1, where, is_for_once=True)

    def heal(self) -> None:
        """End all faults that were injected."""
        with self._lock:
            self._rules.clear()

    def pause(self, where: Choice) -> Pause:
        """Hold the next request that `where` chooses before it is passed on."""
        pause = Pause(where)
        with self._lock:
            self._pauses.append(pause)
        return pause

    @contextmanager
    def cut(self) -> Iterator[None]:
        """Reset all connections, and refuse new ones while the `with` lasts."""
        self._run(self._stop())
        # Bound but not listening: connections are refused, and no other program is given the port.
        self._listener = _bound_socket(self._port)
        try:
            yield
        finally:
            self._run(self._listen())

    def seen(self) -> list[Request]:
        """Return the requests that have come, in order, whatever became of them."""
        with self._lock:
            return list(self._seen)

    def by_method(self) -> Counter[str]:
        """Return how many requests of each method have come."""
        return Counter(request.method for request in self.seen())

    def by_kind(self) -> Counter[str]:
        """Return how many requests of each kind have come: a method, or LIST."""
        return Counter(request.kind for request in self.seen())

    def forget(self) -> None:
        """Count from zero."""
        with self._lock:
            self._seen.clear()

    def _add(self, fault: Fault, one_in: int, where: Choice, *, is_for_once: bool) -> None:
        with self._lock:
            numbers = random.Random(f"{self._seed}/{self._rules_made}")
            self._rules_made += 1
            self._rules.append(_Rule(fault, one_in, where, is_for_once, numbers))

    def _run(self, coroutine: Coroutine[None, None, None]) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, sock=self._listener, limit=_HELD_BYTES)

    async def _stop(self) -> None:
        assert self._server is not None
        self._server.close()
        ending = list(self._connections)
        for connection in ending:
            connection.cancel()
        await asyncio.gather(*ending, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        relay = Relay(reader, writer, self._upstream, self.pace)
        connection = asyncio.current_task()
        assert connection is not None
        self._connections.add(connection)
        try:
            is_kept = True
            while is_kept and (head := await relay.next_request()) is not None:
                is_kept = await self._handle(relay, head)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            relay.reset()  # ended by either side or by `_stop`
        finally:
            relay.close()
            self._connections.discard(connection)

    async def _handle(self, relay: Relay, head: Head) -> bool:
        """Handle one request; return whether the connection is kept."""
        method, target, _ = head.first.decode("ascii").split(" ")
        fault, pause = self._chosen_for(Request(method, target))
        await asyncio.sleep(self.latency_s)
        if pause is not None:
            await pause.hold()
        if fault in _ANSWERS:
            return await relay.refuse(head, *_ANSWERS[fault])
        if fault is Fault.IGNORED_CONDITION:
            head = head.without(b"if-none-match")
        return await relay.exchange(head, is_reply_lost=fault is Fault.LOST_REPLY)

    def _chosen_for(self, request: Request) -> tuple[Fault | None, Pause | None]:
        with self._lock:
            self._seen.append(request)
            hits = [rule for rule in self._rules if rule.hits(request)]
            self._rules = [rule for rule in self._rules if not (rule.is_for_once and rule in hits)]
            pause = next((pause for pause in self._pauses if pause.where(request)), None)
            if pause is not None:
                self._pauses.remove(pause)
            return (hits[0].fault if hits else None), pause


@dataclass(slots=True, eq=False)
class _Rule:
    fault: Fault
    one_in: int
    where: Choice
    is_for_once: bool
    numbers: random.Random
    _left: int = field(init=False, default=0)
    _hit_at: int = field(init=False, default=0)

    def hits(self, request: Request) -> bool:
        """Return whether this is the one of `one_in` chosen requests; which one of them is random."""
        if not self.where(request):
            return False
        if self._left == 0:
            self._left = self.one_in
            self._hit_at = self.numbers.randint(1, self.one_in)
        self._left -= 1
        return self._left + 1 == self._hit_at


def _bound_socket(port: int) -> socket.socket:
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # What a slow network has accepted is not megabytes: the client's TCP would see nothing move for long.
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _HELD_BYTES)
    bound.bind(("127.0.0.1", port))
    return bound
