"""A poller of SQLite files: what it reports, what it publishes while a file cannot be read, and names."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from builders.monitor.scrapes import ANY_PORT, scrape, scrape_until
from rowtide.diagnosis import State
from rowtide.events.event import Emitted, listening
from rowtide.handle import connect
from rowtide.monitor.databases import NamedUrl, name_databases
from rowtide.monitor.exposition import render
from rowtide.monitor.polling import DatabasePoller
from rowtide.monitor.ring import Ring
from rowtide.monitor.serving import serving


@contextmanager
def noted() -> Iterator[list[Emitted]]:
    found: list[Emitted] = []
    with listening(found.append):
        yield found


@pytest.fixture
def ring(tmp_path: Path) -> Iterator[Ring]:
    with Ring.open(tmp_path / "state") as opened:
        yield opened


def make_file(path: Path) -> str:
    with closing(sqlite3.connect(path)) as made:
        made.execute("create table item (id integer primary key, name text)")
    return f"sqlite:///{path}"


def test_an_error_is_reported_once_until_it_is_another(tmp_path: Path, ring: Ring) -> None:
    path = tmp_path / "field.db"
    poller = DatabasePoller(NamedUrl("field", make_file(path)), ring)
    with noted() as events:
        assert poller.poll()
        aside = path.rename(tmp_path / "aside.db")
        assert [poller.poll() for _ in range(3)] == [False] * 3
        aside.rename(path)
        assert poller.poll()
    assert [one.event.name for one in events] == ["database_not_polled", "database_polled_again"]


def test_the_last_view_that_was_read_stays_beside_the_failure(tmp_path: Path, ring: Ring) -> None:
    path = tmp_path / "field.db"
    poller = DatabasePoller(NamedUrl("field", make_file(path)), ring)
    poller.poll()
    read = poller.last
    path.unlink()
    poller.poll()
    last = poller.last
    assert read is not None
    assert last is not None
    assert (last.view.is_up, last.last_read) == (False, read.view)
    assert last.view.unknown_since == read.view.polled_at
    assert [(one.subject, one.before, one.after) for one in last.changes] == [
        ("database", State.HEALTHY, State.FAILING),
    ]
    make_file(path)
    again = DatabasePoller(NamedUrl("field", f"sqlite:///{path}"), ring)
    assert again.poll()
    assert again.last is not None
    assert again.last.changes == last.changes


def test_scrapers_share_a_poll_however_often_they_ask(tmp_path: Path, ring: Ring) -> None:
    databases = name_databases([make_file(tmp_path / "field.db")])
    with serving(databases, ring, ANY_PORT, every_s=3600.0) as served, ThreadPoolExecutor(2) as scrapers:
        first = scrape_until(served.address, lambda found: found.values("rowtide_up") == [1])
        scraped = [*scrapers.map(scrape, [served.address] * 40)]
    # A poll more would have taken another time.
    taken = "rowtide_scrape_duration_seconds"
    assert {one.value(taken) for one in scraped} == {first.value(taken)}


@pytest.mark.parametrize("name", ['a"b.db', "a\\b.db", "<script>.db", 'x"} 1.db', "\u202egnp.db"])
def test_a_file_of_any_name_is_tracked_and_scraped(tmp_path: Path, ring: Ring, name: str) -> None:
    path = tmp_path / name
    make_file(path)
    url = f"sqlite:///{path}"
    with connect(url) as database:
        database.tracking.enable_tracking("item")
    (named,) = name_databases([url])
    poller = DatabasePoller(named, ring)
    assert poller.poll()
    assert poller.last is not None
    assert [one.table for one in poller.last.view.tracked] == ["item"]
    text = render([poller.last], device_series=False)[0].decode()
    assert text.count("rowtide_tracking_tombstones{") == 1
    assert text.count("\nrowtide_up{") == 1
