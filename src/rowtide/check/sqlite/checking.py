"""The check of a SQLite file: facts, then what they mean."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

from rowtide.check.errors import NothingForLake
from rowtide.databases.sqlite.connect import open_url
from rowtide.findings.finding import Finding, by_severity
from rowtide.findings.sqlite.file_facts import read_file
from rowtide.findings.sqlite.file_findings import find_in_file


def check(url: str, tables: Sequence[str] = (), lake: str | None = None) -> tuple[Finding, ...]:
    """Return what is missing or worth knowing in a file, the worst first; nothing in it is changed.

    Without `tables`: the tracked ones, before enabling all. Raises `TableToTrackNotFound`, `NothingForLake`,
    `FileNotOpened`, `SqliteTooOld`.
    """
    if lake is not None:
        raise NothingForLake(lake)
    with closing(open_url(url)) as connection:
        connection.execute("begin")
        return by_severity(find_in_file(read_file(connection, tables)))
