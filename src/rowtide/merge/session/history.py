"""The result of a synchronisation, as reported and stored."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import Connection, bindparam, delete, func, insert, select

from rowtide.core.errors import Retryable, describe
from rowtide.core.values import frozen
from rowtide.merge.definitions import article_history, sessions
from rowtide.merge.exchange_state import (
    as_utc,
    set_subscription,
)
from rowtide.merge.nodes.node import Node
from rowtide.merge.nodes.node_tables import UnsentColumn
from rowtide.merge.nodes.table_definitions import Omission
from rowtide.merge.session.messages import Counts
from rowtide.merge.session.receiver import Refused

SUCCEEDED, RUNNING, FAILED = 2, 3, 6
_UPLOAD, _DOWNLOAD = 1, 2


@dataclass(slots=True)
class Phase:
    """The result of one direction, by article, with the time in seconds."""

    seconds: float = 0.0
    articles: dict[str, Counts] = field(default_factory=dict)
    refused: list[Refused] = field(default_factory=list)
    """The rows that are requested again."""
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
        # The hub may be what failed: its error is raised, not the one of recording it.
        with suppress(Retryable), hub.transaction():
            history.put(FAILED, describe(error))
        raise


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
"""A subquery: to read the number first would be a round trip."""
_ARTICLE = insert(article_history).inline().values(session_id=_LAST)
