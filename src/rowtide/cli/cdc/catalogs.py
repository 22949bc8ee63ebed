"""`rowtide cdc`: catalogues in which tables are registered."""

from __future__ import annotations

from typing import Annotated

from rowtide.catalogs.kinds import CatalogueKind
from rowtide.cli.groups import CommandTable
from rowtide.cli.options import Db, ListingFormat
from rowtide.cli.output.rows import OutputFormat, notes, print_listed
from rowtide.cli.spark_options import Master, SparkConf, spark_request
from rowtide.core.options import Argument, Option
from rowtide.handle import connect
from rowtide.lake.session import requesting

app = CommandTable()

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
    master: Master = None,
    spark_conf: SparkConf,
) -> None:
    """Register change tables, base tables and targets in a catalogue, and correct what is registered already.

    Run it again after tables are enabled, disabled or altered: what is gone is removed from the catalogue, and what
    rowtide did not register stays as it is. Who may read rows, the files' permissions decide; names and comments are
    seen by every reader of the catalogue.

    A catalogue of Iceberg has tables of Iceberg only, those of targets that write to it (`add-target --catalog`), and
    they get comments; the token for it is in ROWTIDE_CATALOG_TOKEN.
    """
    from rowtide.catalogs.registration import RegisteredTable

    with requesting(spark_request(master, spark_conf, shared_storage=False)):
        done = connect(db).register_catalog(catalogue_kind, place, namespace, dry_run=dry_run)
    print_listed(RegisteredTable, done.tables, form, _LISTED)
    if not dry_run:
        notes.print(f"Registered: {done.namespace}.")
