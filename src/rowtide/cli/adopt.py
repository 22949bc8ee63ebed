"""`rowtide adopt`: adopt a database that was moved permanently."""

from __future__ import annotations

from typing import Annotated

from rowtide.cli.groups import CommandTable
from rowtide.cli.options import Db, DryRun, Reason, Yes, confirm_loss
from rowtide.cli.output.rows import notes, print_wait, printed
from rowtide.core.options import Option
from rowtide.handle import connect

app = CommandTable()


@app.command(epilog="Example: rowtide adopt --yes --db postgresql://localhost/shop")
def adopt(
    db: Db,
    *,
    abandon_original: Annotated[
        bool,
        Option(
            "--abandon-original",
            help="Take log store and lake also from an original that is still on this server: it stops.",
        ),
    ] = False,
    reason: Reason = "adopted",
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Adopt a database that was moved permanently: restored in place, promoted, or upgraded by pg_upgrade.

    Reports what was found and what is lost, and asks. Publication and slot are created again, and the gap is recorded,
    as by reinitialize. A copy is refused while the original is on this server.
    """
    database = connect(db)
    found = database.find_adoption()
    for line in found.describe():
        notes.print(line, soft_wrap=True)
    if not found.is_needed:
        notes.print("This database was not moved: there is nothing to adopt, and nothing was changed.")
        return
    found.require_allowed(abandons_original=abandon_original)
    if dry_run:
        with printed(database.rehearsal()) as rehearsal:
            rehearsal.adopt(abandon_original=abandon_original)
        return
    confirm_loss(found.loss, yes=yes)
    database.adopt(reason, abandon_original=abandon_original, on_wait=print_wait)
    notes.print("Adopted. `rowtide cdc run` or `rowtide replication run` continues, in the next epoch.")
    if found.subscribers:
        notes.print("`rowtide replication reinitialize` copies the tables of subscriptions again.")
