"""The listing of `rowtide cdc targets`: the position and lag of each table of each target."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from rowtide.core.lsn import CommitLsn
from rowtide.core.values import frozen
from rowtide.targets.definitions import Target, list_targets

# Modules that read the lake are imported only if there is a target.
if TYPE_CHECKING:
    from rowtide.cdc.queries.lsn_times import LsnTimes
    from rowtide.targets.applying import SetVersion

NEW = "new"
"""The state of a table that is not made yet."""


@frozen
class ListedTarget:
    """A table of a target.

    `lsn` and `version` are its own, `set_lsn` is that of its set, at which readers read. `state` is new before the
    first apply, member, or stopped, for the reason in `note`; that of others says which columns they do not follow, and
    why. `lag_seconds` counts from what it has to what is published.
    """

    target: str
    kind: str
    format: str
    instance: str
    location: str
    set_lsn: CommitLsn | None
    lsn: CommitLsn | None
    version: int | None
    lag_seconds: float | None
    state: str
    note: str | None
    applied_at: datetime | None


def list_tables(connection: Connection, lake: str) -> tuple[ListedTarget, ...]:
    """Return the tables of all targets, with their LSNs and lags; without Spark."""
    found = list_targets(connection)
    if not found:
        return ()
    from rowtide.cdc.published import read_visible_publication
    from rowtide.cdc.queries.lsn_times import LsnTimes
    from rowtide.targets.applying import SetTable
    from rowtide.targets.new_columns import describe_unfollowed

    published = read_visible_publication(lake)
    as_of, times = published.time if published is not None else None, LsnTimes(lake)
    listed: list[ListedTarget] = []
    for target in found:
        notes = describe_unfollowed(connection, lake, target) if published is not None else {}
        tables = describe(target, SetTable(lake, target).read(), times, as_of)
        listed += [replace(one, note=one.note or notes.get(one.instance)) for one in tables]
    return tuple(listed)


def describe(
    target: Target, version: SetVersion, times: LsnTimes, published_as_of: datetime | None
) -> Iterator[ListedTarget]:
    """Yield the tables of a target, by instance."""
    for consumed in target.consumer.instances:
        table = version.tables.get(consumed.name)
        lsn = table.lsn if table is not None else None
        time = (version.time if lsn == version.lsn else times.find_time(lsn)) if lsn is not None else None
        yield ListedTarget(
            target=target.name,
            kind=target.kind,
            format=target.options.format.value if not target.is_custom else "python",
            instance=consumed.name,
            location=table.location if table is not None else "",
            set_lsn=version.lsn,
            lsn=lsn,
            version=table.version if table is not None else None,
            lag_seconds=_lag(time, published_as_of),
            state=table.state.value if table is not None else NEW,
            note=table.note if table is not None else None,
            applied_at=version.recorded_at if table is not None else None,
        )


def _lag(time: datetime | None, published_as_of: datetime | None) -> float | None:
    if time is None or published_as_of is None:
        return None
    return round(max(published_as_of - time, timedelta()).total_seconds(), 1)
