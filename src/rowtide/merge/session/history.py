"""The result of a synchronisation, as reported and stored, and the removal of metadata that none needs any more."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial

from sqlalchemy import Connection, bindparam, delete, func, insert, select

from rowtide.core.errors import Retryable, describe
from rowtide.core.values import frozen
from rowtide.merge.articles import Publication, Subscription
from rowtide.merge.catalogue import list_merged, list_publications, read_nickname, read_purged, set_purged
from rowtide.merge.conflicts.records import forget_conflicts
from rowtide.merge.definitions import article_history, sessions
from rowtide.merge.nodes.node import Node, transact_at
from rowtide.merge.nodes.node_tables import UnsentColumn
from rowtide.merge.nodes.table_definitions import Omission
from rowtide.merge.progress import (
    Purge,
    as_utc,
    forget_generations,
    has_retries,
    list_subscriptions,
    read_last_sync,
    read_purge,
    set_purge,
    set_subscription,
)
from rowtide.merge.row_hashes import compact_hashes
from rowtide.merge.session.exchange import Refused
from rowtide.merge.session.messages import Counts
from rowtide.merge.versions.comparison import Lineage, NodeChange

SUCCEEDED, RUNNING, FAILED = 2, 3, 6
_UPLOAD, _DOWNLOAD = 1, 2


@dataclass(slots=True)
class Phase:
    """The result of one direction, by article, with the time in seconds."""

    seconds: float = 0.0
    articles: dict[str, Counts] = field(default_factory=dict)
    refused: list[Refused] = field(default_factory=list)
    """The rows that are asked for again."""
    refusals: list[Refused] = field(default_factory=list)
    """All rows that the node refused, also those whose conflict was settled."""

    def add(self, other: Phase) -> None:
        """Add the result of an exchange before this one."""
        self.seconds += other.seconds
        for name, counts in other.articles.items():
            self.articles.setdefault(name, Counts()).add(counts)

    @property
    def total(self) -> Counts:
        total = Counts()
        for counts in self.articles.values():
            total.add(counts)
        return total


@dataclass(slots=True)
class Summary:
    """The result of a synchronisation; `unsent` are columns that one node's tables have and that are not sent.

    `omissions` are the parts of altered tables that the subscriber's database does not have.
    """

    subscriber: str
    upload: Phase = field(default_factory=Phase)
    download: Phase = field(default_factory=Phase)
    seconds: float = 0.0
    unsent: Sequence[UnsentColumn] = ()
    omissions: Sequence[Omission] = ()

    @property
    def is_quiet(self) -> bool:
        """Whether no row was written at either end."""
        totals = (self.upload.total, self.download.total)
        return not any(counts.moved or counts.conflicts for counts in totals)

    @property
    def refused(self) -> int:
        """The number of rows that a node refused; the next synchronisation retries them."""
        return self.upload.total.refused + self.download.total.refused

    def __str__(self) -> str:
        up, down = self.upload.total, self.download.total
        text = (
            f"uploaded {up.moved} rows, downloaded {down.moved}, {up.conflicts} conflicts, "
            f"{up.retried + down.retried} retried"
        )
        return f"{text}, {self.refused} refused" if self.refused else text


@frozen
class History:
    """Where the result of a synchronisation is recorded; `continues`: parts of its upload may have come before."""

    hub: Node
    subid: str
    summary: Summary
    began: datetime
    clock: float
    continues: bool = False

    def put(self, status: int = SUCCEEDED, message: str | None = None) -> None:
        """Record the result, in the caller's transaction at the hub."""
        self.summary.seconds = time.monotonic() - self.clock
        summary, began = self._take_parts()
        _record(self.hub, self.subid, summary, began, status, message or str(summary))

    def put_part(self) -> None:
        """Record a part of an upload that others follow, in the caller's transaction: they continue its entry."""
        self.put(RUNNING)

    def _take_parts(self) -> tuple[Summary, datetime]:
        """Remove the entry of the parts before, and return its sum with this result, and when it began."""
        earlier = _take_running(self.hub.connection, self.subid) if self.continues else None
        if earlier is None:
            return self.summary, self.began
        found, began = earlier
        found.upload.add(self.summary.upload)
        found.download.add(self.summary.download)
        found.seconds += self.summary.seconds
        return found, began


def _take_running(connection: Connection, subid: str) -> tuple[Summary, datetime] | None:
    """Remove the last entry of a subscription, if it is of parts of an upload, and return it with its beginning."""
    c, of_session = sessions.c, article_history.c
    row = connection.execute(select(sessions).where(c.subid == subid).order_by(c.session_id.desc()).limit(1)).first()
    if row is None or row.runstatus != RUNNING:
        return None
    found = Summary("", Phase(row.upload_time), Phase(row.download_time), row.duration)
    for one in connection.execute(select(article_history).where(of_session.session_id == row.session_id)):
        phase = found.upload if one.phase == _UPLOAD else found.download
        counted = (one.inserts, one.updates, one.deletes, one.conflicts, one.rows_retried)
        phase.articles[one.article] = Counts(*counted, seconds=one.duration)
    connection.execute(delete(article_history).where(of_session.session_id == row.session_id))
    connection.execute(delete(sessions).where(c.session_id == row.session_id))
    return found, as_utc(row.start_time)


@contextmanager
def recorded(
    hub: Node, subid: str, summary: Summary, began: datetime, clock: float, *, continues: bool = False
) -> Iterator[History]:
    """Yield what records the result of a synchronisation; one that fails is recorded here."""
    history = History(hub, subid, summary, began, clock, continues)
    try:
        yield history
    except BaseException as error:
        # The hub may be what failed: that is said, not that it cannot be recorded.
        with suppress(Retryable), hub.transaction():
            history.put(FAILED, describe(error))
        raise


