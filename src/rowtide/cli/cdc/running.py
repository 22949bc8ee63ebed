"""`rowtide cdc`: scans, snapshots, continuing after a gap, and following a captured table."""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import click

from rowtide.actions.wording import say_lost
from rowtide.cdc.requests import RepeatedSnapshot, RowsPerSecond
from rowtide.cdc.scans.pace import CaptureOptions, EngineOption, EngineSetting, RewritesWidened
from rowtide.cli import options
from rowtide.cli.active_configuration import label_of
from rowtide.cli.groups import CommandTable, record_done, report_done
from rowtide.cli.output.metrics import MetricsOptions, measuring
from rowtide.cli.output.rows import OutputFormat, notes, print_listed, print_wait
from rowtide.cli.output.watching import watching
from rowtide.cli.parameters import parse_bound
from rowtide.core.errors import RowtideError
from rowtide.core.lsn import CommitLsn
from rowtide.core.options import MOST_ROWS, Argument, Option
from rowtide.core.values import frozen
from rowtide.events.catalogue import AgentRetries
from rowtide.events.configuration import LogOptions
from rowtide.events.event import emit
from rowtide.handle import connect
from rowtide.lake.session import requesting

if TYPE_CHECKING:
    from rowtide.cdc.following.follower import StreamPosition
    from rowtide.cdc.following.row_events import EventFormat
    from rowtide.cdc.following.sinks import Sink


app = CommandTable()


@app.command(epilog="Example: rowtide cdc run --once --db postgresql://localhost/shop")
def run(
    db: options.Db,
    *,
    once: Annotated[
        bool, Option("--once", help="Stop when everything committed before is published.", from_file=False)
    ] = False,
    capture: CaptureOptions,
    spark: options.ClusterOptions,
    upgrade: options.Upgrade = False,
    _hide_keys: options.HideKeys = False,
    log: LogOptions,
    metrics: MetricsOptions,
) -> None:
    """Read the log and capture, until stopped with Ctrl-C (SQL Server: the capture job).

    Uses the capture job's parameters as of the start (`rowtide cdc jobs`): with continuous=0 it ends after one poll.
    With --once, only maxtrans applies.
    """
    with (
        requesting(spark.request),
        measuring(metrics, label_of(db), "capture"),
        watching("Starting the log reader ...", log, db, "capture", once=once) as stop,
    ):
        if upgrade:
            options.upgrade_first(db)
        connect(db).cdc.run(once=once, options=capture, stop=stop)


@frozen(kw_only=True)
class ScanOptions:
    """How much one poll captures."""

    maxtrans: Annotated[int | None, Option(help="Transactions per scan; default: no limit.", max=MOST_ROWS)] = None
    maxscans: Annotated[int | None, Option(help="Scans at most; default: until all is captured.", max=MOST_ROWS)] = None


@app.command(epilog="Example: rowtide cdc scan --maxtrans 500 --maxscans 10 --db postgresql://localhost/shop")
def scan(
    db: options.Db,
    *,
    limits: ScanOptions,
    engine: EngineOption = EngineSetting.AUTO,
    rewrite_widened: RewritesWidened = False,
    spark: options.ClusterOptions,
    _hide_keys: options.HideKeys = False,
    log: LogOptions,
    metrics: MetricsOptions,
) -> None:
    """Read the log and capture in one poll (SQL Server: sp_cdc_scan), if no other scan runs.

    Ends when everything committed before is published, or after the given number of scans.
    """
    with (
        requesting(spark.request),
        measuring(metrics, label_of(db), "capture"),
        watching("Starting the log reader ...", log, db, "capture", once=True) as stop,
    ):
        connect(db).cdc.scan(
            maxtrans=limits.maxtrans,
            maxscans=limits.maxscans,
            options=CaptureOptions(engine, rewrite_widened),
            stop=stop,
        )


@app.command(epilog="Example: rowtide cdc reinitialize --difference --yes --db postgresql://localhost/shop")
def reinitialize(
    db: options.Db,
    reason: options.Reason = "reinitialized by hand",
    *,
    difference: Annotated[
        bool,
        Option(
            "--difference",
            help="Compare the captured tables with what was read, and capture what differs as one transaction: "
            "consumers continue, and ranges over the gap stay complete. For instances with a key and a snapshot.",
        ),
    ] = False,
    yes: options.Yes = False,
    _hide_keys: options.HideKeys = False,
) -> None:
    """Continue after a gap with a new slot, and record the gap. Reports what is lost, and asks."""
    cdc = connect(db).cdc
    if difference:
        gap = cdc.find_gap()
        options.confirm_loss(gap, yes=yes)
        bridged = cdc.bridge_gap(reason, restart=gap.restarted, on_wait=print_wait)
        report_done(f"Reconciled: {bridged.rows:,} row changes at LSN {bridged.lsn}. `rowtide cdc run` publishes them.")
        return
    options.confirm_loss(cdc.find_loss(), yes=yes)
    record_done(say_lost(cdc.reinitialize(reason, on_wait=print_wait)))
    notes.print("Reinitialized. `rowtide cdc run` continues, in the next epoch.")


