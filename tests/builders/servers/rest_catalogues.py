"""REST catalogues of Iceberg: its own server, in a process, on a warehouse in a folder."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyspark

from builders.capture.captured_databases import wait_until
from builders.servers.http_servers import serving

JARS = Path(__file__).parents[3] / ".venv" / "rest-server"
_MAIN = "org.apache.iceberg.rest.RESTCatalogServer"


@dataclass(frozen=True, slots=True)
class RestCatalogue:
    """A catalogue, by the address that its clients have as `uri`."""

    url: str

    @property
    def settings(self) -> dict[str, str]:
        """Return the options of a catalogue of Spark, and of a target."""
        return {"type": "rest", "uri": self.url}

    def ask(self, method: str, path: str, body: str = "") -> tuple[int, str]:
        """Return status and body of the answer to a request."""
        connection = HTTPConnection(urlsplit(self.url).netloc, timeout=30)
        try:
            connection.request(method, path, body or None, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()


@contextmanager
def running_rest_catalogue(folder: Path) -> Iterator[RestCatalogue]:
    """Start an empty catalogue, whose tables are in the folder, on a free port of 127.0.0.1, and stop it."""
    if not JARS.exists():
        raise FileNotFoundError(f"{JARS} is not there: run `make {JARS.relative_to(JARS.parents[1])}`")
    folder.mkdir(parents=True, exist_ok=True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    database = f"jdbc:sqlite:{folder}/catalogue.db"
    settings = {"CATALOG_WAREHOUSE": str(folder), "CATALOG_URI": database, "CATALOG_REST_PORT": str(port)}
    jars = f"{JARS}/*:{Path(pyspark.__file__).parent / 'jars'}/*"
    command = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-cp", jars, _MAIN]
    said = folder.parent / f"{folder.name}.log"
    with (
        said.open("wb") as log,
        subprocess.Popen(command, env={**os.environ, **settings}, stdout=log, stderr=log) as server,
    ):
        catalogue = RestCatalogue(f"http://127.0.0.1:{port}")
        try:
            wait_until(lambda: _answers(server, said, catalogue), what="the catalogue answers")
            yield catalogue
        finally:
            server.kill()


@contextmanager
def relayed(
    catalogue: RestCatalogue,
    *,
    token: str | None = None,
    before_commit: Callable[[], None] | None = None,
    has_branches: bool = True,
) -> Iterator[RestCatalogue]:
    """Serve a catalogue on an address of its own, to those who have a token; something may come before a commit.

    Without branches it keeps none of a table's, and says nothing, as Nessie does.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._pass_on()

        do_HEAD = do_GET  # noqa: N815 - names of http.server

        def do_POST(self) -> None:
            if before_commit is not None:
                before_commit()
            self._pass_on()

        def _pass_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0"))).decode()
            status, answer = 403, json.dumps({"error": {"message": "not for you", "type": "Forbidden", "code": 403}})
            if not has_branches:
                body = _without_branches(body)
            if token is None or self.headers.get("Authorization") == f"Bearer {token}":
                status, answer = catalogue.ask(self.command, self.path, body)
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer.encode())))
            self.end_headers()
            self.wfile.write(answer.encode())

        def log_message(self, *_: Any) -> None:
            pass

    with serving(Handler) as url:
        yield RestCatalogue(url)


def _without_branches(body: str) -> str:
    asked = json.loads(body or "{}")
    if "updates" not in asked:
        return body
    kept = [each for each in asked["updates"] if each.get("ref-name", "main") == "main"]
    return json.dumps({**asked, "updates": kept})


def _answers(server: subprocess.Popen[bytes], said: Path, catalogue: RestCatalogue) -> bool:
    assert server.poll() is None, said.read_text()
    with suppress(OSError):
        return catalogue.ask("GET", "/v1/config")[0] == 200
    return False
