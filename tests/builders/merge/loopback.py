"""A device that synchronises by requests: each is bytes, and is answered with a connection to the hub of its own."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeVar

from rowtide.merge.articles import DEFAULT_LIMITS, ExchangeType
from rowtide.merge.errors.subscribing import DownloadLost
from rowtide.merge.nodes.connecting import address, open_node, open_synchronised
from rowtide.merge.session.history import Summary
from rowtide.merge.session.messages import Acknowledgement, RowBatch, SyncAnswer, SyncRequest
from rowtide.merge.session.over_transport import synchronise_over
from rowtide.merge.session.serving import Served, acknowledge, serve

FIRST_BATCHES = 1
"""That come with an answer."""
Message = TypeVar("Message")


def carried(message: Message) -> Message:
    """Return a message as another process gets it."""
    received: Message = pickle.loads(pickle.dumps(message))
    return received


@dataclass
class Loopback:
    """See `Transport`. `before` is called with the name of each request, `after` before its answer is given."""

    hub_url: str
    publication: str
    subid: str = ""
    requests: list[str] = field(default_factory=list)
    before: Callable[[str], None] = lambda _name: None
    after: Callable[[str], None] = lambda _name: None
    _downloads: dict[tuple[int, int], Served] = field(default_factory=dict)

    def synchronise(
        self, request: SyncRequest, batches: Callable[[], Iterator[RowBatch]]
    ) -> tuple[SyncAnswer, Sequence[RowBatch]]:
        self._begin("sync")
        said, sent = carried(request), carried(list(batches()))
        self.subid = said.state.subid
        with open_node(self.hub_url) as hub:
            served = serve(hub, said, sent)
            served.purge_if_due()
        answer = served.answer
        if answer.terms is not None and answer.download is not None:
            self._downloads[answer.terms.session, answer.download.generation] = served
        self.after("sync")
        return carried((answer, list(islice(served.batches(), FIRST_BATCHES))))

    def fetch(self, session: int, generation: int, first: int) -> Sequence[RowBatch]:
        self._begin("fetch")
        served = self._downloads.get((session, generation))
        if served is None:
            raise DownloadLost(self.subid, generation)
        self.after("fetch")
        return carried(list(islice(served.batches(first), 2)))

    def acknowledge(self, said: Acknowledgement) -> None:
        self._begin("acknowledge")
        with open_node(self.hub_url) as hub:
            acknowledge(hub, self.publication, self.subid, carried(said))
        self.after("acknowledge")

    def lose_downloads(self) -> None:
        """Do as a gateway that was restarted."""
        self.close()
        self._downloads.clear()

    def close(self) -> None:
        """Remove the downloads."""
        for served in self._downloads.values():
            served.close()

    def _begin(self, name: str) -> None:
        self.requests.append(name)
        self.before(name)


def sync_by_requests(
    hub_url: str, publication: str, subscriber_url: str, exchange: ExchangeType = ExchangeType.BOTH
) -> tuple[Summary, Sequence[str]]:
    """Synchronise a device, and return the summary and the requests that it took."""
    with closing(Loopback(hub_url, publication)) as loopback, open_synchronised(subscriber_url, DEFAULT_LIMITS) as node:
        summary = synchronise_over(loopback, node, publication, address(subscriber_url), exchange=exchange)
        return summary, loopback.requests
