"""Messages between the two halves of a synchronisation: the device's, and the hub's. Pure.

A request begins a session and uploads, its answer downloads, and an acknowledgement ends the session. The halves of one
process pass the same messages as those of a device behind HTTP. Each message may be repeated with the same effect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import chain
from typing import Protocol

from rowtide.core.values import frozen
from rowtide.merge.articles import Article, ExchangeType
from rowtide.merge.identity_range_policy import IdentityRange, Numbering
from rowtide.merge.versions.changes import Row, RowChange

RowsByArticle = Mapping[int, Sequence[str]]
"""Rowguids by the article's nickname."""


@dataclass(slots=True)
class Counts:
    """Result of an article's changes, as Replication Monitor counts it, with the time in seconds."""

    inserts: int = 0
    updates: int = 0
    deletes: int = 0
    conflicts: int = 0
    retried: int = 0
    refused: int = 0
    seconds: float = 0.0

    def add(self, other: Counts) -> None:
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    @property
    def moved(self) -> int:
        """The number of rows written."""
        return self.inserts + self.updates + self.deletes


@frozen
class RowBatch:
    """Changes of one article, either of rows or of tombstones, at most some thousands; `article` is its nickname.

    Batches are in the order in which they are to be written: rows parents first, then tombstones children first.
    """

    article: int
    changes: Sequence[RowChange]


def size_of(batch: RowBatch) -> int:
    """Return the characters of a batch's values."""
    # Iterators of C go over the values: a batch may have many.
    values = chain.from_iterable([change.row for change in batch.changes if change.row is not None])
    return sum(map(len, filter(None, values)))


@frozen
class DeviceNumbering:
    """How far a device has numbered an article, and the ranges that it has.

    `given` are those for its own subscribers if it publishes, `used` the last number of these that it gave away.
    """

    numbering: Numbering
    owned: IdentityRange | None
    given: IdentityRange | None = None
    used: int | None = None


@frozen
class GivenRanges:
    """The ranges that a device has from now on; None: as before. `given` is as in `DeviceNumbering`."""

    owned: IdentityRange | None = None
    given: IdentityRange | None = None


@frozen
class DeviceState:
    """What a device says of itself and its subscription as a session begins.

    `nickname` is the device's, `hub` the hub's as the device knows it. `sent` is the last of the device's generations
    that the hub has confirmed, `received` the last of the hub's that the device has; `state` is the mark of its last
    synchronisation. `definitions` are the device's; a device behind HTTP gives their `fingerprint` until the hub has
    asked for them. `damages` are articles whose tables have lost triggers or columns, `refused` the hub's rows that the
    device has refused and wants again.
    """

    publication: str
    subid: str
    nickname: int
    hub: int
    state: str
    session: int
    sent: int
    received: int
    schema_version: int
    schema_guid: str | None
    fingerprint: str = ""
    definitions: tuple[Article, ...] | None = None
    proposed: str = ""
    """The mark that the device proposes for the session, and has stored: an earlier copy of it does not have it."""
    damages: Mapping[int, str] = field(default_factory=dict)
    refused: RowsByArticle = field(default_factory=dict)


@frozen
class SessionTerms:
    """A session that the hub has begun: its number, and the mark that it is to leave at both ends.

    `since` is the device's last generation that the hub has, `wanted` are rows of the device that the hub requests
    again. The hub has purged metadata up to its generation `purged`; `hub_priority` is the weight of its own changes.
    """

    session: int
    mark: str
    since: int
    wanted: RowsByArticle
    purged: int
    hub_priority: float


@frozen
class TopsQuestion:
    """Rows of logical records that the hub has deleted: in which records, by the top row, are they at the device?

    `top` is the nickname of the article that the records are named after, `rows` are by the article's nickname.
    """

    top: int
    rows: RowsByArticle


@frozen
class UploadHeader:
    """What comes with the batches that a device uploads: they are all it has changed after `since`, up to `generation`.

    `requested` are rows that come because the hub requested them, for the `round`th time; with `is_rest` the batches
    are these alone. `tops` are the answers to `TopsQuestion`s: top rows by rowguid, by the kind's top
    article; None if none came. With `has_more` the batches are a part of the upload, which others follow with headers
    that differ in this and in `kept` alone, which is that of the last part's result.
    """

    since: int
    generation: int
    requested: RowsByArticle = field(default_factory=dict)
    round: int = 0
    is_rest: bool = False
    has_more: bool = False
    kept: str = ""
    tops: Mapping[int, Mapping[str, str]] | None = None


@frozen
class RefusedUpload:
    """A row that the hub has refused, and why; `is_wanted`: the next synchronisation is to send it again."""

    article: int
    rowguid: str
    code: str
    reason: str
    is_wanted: bool


