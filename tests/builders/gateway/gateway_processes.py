"""Gateways in processes of their own, to be killed there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from builders.faults.killed_programs import FORKS, KILLED
from builders.gateway.served_hubs import HUB
from rowtide.core.addresses import Address
from rowtide.gateway import device_sessions
from rowtide.gateway.http_server import serving_gateway
from rowtide.gateway.hubs import Hub
from rowtide.gateway.limits import GatewayLimits
from rowtide.gateway.tls import TlsOptions

_LIMITS = GatewayLimits(requests_per_minute=1_000_000, sessions=2)


@dataclass
class GatewayProcess:
    """A process that serves a hub."""

    port: int
    process: Any

    def kill(self) -> None:
        """Kill it, if it is not dead, and wait for its end."""
        self.process.kill()
        self.process.join()

    def await_end_if_killed(self) -> bool:
        """Return whether it came to its failpoint; one that was killed there has ended then, and has no locks any more.

        Its connections are closed before its last lock is released: on a busy machine, a second before.
        """
        with closing(HTTPConnection("127.0.0.1", self.port)) as connection, suppress(OSError, HTTPException):
            connection.request("GET", "/healthz")
            connection.getresponse().read()
            return False
        self.process.join()
        return bool(self.process.exitcode == KILLED)


@contextmanager
def gateway_process(hub_url: str, files: Path, *, failpoint: str = "") -> Iterator[GatewayProcess]:
    """Serve a hub in a process, which is killed at a failpoint or at the end of the block.

    Answers are full with one batch, so that a few rows take several.
    """
    ours, theirs = FORKS.Pipe()
    process = FORKS.Process(target=_serve, args=(hub_url, str(files), failpoint, theirs))
    process.start()
    theirs.close()
    gateway = GatewayProcess(ours.recv(), process)
    try:
        yield gateway
    finally:
        gateway.kill()
        ours.close()


def _serve(hub_url: str, files: str, failpoint: str, pipe: Connection) -> None:
    import rowtide.errors  # noqa: F401 - devices are told any error

    os.environ["ROWTIDE_FAILPOINT"] = failpoint
    device_sessions.ROWS_EACH = 1
    with serving_gateway(
        {HUB: Hub(HUB, hub_url)}, Address("127.0.0.1", 0), TlsOptions(files=files), limits=_LIMITS
    ) as at:
        pipe.send(at.port)
        with suppress(EOFError):
            pipe.recv()
