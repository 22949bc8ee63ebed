"""Metrics of a command: served over HTTP, or written into a file for node_exporter's textfile collector."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import socket

from rowtide.core.addresses import Address
from rowtide.core.errors import RowtideError
from rowtide.events.catalogue import MetricsNotWritten
from rowtide.events.event import emit
from rowtide.listening import bound_to
from rowtide.monitor.agent_figures import AgentFigures
from rowtide.monitor.exposition import render_agent

EVERY_S = 15.0
_ANSWER_S = 10.0
"""The timeout of a client that sends nothing."""
_LOOK_S = 0.1
"""The interval at which the server checks whether to stop."""

Read = Callable[[], AgentFigures]
Write = Callable[[bytes], None]


@contextmanager
def serving_figures(read: Read, listen: Address) -> Iterator[Address]:
    """Serve metrics at /metrics during the block; yield the address. Raises `ListeningFailed`."""

    class Handler(BaseHTTPRequestHandler):
        timeout = _ANSWER_S

        def do_GET(self) -> None:
            if self.path.partition("?")[0] != "/metrics":
                self.send_error(404)
                return
            body, content_type = render_agent(read(), self.headers.get("accept", ""))
            self.send_response(200)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def version_string(self) -> str:
            return "rowtide"

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
            """Log nothing: a scrape is no event."""

    with bound_to(listen) as bound:
        server = _Server(bound, Handler)
        thread = threading.Thread(target=server.serve_forever, args=(_LOOK_S,), name="rowtide metrics", daemon=True)
        thread.start()
        try:
            yield Address(*bound.getsockname()[:2])
        finally:
            server.shutdown()
            thread.join()


class _Server(ThreadingHTTPServer):
    """Serves on a socket that listens already. The base class would look up the host's name, which may take long."""

    daemon_threads = True

    def __init__(self, bound: socket, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(bound.getsockname()[:2], handler, bind_and_activate=False)
        self.socket.close()
        self.socket = bound

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore a client that disconnected: the next scrape repeats the request."""


@contextmanager
def writing_figures(read: Read, write: Write, every_s: float = EVERY_S) -> Iterator[Callable[[], None]]:
    """Write metrics now and repeatedly during the block; yield a function that writes them once more.

    `write` replaces the whole file. An error of the first write ends the command before it works; a later one is an
    event, and the command continues.
    """

    def write_now() -> None:
        write(render_agent(read())[0])

    def repeat() -> None:
        while not stop.wait(every_s):
            try:
                write_now()
            except RowtideError as error:
                emit(MetricsNotWritten(error))

    write_now()
    stop = threading.Event()
    thread = threading.Thread(target=repeat, name="rowtide metrics", daemon=True)
    thread.start()
    try:
        yield write_now
    finally:
        stop.set()
        thread.join()
