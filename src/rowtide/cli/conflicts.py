"""`rowtide conflicts`: conflicts of merge and of delivery in one list, and decisions about them."""

from __future__ import annotations

import getpass
import socket
from typing import Annotated

from rowtide.cli.groups import CommandTable
from rowtide.cli.options import AnyDb, Listed, ListingFormat, Wide, listing
from rowtide.cli.output.rows import OutputFormat, notes, print_listed
from rowtide.conflicts.inbox import Choice, ConflictFilter
from rowtide.core.options import Argument, Option
from rowtide.handle import connect

app = CommandTable()

_CONFLICT = {
    "conflict_id": "conflict_id",
    "table": "table",
    "key": "key",
    "kind": "kind",
    "state": "state",
    "won": "won",
    "differing": "differing_columns",
    "node": "node",
}


@app.command(
    name="list", epilog="Example: rowtide conflicts list --state open --format csv --db postgresql://localhost/shop"
)
def list_(db: AnyDb, wanted: ConflictFilter, form: ListingFormat = OutputFormat.TABLE, *, wide: Wide = False) -> None:
    """List conflicts, oldest first, with both versions. Connects to subscribers; those not reached are named."""
    from rowtide.conflicts.inbox import InboxConflict
    from rowtide.replication.resolving import require_read

    found = connect(db).conflicts.list_conflicts(wanted)
    texts = ("key", "publisher_row", "subscriber_row", "base_row")
    print_listed(InboxConflict, found.conflicts, form, _CONFLICT, wide=wide, json_texts=texts)
    require_read(found.unread)


@listing(
    app,
    epilog="Example: rowtide conflicts causes --state open --db postgresql://localhost/shop",
    columns="cause, table, kind, differing_columns as differing, won, reason, conflicts, open_conflicts as open",
)
def causes(db: AnyDb, wanted: ConflictFilter) -> Listed:
    """List conflicts by their cause, the most frequent first: one decision is enough for all of a cause."""
    from rowtide.conflicts.inbox import ConflictGroup
    from rowtide.replication.resolving import require_read

    found = connect(db).conflicts.list_conflicts(wanted)
    require_read(found.unread)
    return ConflictGroup, found.groups


@app.command(epilog="Example: rowtide conflicts decide cause-0f3c… --choice otherwise --db postgresql://localhost/shop")
def decide(
    db: AnyDb,
    name: Annotated[str, Argument(metavar="NAME", help="a conflict_id, or a cause, of all whose open conflicts")],
    choice: Annotated[Choice, Option(help="Who wins.", show_default=False)],
    form: ListingFormat = OutputFormat.TABLE,
    *,
    over_later_changes: Annotated[
        bool, Option("--over-later-changes", help="Also replace rows that have changed since.")
    ] = False,
    again: Annotated[bool, Option("--again", help="Also change decisions that were made before.")] = False,
) -> None:
    """Decide about a conflict, or all open ones of a cause, each in a transaction of its own."""
    from rowtide.conflicts.errors import DecisionsFailed
    from rowtide.conflicts.handle import DecisionResult

    results = []
    with notes.status("Deciding ...") as progress:
        for result in connect(db).conflicts.decide(
            name,
            choice,
            over_later_changes=over_later_changes,
            again=again,
            decided_by=f"{getpass.getuser()}@{socket.gethostname()}",
        ):
            results.append(result)
            progress.update(f"Decided {len(results):,} ...")
    print_listed(DecisionResult, results, form)
    failed = sum(result.failure is not None for result in results)
    if failed:
        raise DecisionsFailed(failed, len(results))
