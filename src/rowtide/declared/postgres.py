"""Declared state of a PostgreSQL database: its features, its tables' names, and a lock."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from rowtide.databases.postgres.catalogue import find_table_ids, read_tables
from rowtide.databases.postgres.connect import open_engine
from rowtide.databases.postgres.errors import translated
from rowtide.declared.values import spell_table
from rowtide.log.postgres.lease import AdvisoryLease, describe_holder
from rowtide.replication.publishing.schema_articles import spell_object

FEATURES = ("capture", "publishing", "merging", "tracked")
"""The modules for the features of such a database."""


def spell_tables(url: str, names: Iterable[str]) -> Mapping[str, str]:
    """Return the names of the tables that users' names mean, without those that are not there."""
    asked = list(names)
    with translated(), open_engine(url).connect() as connection:
        ids = find_table_ids(connection, asked)
        found = read_tables(connection, [one for one in ids if one is not None])
    spelled = {table.source_id: spell_table(table.schema, table.name) for table in found}
    return {name: spelled[one] for name, one in zip(asked, ids, strict=True) if one is not None}


def spell_objects(url: str, names: Iterable[str]) -> Mapping[str, str]:
    """Return the names of the views, functions and procedures that users' names mean, without those not there."""
    with translated(), open_engine(url).connect() as connection:
        spelled = {name: spell_object(connection, name) for name in names}
    return {name: known for name, known in spelled.items() if known is not None}


@contextmanager
def applying_alone(url: str) -> Iterator[None]:
    """Exclude other processes that apply a declared state to the database. Raises `LeaseHeld`."""
    engine = open_engine(url, application_name=f"rowtide apply on {describe_holder()}")
    with AdvisoryLease.take(engine, "declared state"):
        yield
