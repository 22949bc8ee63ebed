"""`rowtide replication`: conflicts that subscribers keep, and decisions about them."""

from __future__ import annotations

from typing import Annotated

from rowtide.cli.groups import CommandTable
from rowtide.cli.options import Db, ListingFormat, SomePublication, Wide
from rowtide.cli.output.rows import OutputFormat, notes, print_listed
from rowtide.core.options import Argument, Option
from rowtide.handle import connect
from rowtide.replication.conflicts import ConflictWinner
from rowtide.replication.subscription_settings import SomeSubscriber, SubscriberUrl

app = CommandTable()

_CONFLICT = {
    "conflict_id": "conflict_id",
    "time": "logged_at",
    "article": "article",
    "kind": "kind",
    "resolution": "resolution",
    "state": "state",
    "delivered": "new_row",
    "present": "present_rows",
}


@app.command(epilog="Example: rowtide replication conflicts shop --format jsonl --db postgresql://localhost/shop")
def conflicts(
    db: Db,
    publication: SomePublication = None,
    subscriber: SomeSubscriber = None,
    form: ListingFormat = OutputFormat.TABLE,
    *,
    wide: Wide = False,
) -> None:
    """List the conflicts of the last 14 days, newest first: what was delivered, and what it met at the subscriber.

    (SQL Server: conflict_<schema>_<table>.) Connects to the subscribers; those that cannot be reached are named.
    """
    from rowtide.replication.resolving import require_read
    from rowtide.replication.targets.subscriber_kind import KeptConflict

    found = connect(db).replication.read_conflicts(publication, subscriber)
    texts = ("old_row", "new_row", "present_rows", "present_times")
    print_listed(KeptConflict, found.conflicts, form, _CONFLICT, wide=wide, json_texts=texts)
    require_read(found.unread)


@app.command(
    epilog="Example: rowtide replication resolve 17 --subscriber postgresql://localhost/copy --winner present"
    " --db postgresql://localhost/shop"
)
def resolve(
    db: Db,
    conflict: Annotated[int, Argument(metavar="CONFLICT", help="the conflict_id that `conflicts` lists")],
    subscriber: SubscriberUrl,
    winner: Annotated[ConflictWinner, Option(help="Whose rows are to be there.", show_default=False)],
    *,
    over_later_changes: Annotated[
        bool, Option("--over-later-changes", help="Also replace rows that have changed since.")
    ] = False,
    again: Annotated[bool, Option("--again", help="Also change a decision that was made before.")] = False,
) -> None:
    """Choose the side whose rows are to be at the subscriber, whatever its resolver did.

    They become the subscriber's own change, which it delivers to others. Of a conflict that has stopped delivery, the
    decision is followed when delivery continues.
    """
    outcome = connect(db).replication.resolve(
        conflict, subscriber, winner, over_later_changes=over_later_changes, again=again
    )
    if outcome.waits:
        notes.print("Decided: delivery does it when it continues; see `rowtide replication resume`.")
    else:
        notes.print("Resolved: rows are written." if outcome.rows else "Resolved: they stay as they are.")
