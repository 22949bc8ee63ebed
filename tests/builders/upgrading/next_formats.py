"""A made-up build whose stores have format 2: this process, or programs that begin with its `sitecustomize`."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import Connection

from rowtide.core.formats import MIGRATIONS, Migration, StoredFormat, StoreFormat
from rowtide.databases.postgres import functions
from rowtide.databases.sqlite import guarding
from rowtide.delta.formats import LAKE_TABLE, TARGET_TABLE
from rowtide.delta.snapshot import Location
from rowtide.delta.writing.alteration import raise_format
from rowtide.log.catalogue import SCHEMA
from rowtide.log.source_definition import FORMAT as PUBLISHER
from rowtide.log.store.manifest import LOG_STORE, Manifest
from rowtide.merge.nodes.postgres.metadata import node_form as merge
from rowtide.merge.nodes.sqlite.metadata import node_form as merge_of_files
from rowtide.replication.distributor import definitions as distribution
from rowtide.replication.targets.postgres import progress as delivery
from rowtide.replication.targets.sqlite import progress as delivery_to_files
from rowtide.tracking.postgres import system_tables as tracking
from rowtide.tracking.sqlite import system_tables as tracking_of_files

SECOND = StoredFormat(2, 2, 2)
STEPS = "rowtide_steps"
"""A table that a step of a database or file makes: the step fails if it is done twice."""
SCHEMAS = {
    SCHEMA: PUBLISHER,
    "distribution": distribution.FORMAT,
    "rowtide_subscriber": delivery.FORMAT,
    "rowtide_merge": merge.FORMAT,
    "rowtide_tracking": tracking.FORMAT,
}
VIEWS = {
    delivery_to_files.FORMAT_VIEW: delivery_to_files.FORMAT,
    merge_of_files.FORMAT_VIEW: merge_of_files.FORMAT,
    tracking_of_files.FORMAT_VIEW: tracking_of_files.FORMAT,
}
KNOWN = (*SCHEMAS.values(), *VIEWS.values(), LOG_STORE, LAKE_TABLE, TARGET_TABLE)


def be_of_format_2(monkeypatch: pytest.MonkeyPatch | None = None) -> None:
    """Make this process a build whose stores have format 2, with the steps to it."""
    _be_of_format(2)
    steps: dict[tuple[str, int], Migration] = {
        **{(own.store, 1): partial(raise_schema, schema) for schema, own in SCHEMAS.items()},
        **{(own.store, 1): partial(raise_file, view) for view, own in VIEWS.items()},
        (LOG_STORE.store, 1): raise_log_store,
        (LAKE_TABLE.store, 1): raise_table,
        (TARGET_TABLE.store, 1): raise_table,
    }
    for key, step in steps.items():
        if monkeypatch is None:
            MIGRATIONS[key] = step
        else:
            monkeypatch.setitem(MIGRATIONS, key, step)


def be_of_format_1() -> None:
    """Make this process a build of the formats that there are."""
    _be_of_format(1)


def _be_of_format(number: int) -> None:
    for known in KNOWN:
        for name in StoreFormat.__dataclass_fields__.keys() - {"store", "replacement"}:
            object.__setattr__(known, name, number)


def raise_schema(schema: str, transaction: Callable[[], AbstractContextManager[Connection]]) -> None:
    with transaction() as connection:
        connection.exec_driver_sql(f'create table "{schema}".{STEPS} (id int)')
        functions.raise_format(connection, schema, SECOND)


def raise_file(view: str, transaction: Callable[[], AbstractContextManager[sqlite3.Connection]]) -> None:
    with transaction() as file:
        file.execute(f"create table {STEPS}_{view} (id integer primary key)")
        guarding.raise_format(file, view, SECOND)


def raise_log_store(manifest: Manifest) -> None:
    manifest.raise_format(SECOND)


def raise_table(location: Location) -> None:
    raise_format(location, SECOND)


def environment_of_next_build(folder: Path) -> Mapping[str, str]:
    """Return the environment in which every program of Python's that starts is of the build of format 2."""
    folder.mkdir(exist_ok=True)
    begin = "from builders.upgrading.next_formats import be_of_format_2\n\nbe_of_format_2()\n"
    (folder / "sitecustomize.py").write_text(begin)
    tests = Path(__file__).parents[2]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (folder, tests)))}
