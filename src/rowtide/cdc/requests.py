"""The options of CDC's commands and methods: tables to enable, snapshots, consumers, cleanup. Imports little."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY
from datetime import timedelta
from typing import Annotated, Any

from rowtide.cdc.errors.enabling import BeforeImagesUnknown, WidenedUnknown
from rowtide.core.lsn import CommitLsn
from rowtide.core.options import MOST_HOURS, MOST_ROWS, Argument, ForGroup, Option, values_of
from rowtide.core.tables import BeforeImages, Widened
from rowtide.core.values import frozen

RowsPerSecond = Annotated[int | None, Option("--rows-per-second", min=1, max=MOST_ROWS, help="Rate limit of the copy.")]


def parse_widened(setting: str | None) -> Widened | None:
    """Return a setting by its name; None: none. Raises `WidenedUnknown`."""
    if setting is not None and setting not in tuple(Widened):
        raise WidenedUnknown(str(setting))
    return Widened(setting) if setting is not None else None


@frozen
class DatabaseToEnable:
    """A database as it is enabled (SQL Server: sp_cdc_enable_db); a repeat changes `widened`."""

    lake: Annotated[str, Option(help="Folder or URL of the lake.")]
    log_store: Annotated[str | None, Option(help="Folder of the log store; default: LAKE/log.")] = None
    _: KW_ONLY
    widened: Annotated[
        Widened | None,
        Option(
            help="Tables of the lake whose columns get wider types: rewritten, so that every reader reads on; marked "
            "with Delta's type widening, which delta-rs and Polars refuse; or auto, rewritten up to 256 MiB of files. "
            "Default: as before, at first auto."
        ),
    ] = None
    for_group: ForGroup = False
    on_wait: Callable[[str], None] = lambda _whom: None
    """Called with the transaction that it waits for."""

    def __post_init__(self) -> None:
        """Take the setting by its name too. Raises `WidenedUnknown`."""
        object.__setattr__(self, "widened", parse_widened(self.widened))


@frozen(kw_only=True)
class SharedRequest:
    """The options of new instances that those of many tables can share."""

    refuses_truncate: bool = False
    """Whether the server refuses to truncate the table, as SQL Server does; else truncates are captured."""
    role_name: Annotated[
        str | None,
        Option(
            "--role",
            help="Gating role: only its members may read the changes; created if it does not exist.",
            sql_server="@role_name",
        ),
    ] = None
    """None: all roles that may select the columns."""
    before_images: Annotated[
        BeforeImages, Option(help="What the log carries of a row before its change: all of it, or its key.")
    ] = BeforeImages.FULL
    rows_per_second: RowsPerSecond = None
    widened: Annotated[
        Widened | None, Option(help="As in enable-db, for this table; default: the database's setting.")
    ] = None
    supports_net_changes: Annotated[
        bool | None,
        Option(
            "--net-changes/--no-net-changes",
            help="Whether it has net changes; default: if it has a key.",
            sql_server="@supports_net_changes",
        ),
    ] = None
    snapshot: Annotated[bool, Option("--snapshot/--no-snapshot", help="Whether existing rows are copied.")] = True

    def __post_init__(self) -> None:
        """Take before images and settings by their names too. Raises `BeforeImagesUnknown`, `WidenedUnknown`."""
        object.__setattr__(self, "widened", parse_widened(self.widened))
        if self.before_images not in tuple(BeforeImages):
            raise BeforeImagesUnknown(str(self.before_images))
        object.__setattr__(self, "before_images", BeforeImages(self.before_images))

    @property
    def shared(self) -> dict[str, Any]:
        """These options, as arguments."""
        return values_of(SharedRequest, self)


@frozen(kw_only=True)
class InstanceRequest(SharedRequest):
    """The options of a new instance."""

    capture_instance: Annotated[
        str | None, Option(help="Its name; default: schema_table. Of one table.", sql_server="@capture_instance")
    ] = None
    index_name: Annotated[
        str | None,
        Option(
            "--index",
            help="Unique index that identifies rows; default: that of the primary key. Of one table.",
            sql_server="@index_name",
        ),
    ] = None
    columns: Annotated[
        tuple[str, ...] | None,
        Option(
            help='Captured columns, separated by commas, in "" or [] where needed; default: all. Of one table.',
            sql_server="@captured_column_list",
        ),
    ] = None

    def of(self, table: str) -> NewInstance:
        """Return the request for a table."""
        return NewInstance(table, **values_of(InstanceRequest, self))


@frozen
class NewInstance(InstanceRequest):
    """A table as it is enabled (SQL Server: sp_cdc_enable_table)."""

    table: str


@frozen
class TablesRequest(SharedRequest):
    """Many tables, by names and patterns such as `public.*`."""

    patterns: Iterable[str]
    _: KW_ONLY
    excluding: Iterable[str] = ()


@frozen
class TablesToEnable(TablesRequest):
    """Many tables as they are enabled."""

    _: KW_ONLY
    with_new_tables: bool = False
    wait_s: float = 900.0
    on_progress: Callable[[Any], None] = lambda _progress: None
    """Called with `AlterationProgress`: how many tables are done, and what the others wait for."""


@frozen
class RepeatedSnapshot:
    """A captured table that is copied again."""

    name: Annotated[str, Argument(metavar="TABLE", help="schema.table, or a capture instance")]
    _: KW_ONLY
    where: Annotated[
        str | None, Option(help="SQL condition: only these rows, which replace those of the same keys.")
    ] = None
    rows_per_second: RowsPerSecond = None


LIMIT_HOURS = 168
AT_RISK = 4
"""A consumer with less than this part of its limit left is at risk."""


ConsumerName = Annotated[str, Argument(metavar="NAME", help="a consumer")]
_LIMIT = Option(help="How long cleanup waits for what it has not acknowledged.", max=MOST_HOURS)


@frozen
class NewConsumer:
    """A consumer as it is added."""

    name: ConsumerName
    instances: Annotated[Sequence[str], Option(help="The capture instances that it reads, separated by commas.")]
    _: KW_ONLY
    limit_hours: Annotated[int, _LIMIT] = LIMIT_HOURS
    role_name: Annotated[str | None, Option("--role", help="Its members may acknowledge, besides the owner.")] = None


@frozen
class ConsumerChange:
    """What is to change of a consumer; None stays."""

    name: ConsumerName
    _: KW_ONLY
    instances: Annotated[
        Sequence[str] | None, Option(help="All the instances that it reads from now on, separated by commas.")
    ] = None
    limit_hours: Annotated[int | None, _LIMIT] = None


RETENTION = timedelta(minutes=4320)


@frozen
class CleanupOrder:
    """The scope of a cleanup.

    Without `capture_instance`: all instances, up to `low_water_mark`, or else by `retention`. With it: that instance,
    up to `low_water_mark`, or else without moving its low endpoint: rows that earlier deletions left are removed.
    """

    capture_instance: Annotated[
        str | None,
        Argument(metavar="INSTANCE", help="One instance; its low endpoint moves only to a given mark."),
    ] = None
    low_water_mark: Annotated[
        CommitLsn | None, Option(help="The first LSN that stays.", sql_server="@low_water_mark")
    ] = None
    retention: timedelta = RETENTION
    is_forced: Annotated[bool, Option("--force", help="Accept any move of the mark: the clocks were right.")] = False

    @property
    def moves(self) -> bool:
        """Whether low endpoints may move."""
        return self.capture_instance is None or self.low_water_mark is not None