@frozen
class UploadResult:
    """The result of an upload: the hub has the device's changes up to `generation`.

    `has_refused`: the hub waits for rows of the device. These are `awaited`: the next synchronisation is to send them.
    The device is to repeat the upload with the rows `wanted`, and with the answers to `questions`: nothing comes down
    before. Of a part that others follow, all is committed but the rows `deferred`, which come again with the last part;
    one of logical records is kept until the last part has come, with those before it, under the name `kept`.
    """

    generation: int
    has_refused: bool = False
    refused: Sequence[RefusedUpload] = ()
    wanted: RowsByArticle = field(default_factory=dict)
    questions: Sequence[TopsQuestion] = ()
    deferred: RowsByArticle = field(default_factory=dict)
    kept: str = ""
    awaited: RowsByArticle = field(default_factory=dict)
    counts: Mapping[str, Counts] = field(default_factory=dict)
    """By the article's name."""

    @property
    def is_complete(self) -> bool:
        """Whether the hub has got all that it needs."""
        return not self.wanted and not self.questions


@frozen
class MembershipMoves:
    """Rows of an article whose place in the device's partition changes with a download, by rowguid.

    `gone` leave it, or are gone for good; `returned` were leaving it and belong to it again; those of `stayed` have
    left it, and the device may keep them.
    """

    gone: Sequence[str] = ()
    returned: Sequence[str] = ()
    stayed: Sequence[str] = ()


@frozen
class DownloadHeader:
    """What comes with the batches that a device downloads: all of the hub's up to `generation` that concerns it.

    They are `batches` in number. `moves` are by the article's nickname. With `repeats`, a version that the device has
    is written again.
    """

    generation: int
    moves: Mapping[int, MembershipMoves] = field(default_factory=dict)
    repeats: bool = False
    batches: int = 0


@frozen
class RefusedDownload:
    """A row of the hub's that the device refused, as it is recorded at the hub: a conflict that the hub's row lost.

    Its type is 6 for an insert, 10 for an update, 8 for a delete. `losing_row` is the hub's, None for a delete,
    `winning_row` what stays at the device; both have the article's columns.
    """

    article: int
    rowguid: str
    conflict_id: str
    conflict_type: int
    reason_code: str
    reason_text: str
    losing_row: Row | None
    winning_row: Row | None
    losing_lineage: bytes
    parents: tuple[str | None, ...] = ()
    losing_columns: tuple[str, ...] | None = None


@frozen
class Acknowledgement:
    """What a device says of a download that it has committed, with the session's mark.

    It has the hub's changes up to `received`. `moves` are those of the download, without the rows `gone` that are still
    there. `accepted` are rows that it had refused before, `refused` those that it refuses now; `is_waiting`: it wants
    rows of the hub again. `counts` are by the article's name, `seconds` is the time that it took.
    """

    session: int
    mark: str
    received: int
    exchange: ExchangeType = ExchangeType.BOTH
    moves: Mapping[int, MembershipMoves] = field(default_factory=dict)
    accepted: RowsByArticle = field(default_factory=dict)
    refused: Sequence[RefusedDownload] = ()
    is_waiting: bool = False
    counts: Mapping[str, Counts] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def may_wait(self) -> bool:
        """Whether it says no more than the state of the device does, so that it may come with the next request."""
        is_plain = not self.moves and not self.accepted and not self.refused
        return is_plain and self.exchange is ExchangeType.BOTH


@frozen
class SyncRequest:
    """A device's first request of a session; the batches of its upload come with it, or follow it.

    `acknowledgement` is that of the session before, unless it was sent. `upload` is None for a download alone. With
    `reinitializes` it is the last upload of a device whose tables are filled again then, also of one that has expired.
    """

    state: DeviceState
    exchange: ExchangeType = ExchangeType.BOTH
    upload: UploadHeader | None = None
    numberings: Mapping[int, DeviceNumbering] = field(default_factory=dict)
    acknowledgement: Acknowledgement | None = None
    reinitializes: bool = False


@frozen
class SyncAnswer:
    """The answer to a `SyncRequest`; the first batches of the download come with it.

    `definitions` are those of the hub where the device has others: it repeats its request with its own ones in full,
    and nothing else is given. Without a `result` the device repeats its upload from `terms.since`. `download` is None
    until the upload is complete. With `must_follow`, the device follows the hub's schema once it has uploaded.
    """

    terms: SessionTerms | None
    result: UploadResult | None = None
    ranges: Mapping[int, GivenRanges] = field(default_factory=dict)
    download: DownloadHeader | None = None
    definitions: tuple[Article, ...] | None = None
    must_follow: bool = False
    unsent: Mapping[int, Sequence[str]] = field(default_factory=dict)
    """Columns of the hub's tables that are not sent, by the article's nickname."""


class Transport(Protocol):
    """Carries the messages of a device to its hub; what is lost is sent again, with the same effect.

    `batches` yields an upload's batches from the first one whenever it is called.
    """

    def synchronise(
        self, request: SyncRequest, batches: Callable[[], Iterator[RowBatch]]
    ) -> tuple[SyncAnswer, Sequence[RowBatch]]:
        """Return the answer to a request, with the first batches of the download."""

    def working(self, step: Callable[[], bool]) -> AbstractContextManager[None]:
        """Take steps of other work within the block, while an answer is waited for; see `Node.working`."""

    def fetch(self, session: int, generation: int, first: int) -> Sequence[RowBatch]:
        """Return further batches of a download, from one on. Raises `DownloadLost` if the hub has them no more."""

    def acknowledge(self, said: Acknowledgement) -> None:
        """Pass an acknowledgement on."""
