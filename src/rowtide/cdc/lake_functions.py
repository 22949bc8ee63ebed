"""CDC's functions on a database that its lake answers: changes, LSNs and times, for roles that may read them.

They connect to the database first, which has the lake's place and the rights of the connection's role. Neither Spark
nor SQLAlchemy is imported: a command that asks for a few rows answers at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from rowtide.cdc.lake_readers.lake import Lake
from rowtide.cdc.lake_readers.presentation import ArrowChanges
from rowtide.cdc.published import ListedChange
from rowtide.cdc.queries.lsn_times import Bound, LsnTimes
from rowtide.cdc.queries.windows import PublishedLake, ValidityInterval
from rowtide.cdc.rights import read_role_access
from rowtide.core.formats import StoreFormat
from rowtide.core.lsn import CommitLsn
from rowtide.databases.postgres.connect import open_url
from rowtide.databases.postgres.errors import translated
from rowtide.databases.postgres.quoting import Run, is_begun, running
from rowtide.databases.urls import parse_url
from rowtide.log.errors import DatabaseNotEnabled
from rowtide.log.source_definition import SourceDefinition, find_source


class LakeFunctions:
    """Queries for a database's changes that its lake answers.

    Calls raise `DatabaseNotEnabled`; those about an instance `InstanceUnknown` and `ReadingDenied`.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._name = parse_url(url).name

    def stream_changes(
        self,
        capture_instance: str,
        from_lsn: Bound | None = None,
        to_lsn: Bound | None = None,
        row_filter_option: str = "all",
        *,
        net: bool = False,
    ) -> ArrowChanges:
        """Return the rows of `get_all_changes`, or of `get_net_changes`, in their order as Arrow, without Spark."""
        lake = Lake(self._readable_lake(capture_instance))
        ask = lake.get_net_changes if net else lake.get_all_changes
        return ask(capture_instance, from_lsn, to_lsn, row_filter_option)

    def stream_table_as_of(
        self, capture_instance: str, at: Bound | None = None, columns: Sequence[str] | None = None
    ) -> ArrowChanges:
        """Return the rows of `get_table_as_of`, or some columns of them, as Arrow, without Spark; see `Lake`."""
        return Lake(self._readable_lake(capture_instance)).get_table_as_of(capture_instance, at, columns)

    def get_min_lsn(self, capture_instance: str) -> CommitLsn:
        """Return an instance's low endpoint (SQL Server: fn_cdc_get_min_lsn)."""
        lake = self._readable_lake(capture_instance)
        return PublishedLake(lake).get_min_lsn(capture_instance)

    def get_max_lsn(self) -> CommitLsn | None:
        """Return the last published LSN, None before the first (SQL Server: fn_cdc_get_max_lsn)."""
        lake = self.get_source().lake
        return PublishedLake(lake).get_max_lsn()

    def get_validity_interval(self, capture_instance: str) -> ValidityInterval:
        """Return the LSNs that may be queried of an instance."""
        lake = self._readable_lake(capture_instance)
        return PublishedLake(lake).get_validity_interval(capture_instance)

    def map_time_to_lsn(self, relational_operator: str, time: datetime) -> CommitLsn | None:
        """Return the LSN next to a time, None if there is none (SQL Server: fn_cdc_map_time_to_lsn).

        Raises `UnknownTimeOperator`.
        """
        lake = self.get_source().lake
        return LsnTimes(lake).map_time_to_lsn(relational_operator, time)

    def map_lsn_to_time(self, lsn: CommitLsn) -> datetime | None:
        """Return when a transaction ended, in UTC (SQL Server: fn_cdc_map_lsn_to_time); None for an unknown LSN."""
        lake = self.get_source().lake
        return LsnTimes(lake).map_lsn_to_time(lsn)

    def get_ddl_history(self, capture_instance: str) -> tuple[ListedChange, ...]:
        """Return the published DDL on an instance's table, in log order (SQL Server: sp_cdc_get_ddl_history).

        Raises `InstanceNotReadable`.
        """
        with translated(), open_url(self._url, for_queries=True) as connection:
            run = running(connection)
            lake, reader = self._read_source(run).lake, read_role_access(run)
        reader.require_known(capture_instance)
        return PublishedLake(lake).get_ddl_history(capture_instance)

    def get_source(self) -> SourceDefinition:
        """Return the definition of this database's source."""
        with translated(), open_url(self._url, for_queries=True) as connection:
            return self._read_source(running(connection))

    def _readable_lake(self, capture_instance: str) -> str:
        """Return the lake's place; raise unless the connection's role may read the instance."""
        with translated(), open_url(self._url, for_queries=True) as connection:
            run = running(connection)
            lake = self._read_source(run).lake
            read_role_access(run).require(capture_instance)
            return lake

    def _read_source(self, run: Run) -> SourceDefinition:
        source = find_source(run, parse_url(self._url).database or "", StoreFormat.require_readable)
        if source is None or not is_begun(run, "cdc", "change_tables", made_with="captured_columns"):
            raise DatabaseNotEnabled(self._name)
        return source
