"""`rowtide cdc`: targets, tables that follow captured tables, and the catalogues in which they are registered."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Annotated

import click

from rowtide.catalogs.entries import CatalogueKind
from rowtide.cli.active_configuration import label_of
from rowtide.cli.groups import CommandTable
from rowtide.cli.options import ClusterOptions, Db, HideKeys, Listed, ListingFormat, SparkOptions, listing
from rowtide.cli.output.metrics import MetricsOptions, measuring
from rowtide.cli.output.rows import OutputFormat, notes, print_listed
from rowtide.cli.output.watching import watching
from rowtide.core.options import Argument, Option
from rowtide.events.configuration import LogOptions
from rowtide.handle import connect
from rowtide.lake.session import requesting
from rowtide.targets.options import NewTarget

if TYPE_CHECKING:
    from rowtide.targets.listing import ListedTarget


app = CommandTable()


TargetName = Annotated[str, Argument(metavar="NAME", help="a target")]


@listing(
    app,
    epilog="Example: rowtide cdc targets --format jsonl --db postgresql://localhost/shop",
    columns="target, instance, kind, set_lsn, lsn, lag_seconds as lag_s, state, note",
)
def targets(db: Db) -> Listed:
    """List the tables of all targets: how far each is, how far behind, and why one has stopped."""
    from rowtide.targets.listing import ListedTarget

    return ListedTarget, connect(db).targets.list_targets()


@app.command(
    epilog="Example: rowtide cdc add-target warehouse public_orders public_items --path /data/warehouse "
    "--column 'email=sha2(email, 256)' --db postgresql://localhost/shop"
)
def add_target(db: Db, target: NewTarget) -> None:
    """Add a target: tables that follow some capture instances, all at one LSN. `apply` makes them."""
    connect(db).targets.add(target)
    notes.print(
        f"Added: target {target.name}. `rowtide cdc apply {target.name} --once` makes its tables.", soft_wrap=True
    )


@app.command(epilog="Example: rowtide cdc apply warehouse --once --db postgresql://localhost/shop")
def apply(
    db: Db,
    name: Annotated[str | None, Argument(metavar="NAME", help="a target; default: all")] = None,
    *,
    once: Annotated[
        bool, Option("--once", help="Stop when what is published now is applied.", from_file=False)
    ] = False,
    spark: ClusterOptions,
    _hide_keys: HideKeys = False,
    log: LogOptions,
    metrics: MetricsOptions,
) -> None:
    """Apply what is published to targets, until stopped with Ctrl-C. `agent run` does it too.

    Exit code 1 with `--once` if a table has stopped.
    """
    from rowtide.targets.api import describe_version

    with requesting(spark.request), measuring(metrics, label_of(db), "targets"):
        database = connect(db)
        if once:
            applied = database.targets.apply(name)
            for target, version in applied.items():
                notes.print(describe_version(target, version), soft_wrap=True)
            _report_rest([one for one in database.targets.list_targets() if name in (None, one.target)], set(applied))
            return
        with watching("Applying ...", log, db, "targets") as stop:
            database.run_targets(name, stop=stop)


@app.command(epilog="Example: rowtide cdc drop-target warehouse --db postgresql://localhost/shop")
def drop_target(db: Db, name: TargetName) -> None:
    """Drop a target: cleanup no longer waits for it; its tables stay as they are."""
    connect(db).targets.drop(name)
    notes.print(f"Dropped: target {name}. Its tables stay.")


def _report_rest(listed: Iterable[ListedTarget], reported: Collection[str]) -> None:
    """Report which tables are not made yet, and end with an error if one has stopped."""
    from rowtide.targets.definitions import TableState
    from rowtide.targets.listing import NEW

    tables = list(listed)
    for one in tables:
        if one.state == NEW:
            note = (
                f"target {one.target}: {one.instance} has no table yet: `rowtide cdc run` copies and publishes its rows"
            )
            notes.print(note, soft_wrap=True)
        elif one.state == TableState.STOPPED and one.target not in reported:
            notes.print(f"target {one.target}: {one.instance} has stopped: {one.note}", soft_wrap=True)
    if any(one.state == TableState.STOPPED for one in tables):
        raise click.exceptions.Exit(1)


_LISTED = {"action": "action", "table": "table", "name": "name", "location": "location", "note": "note"}


@app.command(
    epilog="Examples: rowtide cdc register-catalog hive thrift://metastore:9083 lake --db postgresql://localhost/shop; "
    "rowtide cdc register-catalog iceberg http://catalogue:8181 lake --db postgresql://localhost/shop"
)
def register_catalog(
    db: Db,
    catalogue_kind: Annotated[CatalogueKind, Argument(metavar="KIND", help="hive, or iceberg (REST).")],
    place: Annotated[
        str,
        Argument(
            metavar="PLACE",
            help="Its address: thrift://host:9083, or the jdbc: URL of an embedded metastore; http://host:8181, or "
            "http://host:8181#WAREHOUSE.",
        ),
    ],
    namespace: Annotated[str, Argument(metavar="NAMESPACE", help="Its schema, which has to exist.")],
    form: ListingFormat = OutputFormat.TABLE,
    *,
    dry_run: Annotated[bool, Option("--dry-run", help="Print what would be done, and do nothing.")] = False,
    spark: SparkOptions,
) -> None:
    """Register change tables, base tables and targets in a catalogue, and correct what is registered already.

    Run it again after tables are enabled, disabled or altered: what is gone is removed from the catalogue, and what
    rowtide did not register stays as it is. The files' permissions decide who may read rows; names and comments are
    visible to every reader of the catalogue.

    A catalogue of Iceberg has tables of Iceberg only, those of targets that write to it (`add-target --catalog`), and
    they get comments; the token for it is in ROWTIDE_CATALOG_TOKEN.
    """
    from rowtide.catalogs.registration import RegisteredTable

    with requesting(spark.request):
        done = connect(db).register_catalog(catalogue_kind, place, namespace, dry_run=dry_run)
    print_listed(RegisteredTable, done.tables, form, _LISTED)
    if not dry_run:
        notes.print(f"Registered: {done.namespace}.")
