"""Read a node's changes into a spool, and transfer a spool to a node: what both halves of a synchronisation do."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from rowtide.merge.articles import Article, Subscription
from rowtide.merge.exchange_state import put_received, set_subscription
from rowtide.merge.nodes.node import Node
from rowtide.merge.nodes.sending import ChangesRequest
from rowtide.merge.partitions.logical_records import find_record_types
from rowtide.merge.session.exchange import Transfer
from rowtide.merge.session.history import Phase
from rowtide.merge.session.node_receiver import NodeReceiver
from rowtide.merge.session.receiver import Part, Receiver
from rowtide.merge.session.record_transfer import RecordReceiver, RecordTransfer
from rowtide.merge.session.spool import Outgoing, Spool
from rowtide.merge.versions.changes import RowChange
from rowtide.merge.versions.checked_metadata import are_rowguids

OnTransferred = Callable[[int, int], None]
"""Called with the number of changes done, and the number read so far."""


@contextmanager
def in_session(node: Node, subscription: Subscription) -> Iterator[None]:
    """Open a transaction of a synchronisation. Raises `SessionReplaced` if another one has begun."""
    with node.transaction():
        node.require_session(subscription)
        yield


@contextmanager
def read_changes(
    sender: Node,
    request: ChangesRequest,
    watch: Callable[[Article, Sequence[RowChange]], None] = lambda _article, _changes: None,
    *,
    is_whole: bool = True,
    frees: bool = False,
) -> Iterator[tuple[int, Outgoing, Spool]]:
    """Yield a node's changes after a generation, the generation read up to, and what to store before sending.

    All changes have been read where `is_whole`, and where the node's programs would have to wait. With `frees`, the
    snapshot ends as soon as all is read, not with the block.
    """
    with ExitStack() as held:
        with ExitStack() as reading:
            sending = reading.enter_context(sender.changes.sending(request))
            outgoing = Outgoing(sending, request, watch)
            spool, generation = held.enter_context(outgoing.spool(sender.limits)), sending.generation
            if is_whole or sending.blocks_writers:
                spool.complete()
            else:
                kept = held.enter_context(reading.pop_all())
                if frees:
                    spool.on_end = kept.close
        yield generation, outgoing, spool


def transfer(
    spool: Spool,
    receiver: Receiver,
    articles: Sequence[Article],
    phase: Phase,
    on_progress: Callable[[int, int], None],
    handling: RecordReceiver | None,
    conclude: Callable[[], None] = lambda: None,
) -> bool:
    """Transfer a spool to a node, and add to the phase's result; `handling` is for logical records.

    Return whether `conclude` was done, in the last transaction.
    """
    began = time.monotonic()
    done = 0

    def tell(changes: int) -> None:
        nonlocal done
        done += changes
        on_progress(done, spool.changes)

    known = {article.nickname: article for article in articles}
    transferring = Transfer(receiver, known, tell, phase.articles, conclude=conclude)
    kinds = find_record_types(articles)
    if kinds and handling is not None:
        transferring.records = RecordTransfer(kinds, receiver, handling, transferring.count)
    transferring.run(spool)
    phase.refused += transferring.left
    phase.refusals += transferring.refused
    phase.seconds += time.monotonic() - began
    return transferring.is_concluded


def transfer_part(spool: Spool, receiver: Receiver, articles: Sequence[Article], phase: Phase) -> Sequence[Part]:
    """Transfer a spool that others of the same upload follow, and add to the phase's result; return what is left."""
    began = time.monotonic()
    left = Transfer(receiver, {article.nickname: article for article in articles}, counts=phase.articles).run_part(
        spool
    )
    phase.seconds += time.monotonic() - began
    return left


def advance(receiver: NodeReceiver, store: Callable[[], None]) -> None:
    """Store that a generation was received completely; this commit also flushes everything received before it."""
    with receiver.node.transaction():
        receiver.check()
        store()


def store_received(receiver: NodeReceiver, generation: int) -> None:
    """Store that a generation of the sender was received completely, in the caller's transaction."""
    set_subscription(receiver.node.connection, receiver.subscription.subid, recgen=generation)
    put_received(receiver.node.connection, receiver.source, generation)


def known_rows(listed: Mapping[int, Sequence[str]]) -> dict[int, list[str]]:
    """Return rows by the table's nickname, without those whose rowguid is none: no node has them."""
    return {nickname: [each for each in rowguids if are_rowguids([each])] for nickname, rowguids in listed.items()}
