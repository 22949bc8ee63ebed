"""Polls of servers that are standbys, full, without connections, promoted, or of another time."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy.engine import make_url

from builders.capture.captured_databases import LoggedDatabase, wait_until
from builders.monitor.scrapes import MERGED, monitoring, scrape, scrape_until
from builders.replication.replicated_databases import PUBLICATION, ReplicatedDatabase
from builders.servers.standbys import standby_of
from fixtures.servers import SETTINGS, fresh_database
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.diagnosis import State
from rowtide.handle import connect
from rowtide.monitor.counters import Series
from rowtide.monitor.databases import NamedUrl
from rowtide.monitor.exposition import Polled
from rowtide.monitor.polling import DatabasePoller
from rowtide.monitor.postgres import reading
from rowtide.monitor.ring import Ring
from rowtide.replication.subscription_settings import SyncType

OF_THE_TEST = 2
"""The sessions that stay open: the test's, and the one in which databases are made."""
CONNECTIONS, RESERVED, RESERVED_FOR_SUPERUSERS = 12, 1, 3
SYNCS = ("rowtide_merge_sync_duration_seconds", (("publication", MERGED),))


@pytest.fixture(scope="module")
def tight_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    """A server with few connections, one of them reserved for pg_use_reserved_connections, and without room.

    No file can grow beyond 16 MB, the size of a WAL segment: for a table that is larger the disk is full.
    """
    settings = {
        **SETTINGS,
        "max_connections": str(CONNECTIONS),
        "reserved_connections": str(RESERVED),
        "superuser_reserved_connections": str(RESERVED_FOR_SUPERUSERS),
        "max_wal_senders": "2",
    }
    limit, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16 << 20, most))
    try:
        started = EmbeddedServer.start(tmp_path_factory.mktemp("tight"), settings=settings)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, most))
    with started:
        yield started


@pytest.fixture
def tight(tight_server: EmbeddedServer, tmp_path: Path) -> Iterator[LoggedDatabase]:
    with (
        fresh_database(tight_server) as url,
        psycopg.connect(url, autocommit=True) as session,
    ):
        logged = LoggedDatabase(url, tmp_path / "lake", session)
        logged.execute("create table item (id int primary key, name text)")
        logged.enable("item")
        yield logged


@pytest.fixture
def ring(tmp_path: Path) -> Iterator[Ring]:
    with Ring.open(tmp_path / "state") as opened:
        yield opened


@contextmanager
def polling(url: str, ring: Ring) -> Iterator[Callable[[], Polled]]:
    """Yield what polls a database once, over one session as long as it stays."""
    poller = DatabasePoller(NamedUrl("shop", url), ring)

    def poll() -> Polled:
        poller.poll()
        assert poller.last is not None
        return poller.last

    with poller._reader:
        yield poll


def as_role(url: str, role: str) -> str:
    return make_url(url).set(username=role).render_as_string(hide_password=False)


class Crowd:
    """Sessions that use all connections that a role without rights may have, beside others that stay open."""

    def __init__(self, url: str, watching: LoggedDatabase) -> None:
        self._url = url
        self._watching = watching
        self._held: list[psycopg.Connection[Any]] = []

    def close(self) -> None:
        for session in self._held:
            session.close()

    def fill(self, others: int) -> None:
        """Connect until the crowd and so many other sessions have all connections.

        A session that was closed, or refused, has its connection until its process has ended.
        """
        wait_until(lambda: self._connect(others), what="no connection is left")

    def _connect(self, others: int) -> bool:
        most = CONNECTIONS - RESERVED - RESERVED_FOR_SUPERUSERS
        if len(self._held) + others < most:
            with suppress(psycopg.OperationalError):
                self._held.append(psycopg.connect(self._url))
        ((taken,),) = self._watching.execute(
            "select count(*) from pg_stat_activity where backend_type = 'client backend'"
        )
        return len(self._held) + others == most and taken == most


def count_all(polled: Polled) -> dict[Series, float]:
    """Return the counters, and of histograms how much they have counted."""
    return {**polled.counted.counters, **{key: sum(one.counts) for key, one in polled.counted.histograms.items()}}


