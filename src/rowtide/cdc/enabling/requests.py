"""What is asked for when tables are enabled, as commands and methods take it. Light."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY
from typing import Annotated, Any

from rowtide.cdc.errors.enabling import BeforeImagesUnknown, WidenedUnknown
from rowtide.core.options import MOST_ROWS, ForGroup, Option, values_of
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
    on_progress: Callable[[Any], None] = lambda _rounds: None
    """Called with `Rounds`: how many tables are done, and what the others wait for."""
