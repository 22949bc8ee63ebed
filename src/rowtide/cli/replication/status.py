"""`rowtide replication`: state and history of subscriptions, and undelivered commands."""

from __future__ import annotations

from rowtide.cli.groups import CommandTable
from rowtide.cli.health import print_unhealthy
from rowtide.cli.options import Db, ListingFormat, Wide
from rowtide.cli.output.rows import OutputFormat, notes, print_listed
from rowtide.cli.replication.options import SomePublication
from rowtide.handle import connect
from rowtide.replication.inspection.compare_options import CommandRange
from rowtide.replication.sync_types import PublicationName, SomeSubscriber

app = CommandTable()

_SUBSCRIPTION_STATUS = {
    "publication": "publication",
    "subscriber": "subscriber",
    "state": "state",
    "agent": "agent",
    "delivered_by": "delivered_by",
    "latency_s": "latency_s",
    "queued": "undelivered_commands",
    "catch_up_s": "catch_up_s",
    "copied": "copied",
}
_HISTORIC_STATE = {
    "time": "time",
    "subscriber": "subscriber",
    "status": "runstatus",
    "commands": "delivered_commands",
    "comments": "comments",
}
_HISTORIC_ERROR = {
    "time": "time",
    "publication": "publication",
    "code": "error_code",
    "lsn": "xact_seqno",
    "error": "error_text",
}
_BROWSED_COMMAND = {
    "lsn": "xact_seqno",
    "article": "article",
    "operation": "operation",
    "id": "command_id",
    "command": "command",
}
_TRACER_ARRIVAL = {
    "token": "tracer_id",
    "committed": "publisher_commit",
    "to_log_s": "distributor_latency",
    "subscriber": "subscriber",
    "to_subscriber_s": "subscriber_latency",
}
_KEPT_CONFLICT = {
    "time": "logged_at",
    "article": "article",
    "kind": "kind",
    "resolution": "resolution",
    "delivered": "new_row",
    "present": "present_rows",
}


@app.command(epilog="Example: rowtide replication status --db postgresql://localhost/shop")
def status(
    db: Db, publication: SomePublication = None, form: ListingFormat = OutputFormat.TABLE, *, wide: Wide = False
) -> None:
    """List the subscriptions with their progress and agents, without connecting to subscribers.

    Problems are printed on stderr with their remedies, as by `rowtide health`.
    """
    # Not by the handle: it imports what publishes and subscribes.
    from rowtide.databases.postgres.connect import open_engine
    from rowtide.databases.postgres.read_once import reading_once
    from rowtide.diagnosis import Area, read_health
    from rowtide.replication.status import SubscriptionStatus, read_status

    with reading_once():
        listed = read_status(open_engine(db), db, publication)
        print_listed(SubscriptionStatus, listed, form, _SUBSCRIPTION_STATUS, wide=wide)
        for row in listed:
            if row.streams > 1:
                notes.print(f"{row.publication} to {row.subscriber}: {row.promise}.", soft_wrap=True)
        print_unhealthy(read_health(db, [Area.LOG, Area.REPLICATION]))


@app.command(epilog="Example: rowtide replication history shop --db postgresql://localhost/shop")
def history(
    db: Db, publication: SomePublication = None, form: ListingFormat = OutputFormat.TABLE, *, wide: Wide = False
) -> None:
    """List the history of the agents and the log reader's errors in the last 48 hours, newest first.

    (SQL Server: MSdistribution_history, MSlogreader_history.)
    """
    listed = connect(db).replication.list_history(publication)

    from rowtide.replication.distributor.history import HistoricState

    print_listed(HistoricState, listed, form, _HISTORIC_STATE, wide=wide)


@app.command(epilog="Example: rowtide replication errors shop --db postgresql://localhost/shop")
def errors(
    db: Db, publication: SomePublication = None, form: ListingFormat = OutputFormat.TABLE, *, wide: Wide = False
) -> None:
    """List the agents' errors in the last 48 hours, newest first (SQL Server: MSrepl_errors)."""
    listed = connect(db).replication.list_errors(publication)

    from rowtide.replication.distributor.history import HistoricError

    print_listed(HistoricError, listed, form, _HISTORIC_ERROR, wide=wide)


@app.command(
    epilog="Example: rowtide replication browse-commands --article orders --format jsonl"
    " --db postgresql://localhost/shop"
)
def browse_commands(
    db: Db, wanted: CommandRange, form: ListingFormat = OutputFormat.TABLE, *, wide: Wide = False
) -> None:
    """List the commands in the log store, delivered or not, in commit order (SQL Server: sp_browsereplcmds).

    In formats jsonl and csv they are printed as they are read, in any number.
    """
    listed = connect(db).replication.browse_commands(wanted)

    from rowtide.replication.inspection.browsing import BrowsedCommand

    print_listed(BrowsedCommand, listed, form, _BROWSED_COMMAND, wide=wide)


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

    (SQL Server: conflict_<schema>_<table>.) Connects to the subscribers.
    """
    listed = connect(db).replication.list_conflicts(publication, subscriber)

    from rowtide.replication.targets.subscriber_kind import KeptConflict

    rows = ("old_row", "new_row", "present_rows", "present_times")
    print_listed(KeptConflict, listed, form, _KEPT_CONFLICT, wide=wide, json_texts=rows)


@app.command(epilog="Example: rowtide replication post-tracer-token shop --db postgresql://localhost/shop")
def post_tracer_token(db: Db, publication: PublicationName) -> None:
    """Write a token to the publisher's log and print its id (SQL Server: sp_posttracertoken)."""
    print(connect(db).replication.post_tracer_token(publication))


@app.command(epilog="Example: rowtide replication tracer-tokens shop --db postgresql://localhost/shop")
def tracer_tokens(
    db: Db, publication: PublicationName, form: ListingFormat = OutputFormat.TABLE, *, wide: Wide = False
) -> None:
    """List the latency of tokens to the log store and to each subscriber, in seconds; null is pending.

    (SQL Server: sp_helptracertokens, sp_helptracertokenhistory.)
    """
    listed = connect(db).replication.list_tracer_tokens(publication)

    from rowtide.replication.distributor.tracers import TracerArrival

    print_listed(TracerArrival, listed, form, _TRACER_ARRIVAL, wide=wide)