@app.command(epilog="Example: rowtide cdc skip-transaction 0/16B3748 --yes --db postgresql://localhost/shop")
def skip_transaction(
    db: options.Db,
    lsn: Annotated[str, Argument(help="The LSN that RT-2121 or RT-2150 names.")],
    *,
    yes: options.Yes = False,
) -> None:
    """Skip a transaction that cannot be read, and record the gap. Reports what is lost, and asks."""
    cdc, skipped = connect(db).cdc, CommitLsn.parse(lsn)
    unreadable = cdc.find_unreadable(skipped)
    options.confirm_loss(
        f"every change of the transaction that commits at LSN {skipped}; a change of {unreadable.subject} in it "
        f"cannot be read: {unreadable.reason}. Ranges that contain {skipped} will be refused",
        yes=yes,
    )
    cdc.skip_transaction(skipped)
    notes.print("Skipped. `rowtide cdc run` or `rowtide replication run` continues after it.")


_LISTED_SNAPSHOT = {
    "instance": "capture_instance",
    "state": "state",
    "rows": "copied_rows",
    "of_about": "estimated_rows",
    "chunks": "chunks",
    "of": "of_chunks",
    "rows_a_second": "rows_a_second",
    "seconds_left": "remaining_seconds",
    "outcome": "outcome",
}
Named = Annotated[str | None, Option(metavar="TABLE", help="That of a table or capture instance.")]


@app.command(epilog="Example: rowtide cdc resnapshot public.orders --db postgresql://localhost/shop")
def resnapshot(db: options.Db, wanted: RepeatedSnapshot) -> None:
    """Copy a captured table again: after a gap, after DDL that changed values, or to repair some rows.

    `rowtide cdc run` copies it, while changes are captured. What was copied before stays until then.
    """
    names = connect(db).cdc.resnapshot(wanted)
    notes.print(f"Requested: a snapshot of {', '.join(names)}. `rowtide cdc run` copies it.")


@app.command(epilog="Example: rowtide cdc snapshots --pause public.orders --db postgresql://localhost/shop")
def snapshots(
    db: options.Db,
    pause: Named = None,
    resume: Named = None,
    cancel: Named = None,
    limit: Annotated[
        str | None, Option(metavar="TABLE", help="Set the rate to --rows-per-second; without that, remove the limit.")
    ] = None,
    rows_per_second: RowsPerSecond = None,
    form: options.ListingFormat = OutputFormat.TABLE,
    *,
    wide: options.Wide = False,
) -> None:
    """List the snapshots of captured tables and how far they are, or pause, resume, cancel or limit one.

    One that is cancelled is removed from the lake. Without a key, one that is paused begins again.
    """
    from rowtide.cdc.snapshot_requests import ListedSnapshot

    cdc = connect(db).cdc
    changed = False
    for name, change, what in (
        (pause, cdc.pause_snapshot, "Paused"),
        (resume, cdc.resume_snapshot, "Resumed"),
        (cancel, cdc.cancel_snapshot, "Cancelled"),
    ):
        if name is not None:
            changed = True
            notes.print(f"{what}: the snapshot of {', '.join(change(name))}.")
    if limit is not None:
        changed = True
        rate = f"{rows_per_second:,} rows a second" if rows_per_second is not None else "no limit"
        notes.print(f"The snapshot of {', '.join(cdc.limit_snapshot(limit, rows_per_second))}: {rate} from now on.")
    elif rows_per_second is not None:
        raise click.BadParameter("--rows-per-second goes with --limit TABLE")
    if not changed:
        print_listed(ListedSnapshot, cdc.list_snapshots(), form, _LISTED_SNAPSHOT, wide=wide)


_HEADER = re.compile(r"(?P<name>[!#$%&'*+.^_`|~0-9A-Za-z-]+)=(?P<variable>[A-Za-z_][A-Za-z0-9_]*)")
_MEGABYTE = 1_000_000


class FollowFormat(StrEnum):
    """Formats of events."""

    JSONL = "jsonl"
    DEBEZIUM = "debezium"
    CLOUDEVENTS = "cloudevents"


