"""`rowtide cdc follow`: changes as a stream of events."""

from __future__ import annotations

import os
import re
import sys
import threading
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import click

from rowtide.cli.groups import CommandTable
from rowtide.cli.options import Db
from rowtide.cli.output.watching import watching
from rowtide.cli.parameters import parse_bound
from rowtide.core.errors import RowtideError
from rowtide.core.options import Argument, Option
from rowtide.events.catalogue import AgentRetries
from rowtide.events.configuration import LogOptions
from rowtide.events.emission import emit

if TYPE_CHECKING:
    from rowtide.cdc.following.follower import StreamPosition
    from rowtide.cdc.following.sinks import Sink

app = CommandTable()

_HEADER = re.compile(r"(?P<name>[!#$%&'*+.^_`|~0-9A-Za-z-]+)=(?P<variable>[A-Za-z_][A-Za-z0-9_]*)")
_MEGABYTE = 1_000_000


class FollowFormat(StrEnum):
    """Formats of events."""

    JSONL = "jsonl"
    DEBEZIUM = "debezium"
    CLOUDEVENTS = "cloudevents"


@app.command(
    epilog="Example: rowtide cdc follow public_orders public_items --format debezium --db postgresql://localhost/shop"
)
def follow(
    db: Db,
    instances: Annotated[
        list[str] | None, Argument(metavar="INSTANCE", help="capture instances; default: all of the consumer")
    ] = None,
    consumer: Annotated[
        str | None, Option(metavar="NAME", help="Resume after what this consumer acknowledged, and acknowledge.")
    ] = None,
    form: Annotated[FollowFormat, Option("--format", help="What an event looks like.")] = FollowFormat.JSONL,
    start: Annotated[
        str | None,
        Option("--from", metavar="LSN|TIME", help="First LSN, or a time to begin after; default: now."),
    ] = None,
    post: Annotated[str | None, Option(metavar="URL", help="POST the events, instead of printing them.")] = None,
    header_env: Annotated[
        list[str] | None,
        Option(metavar="NAME=VARIABLE", help="Header of each POST, and the variable that has its value."),
    ] = None,
    out: Annotated[
        Path | None, Option(metavar="DIR", help="Write files of events there, instead of printing them.")
    ] = None,
    file_mb: Annotated[int, Option(min=1, help="A file is complete at this size, in megabytes.")] = 64,
    file_seconds: Annotated[int, Option(min=1, help="... or at this age.")] = 60,
    idle_timeout: Annotated[
        float | None, Option(min=0, help="End after this many seconds without an event; default: never.")
    ] = None,
    *,
    log: LogOptions,
) -> None:
    """Print changes of several instances as they are published, in commit order, until stopped.

    With --consumer every event comes at least once, also after a kill: what is printed, in a complete file or answered
    with 2xx is acknowledged. Without, the stream begins at --from and its position is kept nowhere.
    """
    _require_usage(instances, consumer, start, post, out)
    from rowtide.agents.runs import run_agent
    from rowtide.cdc.following.follower import Follower
    from rowtide.cdc.following.formats import EventFormat

    event_format, position = EventFormat(form), _open_position(db, instances or [], consumer, start)
    headers = _read_headers(header_env or [])
    with watching("Following ...", log, db, "follow") as stop:
        if post is not None:
            sink = _open_posting(post, headers, event_format, stop)
        else:
            sink = _open_output(out, file_mb, file_seconds)
        follower = Follower(db, position, sink, event_format, stop, idle_timeout)
        run_agent(follower.open, stop=stop, idle_s=0)


def _require_usage(
    instances: list[str] | None, consumer: str | None, start: str | None, post: str | None, out: Path | None
) -> None:
    if not instances and consumer is None:
        raise click.BadParameter("name instances, or a consumer", param_hint="INSTANCE...")
    if consumer is not None and start is not None:
        raise click.BadParameter("a consumer begins at what it acknowledged", param_hint="--from")
    if post is not None and out is not None:
        raise click.BadParameter("events go to --post or to --out", param_hint="--out")
    if post is not None:
        _require_address(post)


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


def _open_position(db: str, instances: list[str], consumer: str | None, start: str | None) -> StreamPosition:
    from rowtide.cdc.following.follower import ConsumerPosition, OwnPosition
    from rowtide.databases.postgres.connect import open_engine

    if consumer is not None:
        return ConsumerPosition(open_engine(db), consumer, instances)
    return OwnPosition(instances, parse_bound(start) if start is not None else None)


def _open_output(out: Path | None, file_mb: int, file_seconds: int) -> Sink:
    from rowtide.cdc.following.sinks import Filing, Printing, Rotation

    return Filing(out, Rotation(file_mb * _MEGABYTE, file_seconds)) if out is not None else Printing(sys.stdout)


def _open_posting(url: str, headers: dict[str, str], form: FollowFormat | str, stop: threading.Event) -> Sink:
    from rowtide.cdc.following.formats import EventFormat
    from rowtide.cdc.following.sinks import EventEndpoint, Posting

    return Posting(EventEndpoint(url, headers), EventFormat(form), stop, _report_retry)


def _report_retry(error: RowtideError, pause_s: float) -> None:
    emit(AgentRetries(pause_s, error))
