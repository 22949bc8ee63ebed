"""The check of a SQLite file: facts, then what they mean."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace

from rowtide.check.addressing import Checked
from rowtide.check.errors import NotAPublisher, NothingForLake
from rowtide.databases.sqlite.connect import open_url, path_of
from rowtide.databases.sqlite.errors import translated
from rowtide.findings.finding import by_severity
from rowtide.findings.purpose import Purpose
from rowtide.findings.sqlite.file_facts import read_file
from rowtide.findings.sqlite.file_findings import find_in_file


def check(url: str, tables: Sequence[str] = (), lake: str | None = None, purpose: Purpose | None = None) -> Checked:
    """Return what is missing or worth knowing in a file, the worst first; nothing in it is changed.

    Without `tables`: the tracked ones, before enabling all. With a purpose, what enabling tracking would
    do is left out. Raises `TableToTrackNotFound`, `NothingForLake`, `NotAPublisher`, `FileNotOpened`,
    `SqliteTooOld`.
    """
    if lake is not None:
        raise NothingForLake(lake)
    with closing(open_url(url)) as connection:
        if purpose is Purpose.PUBLISHER:
            raise NotAPublisher(path_of(connection))
        with translated(path_of(connection)):
            connection.execute("begin")
            facts = read_file(connection, tables)
        if purpose is not None and not tables:
            tracked = {one.tracked.name for one in facts.tracked}
            tables_left = tuple(table for table in facts.tables if table.table.name in tracked)
            facts = replace(facts, tables=tables_left, virtual_tables=())
        return Checked(by_severity(find_in_file(facts)))