def test_counters_stay_over_a_failover_that_loses_rows(
    tmp_path: Path, ring: Ring, caplog: pytest.LogCaptureFixture
) -> None:
    device, other = (f"sqlite:///{tmp_path / name}.db" for name in ("device", "other"))
    with (
        EmbeddedServer.start(tmp_path / "primary", settings=SETTINGS) as primary,
        psycopg.connect(primary.url(), autocommit=True) as session,
    ):
        logged = LoggedDatabase(primary.url(), tmp_path / "lake", session)
        logged.execute("create table item (id int primary key)", "create table note (id int primary key, body text)")
        logged.enable("item")
        logged.read_log()
        merge = connect(primary.url()).merge
        merge.add_publication(MERGED)
        merge.add_article(MERGED, "note")
        for subscriber in (device, other):
            merge.add_subscription(MERGED, subscriber=subscriber)
        with standby_of(primary, tmp_path / "standby", {}) as standby:
            standby.wait_for(primary)
            hosts = f"{primary.socket_directory},{standby.server.socket_directory}"
            either = make_url(primary.url()).update_query_dict({"host": hosts, "port": "5432,5432"})
            with polling(either.render_as_string(hide_password=False), ring) as poll:
                poll()
                standby.disconnect()
                merge.sync(MERGED, subscriber=device)
                before = count_all(poll())
                assert before[SYNCS] == 1
                primary.stop()
                assert not poll().view.is_up
                in_recovery = poll()
                assert in_recovery.view.is_up
                assert count_all(in_recovery) == before
                standby.promote()
                assert count_all(poll()) == before
                connect(standby.server.url()).merge.sync(MERGED, subscriber=other)
                after = poll()
                assert count_all(after)[SYNCS] == 2
    assert "Traceback" not in caplog.text

    # Leases, slots and unlogged tables are the primary's: of what is read through the log nothing is known.
    view = in_recovery.view
    assert ("log_unknown", State.UNKNOWN) in {(one.code, one.state) for one in view.judgements}
    assert (view.agents, view.log, view.capture) == ({}, None, None)
    assert [one.publication for one in view.merges] == [MERGED]
    assert after.view.agents
    assert after.view.capture is not None


def test_a_poll_of_a_server_whose_disk_is_full_goes_on(tight: LoggedDatabase, ring: Ring) -> None:
    tight.execute("create table filling (filler text)", "alter table filling alter filler set storage plain")
    with polling(tight.url, ring) as poll:
        before = poll().view
        with pytest.raises(psycopg.Error, match="could not extend"):
            tight.execute("insert into filling select repeat('x', 8000) from generate_series(1, 3000)")
        during = poll().view
    assert during.is_up
    assert [one.code for one in during.judgements] == [one.code for one in before.judgements]


def test_a_reserved_connection_keeps_a_database_known(tight: LoggedDatabase, ring: Ring, tmp_path: Path) -> None:
    tight.execute(
        "create role watcher login in role pg_monitor",
        "create role kept_in login in role pg_monitor, pg_use_reserved_connections",
        "create role crowd login",
    )
    try:
        with Ring.open(tmp_path / "other") as other, closing(Crowd(as_role(tight.url, "crowd"), tight)) as crowd:
            with polling(as_role(tight.url, "watcher"), ring) as poll:
                known = poll().view
                with polling(as_role(tight.url, "kept_in"), other) as poll_reserved:
                    crowd.fill(OF_THE_TEST + 1)
                    # Its session stays: that all are used is no failure.
                    assert poll().view.is_up
                    assert poll_reserved().view.is_up
            crowd.fill(OF_THE_TEST)
            with polling(as_role(tight.url, "watcher"), ring) as poll:
                lost = poll().view
                assert (lost.is_up, lost.reason is not None and lost.reason[:7]) == (False, "RT-1101")
                assert lost.unknown_since is not None
                assert lost.unknown_since >= known.polled_at
                since, again = lost.unknown_since, poll().view.unknown_since
                assert since == again
                crowd.close()
                wait_until(lambda: poll().view.is_up, what="it can be read again")
    finally:
        tight.execute("drop role watcher", "drop role kept_in", "drop role crowd")


