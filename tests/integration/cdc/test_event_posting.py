"""Events by HTTP POST: what a receiver answers, and what is sent again."""

from __future__ import annotations

import json
import threading

import pytest

from builders.capture.event_rows import event_rows, lsn
from builders.capture.following import FakeReceiver, receiving
from rowtide.agents import loop
from rowtide.cdc.errors.jobs import EventsRefused
from rowtide.cdc.following import sinks
from rowtide.cdc.following.row_events import EventFormat
from rowtide.cdc.following.sinks import EventEndpoint, Interrupted, Posting
from rowtide.core.errors import RowtideError


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "FIRST_PAUSE_S", 0.01)


class Posted:
    """A sink for a receiver, and what it reported."""

    def __init__(self, receiver: FakeReceiver, form: EventFormat = EventFormat.JSONL, *, timeout_s: float = 5) -> None:
        self.stop = threading.Event()
        self.told: list[tuple[str, float]] = []
        self.sink = Posting(EventEndpoint(receiver.url, {"X-Key": "hidden"}, timeout_s), form, self.stop, self._note)

    def _note(self, error: RowtideError, pause_s: float) -> None:
        self.told.append((str(error), pause_s))


def test_events_are_posted_in_batches_over_one_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sinks, "MOST_EVENTS", 2)
    with receiving(FakeReceiver()) as receiver:
        sink = Posted(receiver).sink
        durable = list(sink.deliver(event_rows(5, 5, 5, 6, 9), lsn(8)))
        sink.close()
    assert [len(request.events) for request in receiver.received] == [2, 2, 1]
    assert durable == [lsn(4), lsn(5), lsn(8), lsn(8)]
    assert len(receiver.connections) == 1
    assert {request.headers["X-Key"] for request in receiver.received} == {"hidden"}
    assert receiver.received[0].headers["Content-Type"] == "application/x-ndjson"


def test_large_events_are_posted_in_smaller_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sinks, "MOST_BYTES", 300)
    parts = [part.num_rows for part in sinks.cut_into_batches(event_rows(1, 2, 3, padding=100))]
    assert parts == [2, 1]
    assert [part.num_rows for part in sinks.cut_into_batches(event_rows(1, 2, padding=400))] == [1, 1]


@pytest.mark.parametrize("form", [EventFormat.DEBEZIUM, EventFormat.CLOUDEVENTS])
def test_bodies_of_other_formats_are_arrays(form: EventFormat) -> None:
    with receiving(FakeReceiver()) as receiver:
        sink = Posted(receiver, form).sink
        list(sink.deliver(event_rows(1, 2), lsn(2)))
        sink.close()
    (request,) = receiver.received
    assert [event["id"] for event in json.loads(request.body)] == ["e-1-0", "e-2-1"]


def test_what_may_pass_is_posted_again() -> None:
    with receiving(FakeReceiver(answers=[500, 429, 408, None], patience_s=0.4)) as receiver:
        posted = Posted(receiver, timeout_s=0.2)
        durable = list(posted.sink.deliver(event_rows(1, 2), lsn(2)))
        posted.sink.close()
    assert receiver.ids == ["e-1-0", "e-2-1"] * 5
    assert durable[-1] == lsn(2)
    assert [text.split(": ")[2].split(". ")[0] for text, _ in posted.told] == [
        "it answers 500 Internal Server Error",
        "it answers 429 Too Many Requests",
        "it answers 408 Request Timeout",
        "timed out",
    ]
    assert all("hidden" not in text for text, _ in posted.told)


def test_a_receiver_names_the_pause() -> None:
    with receiving(FakeReceiver(answers=[429], answer_headers={"Retry-After": "1"})) as receiver:
        posted = Posted(receiver)
        list(posted.sink.deliver(event_rows(1), lsn(1)))
        posted.sink.close()
    assert [pause_s for _, pause_s in posted.told] == [1.0]


@pytest.mark.parametrize("status", [301, 400, 401, 413])
def test_other_answers_stop_with_status_and_event(status: int) -> None:
    with receiving(FakeReceiver(answers=[204, status])) as receiver:
        posted = Posted(receiver)
        list(posted.sink.deliver(event_rows(1), lsn(1)))
        with pytest.raises(EventsRefused, match=rf"answered {status} .* from e-7-0 on"):
            list(posted.sink.deliver(event_rows(7, 8), lsn(8)))
        posted.sink.close()


def test_a_connection_that_the_receiver_closed_is_opened_again() -> None:
    receiver = FakeReceiver()
    with receiving(receiver):
        posted = Posted(receiver)
        list(posted.sink.deliver(event_rows(1), lsn(1)))
        assert posted.sink._connection is not None
        posted.sink._connection.sock.shutdown(2)
        list(posted.sink.deliver(event_rows(2), lsn(2)))
        posted.sink.close()
    assert receiver.ids == ["e-1-0", "e-2-0"]
    assert posted.told == []


def test_a_stop_ends_the_tries() -> None:
    with receiving(FakeReceiver(answers=[503] * 100)) as receiver:
        posted = Posted(receiver)
        receiver.on_request = posted.stop.set
        with pytest.raises(Interrupted):
            list(posted.sink.deliver(event_rows(1), lsn(1)))
        posted.sink.close()
    assert len(receiver.received) == 1


def test_a_receiver_that_is_not_there_is_waited_for() -> None:
    with receiving(FakeReceiver()) as receiver:
        pass
    posted = Posted(receiver)
    tries = iter(range(2))

    def note(error: RowtideError, _pause_s: float) -> None:
        posted.told.append((str(error), 0))
        if next(tries, None) is None:
            posted.stop.set()

    posted.sink._on_retry = note
    with pytest.raises(Interrupted):
        list(posted.sink.deliver(event_rows(1), lsn(1)))
    assert all("Connection refused" in text for text, _ in posted.told)


def test_an_address_is_shown_without_its_query() -> None:
    receiver = EventEndpoint("https://host:8443/in?token=secret", {})
    assert (receiver.name, receiver.target) == ("https://host:8443/in", "/in?token=secret")