@frozen(kw_only=True)
class EventOutput:
    """The destination of the events of a stream: an address, files, or standard output."""

    post: Annotated[str | None, Option(metavar="URL", help="POST the events, instead of printing them.")] = None
    header_env: Annotated[
        list[str] | None,
        Option(metavar="NAME=VARIABLE", help="Header of each POST, and the variable that has its value."),
    ] = None
    out: Annotated[
        Path | None, Option(metavar="DIR", help="Write files of events there, instead of printing them.")
    ] = None
    file_mb: Annotated[int, Option(min=1, help="A file is complete at this size, in megabytes.")] = 64
    file_seconds: Annotated[int, Option(min=1, help="... or at this age.")] = 60

    def require_one(self) -> None:
        """Refuse two destinations at once, and an invalid address."""
        if self.post is not None and self.out is not None:
            raise click.BadParameter("events go to --post or to --out", param_hint="--out")
        if self.post is not None:
            _require_address(self.post)

    def open(self, form: EventFormat, headers: dict[str, str], stop: threading.Event) -> Sink:
        """Open the destination of the events."""
        from rowtide.cdc.following.sinks import EventEndpoint, Filing, Posting, Printing, Rotation

        if self.post is not None:
            return Posting(EventEndpoint(self.post, headers), form, stop, _report_retry)
        if self.out is not None:
            return Filing(self.out, Rotation(self.file_mb * _MEGABYTE, self.file_seconds))
        return Printing(sys.stdout)


@frozen(kw_only=True)
class FollowedStream:
    """Where a stream of events begins, and what its events look like."""

    consumer: Annotated[
        str | None, Option(metavar="NAME", help="Resume after what this consumer acknowledged, and acknowledge.")
    ] = None
    form: Annotated[FollowFormat, Option("--format", help="What an event looks like.")] = FollowFormat.JSONL
    start: Annotated[
        str | None,
        Option("--from", metavar="LSN|TIME", help="First LSN, or a time to begin after; default: now."),
    ] = None

    def require_one_start(self, instances: Sequence[str]) -> None:
        """Refuse a stream of nothing, and one that is to begin at two places."""
        if not instances and self.consumer is None:
            raise click.BadParameter("name instances, or a consumer", param_hint="INSTANCE...")
        if self.consumer is not None and self.start is not None:
            raise click.BadParameter("a consumer begins at what it acknowledged", param_hint="--from")

    def open_position(self, db: str, instances: Sequence[str]) -> StreamPosition:
        """Return the position at which it begins."""
        from rowtide.cdc.following.follower import ConsumerPosition, OwnPosition
        from rowtide.databases.postgres.connect import open_engine

        if self.consumer is not None:
            return ConsumerPosition(open_engine(db), self.consumer, instances)
        return OwnPosition(instances, parse_bound(self.start) if self.start is not None else None)


@app.command(
    epilog="Example: rowtide cdc follow public_orders public_items --format debezium --db postgresql://localhost/shop"
)
def follow(
    db: options.Db,
    instances: Annotated[
        list[str] | None, Argument(metavar="INSTANCE", help="capture instances; default: all of the consumer")
    ] = None,
    *,
    stream: FollowedStream,
    output: EventOutput,
    idle_timeout: Annotated[
        float | None, Option(min=0, help="End after this many seconds without an event; default: never.")
    ] = None,
    log: LogOptions,
    metrics: MetricsOptions,
) -> None:
    """Print changes of several instances as they are published, in commit order, until stopped.

    With --consumer every event comes at least once, also after a kill: what is printed, in a complete file or answered
    with 2xx is acknowledged. Without, the stream begins at --from and its position is kept nowhere.
    """
    stream.require_one_start(instances or [])
    output.require_one()
    from rowtide.agents.loop import run_agent
    from rowtide.cdc.following.follower import Follower
    from rowtide.cdc.following.row_events import EventFormat

    event_format, position = EventFormat(stream.form), stream.open_position(db, instances or [])
    # Before the metrics' server is opened: a variable that is not set is an error of usage.
    headers = _read_headers(output.header_env or [])
    with measuring(metrics, label_of(db), "follow"), watching("Following ...", log, db, "follow") as stop:
        sink = output.open(event_format, headers, stop)
        follower = Follower(db, position, sink, event_format, stop, idle_timeout)
        run_agent(follower.open, stop=stop, idle_s=0)


def _require_address(url: str) -> None:
    try:
        parts = urlsplit(url)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_usable = False
    if not is_usable:
        raise click.BadParameter("it is no address like https://host/path", param_hint="--post")
    if "@" in parts.netloc:
        raise click.BadParameter("passwords belong into a variable: --header-env", param_hint="--post")


def _read_headers(given: list[str]) -> dict[str, str]:
    """Return headers with their values from the environment; the values are never shown."""
    headers = {}
    for text in given:
        found = _HEADER.fullmatch(text)
        if found is None:
            raise click.BadParameter("write NAME=VARIABLE", param_hint="--header-env")
        value = os.environ.get(found["variable"])
        if value is None or not value.isprintable() or not value.isascii():
            problem = "is not set" if value is None else "is no value of a header"
            raise click.BadParameter(f"variable {found['variable']} {problem}", param_hint="--header-env")
        headers[found["name"]] = value
    return headers


def _report_retry(error: RowtideError, pause_s: float) -> None:
    emit(AgentRetries(pause_s, error))
