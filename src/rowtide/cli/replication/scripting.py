"""`rowtide replication`: scripts that run at subscribers after schema changes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from rowtide.cli.groups import CommandTable
from rowtide.cli.options import Db
from rowtide.cli.output.rows import notes
from rowtide.core.lsn import CommitLsn
from rowtide.core.options import Option, TableName
from rowtide.handle import connect
from rowtide.replication.sync_types import PublicationName

app = CommandTable()


def existing_file(path: Path) -> Path:
    """Refuse what is no file."""
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    return path


@app.command(
    epilog="Example: rowtide replication register-custom-scripting shop public.orders --sql apply_order.sql"
    " --db postgresql://localhost/shop"
)
def register_custom_scripting(
    db: Db,
    publication: PublicationName,
    table: TableName,
    sql: Annotated[
        Path | None,
        Option(help="File with SQL statements; it is read now.", check=existing_file),
    ] = None,
    python: Annotated[
        str | None,
        Option(
            help="Function of the agent's that returns SQL statements.", metavar="MODULE:FUNCTION", show_default=False
        ),
    ] = None,
    from_lsn: Annotated[
        str | None,
        Option("--from", help="For schema changes from this LSN on; default: from now on.", metavar="LSN"),
    ] = None,
) -> None:
    """Run statements at subscribers after each schema change of a table (SQL Server: sp_register_custom_scripting).

    They run in the transaction of the change, after the generated procedures were made again: custom procedures follow
    a changed signature. If they fail, delivery stops before the change (RT-7261).
    """
    connect(db).replication.register_custom_scripting(
        publication,
        table,
        sql=sql.read_text() if sql is not None else None,
        python=python,
        name=str(sql) if sql is not None else None,
        from_lsn=CommitLsn.parse(from_lsn) if from_lsn is not None else None,
    )
    notes.print("Registered.")


@app.command(
    epilog="Example: rowtide replication unregister-custom-scripting shop public.orders --db postgresql://localhost/shop"
)
def unregister_custom_scripting(db: Db, publication: PublicationName, table: TableName) -> None:
    """Run nothing after later schema changes of a table (SQL Server: sp_unregister_custom_scripting)."""
    connect(db).replication.unregister_custom_scripting(publication, table)
    notes.print("Unregistered.")
