"""How a stream ends what it has prepared, by what the server says of it."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rowtide.core.errors import RowtideError
from rowtide.core.lsn import Position
from rowtide.replication.errors.delivery import AgentReplaced, BatchRefused
from rowtide.replication.targets.postgres.delivery.pipeline import FailedStatement
from rowtide.replication.targets.postgres.delivery.streams.group import Stream
from rowtide.replication.targets.postgres.progress import BatchName, PreparedName

NAME = PreparedName(BatchName("guid", 3, 7), 1)
GONE, FULL, OTHER = FailedStatement(0, "42704", "no such"), FailedStatement(0, "53100", "disk full"), "25001"


class Ending:
    """Sends nothing, and notes what it is to end."""

    def __init__(self, refused: FailedStatement | None) -> None:
        self.refused = refused
        self.done: list[object] = []

    def finish(self) -> None:
        self.done.append("finish")

    def prepare(self, _guid: bytes, name: PreparedName, _reached: Position) -> None:
        self.done.append(name)

    def roll_back(self) -> None:
        self.done.append("roll back")

    def end_prepared(self, statement: object) -> FailedStatement | None:
        self.done.append(statement)
        return self.refused


def prepared(refused: FailedStatement | None) -> tuple[Stream, Ending]:
    """Return a stream that has prepared its part of a batch, and what it sends with."""
    sender, connection = Ending(refused), SimpleNamespace(info=SimpleNamespace(backend_pid=1))
    subscription = SimpleNamespace(subscriber="field", guid="guid")
    stream = Stream(cast(Any, connection), cast(Any, sender), cast(Any, subscription))
    stream.has_begun = True
    stream.prepare((), NAME, Position(1))
    assert (sender.done, stream.has_begun) == (["finish", NAME], False)
    sender.done.clear()
    return stream, sender


ENDS: dict[str, tuple[Callable[[Stream], None], object]] = {
    "decide": (Stream.decide, NAME.commits),
    "commit": (Stream.commit, NAME.commits),
    "roll back": (Stream.roll_back, NAME.rolls_back),
}


@pytest.mark.parametrize("end", ENDS)
def test_what_is_prepared_is_ended_once(end: str) -> None:
    ends, statement = ENDS[end]
    stream, sender = prepared(None)
    ends(stream)
    assert sender.done == [statement]
    stream.roll_back()
    assert sender.done == [statement]


def test_a_decision_that_another_agent_has_undone_is_told() -> None:
    with pytest.raises(AgentReplaced, match="field.*no such"):
        prepared(GONE)[0].decide()


@pytest.mark.parametrize("end", ["commit", "roll back"])
def test_what_a_recovery_has_ended_is_as_wanted(end: str) -> None:
    stream, sender = prepared(GONE)
    ENDS[end][0](stream)
    assert len(sender.done) == 1


@pytest.mark.parametrize("end", ENDS)
def test_another_refusal_is_an_error_or_an_outage(end: str) -> None:
    with pytest.raises(BatchRefused, match="25001.*not now"):
        ENDS[end][0](prepared(FailedStatement(0, OTHER, "not now"))[0])
    with pytest.raises(RowtideError, match="disk full") as raised:
        ENDS[end][0](prepared(FULL)[0])
    assert not isinstance(raised.value, BatchRefused)
