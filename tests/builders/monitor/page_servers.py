"""The monitor's server over views that were made, and a browser that looks at its pages."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any

import uvicorn

from builders.monitor.made_views import MadePolls
from rowtide.monitor.ring import Ring
from rowtide.monitor.serving import make_app
from rowtide.monitor.web.access import NOBODY_OPERATES, OPEN, Access, Operating


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: str


@dataclass(frozen=True)
class PageServer:
    port: int
    ring: Ring

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def request(self, path: str, method: str = "GET", body: str | None = None, **headers: str) -> Answer:
        """Ask as a browser does, without following where an answer leads."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, body, {"Accept": "text/html", **named})
            answer: HTTPResponse = connection.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, found, answer.read().decode())
        finally:
            connection.close()


@contextmanager
def serving_pages(
    folder: Path, polls: MadePolls, access: Access = OPEN, operating: Operating = NOBODY_OPERATES, **others: Any
) -> Iterator[PageServer]:
    """Serve pages of what polls have found, until the block ends."""
    with Ring.open(folder) as ring, socket.create_server(("127.0.0.1", 0)) as listening:
        app = make_app(polls, ring, access, operating, **others)
        config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="off", proxy_headers=False)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
        thread.start()
        try:
            yield PageServer(listening.getsockname()[1], ring)
        finally:
            server.should_exit = True
            thread.join(5)


ServePages = Callable[..., PageServer]
