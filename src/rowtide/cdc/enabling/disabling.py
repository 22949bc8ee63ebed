"""Disables a database (SQL Server: sp_cdc_disable_db).

In a copied database, and in one whose log store another has adopted, only what the database itself contains is removed.
(SQL Server drops the metadata of capture from a database that is restored elsewhere.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import Connection, Engine, select
from sqlalchemy.schema import DropSchema

from rowtide.cdc import access, definitions
from rowtide.cdc.definitions import FEATURE
from rowtide.cdc.enabling import postgres
from rowtide.cdc.enabling.administration import require_alone
from rowtide.cdc.lake_tables import INSTANCES, arrow_schema, base_table_path, change_table_path, system_table_path
from rowtide.databases.format_views import removing
from rowtide.databases.postgres.errors import translated
from rowtide.databases.urls import name_of
from rowtide.lake import tables
from rowtide.lake.small_tables import SmallTable
from rowtide.log import catalogue
from rowtide.log.catalogue import members_table
from rowtide.log.errors import DatabaseNotEnabled
from rowtide.log.postgres import provision
from rowtide.log.postgres.lease import AdvisoryLease
from rowtide.log.postgres.provenance import find_owner
from rowtide.log.source_definition import SourceDefinition

_SYSTEM_TABLES = ("lsn_time_mapping", "snapshots", "ddl_history", "instances", "cycles")


@dataclass(frozen=True, slots=True)
class Disabling:
    """What disabling a database removes.

    `members` are its capture instances, and the articles if those are removed too; `owner` owns the log store and the
    lake, which then stay; None if they are this database's.
    """

    source: SourceDefinition
    members: tuple[str, ...]
    owner: str | None

    def __str__(self) -> str:
        names = ", ".join(self.members) or "none"
        if self.owner is None:
            return (
                f"capture instances ({names}) with all their change rows in the lake {self.source.lake}, the log store "
                f"{self.source.log_store}, and slot and publication {self.source.slot}"
            )
        return f"the metadata in this database: capture instances and articles ({names}); nothing else: {self.kept}"

    @property
    def kept(self) -> str:
        """Describe what stays as it is."""
        return (
            f"log store {self.source.log_store} and lake {self.source.lake} belong to {self.owner}, and stay as they "
            "are, as do slots of other databases"
        )


def find_disabling(engine: Engine, database: str) -> Disabling:
    """Return what `disable_database` would remove. Raises `DatabaseNotEnabled`, `NotOwner`, `LogStillRead`."""
    with removing(), translated(), engine.connect() as connection:
        return _find(connection, database)


def disable_database(
    engine: Engine, database: str, remove_change_rows: Callable[[SourceDefinition], None]
) -> Disabling:
    """Remove what enable-db created, change rows first (SQL Server: sp_cdc_disable_db); return what was removed.

    Refused while a process runs (`LeaseHeld`) or another feature reads the log (`LogStillRead`), and to roles other
    than the owner (`NotOwner`). A repeat after a crash removes what is left.
    """
    with (
        removing(),
        translated(),
        AdvisoryLease.take(engine, "lake"),
        AdvisoryLease.take(engine, "log"),
        provision.take_source(engine),
    ):
        with engine.connect() as connection:
            disabling = _find(connection, database)
        if disabling.owner is not None:
            provision.disown_source(engine, disabling.source)
            return disabling
        remove_change_rows(disabling.source)
        with engine.begin() as connection:
            _drop_definitions(connection, disabling.source)
        provision.remove_source(engine, disabling.source)
    return disabling


def empty_lake(source: SourceDefinition) -> None:
    """Remove the rows of every change table and of the lake's system tables. Idempotent."""
    instances = SmallTable.open(system_table_path(source.lake, "instances"))
    names: set[str] = set()
    for rows in instances.stream(arrow_schema(INSTANCES, "capture_instance")) if instances is not None else ():
        names.update(map(str, rows["capture_instance"].unique().to_pylist()))
    for name in sorted(names):
        tables.empty_table(change_table_path(source.lake, name))
        tables.empty_table(base_table_path(source.lake, name))
    for name in _SYSTEM_TABLES:
        tables.empty_table(system_table_path(source.lake, name))


def _find(connection: Connection, database: str) -> Disabling:
    """Also finds what an interrupted enabling or disabling left."""
    source = catalogue.find_recorded(connection)
    if source is None:
        raise DatabaseNotEnabled(name_of(database))
    is_captured = definitions.are_made(connection)
    if is_captured:
        access.require_owner(connection, database)
    owner = catalogue.find_original(connection, source)
    if owner is None:
        owner = find_owner(connection, source)
    if owner is None:
        if not is_captured and not catalogue.list_features(connection) <= {FEATURE}:
            raise DatabaseNotEnabled(name_of(database))
        require_alone(connection)
    columns = members_table.c
    names = connection.execute(select(columns.name).where(columns.feature != catalogue.LOG).order_by(columns.name))
    return Disabling(source, tuple(names.scalars()), owner)


def _drop_definitions(connection: Connection, source: SourceDefinition) -> None:
    if not definitions.are_made(connection):
        return
    for table in sorted({enabled.source_id for enabled in definitions.list_enabled(connection)}):
        for step in postgres.plan_release_table(connection, source, table):
            connection.execute(step)
    connection.execute(DropSchema(definitions.SCHEMA, cascade=True))
