"""A device's first file: asked for, fetched piece by piece, and put in its place once it is whole."""

from __future__ import annotations

import gzip
import hashlib
import os
import random
import shutil
from glob import escape
from pathlib import Path

from rowtide.core.errors import FileNotWritable, Retryable
from rowtide.core.failpoints import failpoint
from rowtide.gateway.client import GatewayClient, send_plain
from rowtide.gateway.errors import DeviceFileDamaged
from rowtide.gateway.limits import retry_pause_s
from rowtide.gateway.requests import DeviceFile, FileRequest

_PIECE = 1 << 20


def fetch_first_file(client: GatewayClient, path: Path, key: str, *, replaces: bool = False) -> None:
    """Make a device's file of what its hub has for it; a repeated call goes on where an earlier one was cut.

    The file is not there before it is whole. Raises `DeviceHasFile`, `DeviceFileDamaged`, `FileNotWritable`, and what
    `GatewayClient.ask` raises.
    """
    said = send_plain(client, "file", FileRequest(replaces), DeviceFile, key=key)
    part = path.with_name(f"{path.name}.{said.sha256[:12]}.part")
    try:
        _fetch(client, said, part)
        _require_same(client, said, part)
        _unpack(part, path)
    except OSError as error:
        raise FileNotWritable(str(path), error.strerror or str(error)) from error


def _fetch(client: GatewayClient, said: DeviceFile, part: Path) -> None:
    """Append what is missing; each attempt that brings anything is followed by as many others as the first."""
    failures = 0
    with open(part, "ab") as file:
        while (begin := file.tell()) < said.size:
            try:
                file.writelines(client.fetch(f"files/{said.name}", begin))
            except Retryable:
                failures = 1 if file.tell() > begin else failures + 1
                if failures >= client.attempts:
                    raise
                client.pause(retry_pause_s(None, failures - 1, random.random()))  # noqa: S311


def _require_same(client: GatewayClient, said: DeviceFile, part: Path) -> None:
    with open(part, "rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != said.sha256:
        part.unlink()
        raise DeviceFileDamaged(client.url)


def _unpack(part: Path, path: Path) -> None:
    whole = path.with_name(f"{path.name}.new")
    with gzip.open(part, "rb") as source, open(whole, "wb") as target:
        shutil.copyfileobj(source, target, _PIECE)
        target.flush()
        os.fsync(target.fileno())
    # Never over a file that has come there meanwhile.
    failpoint("first_file.before")
    os.link(whole, path)
    failpoint("first_file.after")
    whole.unlink()
    # Also what came of a file that another gateway has made anew.
    for left in path.parent.glob(f"{escape(path.name)}.*.part"):
        left.unlink()
