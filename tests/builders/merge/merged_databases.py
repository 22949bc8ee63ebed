"""A hub and its subscribers, each with a program at work in it that knows nothing of rowtide: in a line each."""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from builders.merge.merge_interruptions import Beside, Cut, Cutter, Interruption, interrupted
from rowtide.merge.api import MergeReplication
from rowtide.merge.articles import SubscriberType
from rowtide.merge.nodes.connecting import address, open_node
from rowtide.merge.publishing.schema_following import synchronise_following
from rowtide.merge.session.history import Summary

PUBLICATION = "shop"
SERVER = {"subscriber_type": SubscriberType.SERVER}
Values = tuple[Any, ...]


@dataclass
class Member(ABC):
    """A database of a merge."""

    url: str

    @abstractmethod
    def execute(self, *statements: str) -> list[Values]:
        """Run statements, each in a transaction of its own; return the rows of the last."""

    def execute_as_agent(self, *statements: str) -> None:
        """Run statements that write to metadata."""
        self.execute(*statements)

    def rows(self, table: str, columns: str = "*") -> list[Values]:
        """Return a table's rows, in order."""
        return sorted(self.execute(f"select {columns} from {table}"), key=repr)

    def rowguid(self, table: str, key: int) -> str:
        """Return the rowguid of a row."""
        return str(self.execute(f"select rowguid from {table} where id = {key}")[0][0])


@dataclass
class FileMember(Member):
    """A SQLite file."""

    program: sqlite3.Connection

    def execute(self, *statements: str) -> list[Values]:
        return [self.program.execute(sql).fetchall() for sql in statements][-1]

    def execute_as_agent(self, *statements: str) -> None:
        flagged = "insert into MSmerge_agent values (1)", *statements, "delete from MSmerge_agent"
        self.execute("begin immediate", *flagged, "commit")


@dataclass
class ServerMember(Member):
    """A database of a PostgreSQL server."""

    program: psycopg.Connection

    def execute(self, *statements: str) -> list[Values]:
        found: list[Values] = []
        for sql in statements:
            cursor = self.program.execute(sql.encode())
            found = [] if cursor.description is None else cursor.fetchall()
        return found


@contextmanager
def open_file_member(path: Path, *, journal: str = "wal") -> Iterator[FileMember]:
    """Yield a SQLite file that is made if it is not there; its program enforces foreign keys."""
    with closing(sqlite3.connect(path, isolation_level=None)) as program:
        program.execute(f"pragma journal_mode = {journal}")
        if not path.stat().st_size:
            # A subscription gives an empty file a write-ahead log; others keep their journal.
            program.executescript("create table made (x); drop table made")
        program.execute("pragma foreign_keys = on")
        yield FileMember(f"sqlite:///{path}", program)


@contextmanager
def open_server_member(url: str) -> Iterator[ServerMember]:
    """Yield a database of a server."""
    with psycopg.connect(url, autocommit=True) as program:
        yield ServerMember(url, program)


