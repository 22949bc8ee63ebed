"""What is known of messages before they are decoded: whether a command waits for them."""

from __future__ import annotations

import pytest

from builders.log import pgoutput_messages as wire
from rowtide.log.postgres.stream.xlog_data import ends_with_mark

CONTROL, OTHER = 16_384, 16_385
BEGIN, COMMIT = wire.begin(100), wire.commit(100)
MARK = wire.insert(CONTROL, "7", "mark", "", "700", "2026-01-01 00:00:00+00")
HEARTBEAT = wire.insert(CONTROL, "7", "heartbeat", "", "700", "2026-01-01 00:00:00+00")
DELETED = wire.delete(CONTROL, key=["6", None, None, None, None])
DESCRIBED = wire.relation(CONTROL, ["id", "kind", "content", "xid", "written_at"], schema="rowtide", name="control")


@pytest.mark.parametrize(
    "messages",
    [
        [BEGIN, MARK, COMMIT],
        [BEGIN, DESCRIBED, MARK, COMMIT],
        [BEGIN, MARK, DELETED, DELETED, COMMIT],
        [BEGIN, wire.insert(OTHER, "1"), COMMIT, BEGIN, DELETED, MARK, COMMIT],
    ],
)
def test_a_transaction_with_a_mark_is_waited_for(messages: list[bytes]) -> None:
    assert ends_with_mark(messages, CONTROL)


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [COMMIT],
        [BEGIN, HEARTBEAT, COMMIT],
        [BEGIN, MARK],
        [BEGIN, MARK, COMMIT, BEGIN, wire.insert(OTHER, "1"), COMMIT],
        [BEGIN, wire.insert(OTHER, "7", "mark", ""), COMMIT],
        [BEGIN, wire.delete(CONTROL, old=["7", "mark", "", "700", "now"]), COMMIT],
        [BEGIN, MARK, *[wire.insert(OTHER, "1")] * 10_000, COMMIT],
    ],
    ids=["nothing", "commit", "heartbeat", "open", "followed", "others", "deleted", "long"],
)
def test_nobody_waits_for_anything_else(messages: list[bytes]) -> None:
    assert not ends_with_mark(messages, CONTROL)
