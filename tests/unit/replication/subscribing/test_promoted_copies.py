"""Where a copy of a server left its history."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rowtide.databases.postgres.catalogue import ServerIdentity
from rowtide.log.postgres.stream.stream import StreamIdentity, TimelineFork
from rowtide.replication.subscribing.promoted_copies import find_fork

PUBLISHER = ServerIdentity("71", 2, 16384, "shop", in_recovery=False, wal_level="logical", version=180000)
COPY = replace(PUBLISHER, timeline=3)
STREAM = StreamIdentity("71", 3, 900)
FORKS = (TimelineFork(1, 100), TimelineFork(2, 700))


def test_a_copy_left_where_the_publishers_timeline_ended() -> None:
    assert find_fork(PUBLISHER, COPY, STREAM, FORKS) == 700


@pytest.mark.parametrize(
    ("copy", "stream", "forks", "reason"),
    [
        (COPY, replace(STREAM, system_identifier="72"), FORKS, "its server is another"),
        (replace(COPY, database_id=5), STREAM, FORKS, "another database of that server"),
        (replace(COPY, in_recovery=True), STREAM, FORKS, "still a standby"),
        (PUBLISHER, replace(STREAM, timeline=2), FORKS[:1], "its timeline 2 did not leave the publisher's, 2"),
    ],
)
def test_other_histories_give_no_start(
    copy: ServerIdentity, stream: StreamIdentity, forks: tuple[TimelineFork, ...], reason: str
) -> None:
    found = find_fork(PUBLISHER, copy, stream, forks)
    assert isinstance(found, str)
    assert reason in found