@dataclass
class Merge:
    """A hub with a publication, and subscribers."""

    hub: Member
    subscribers: Sequence[Member]
    publication: str = PUBLICATION
    merge: MergeReplication = field(init=False)

    def __post_init__(self) -> None:
        self.merge = MergeReplication(self.hub.url)

    @property
    def members(self) -> list[Member]:
        return [self.hub, *self.subscribers]

    @property
    def merges(self) -> Sequence[Merge]:
        """Return one merge for each hub."""
        return [self]

    def merge_of(self, number: int) -> tuple[Merge, int]:
        """Return the merge of the hub that a subscriber has, and its number there."""
        return self, number

    def begin(self, *definitions: str, subscriber_options: Sequence[dict[str, Any]] = (), **articles: Any) -> None:
        """Make tables at the hub, publish them, each with the options given for it, and subscribe all."""
        if definitions:
            self.hub.execute(*definitions)
        self.merge.add_publication(self.publication)
        for table, options in articles.items():
            self.merge.add_article(self.publication, table, **options)
        options = list(subscriber_options) or [{} for _ in self.subscribers]
        for subscriber, chosen in zip(self.subscribers, options, strict=True):
            self.merge.add_subscription(self.publication, subscriber.url, **chosen)

    def sync(self, number: int = 0) -> Summary:
        """Synchronise a subscriber."""
        return self.merge.sync(self.publication, self.subscribers[number].url)

    def settle(self, rounds: int | None = None) -> list[Summary]:
        """Synchronise all, and those again to whom others have brought something since; return what was done.

        With `rounds` all are synchronised in each of them, also those to whom nothing can come.
        """
        everyone = range(len(self.subscribers))
        done = [self.sync(number) for _ in range(rounds or 1) for number in everyone]
        for number in everyone if rounds is None else ():
            own, *later = done[number:]
            if _is_contested(own) or any(one.upload.total.moved or _is_contested(one) for one in later):
                done.append(self.sync(number))
        return done

    def cut_sync(self, number: int, commits: int, *, is_before: bool) -> bool:
        """Synchronise, with the connection cut before or after a commit, counted from 1; tell whether it was."""
        try:
            self._sync_interrupted(number, Cutter(commits, is_before=is_before))
        except Cut:
            return True
        return False

    def sync_beside(self, number: int, commits: int, action: Callable[[], None]) -> None:
        """Synchronise, and do something after a commit, counted from 1."""
        self._sync_interrupted(number, Beside(commits, action))

    def _sync_interrupted(self, number: int, interruption: Interruption) -> None:
        url = self.subscribers[number].url
        with open_node(self.hub.url) as hub, open_node(url) as node:
            nodes = interrupted(hub, interruption), interrupted(node, interruption)
            synchronise_following(*nodes, self.publication, address(url))

    def require_equal(self, *tables: str, columns: str = "*") -> None:
        """All members have the same rows."""
        for table in tables:
            for subscriber in self.subscribers:
                assert subscriber.rows(table, columns) == self.hub.rows(table, columns), table

    def require_valid(self) -> None:
        """Each subscriber has the rows of its partition, as a comparison of all values says."""
        for subscriber in self.subscribers:
            compared = self.merge.validate(self.publication, subscriber.url, checksum=True)
            assert all(row.is_equal for row in compared), compared

    def require_at_rest(self) -> None:
        """After some rounds each subscriber has the rows of its partition, and more rounds move nothing."""
        self.settle()
        self.require_valid()
        assert all(summary.is_quiet for summary in self.settle(2))

    def conflicts(self, member: Member | None = None) -> list[Values]:
        """Return the types and reasons of the conflicts that a member, the hub unless it is named, has kept."""
        where = member or self.hub
        prefix = "rowtide_merge." if isinstance(where, ServerMember) else ""
        return where.execute(
            "select conflict_type, reason_code, losing_row, winning_row, rowguid "
            f'from {prefix}"MSmerge_conflicts_info" order by "MSrepl_create_time", conflict_id'
        )


class RepublishedMerge(Merge):
    """The first subscriber is a regional hub, and has the last subscriber."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.lower = Merge(self.subscribers[0], self.subscribers[-1:], "region")

    @property
    def merges(self) -> Sequence[Merge]:
        return [self, self.lower]

    def merge_of(self, number: int) -> tuple[Merge, int]:
        return (self.lower, 0) if number == len(self.subscribers) - 1 else (self, number)

    def begin(self, *definitions: str, subscriber_options: Sequence[dict[str, Any]] = (), **articles: Any) -> None:
        region, *others, below = subscriber_options or [{} for _ in self.subscribers]
        upper = Merge(self.hub, self.subscribers[:-1], self.publication)
        upper.begin(*definitions, subscriber_options=[SERVER | region, *others], **articles)
        self.lower.begin(subscriber_options=[below], **articles)

    def sync(self, number: int = 0) -> Summary:
        merge, own = self.merge_of(number)
        return super().sync(number) if merge is self else merge.sync(own)

    def cut_sync(self, number: int, commits: int, *, is_before: bool) -> bool:
        merge, own = self.merge_of(number)
        if merge is self:
            return super().cut_sync(number, commits, is_before=is_before)
        return merge.cut_sync(own, commits, is_before=is_before)


def _is_contested(summary: Summary) -> bool:
    """Return whether a synchronisation decided between rows, or left some for the next."""
    totals = (summary.upload.total, summary.download.total)
    return any(counts.conflicts or counts.retried or counts.refused for counts in totals)
