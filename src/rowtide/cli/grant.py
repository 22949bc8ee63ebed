"""`rowtide grant`: grant a role what it needs for a purpose."""

from __future__ import annotations

from typing import Annotated

from rowtide.cli.groups import CommandTable
from rowtide.cli.options import Db, DryRun
from rowtide.cli.output.rows import notes
from rowtide.core.options import Argument, Option
from rowtide.handle import connect
from rowtide.rights.purpose import Purpose

app = CommandTable()


@app.command(epilog="Example: rowtide grant watcher --as monitor --db postgresql://localhost/shop")
def grant(
    role: Annotated[str, Argument(metavar="ROLE", help="a role that exists, as PostgreSQL stores its name")],
    purpose: Annotated[Purpose, Option("--as", help="What the role is for.")],
    db: Db,
    *,
    table: Annotated[
        list[str] | None,
        Option("--table", metavar="TABLE", help="Rights in this table; may be repeated; default: all that are used."),
    ] = None,
    group: Annotated[
        str | None,
        Option("--group", metavar="GROUP", help="Grant the rights to this role, and make ROLE a member of it."),
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Grant a role the rights that it needs for a purpose, in one transaction, and print the statements.

    Rights that the role has are not granted again. No role is created. `--as monitor` also makes the views that it
    reads through, without values of rows; run it again after another feature was enabled.
    """
    granted = connect(db).grant(role, purpose, table or (), group=group, dry_run=dry_run)
    for statement in granted.statements:
        print(f"{statement};")
    for statement in granted.not_granted:
        notes.print(f"Not granted, as it takes a superuser: {statement};", soft_wrap=True)
    if not (granted.statements or granted.not_granted):
        notes.print(f"The role has what it needs as {purpose}; nothing was changed.")
