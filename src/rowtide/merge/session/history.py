"""The result of a synchronisation, as reported and stored (SQL Server: MSmerge_sessions, MSmerge_articlehistory)."""

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
from rowtide.merge.nodes.node_tables import UnsentColumn
from rowtide.merge.nodes.roles.transactions import TransactionalNode
from rowtide.merge.nodes.table_parts import Omission
from rowtide.merge.progress import set_subscription
from rowtide.merge.session.exchange import Counts, Refused

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
    """Where the result of a synchronisation is recorded."""

    hub: TransactionalNode
    subid: str
    summary: Summary
    began: datetime
    clock: float

    def put(self, status: int = SUCCEEDED, message: str | None = None) -> None:
        """Record the result, in the caller's transaction at the hub."""
        self.summary.seconds = time.monotonic() - self.clock
        _record(self.hub, self.subid, self.summary, self.began, status, message or str(self.summary))


@contextmanager
def recorded(hub: TransactionalNode, subid: str, summary: Summary, began: datetime, clock: float) -> Iterator[History]:
    """Yield what records the result of a synchronisation; one that fails is recorded here."""
    history = History(hub, subid, summary, began, clock)
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


def _record(hub: TransactionalNode, subid: str, summary: Summary, began: datetime, status: int, message: str) -> None:
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