def forget_sessions(connection: Connection, before: datetime) -> None:
    """Remove the records of synchronisations that began before a time, in the caller's transaction."""
    old = select(sessions.c.session_id).where(sessions.c.start_time < before)
    connection.execute(delete(article_history).where(article_history.c.session_id.in_(old)))
    connection.execute(delete(sessions).where(sessions.c.start_time < before))


def _record(hub: Node, subid: str, summary: Summary, began: datetime, status: int, message: str) -> None:
    """Write the session and its articles (SQL Server: MSmerge_sessions, MSmerge_articlehistory)."""
    connection = hub.connection
    set_subscription(connection, subid, last_sync_status=status, last_sync_summary=message)
    connection.execute(
        _SESSION,
        {
            "subid": subid,
            "start_time": began,
            "duration": summary.seconds,
            "upload_time": summary.upload.seconds,
            "download_time": summary.download.seconds,
            "runstatus": status,
            "message": message,
        },
    )
    for number, phase in ((_UPLOAD, summary.upload), (_DOWNLOAD, summary.download)):
        for name, counts in phase.articles.items():
            connection.execute(
                _ARTICLE,
                {
                    "of_subid": subid,
                    "article": name,
                    "phase": number,
                    "inserts": counts.inserts,
                    "updates": counts.updates,
                    "deletes": counts.deletes,
                    "conflicts": counts.conflicts,
                    "rows_retried": counts.retried,
                    "duration": counts.seconds,
                },
            )


_SESSION = insert(sessions).inline()
_LAST = select(func.max(sessions.c.session_id)).where(sessions.c.subid == bindparam("of_subid")).scalar_subquery()
"""Asked for within the statement: a number that came back would be a round trip."""
_ARTICLE = insert(article_history).inline().values(session_id=_LAST)


# Remove metadata that no synchronisation needs any more (SQL Server: sp_mergemetadataretentioncleanup). A change that
# the hub sends in one synchronisation can conflict with a change that the subscriber made before receiving it; that
# conflict appears in the next synchronisation. Generations for which this is past, for all subscriptions, are
# settled: the hub may purge them, and then the subscribers. A subscription that has not synchronised within the
# retention period, by the hub's clock, does not hold metadata back.

CHUNK_ROWS = 10_000
_EVERY = timedelta(days=1)
_HISTORY = timedelta(days=14)
"""How long sessions are kept."""


def is_due(last: Purge) -> bool:
    """Whether a day has passed since a node's last purge."""
    # One in the future was noted by a clock that was wrong: waiting for it could take years.
    return not timedelta() <= datetime.now(UTC) - last.at <= _EVERY


def purge(node: Node, on_progress: Callable[[int], None] = lambda _rows: None) -> int:
    """Remove, in batches, the metadata that all subscriptions have settled; return the number of rows removed.

    A table with refused rows keeps all of its metadata, because these rows will be requested again. Raises `NodeBusy`.
    """
    bound = _bound(node)
    kept = False
    removed = 0
    for article in list_merged(node.connection) if bound else ():
        if has_retries(node.connection, article.nickname):
            kept = True
            continue
        transact_at(node, partial(_include, node, article.nickname, bound))
        while rows := transact_at(node, partial(node.versions.forget, article, bound, CHUNK_ROWS)):
            removed += rows
            on_progress(removed)
    for article in list_merged(node.connection):
        transact_at(node, partial(compact_hashes, node.connection, article))
    transact_at(node, partial(_conclude, node, bound, keeps_generations=kept))
    return removed


def expiry(publication: Publication, last_sync: datetime | None) -> datetime | None:
    """Return when a subscription expires, given its last synchronisation; None for never."""
    if not publication.retention_days or last_sync is None:
        return None
    return last_sync + timedelta(days=publication.retention_days)


def _bound(node: Node) -> int:
    """Return the last generation that all subscriptions have settled; 0 if there is none."""
    settled = [
        subscription.settled
        for publication in list_publications(node.connection)
        for subscription in list_subscriptions(node.connection, publication.pubid)
        if not _is_expired(node, publication, subscription)
    ]
    return min(settled, default=0)


def _is_expired(node: Node, publication: Publication, subscription: Subscription) -> bool:
    if publication.publisher != read_nickname(node.connection):
        return False
    expires = expiry(publication, read_last_sync(node.connection, subscription.subid))
    return expires is not None and expires < datetime.now(UTC)


def _include(node: Node, nickname: int, bound: int) -> None:
    """Add the lineages of the metadata to be removed to the lineage of rows without metadata."""
    own = NodeChange(read_nickname(node.connection), bound)
    set_purged(node.connection, nickname, read_included(node, bound, nickname).with_change(own).encode())


def read_included(node: Node, generation: int, nickname: int) -> Lineage:
    """Return the union of a table's lineages up to a generation, but for this node's own changes, and what was purged.

    A purge meanwhile takes nothing from it: what was purged is read last.
    """
    lineages = node.versions.lineages(nickname, generation) if generation else ()
    found = [*lineages, read_purged(node.connection, nickname)]
    return Lineage.of(change for each in found for change in Lineage.decode(each).changes)


def _conclude(node: Node, bound: int, *, keeps_generations: bool) -> None:
    last = read_purge(node.connection)
    if bound and not keeps_generations:
        forget_generations(node.connection, read_nickname(node.connection), bound)
    now = datetime.now(UTC)
    forget_sessions(node.connection, now - _HISTORY)
    for publication in list_publications(node.connection):
        if publication.conflict_retention_days:
            before = now - timedelta(days=publication.conflict_retention_days)
            forget_conflicts(node.connection, publication.pubid, before)
    set_purge(node.connection, max(bound, last.generation), now)
