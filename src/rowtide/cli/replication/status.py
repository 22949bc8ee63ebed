"""`rowtide replication`: listings, state and history of subscriptions, undelivered commands, and conflicts."""

from __future__ import annotations

from typing import Annotated

from rowtide.actions.wording import say_posted, say_resolved
from rowtide.cli.groups import CommandTable, record_done, report_done
from rowtide.cli.health import print_unhealthy
from rowtide.cli.options import Db, Listed, ListingFormat, SomePublication, Wide, listing
from rowtide.cli.output.rows import OutputFormat, notes, print_listed
from rowtide.core.options import Argument, Option
from rowtide.handle import connect
from rowtide.replication.articles.requests import CommandRange
from rowtide.replication.conflict_decisions import ConflictWinner
from rowtide.replication.subscription_settings import PublicationName, SomeSubscriber, SubscriberUrl

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


@app.command(epilog="Example: rowtide replication status --db postgresql://localhost/shop")
def status(
    db: Db, publication: SomePublication = None, form: ListingFormat = OutputFormat.TABLE, *, wide: Wide = False
) -> None:
    """List the subscriptions with their progress and agents, without connecting to subscribers.

    Problems are printed on stderr with their remedies, as by `rowtide health`.
    """
    # Not by the handle: it imports what publishes and subscribes.
    from rowtide.databases.postgres.connect import open_engine
    from rowtide.databases.postgres.repeated_reading import reading_once
    from rowtide.diagnosis import Area, read_health
    from rowtide.replication.status import SubscriptionStatus, read_status

    with reading_once():
        listed = read_status(open_engine(db), db, publication)
        print_listed(SubscriptionStatus, listed, form, _SUBSCRIPTION_STATUS, wide=wide)
        for row in listed:
            if row.streams > 1:
                notes.print(f"{row.publication} to {row.subscriber}: {row.promise}.", soft_wrap=True)
        print_unhealthy(read_health(db, [Area.LOG, Area.REPLICATION]))


@listing(
    app,
    epilog="Example: rowtide replication history shop --db postgresql://localhost/shop",
    columns="time, subscriber, runstatus as status, delivered_commands as commands, comments",
)
def history(db: Db, publication: SomePublication = None) -> Listed:
    """List the history of the agents and the log reader's errors in the last 48 hours, newest first.

    (SQL Server: MSdistribution_history, MSlogreader_history.)
    """
    from rowtide.replication.distributor.history import HistoricState

    return HistoricState, connect(db).replication.list_history(publication)


@listing(
    app,
    epilog="Example: rowtide replication errors shop --db postgresql://localhost/shop",
    columns="time, publication, error_code as code, xact_seqno as lsn, error_text as error",
)
def errors(db: Db, publication: SomePublication = None) -> Listed:
    """List the agents' errors in the last 48 hours, newest first (SQL Server: MSrepl_errors)."""
    from rowtide.replication.distributor.history import HistoricError

    return HistoricError, connect(db).replication.list_errors(publication)


@listing(
    app,
    epilog="Example: rowtide replication browse-commands --article orders --format jsonl"
    " --db postgresql://localhost/shop",
    columns="xact_seqno as lsn, article, operation, command_id as id, command",
)
def browse_commands(db: Db, wanted: CommandRange) -> Listed:
    """List the commands in the log store, delivered or not, in commit order (SQL Server: sp_browsereplcmds).

    In formats jsonl and csv they are printed as they are read, in any number.
    """
    from rowtide.replication.inspection.row_places import BrowsedCommand

    return BrowsedCommand, connect(db).replication.browse_commands(wanted)


@app.command(epilog="Example: rowtide replication post-tracer-token shop --db postgresql://localhost/shop")
def post_tracer_token(db: Db, publication: PublicationName) -> None:
    """Write a token to the publisher's log and print its id (SQL Server: sp_posttracertoken)."""
    token_id = connect(db).replication.post_tracer_token(publication)
    print(token_id)
    record_done(say_posted(token_id))


@listing(
    app,
    epilog="Example: rowtide replication tracer-tokens shop --db postgresql://localhost/shop",
    columns="tracer_id as token, publisher_commit as committed, distributor_latency as to_log_s, subscriber, "
    "subscriber_latency as to_subscriber_s",
)
def tracer_tokens(db: Db, publication: PublicationName) -> Listed:
    """List the latency of tokens to the log store and to each subscriber, in seconds; null is pending.

    (SQL Server: sp_helptracertokens, sp_helptracertokenhistory.)
    """
    from rowtide.replication.distributor.tracers import TracerArrival

    return TracerArrival, connect(db).replication.list_tracer_tokens(publication)


@listing(app, epilog="Example: rowtide replication publications --db postgresql://localhost/shop")
def publications(db: Db) -> Listed:
    """List the publications (SQL Server: sp_helppublication)."""
    from rowtide.replication.inspection.listings import ListedPublication

    return ListedPublication, connect(db).replication.list_publications()


@listing(
    app,
    epilog="Example: rowtide replication articles shop --wide --db postgresql://localhost/shop",
    columns="publication, article, columns, filter_clause as filter",
)
def articles(db: Db, publication: SomePublication = None) -> Listed:
    """List published tables, with their columns, row filters and commands (SQL Server: sp_helparticle)."""
    from rowtide.replication.inspection.listings import ListedArticle

    return ListedArticle, connect(db).replication.list_articles(publication)


@listing(
    app,
    epilog="Example: rowtide replication subscriptions --format jsonl --db postgresql://localhost/shop",
    columns="publication, subscriber, state, settings, queued_commands as queued, queued_bytes as size, "
    "oldest_queued as oldest",
    json_texts=("settings",),
)
def subscriptions(db: Db, publication: SomePublication = None) -> Listed:
    """List subscriptions with their queues (SQL Server: sp_helpsubscription).

    Queued are undelivered commands in the log store, including those that a row filter will exclude; sizes are of
    whole segments, and `oldest` is when the first was read. Does not connect to subscribers.
    """
    from rowtide.replication.inspection.listings import ListedSubscription

    return ListedSubscription, connect(db).replication.list_subscriptions(publication)


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
    from rowtide.replication.conflict_decisions import KeptConflict
    from rowtide.replication.kept_conflicts import require_read

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
    winner: Annotated[ConflictWinner, Option(help="Whose rows to keep.", show_default=False)],
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
    report_done(say_resolved(is_written=bool(outcome.rows), waits=outcome.waits))
    if outcome.waits:
        notes.print("`rowtide replication resume` continues it.")
