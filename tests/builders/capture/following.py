"""Followed databases: captured in this process without Spark, and receivers of what is posted."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from builders.capture.captured_databases import DEADLINE_S, LoggedDatabase
from builders.commands.command_lines import rowtide
from builders.servers.http_servers import serving
from rowtide.cdc.capture.capture import Capture
from rowtide.cdc.lake_lease import LakeLease
from rowtide.cdc.system_tables import SystemTables
from rowtide.databases.postgres.connect import open_engine
from rowtide.log.postgres.lease import AdvisoryLease


def no_spark() -> Any:
    """Refuse to start Spark."""
    raise AssertionError("following and small captures need no Spark")


def capture(logged: LoggedDatabase) -> None:
    """Read the log and capture all that is committed now, without Spark."""
    target = logged.mark()
    logged.read_log(target)
    source = logged.cdc.get_source()
    with AdvisoryLease.take(open_engine(logged.url), "lake") as lease:
        tables = SystemTables(source.lake, source.source_id, no_spark)
        capturing = Capture(tables, logged.store(), LakeLease.take(logged.store(), lease))
        deadline = time.monotonic() + DEADLINE_S
        while capturing.position.log < target + 1:
            assert time.monotonic() < deadline, f"capture stays at {capturing.position}"
            capturing.step()


def follow(logged: LoggedDatabase, *arguments: str) -> list[dict[str, Any]]:
    """Return the events up to what is published now."""
    ended = rowtide("cdc", "follow", *arguments, "--idle-timeout", "0", "--db", logged.url)
    assert ended.code == 0, ended
    return [json.loads(line) for line in ended.output.splitlines()]


@contextmanager
def following(logged: LoggedDatabase, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Follow in a process of its own, which is killed at the end if it still runs."""
    command = [sys.executable, "-m", "rowtide", "cdc", "follow", *arguments, "--db", logged.url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


@dataclass
class Received:
    """A request, and the events in its body."""

    headers: dict[str, str]
    body: bytes

    @property
    def events(self) -> list[dict[str, Any]]:
        text = self.body.decode()
        return json.loads(text) if text.startswith("[") else [json.loads(line) for line in text.splitlines()]


@dataclass
class FakeReceiver:
    """A server that answers with the statuses in `answers`, then 204; None: not before `patience_s` are over."""

    answers: list[int | None] = field(default_factory=list)
    answer_headers: dict[str, str] = field(default_factory=dict)
    on_request: Callable[[], None] = lambda: None
    patience_s: float = 1.0
    received: list[Received] = field(default_factory=list)
    connections: set[tuple[str, int]] = field(default_factory=set)
    url: str = ""

    @property
    def ids(self) -> list[str]:
        """The identities of all events that came, in order."""
        return [event["id"] for request in self.received for event in request.events]


@contextmanager
def receiving(receiver: FakeReceiver) -> Iterator[FakeReceiver]:
    """Open a receiver."""
    over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.received.append(Received(dict(self.headers), body))
            receiver.connections.add(self.client_address)
            answer = receiver.answers.pop(0) if receiver.answers else 204
            receiver.on_request()
            if answer is None:
                over.wait(receiver.patience_s)
                self.close_connection = True
                return
            self.send_response(answer)
            for name, value in receiver.answer_headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with serving(Handler) as url:
        receiver.url = f"{url}/events"
        try:
            yield receiver
        finally:
            over.set()
