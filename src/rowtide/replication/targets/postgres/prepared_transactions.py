"""The prepared transactions of a batch that was sent in streams: names, what is left, how they end.

A batch is committed when its first stream is, which writes the progress row and, in its column `decided`, the batch's
name. What became of the others follows from that, for any process that completes it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass

import psycopg
from psycopg import errors, sql

from rowtide.core.failpoints import failpoint
from rowtide.databases.postgres.errors import translated
from rowtide.databases.postgres.quoting import quote_literal

PREFIX = "rowtide:"
_BUSY_PAUSE_S = 0.05


@dataclass(frozen=True, slots=True)
class BatchName:
    """A batch of one subscription, by the epoch of its agent and its number."""

    guid: str
    epoch: int
    batch: int

    def __str__(self) -> str:
        return f"{PREFIX}{self.guid}:{self.epoch}:{self.batch}"


@dataclass(frozen=True, slots=True)
class PreparedName:
    """The name of one stream's prepared transaction (PostgreSQL: gid); streams are numbered from 0."""

    batch: BatchName
    stream: int

    def __str__(self) -> str:
        return f"{self.batch}:{self.stream}"

    @classmethod
    def parse(cls, gid: str) -> PreparedName:
        """Parse a gid with our prefix."""
        guid, epoch, batch, stream = gid.removeprefix(PREFIX).split(":")
        return cls(BatchName(guid, int(epoch), int(batch)), int(stream))

    @property
    def commits(self) -> str:
        """The statement that commits it."""
        return f"commit prepared {quote_literal(str(self))}"

    @property
    def rolls_back(self) -> str:
        """The statement that rolls it back."""
        return f"rollback prepared {quote_literal(str(self))}"


@dataclass(frozen=True, slots=True)
class Settled:
    """A prepared transaction that was left, and what became of it."""

    name: PreparedName
    is_committed: bool


def list_prepared(connection: psycopg.Connection, guid: str | None = None) -> Sequence[PreparedName]:
    """Return what is prepared in this database for a subscription, or for all."""
    with translated():
        return parse_prepared(ask_prepared(connection, guid))


def ask_prepared(connection: psycopg.Connection, guid: str | None) -> psycopg.Cursor:
    """Ask what is prepared; the answer may wait for those of other statements."""
    wanted = f"^{PREFIX}{'[^:]+' if guid is None else re.escape(guid)}:[0-9]+:[0-9]+:[0-9]+$"
    return connection.execute(_PREPARED, (wanted,))


def parse_prepared(listing: psycopg.Cursor) -> Sequence[PreparedName]:
    """Return the names that were asked for."""
    return [PreparedName.parse(gid) for (gid,) in listing]


def settle(connection: psycopg.Connection, name: PreparedName, *, is_committed: bool) -> Settled:
    """Commit or roll back a prepared transaction; nothing if another session has done so."""
    failpoint("stream_settlement.before")
    while True:
        try:
            connection.execute(sql.SQL(name.commits if is_committed else name.rolls_back))
        except errors.UndefinedObject:
            break
        except errors.ObjectNotInPrerequisiteState:
            # Another session is about to end it.
            time.sleep(_BUSY_PAUSE_S)
        except psycopg.Error:
            with translated():
                raise
        else:
            break
    failpoint("stream_settlement.after")
    return Settled(name, is_committed)


_PREPARED = """
select gid from pg_prepared_xacts where database = current_database() and gid ~ %s order by gid
"""
