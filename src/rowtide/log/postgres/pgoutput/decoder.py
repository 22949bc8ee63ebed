"""Decodes a batch from pgoutput messages to log records and events.

The package uses no socket, no query and no clock. No Python object is made per row: messages are classified, numbered
and walked as arrays; only rare messages (Relation, Truncate, logical messages) are parsed one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy

from rowtide.core.lsn import Position
from rowtide.core.records import RECORD
from rowtide.core.tables import TableVersion
from rowtide.log.membership import Member
from rowtide.log.origins import Secrets
from rowtide.log.postgres.pgoutput.changes import LayoutTimeline, keep_changes, row_counts
from rowtide.log.postgres.pgoutput.control import read_control
from rowtide.log.postgres.pgoutput.frames import join
from rowtide.log.postgres.pgoutput.images import read_images
from rowtide.log.postgres.pgoutput.inferring import Present
from rowtide.log.postgres.pgoutput.placement import TableChanges, in_log_order, place
from rowtide.log.postgres.pgoutput.records import TableRecords, assemble
from rowtide.log.postgres.pgoutput.relations import Relations, TableVersions
from rowtide.log.postgres.pgoutput.transactions import TransactionTracker
from rowtide.log.postgres.stream.xlog_data import described_oid
from rowtide.log.source import Decoded

_NO_SECRETS: Secrets = {}


class Decoder:
    """Decodes the messages of one connection, batch by batch; a batch may end inside a transaction.

    Transactions that `position` covers are dropped whole. `members` are those enabled at `position`, `tables` the
    versions given out before it; `xid_reference` is the server's full transaction id at connect. `tells_ddl`: event
    triggers announce alterations.
    After a `DecodeError` the decoder is not used again.
    """

    def __init__(
        self,
        *,
        epoch: int,
        position: Position,
        members: Iterable[Member],
        tables: Iterable[TableVersion],
        xid_reference: int,
        tells_ddl: bool = True,
    ) -> None:
        versions = tuple(tables)
        self._tracker = TransactionTracker(epoch=epoch, position=position, xid_reference=xid_reference)
        self._relations = Relations(
            members,
            tells_ddl=tells_ddl,
            shapes=(version.shape for version in sorted(versions, key=lambda version: version.table_id)),
        )
        self._versions = TableVersions(versions)

    @property
    def members(self) -> tuple[Member, ...]:
        """The members after the last batch."""
        return self._relations.members

    @property
    def in_transaction(self) -> bool:
        """Whether the last batch ended inside a transaction."""
        return self._tracker.is_open

    def name_open_transaction(self) -> int:
        """Return the commit LSN of the transaction in which the last batch ended."""
        return self._tracker.open_lsn

    def find_suspects(self, messages: Sequence[bytes]) -> list[int]:
        """Return the members' tables that may have the change that did not arrive after the last batch, `messages`.

        The server sends a table's Relation message right before its first change on the connection.
        """
        tables = {member.source_id for member in self.members}
        described = described_oid(messages[-1]) if messages else None
        return [described] if described in tables else sorted(tables & self._relations.described_ids)

    def name_table(self, messages: Sequence[bytes]) -> str | None:
        """Return the table of the change that did not arrive after the last batch, `messages`.

        It is the table that was described last, if by the very last message; else, on a connection that began with this
        transaction, one of the tables that it has described; else None.
        """
        described = described_oid(messages[-1]) if messages else None
        if described is not None:
            return self._relations.name(described)
        return None if self._tracker.has_committed else self._relations.name_all()

    def decode(
        self, messages: Sequence[bytes], present: Present | None = None, secrets: Secrets = _NO_SECRETS
    ) -> Decoded:
        """Decode whole XLogData messages (from the byte 'w' on).

        With `present`, tables as the catalogue has them, what no event trigger recorded is inferred; the
        decoder requests each such table by `TableWanted`, and each subscription's secret by `SecretWanted`, after which
        its state is as before.

        Raises `DecodeError`; and `Undecodable`, after which the decoder's state is as before.
        """
        if not messages:
            return Decoded(RECORD.empty_table(), (), (), 0)
        frames = join(messages)
        tracker, relations = copy(self._tracker), self._relations.copy()
        transactions = tracker.follow(frames)
        control = read_control(frames, transactions, relations, present, secrets)
        self._tracker, self._relations = tracker, relations
        ordinals = self._tracker.count(transactions, control.changes_per_message(row_counts(frames)))
        timeline = LayoutTimeline(control.layouts)
        changes = keep_changes(frames, transactions, control, ordinals, timeline)
        tables = place(changes, timeline, self._versions)
        records = [
            TableRecords(table.table_id, table.changes, read_images(frames, table.changes.message, table.layout))
            for table in sorted(tables, key=TableChanges.record_order)
        ]
        return Decoded(
            assemble(frames, transactions, control, ordinals, records),
            tuple(table.resolved.version for table in tables if table.resolved.is_new),
            in_log_order(control.numbered_events(ordinals), tables, transactions),
            transactions.commits,
            transactions.last_commit,
            control.last_row,
            tuple(control.unverified),
        )
