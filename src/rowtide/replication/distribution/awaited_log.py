"""Waits until the log store has the log up to a position, for work that nobody may be reading the log for."""

from __future__ import annotations

import time
from contextlib import suppress

from sqlalchemy import Engine

from rowtide.databases.postgres.errors import translated
from rowtide.log.errors import LeaseHeld
from rowtide.log.opening import open_log_reader
from rowtide.log.postgres.lease import find_holder
from rowtide.log.store.manifest import Manifest
from rowtide.replication.errors.comparing import LogNotRead

_PATIENCE_S = 60
_POLL_S = 0.03


def read_log(engine: Engine, url: str, manifest: Manifest, target: int) -> None:
    """Wait until the log store has the log beyond a position; read it here if no process does. Raises `LogNotRead`."""
    deadline = time.monotonic() + _PATIENCE_S
    while manifest.refresh().position.log <= target:
        _require_time(manifest, deadline)
        with translated(), engine.connect() as connection:
            is_read = find_holder(connection, "log") is not None
        if is_read:
            time.sleep(_POLL_S)
            continue
        with suppress(LeaseHeld), open_log_reader(url) as reader:
            while manifest.refresh().position.log <= target:
                _require_time(manifest, deadline)
                reader.step()


def _require_time(manifest: Manifest, deadline: float) -> None:
    if time.monotonic() >= deadline:
        raise LogNotRead(str(manifest.state.position), _PATIENCE_S)
