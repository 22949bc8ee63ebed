"""An upload in a transaction of the hub that is rolled back: what would conflict, and what the hub would refuse.

Programs' triggers fire at the hub, and their numbers from sequences are used up; nothing else remains of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy import select

from rowtide.merge.conflicts.records import ConflictType
from rowtide.merge.definitions import conflicts_info
from rowtide.merge.nodes.enumerated_sending import EnumeratedSending
from rowtide.merge.nodes.node import Node
from rowtide.merge.nodes.retry import retry_busy
from rowtide.merge.nodes.roles.reach import Place
from rowtide.merge.nodes.roles.writing import Refusal
from rowtide.merge.nodes.sending import Enumeration, Request
from rowtide.merge.progress import list_retries
from rowtide.merge.session.exchange import Counts
from rowtide.merge.session.history import Phase
from rowtide.merge.session.pairing import Pairing
from rowtide.merge.session.spooling import Outgoing, Spool
from rowtide.merge.session.synchronisation import bring_up, receive_at_hub


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """What an upload would come to: `counts` by the article's name, and the rows that would conflict or be refused.

    Those that conflict may be refused, too: the key is another row's, or the change is undone.
    """

    counts: Mapping[str, Counts]
    conflicts: Mapping[Place, ConflictType]
    refusals: Mapping[Place, Refusal]


def rehearse_upload(hub: Node, subscriber: Node, pairing: Pairing, preview: Enumeration) -> Rehearsed:
    """Upload what a preview of the subscriber has, and undo it; rows of the hub are locked meanwhile.

    Raises `NodeBusy`, `SessionReplaced`.
    """

    @contextmanager
    def reading(request: Request) -> Iterator[tuple[int, Spool]]:
        sending = EnumeratedSending(preview.naming_parents(request.parents), request)
        with Outgoing(sending, request).spool() as spool:
            spool.complete()
            yield preview.generation, spool

    def rehearse() -> Rehearsed:
        phase, of_publication = Phase(), conflicts_info.c.pubid == pairing.publication.pubid
        again = list_retries(hub.connection, pairing.at_hub.nickname)
        with hub.trying():
            known = select(conflicts_info.c.conflict_id).where(of_publication)
            before = set(hub.connection.execute(known).scalars())
            bring_up(subscriber, receive_at_hub(hub, pairing, again), pairing, reading, phase, lambda _done, _all: None)
            conflicts = _read_conflicts(hub, pairing, before)
        refusals = {(each.article.nickname, each.change.rowguid): each.refusal for each in phase.refusals}
        return Rehearsed(phase.articles, conflicts, refusals)

    return retry_busy(rehearse)


def _read_conflicts(hub: Node, pairing: Pairing, before: set[str]) -> dict[Place, ConflictType]:
    """Return the rows of a publication's conflicts that were not there before."""
    c = conflicts_info.c
    listed = select(c.conflict_id, c.tablenick, c.rowguid, c.conflict_type).where(c.pubid == pairing.publication.pubid)
    return {
        (nickname, rowguid): ConflictType(conflict_type)
        for conflict_id, nickname, rowguid, conflict_type in hub.connection.execute(listed)
        if conflict_id not in before
    }
