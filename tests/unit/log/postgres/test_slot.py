from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from builders.log.log_stores import NOW
from rowtide.log.postgres.backlog import MISSING, Backlog, OldTransaction

OLD = OldTransaction("prepared transaction 'x'", NOW - timedelta(hours=2))
YOUNG = OldTransaction("transaction of pid 7", NOW - timedelta(hours=1))
HELD = Backlog(NOW, 1000, 990, 100, "reserved", None, None, None)
UNREAD = replace(HELD, confirmed=110)
LOST = replace(HELD, confirmed=None, restart=None, wal_status=MISSING)


@pytest.mark.parametrize(
    ("backlog", "log_reader", "cause"),
    [
        (UNREAD, "host pid 1", "the log reader, 890 bytes behind"),
        (replace(UNREAD, oldest_prepared=OLD), None, "the log reader, which is not running"),
        (replace(HELD, oldest_prepared=OLD, oldest_open=YOUNG), "host pid 1", str(OLD)),
        (replace(HELD, oldest_prepared=YOUNG, oldest_open=OLD), "host pid 1", str(OLD)),
        (replace(HELD, oldest_prepared=YOUNG, oldest_open=replace(OLD, since=None)), "host pid 1", str(YOUNG)),
        (HELD, "host pid 1", None),
        (LOST, None, None),
    ],
)
def test_the_cause_is_who_keeps_more_of_the_log(backlog: Backlog, log_reader: str | None, cause: str | None) -> None:
    assert backlog.find_cause(log_reader) == cause


def test_without_a_slot_nothing_is_kept() -> None:
    assert (HELD.kept_bytes, LOST.kept_bytes) == (900, None)
