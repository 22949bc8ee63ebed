"""A PostgreSQL server of its own: what its settings, a crash and a restore of its files are to change tracking."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from builders.tracking.tracked_databases import TABLE, TrackedPostgres
from rowtide.core.anchors import UnknownAnchor
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.tracking import ChangeTracking

pytestmark = pytest.mark.live
SETTINGS = {"track_commit_timestamp": "on", "max_prepared_transactions": "2"}


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[EmbeddedServer]:
    """A server that keeps the times of commits."""
    with EmbeddedServer.start(tmp_path / "server", settings=SETTINGS) as server:
        yield server


def connect(server: EmbeddedServer) -> TrackedPostgres:
    program = psycopg.connect(server.url(), autocommit=True)
    return TrackedPostgres(url=server.url(), program=program, tracking=ChangeTracking(program))


def test_transactions_are_numbered_in_the_order_of_their_commits(own_server: EmbeddedServer) -> None:
    """The later committed number is not the higher one, and both are new to the anchor."""
    tracked = connect(own_server)
    tracked.run(TABLE)
    tracked.enable()
    tracked.changes()
    assert tracked.seen is not None
    start = tracked.seen.csn
    sessions = [psycopg.connect(tracked.url) for _ in range(3)]
    numbers = []
    for key, session in enumerate(sessions):
        session.execute("insert into t (id) values (%s)", [key])
        (number,) = session.execute("select pg_current_xact_id()::text::bigint").fetchone() or (0,)
        numbers.append(number)
    for place in (1, 2, 0):
        sessions[place].commit()
        sessions[place].close()
    tracked.changes()

    rows = tracked.ask('select "__sysTxBsn", "__sysTxCsn" from rowtide_tracking."__sysTxCommitSequence"')
    recorded = {row[0]: row[1] for row in rows}
    csns = [recorded.get(number, number) for number in numbers]
    assert csns == [start + 3, start + 1, start + 2]
    tracked.program.close()


def test_restored_server_refuses_anchors_it_did_not_give(own_server: EmbeddedServer) -> None:
    """It continues with the numbers that it had; those that were lost are given to other transactions."""
    tracked = connect(own_server)
    tracked.run(TABLE, "insert into t (id) values (1), (2)")
    tracked.enable()
    tracked.changes()
    before = tracked.seen
    tracked.run("delete from t where id = 2")
    tracked.program.close()
    own_server.stop()
    data, backup = own_server.directory / "data", own_server.directory / "backup"
    subprocess.run(["cp", "--archive", data, backup], check=True)
    with EmbeddedServer.start(own_server.directory, settings=SETTINGS) as lost:
        tracked = connect(lost)
        tracked.seen = before
        tracked.run("insert into t (id) values (3)")
        assert tracked.changes() == [("delete", 2), ("insert", 3, None, None)]
        after = tracked.seen
        with tracked.tracking.transaction(seen=after) as transaction:
            tracked.run("insert into t (id) values (4)")
        tracked.program.close()
    shutil.rmtree(data)
    backup.rename(data)

    with EmbeddedServer.start(own_server.directory, settings=SETTINGS) as restored:
        tracked = connect(restored)
        tracked.run("insert into t (id) values (5)", "update t set qty = 1 where id = 1")
        for anchor in (after, transaction.anchor):
            tracked.seen = anchor
            with pytest.raises(UnknownAnchor, match="restored"):
                tracked.changes()
        tracked.seen = before
        assert sorted(tracked.changes()) == [("delete", 2), ("insert", 5, None, None), ("update", 1, None, 1)]
        tracked.program.close()


def test_prepared_transactions_and_anchors_outlive_a_crash(own_server: EmbeddedServer) -> None:
    tracked = connect(own_server)
    tracked.run(TABLE)
    tracked.enable()
    tracked.changes()
    seen = tracked.seen
    with tracked.session() as session:
        session.execute("insert into t (id) values (1)")
        session.execute("prepare transaction 'p'")
    tracked.run("insert into t (id) values (2)")
    tracked.program.close()
    own_server.restart("immediate")
    tracked = connect(own_server)
    tracked.seen = seen
    assert tracked.changes() == [("insert", 2, None, None)]
    tracked.run("commit prepared 'p'")

    assert tracked.changes() == [("insert", 1, None, None)]
    tracked.program.close()