def test_rights_that_are_revoked_are_missed_and_come_back(tight: LoggedDatabase, ring: Ring) -> None:
    tight.cdc.run(once=True)
    tight.execute("create role watcher login")
    connect(tight.url).grant("watcher", "monitor")
    granted = tight.execute(
        "select format('%I.%I', n.nspname, c.relname) from pg_class c join pg_namespace n on n.oid = relnamespace "
        "where has_table_privilege('watcher', c.oid, 'select') and relkind = 'v' "
        "and nspname not in ('pg_catalog', 'information_schema')"
    )
    views = ", ".join(name for (name,) in granted)
    try:
        with polling(as_role(tight.url, "watcher"), ring) as poll:
            before = poll()
            assert State.UNKNOWN not in {one.state for one in before.view.judgements}
            tight.execute(f"revoke select on {views} from watcher")
            during = poll()
            assert during.view.is_up
            unknown = [one.message for one in during.view.judgements if one.state is State.UNKNOWN]
            assert unknown
            assert all("permission denied" in message for message in unknown)
            assert count_all(during) == count_all(before)
            tight.execute(f"grant select on {views} to watcher")
            after = poll()
            assert [one.code for one in after.view.judgements] == [one.code for one in before.view.judgements]
            assert count_all(after) == count_all(before)
    finally:
        tight.execute("drop owned by watcher", "drop role watcher")


@pytest.mark.parametrize("ahead_s", [3600.0, -3600.0])
def test_clocks_that_differ_are_reported(
    tight: LoggedDatabase, ring: Ring, monkeypatch: pytest.MonkeyPatch, ahead_s: float
) -> None:
    """The monitor's clock is moved: a server's cannot be."""
    tight.read_log()

    class MovedClock(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return datetime.now(tz) - timedelta(seconds=ahead_s)

    monkeypatch.setattr(reading, "datetime", MovedClock)
    with polling(tight.url, ring) as poll:
        view = poll().view
    assert view.clock_skew_s == pytest.approx(ahead_s, abs=10)
    assert view.log is not None
    assert view.log.lag_s is not None
    assert 0 <= view.log.lag_s < 60


def test_two_monitors_count_the_same(tight: LoggedDatabase, tmp_path: Path) -> None:
    with (
        monitoring(tmp_path / "one", tight.url) as one,
        monitoring(tmp_path / "two", tight.url) as two,
    ):
        tight.execute("insert into item values (1, 'a')")
        tight.cdc.run(once=True)
        for address in (one, two):
            found = scrape_until(address, lambda found: found.values("rowtide_capture_rows_total") == [1])
            assert found.value("rowtide_up") == 1
        assert scrape(one).values("rowtide_capture_rows_total") == [1]


def test_a_subscriber_of_another_name_has_new_series(replicated: ReplicatedDatabase, ring: Ring) -> None:
    replicated.begin("create table item (id int primary key)", item={})
    replicated.publisher.execute("insert into item values (1), (2)")
    replicated.replication.run(once=True)

    def series(polled: Polled) -> dict[str, float]:
        return {
            dict(labels)["subscriber"]: value
            for (name, labels), value in polled.counted.counters.items()
            if name == "rowtide_subscription_commands_total"
        }

    with polling(replicated.publisher.url, ring) as poll:
        ((old, delivered),) = series(poll()).items()
        assert delivered == 2
        renamed = make_url(replicated.subscriber.url).update_query_dict({"application_name": "reports"})
        replicated.replication.drop_subscription(PUBLICATION, replicated.subscriber.url)
        replicated.replication.add_subscription(
            PUBLICATION,
            renamed.render_as_string(hide_password=False),
            sync_type=SyncType.REPLICATION_SUPPORT_ONLY,
        )
        assert series(poll()) == {}
        replicated.publisher.execute("insert into item values (3)")
        replicated.replication.run(once=True)
        ((new, delivered),) = series(poll()).items()
    assert new != old
    assert "reports" in new
    assert delivered == 1
