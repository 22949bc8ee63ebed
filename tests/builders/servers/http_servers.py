"""HTTP servers in the tests' own process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Refusing(BaseHTTPRequestHandler):
    """An object store that refuses every request with a code; some put the XML on one line, some on two."""

    code = "ExpiredToken"
    status = 400
    requests = 0

    def answer(self) -> None:
        type(self).requests += 1
        line = "\n" if self.command == "GET" else ""
        body = f'<?xml version="1.0" encoding="UTF-8"?>{line}<Error><Code>{self.code}</Code></Error>'.encode()
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_PUT = answer  # noqa: N815 - names of http.server

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """Serve on a free port; yield the URL."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
