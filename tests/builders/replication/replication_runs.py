"""Replication that runs in a thread of the test, and what it reported."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from builders.capture.captured_databases import wait_until
from builders.replication.replicated_databases import ReplicatedDatabase, Subscriber
from rowtide.core.errors import RowtideError
from rowtide.replication.distribution.run_context import DeliveredElsewhere, Trouble, Watchers

ORDERS = "create table orders (id int primary key, qty int)"


class ReplicationRun:
    """A run, from its start to whatever ends it."""

    def __init__(self, replicated: ReplicatedDatabase, skip_errors: str, subscribers: Sequence[Subscriber]) -> None:
        self._replication = replicated.replication
        self._skip_errors = skip_errors
        self._subscribers = [subscriber.url for subscriber in subscribers]
        self.stop = threading.Event()
        self.troubles: list[Trouble] = []
        self.elsewhere: list[DeliveredElsewhere] = []
        self.error: RowtideError | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def wait_ended(self) -> None:
        """Wait until the run has ended by itself, or because it was asked to."""
        self._thread.join(60)
        assert not self._thread.is_alive()

    def wait_trouble(self, kind: type[RowtideError], subscriber: Subscriber) -> Trouble:
        """Wait until it has reported an error of one subscription, and return that."""

        def find() -> list[Trouble]:
            return [
                trouble
                for trouble in self.troubles
                if isinstance(trouble.error, kind) and trouble.subscription.subscriber == subscriber.url
            ]

        wait_until(lambda: bool(find()), what=f"{kind.__name__} of {subscriber.url}, not {self.troubles}")
        return find()[0]

    def _run(self) -> None:
        try:
            watchers = Watchers(on_trouble=self.troubles.append, on_elsewhere=self.elsewhere.append)
            self._replication.run(
                subscribers=self._subscribers, stop=self.stop, watchers=watchers, skip_errors=self._skip_errors
            )
        except RowtideError as error:
            self.error = error


@contextmanager
def running(
    replicated: ReplicatedDatabase, *subscribers: Subscriber, skip_errors: str = ""
) -> Iterator[ReplicationRun]:
    """Run replication while the block lasts; to these subscribers, or to all."""
    run = ReplicationRun(replicated, skip_errors, subscribers)
    try:
        yield run
    except BaseException as error:
        error.add_note(f"the run: error {run.error}, troubles {run.troubles}")
        raise
    finally:
        run.stop.set()
        run.wait_ended()


def wait_rows(subscriber: Subscriber, expected: list[tuple[object, ...]], table: str = "orders") -> None:
    """Wait until a subscriber's table has these rows."""
    query = f"select * from {table} t order by 1"
    wait_until(lambda: subscriber.execute(query) == expected, what=f"{expected} at {subscriber.url}")
