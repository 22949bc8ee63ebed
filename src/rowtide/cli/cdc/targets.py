"""`rowtide cdc`: targets, tables that follow captured tables."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Annotated

import click

from rowtide.cdc.consumers.limits import LIMIT_HOURS
from rowtide.cli.groups import CommandTable
from rowtide.cli.options import MOST_HOURS, Db, HideKeys, ListingFormat, Wide
from rowtide.cli.output.rows import Format, notes, print_listed
from rowtide.cli.output.watching import stopping
from rowtide.cli.spark_options import Master, SharedStorage, SparkConf, spark_request
from rowtide.core.column_lists import parse_column_list
from rowtide.core.options import Argument, Option
from rowtide.handle import connect
from rowtide.lake.session import requesting
from rowtide.targets.options import ApplyEngine, TargetFormat, Truncation

if TYPE_CHECKING:
    from rowtide.targets.listing import ListedTarget

app = CommandTable()

_LISTED_TARGET = {
    "target": "target",
    "instance": "instance",
    "kind": "kind",
    "set_lsn": "set_lsn",
    "lsn": "lsn",
    "lag_s": "lag_seconds",
    "state": "state",
    "note": "note",
}

TargetName = Annotated[str, Argument(metavar="NAME", help="a target")]


@app.command(epilog="Example: rowtide cdc targets --format jsonl --db postgresql://localhost/shop")
def targets(db: Db, form: ListingFormat = Format.TABLE, *, wide: Wide = False) -> None:
    """List the tables of all targets: how far each is, how far behind, and why one has stopped."""
    from rowtide.targets.listing import ListedTarget

    print_listed(ListedTarget, connect(db).targets.list_targets(), form, _LISTED_TARGET, wide=wide)


def parsed_pairs(given: list[str]) -> list[str]:
    """Refuse what is not NAME=VALUE."""
    for text in given:
        if not all(text.partition("=")[::2]):
            raise ValueError(f"{text} is not written NAME=VALUE")
    return given


def _pairs(help_text: str, metavar: str) -> object:
    return Option(
        help=f"{help_text} May be repeated.",
        metavar=metavar,
        check=parsed_pairs,
        show_default=False,
    )


@app.command(
    epilog="Example: rowtide cdc add-target warehouse public_orders public_items --path /data/warehouse "
    "--column 'email=sha2(email, 256)' --db postgresql://localhost/shop"
)
def add_target(
    db: Db,
    name: TargetName,
    instances: Annotated[list[str], Argument(metavar="INSTANCE", help="capture instances")],
    column: Annotated[list[str], _pairs("A column by an expression of Spark SQL.", "NAME=SQL")],
    rename: Annotated[list[str], _pairs("Another name for a column.", "OLD=NEW")],
    table_property: Annotated[list[str], _pairs("A property of the tables.", "K=V")],
    catalog_option: Annotated[list[str], _pairs("A setting of the catalogue.", "K=V")],
    kind: Annotated[
        str, Option(help="current (SCD type 1), history (SCD type 2), or python:module.Class.")
    ] = "current",
    target_format: Annotated[TargetFormat, Option("--format", help="Of the tables.")] = TargetFormat.DELTA,
    path: Annotated[str | None, Option(help="Folder or URL: each table is PATH/INSTANCE.")] = None,
    catalog: Annotated[
        str | None,
        Option(metavar="NAME.NAMESPACE", help="Instead of a path: each table is NAME.NAMESPACE.INSTANCE."),
    ] = None,
    columns: Annotated[str | None, Option(help="The source's columns, separated by commas.")] = None,
    excluding: Annotated[str | None, Option("--except", help="All columns but these.")] = None,
    apply_as_deletes: Annotated[
        str | None, Option(metavar="SQL", help="Rows that meet this condition count as deleted.")
    ] = None,
    soft_delete: Annotated[
        str | None, Option(metavar="COLUMN", help="Deleted rows stay, with true in this column.")
    ] = None,
    truncate: Annotated[
        Truncation, Option(help="What a truncate of the source does: it empties the table, or nothing.")
    ] = Truncation.APPLY,
    track_history: Annotated[
        str | None, Option(help="Only a change of these columns begins a new slice of history.")
    ] = None,
    track_history_except: Annotated[
        str | None, Option(help="A change of these columns begins no new slice of history.")
    ] = None,
    cluster_by: Annotated[str | None, Option(help="Columns by which the tables' files are clustered.")] = None,
    partition_by: Annotated[
        str | None, Option(help="Columns each of whose values has files of its own, instead of clusters.")
    ] = None,
    schedule: Annotated[
        str | None, Option(help="When `agent run` applies changes, as in a crontab; default: at once.")
    ] = None,
    engine: Annotated[
        ApplyEngine, Option(help="Spark applies changes always, or only where there is much to apply.")
    ] = ApplyEngine.AUTO,
    limit_hours: Annotated[
        int, Option(help="Cleanup waits so long for what it has not applied.", max=MOST_HOURS)
    ] = LIMIT_HOURS,
    *,
    follow_columns: Annotated[
        bool | None,
        Option(
            "--follow-columns/--no-follow-columns",
            help="Have the columns that are added to the source, and their new names, once its rows are copied again.",
            show_default="follow, but with --truncate keep",
        ),
    ] = None,
) -> None:
    """Add a target: tables that follow some capture instances, all at one LSN. `apply` makes them."""
    connect(db).targets.add(
        name,
        instances,
        kind=kind,
        limit_hours=limit_hours,
        format=target_format,
        path=path,
        catalog=catalog,
        catalog_options=_as_mapping(catalog_option),
        column_list=_as_list(columns),
        except_column_list=_as_list(excluding) or (),
        rename=_as_mapping(rename),
        columns=_as_mapping(column),
        apply_as_deletes=apply_as_deletes,
        soft_delete=soft_delete,
        truncate=truncate,
        track_history_column_list=_as_list(track_history),
        track_history_except_column_list=_as_list(track_history_except) or (),
        cluster_by=_as_list(cluster_by) or (),
        partition_by=_as_list(partition_by) or (),
        table_properties=_as_mapping(table_property),
        follow_columns=follow_columns,
        schedule=schedule,
        engine=engine,
    )
    notes.print(f"Added: target {name}. `rowtide cdc apply {name} --once` makes its tables.", soft_wrap=True)


@app.command(epilog="Example: rowtide cdc apply warehouse --once --db postgresql://localhost/shop")
def apply(
    db: Db,
    name: Annotated[str | None, Argument(metavar="NAME", help="a target; default: all")] = None,
    *,
    once: Annotated[bool, Option("--once", help="Stop when what is published now is applied.")] = False,
    master: Master = None,
    spark_conf: SparkConf,
    shared_storage: SharedStorage = False,
    _hide_keys: HideKeys = False,
) -> None:
    """Apply what is published to targets, until stopped with Ctrl-C. `agent run` does it too.

    Exit code 1 with `--once` if a table has stopped.
    """
    from rowtide.targets.running import describe_version

    request = spark_request(master, spark_conf, shared_storage=shared_storage)
    with requesting(request):
        database = connect(db)
        if once:
            applied = database.targets.apply(name)
            for target, version in applied.items():
                notes.print(describe_version(target, version), soft_wrap=True)
            _tell_rest([one for one in database.targets.list_targets() if name in (None, one.target)], set(applied))
            return
        with stopping() as stop:
            database.run_targets(name, stop=stop, on_event=lambda event: notes.print(event, soft_wrap=True))


@app.command(epilog="Example: rowtide cdc drop-target warehouse --db postgresql://localhost/shop")
def drop_target(db: Db, name: TargetName) -> None:
    """Drop a target: cleanup no longer waits for it; its tables stay as they are."""
    connect(db).targets.drop(name)
    notes.print(f"Dropped: target {name}. Its tables stay.")


def _tell_rest(listed: Iterable[ListedTarget], told: Collection[str]) -> None:
    """Tell which tables are not made yet, and end with an error if one has stopped."""
    from rowtide.targets.definitions import TableState
    from rowtide.targets.listing import NEW

    tables = list(listed)
    for one in tables:
        if one.state == NEW:
            note = (
                f"target {one.target}: {one.instance} has no table yet: `rowtide cdc run` copies and publishes its rows"
            )
            notes.print(note, soft_wrap=True)
        elif one.state == TableState.STOPPED and one.target not in told:
            notes.print(f"target {one.target}: {one.instance} has stopped: {one.note}", soft_wrap=True)
    if any(one.state == TableState.STOPPED for one in tables):
        raise click.exceptions.Exit(1)


def _as_mapping(given: list[str]) -> dict[str, str]:
    return {name: value for name, _, value in (text.partition("=") for text in given)}


def _as_list(given: str | None) -> tuple[str, ...] | None:
    return parse_column_list(given) if given is not None else None
