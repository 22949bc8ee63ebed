"""A device that synchronises by requests: each is bytes, and is answered with a connection to the hub of its own."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import TypeVar

from rowtide.merge.articles import DEFAULT_LIMITS, ExchangeType, Progress
from rowtide.merge.errors.subscribing import DownloadLost
from rowtide.merge.nodes.connecting import address, open_node, open_synchronised
from rowtide.merge.nodes.node import Node
from rowtide.merge.publishing.device_requests import (
    recover_device,
    serve_comparison,
    serve_device,
    serve_schema,
    synchronise_device,
)
from rowtide.merge.publishing.exchange_requests import Recovered
from rowtide.merge.publishing.rows_at_hub import RowsAnswer, RowsRequest
from rowtide.merge.publishing.schema_steps import SchemaStep
from rowtide.merge.session.history import Summary
from rowtide.merge.session.messages import Acknowledgement, DeviceState, RowBatch, SyncAnswer, SyncRequest
from rowtide.merge.session.over_transport import RequestedExchange
from rowtide.merge.session.served_requests import SessionAnswer, UploadedBatches, acknowledge

FIRST_BATCHES = 1
"""That come with an answer."""
_STEPS = 3
"""That the device takes while it waits for an answer."""
Message = TypeVar("Message")


def carried(message: Message) -> Message:
    """Return a message as another process gets it."""
    received: Message = pickle.loads(pickle.dumps(message))
    return received


@dataclass
class Loopback:
    """See `Transport`.

    `before` is called with the name of each request, `after` before its answer is given, and `bend` with each
    batch that is uploaded."""

    opening: Callable[[], AbstractContextManager[Node]]
    publication: str
    subid: str = ""
    requests: list[str] = field(default_factory=list)
    before: Callable[[str], None] = lambda _name: None
    after: Callable[[str], None] = lambda _name: None
    bend: Callable[[RowBatch], RowBatch] = lambda batch: batch
    _downloads: dict[tuple[int, int], SessionAnswer] = field(default_factory=dict)
    _step: Callable[[], bool] = lambda: False

    def synchronise(
        self, request: SyncRequest, batches: Callable[[], Iterator[RowBatch]]
    ) -> tuple[SyncAnswer, Sequence[RowBatch]]:
        self._begin("sync")
        said, sent = carried(request), carried([self.bend(batch) for batch in batches()])
        self.subid = said.state.subid
        with self.opening() as hub:
            served = serve_device(hub, said, UploadedBatches(sent))
            served.purge_if_due()
        answer = served.answer
        if answer.terms is not None and answer.download is not None:
            self._downloads[answer.terms.session, answer.download.generation] = served
        for _ in range(_STEPS):
            self._step()
        self.after("sync")
        return carried((answer, list(islice(served.batches(), FIRST_BATCHES))))

    @contextmanager
    def working(self, step: Callable[[], bool]) -> Iterator[None]:
        self._step = step
        yield
        self._step = lambda: False

    def fetch(self, session: int, generation: int, first: int) -> Sequence[RowBatch]:
        self._begin("fetch")
        served = self._downloads.get((session, generation))
        if served is None:
            raise DownloadLost(self.subid, generation)
        self.after("fetch")
        return carried(list(islice(served.batches(first), 2)))

    def acknowledge(self, said: Acknowledgement) -> None:
        self._begin("acknowledge")
        with self.opening() as hub:
            acknowledge(hub, self.publication, self.subid, carried(said))
        self.after("acknowledge")

    def follow(self, state: DeviceState) -> SchemaStep:
        self._begin("follow")
        with self.opening() as hub:
            step = serve_schema(hub, carried(state))
        self.after("follow")
        return carried(step)

    def compare(self, request: RowsRequest) -> tuple[RowsAnswer, Sequence[RowBatch]]:
        self._begin("compare")
        with self.opening() as hub:
            answer = serve_comparison(hub, carried(request))
        self.after("compare")
        return carried(answer)

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


def open_loopback(hub_url: str, publication: str) -> AbstractContextManager[Loopback]:
    """Return requests to a hub, each over a new connection."""
    return closing(Loopback(partial(open_node, hub_url), publication))


def sync_by_requests(
    hub_url: str, publication: str, subscriber_url: str, exchange: ExchangeType = ExchangeType.BOTH
) -> tuple[Summary, Sequence[str]]:
    """Synchronise a device, and return the summary and the requests that it took."""
    opening = open_loopback(hub_url, publication)
    with opening as loopback, open_synchronised(subscriber_url, DEFAULT_LIMITS) as node:
        summary = synchronise_device(
            loopback, node, publication, address(subscriber_url), wanted=RequestedExchange(exchange)
        )
        return summary, loopback.requests


def follow_by_requests(
    hub: Node,
    subscriber: Node,
    publication: str,
    subscriber_name: str,
    on_progress: Progress = lambda _phase, _done, _all: None,
    exchange: ExchangeType = ExchangeType.BOTH,
) -> Summary:
    """Stand in for `synchronise_following`, by requests."""
    with closing(Loopback(lambda: nullcontext(hub), publication)) as loopback:
        wanted = RequestedExchange(exchange)
        return synchronise_device(loopback, subscriber, publication, subscriber_name, on_progress, wanted)


def upload_all_by_requests(
    hub: Node,
    subscriber: Node,
    publication: str,
    subscriber_name: str,
    on_upload: Progress,
    on_recovered: Callable[[Recovered], None],
    *,
    absent_is_delete: bool = False,
) -> Summary:
    """Stand in for `upload_all`, by requests."""
    with closing(Loopback(lambda: nullcontext(hub), publication)) as loopback:
        names = publication, subscriber_name
        for recovered in recover_device(loopback, subscriber, *names, absent_is_delete=absent_is_delete):
            on_recovered(recovered)
        wanted = RequestedExchange(ExchangeType.UPLOAD, reinitializes=True)
        return synchronise_device(loopback, subscriber, *names, on_upload, wanted)
