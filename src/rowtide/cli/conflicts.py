"""`rowtide conflicts`: conflicts of merge and of delivery in one list, and decisions about them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from rowtide.actions.wording import say_commented, say_decided
from rowtide.cli.groups import CommandTable, name_actor, record_done, report_done
from rowtide.cli.options import AnyDb, Listed, ListingFormat, Wide, listing
from rowtide.cli.output.rows import OutputFormat, notes, print_listed
from rowtide.conflicts.inbox import Choice, ConflictDetail, ConflictFilter, InboxState, WrittenVersion
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


_COLUMNS = {
    "column": "column",
    "publisher": "publisher",
    "subscriber": "subscriber",
    "base": "base",
    "differs": "differs",
}

_ConflictId = Annotated[str, Argument(metavar="CONFLICT", help="the conflict_id that `list` shows")]
_Name = Annotated[str, Argument(metavar="NAME", help="a conflict_id, or a cause: all of its open conflicts")]
_Choice = Annotated[Choice, Option(help="Who wins.", show_default=False)]


@app.command(
    name="list", epilog="Example: rowtide conflicts list --state open --format csv --db postgresql://localhost/shop"
)
def list_(db: AnyDb, wanted: ConflictFilter, form: ListingFormat = OutputFormat.TABLE, *, wide: Wide = False) -> None:
    """List conflicts, oldest first, with both versions. Connects to subscribers; those not reached are named."""
    from rowtide.conflicts.inbox import InboxConflict
    from rowtide.replication.kept_conflicts import require_read

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
    from rowtide.replication.kept_conflicts import require_read

    found = connect(db).conflicts.list_conflicts(wanted)
    require_read(found.unread)
    return ConflictGroup, found.groups


@app.command(epilog="Example: rowtide conflicts show 0f3c… --db postgresql://localhost/shop")
def show(db: AnyDb, conflict: _ConflictId, form: ListingFormat = OutputFormat.TABLE, *, wide: Wide = False) -> None:
    """Show a conflict: its columns at both sides, what wrote them, who won and why, decisions and comments.

    `jsonl` and `csv` have the columns alone.
    """
    from rowtide.conflicts.inbox import ColumnVersions, InboxNote

    found = connect(db).conflicts.show(conflict)
    if form is OutputFormat.TABLE:
        for line in _describe(found):
            print(line)
    print_listed(ColumnVersions, found.columns, form, _COLUMNS, wide=wide)
    if form is OutputFormat.TABLE and found.notes:
        print_listed(InboxNote, found.notes, form, wide=wide)


@app.command(epilog="Example: rowtide conflicts preview 0f3c… --choice otherwise --db postgresql://localhost/shop")
def preview(
    db: AnyDb, name: _Name, choice: _Choice, form: ListingFormat = OutputFormat.TABLE, *, wide: Wide = False
) -> None:
    """Show what a decision would write, at how many databases, and what later changes it would overwrite.

    Nothing is written: a decision of merge is made and rolled back, of delivery it is computed.
    """
    from rowtide.conflicts.inbox import PlannedRow, list_planned

    found = list(connect(db).conflicts.preview(name, choice))
    print_listed(PlannedRow, list_planned(found), form, wide=wide, json_texts=("before", "after"))


@app.command(
    epilog="Example: rowtide conflicts comment cause-0f3c… 'Ann asks the branch.' --db postgresql://localhost/shop"
)
def comment(
    db: AnyDb, name: _Name, text: Annotated[str, Argument(metavar="TEXT", help="what others should know")]
) -> None:
    """Comment on a conflict, or on all of a cause. Comments stay as long as their conflicts."""
    commented = connect(db).conflicts.comment(name, text, noted_by=name_actor())
    report_done(say_commented(commented))


@app.command(epilog="Example: rowtide conflicts decide cause-0f3c… --choice otherwise --db postgresql://localhost/shop")
def decide(
    db: AnyDb,
    name: _Name,
    choice: _Choice,
    form: ListingFormat = OutputFormat.TABLE,
    *,
    over_later_changes: Annotated[
        bool, Option("--over-later-changes", help="Also replace rows that have changed since.")
    ] = False,
    again: Annotated[bool, Option("--again", help="Also change decisions that were made before.")] = False,
) -> None:
    """Decide about a conflict, or all open ones of a cause, each in a transaction of its own."""
    from rowtide.conflicts.errors import DecisionsFailed
    from rowtide.conflicts.handle import DecisionResult, list_refused

    results = []
    with notes.status("Deciding ...") as progress:
        for result in connect(db).conflicts.decide(
            name,
            choice,
            over_later_changes=over_later_changes,
            again=again,
            decided_by=name_actor(),
        ):
            results.append(result)
            progress.update(f"Decided {len(results):,} ...")
    print_listed(DecisionResult, results, form)
    record_done(say_decided(len(results), sum(result.is_written for result in results)))
    failed = sum(result.failure is not None for result in results)
    if failed:
        raise DecisionsFailed(failed, len(results), list_refused(results))


def _describe(found: ConflictDetail) -> Iterator[str]:
    """Yield lines about a conflict."""
    one = found.conflict
    yield f"{one.source} conflict {one.conflict_id} of {one.publication}: {one.kind} in {one.table}, key {one.key}"
    yield f"recorded {one.created:%Y-%m-%d %H:%M:%S} UTC, node {one.node}, cause {one.cause}"
    for version in found.written:
        yield f"the {version.side}'s version was written {_when(version)}"
    yield f"the {one.won} won: {one.reason}" if one.won is not None else f"neither side won: {one.reason}"
    if one.state is InboxState.SETTLED:
        chosen = f": the {one.decided}" if one.decided is not None else ""
        yield f"settled{f' by {one.settled_by}' if one.settled_by else ''}{chosen}"
    else:
        yield "open"


def _when(version: WrittenVersion) -> str:
    """Return where and when a version was written."""
    latest = f"{version.latest:%Y-%m-%d %H:%M:%S} UTC"
    place = f"at {version.node}, " if version.node is not None else ""
    if version.earliest is None:
        return f"{place}and sent by {latest}"
    if version.earliest == version.latest:
        return f"{place}{latest}"
    return f"{place}between the synchronisations of {version.earliest:%Y-%m-%d %H:%M:%S} UTC and {latest}"
