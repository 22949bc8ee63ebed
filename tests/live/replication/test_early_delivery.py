"""A large transaction, delivered in parts while the log reader still reads it: whole at the subscriber, once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from builders.capture.captured_databases import LoggedDatabase, wait_until
from builders.replication.replicated_databases import ReplicatedDatabase, Subscriber, is_open, open_only_agent
from builders.replication.replicated_files import ReplicatedFile
from rowtide.log import reader
from rowtide.log.opening import open_log_reader
from rowtide.log.reader import LogReader
from rowtide.replication.conflicts import Resolver
from rowtide.replication.distribution import early_delivery
from rowtide.replication.distribution.run_context import DeliveryReport, Watchers
from rowtide.replication.errors.delivery import CommandRefused
from rowtide.replication.running.subscription_agent import SubscriptionAgent
from rowtide.replication.subscription_settings import SubscriptionSettings

ITEM = "create table item (id int primary key, name text)"
ROWS = 4000
INSERT = f"insert into item select i, 'name ' || i from generate_series(1, {ROWS}) i"


@pytest.fixture(autouse=True)
def _has_small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "MAX_BATCH_MESSAGES", 300)


@contextmanager
def reading_parts(publisher: LoggedDatabase, least: int = 3) -> Iterator[LogReader]:
    """Read the log up to some parts of a transaction."""
    manifest = publisher.manifest()
    with open_log_reader(publisher.url) as reading:
        wait_until(lambda: reading.step() and len(manifest.refresh().parts) >= least, what="parts are stored")
        yield reading


def read_rest(publisher: LoggedDatabase, reading: LogReader) -> None:
    target = publisher.mark()
    wait_until(lambda: reading.position.log > target or reading.step() is None, what="all is read")


def deliver(agent: SubscriptionAgent) -> None:
    """Deliver all that there is now."""
    while agent.step():
        pass


@contextmanager
def delivering_parts(
    replicated: ReplicatedDatabase | ReplicatedFile, watchers: Watchers | None = None
) -> Iterator[SubscriptionAgent]:
    """Deliver the parts of a transaction that is not read to its end; then, after the block, all of it."""
    with open_only_agent(replicated.publisher, watchers=watchers) as agent:
        deliver(agent)
        with reading_parts(replicated.publisher) as reading:
            deliver(agent)
            yield agent
            read_rest(replicated.publisher, reading)
        deliver(agent)


def count(subscriber: Subscriber) -> int:
    [(rows,)] = subscriber.execute("select count(*)::int from item")
    return int(rows)


@pytest.fixture
def of_items(replicated: ReplicatedDatabase) -> ReplicatedDatabase:
    """A subscription to a table that has no rows yet."""
    replicated.begin(ITEM, item={})
    replicated.deliver()
    return replicated


@pytest.mark.parametrize("streams", [1, 4])
def test_parts_are_delivered_before_the_commit_is_read(replicated: ReplicatedDatabase, streams: int) -> None:
    replicated.subscriber.execute(ITEM)
    replicated.publish(ITEM, item={})
    replicated.subscribe(settings=SubscriptionSettings(streams=streams))
    replicated.deliver()
    replicated.publisher.execute(INSERT, "update item set name = 'other' where id <= 1000")
    reports: list[DeliveryReport] = []
    with delivering_parts(replicated, Watchers(on_batch=reports.append)):
        assert (is_open(replicated.subscriber), count(replicated.subscriber), reports) == (True, 0, [])
    replicated.require_equal("item")
    assert [(one.transactions, one.commands) for one in reports[:1]] == [(1, ROWS)]
    assert sum(one.commands for one in reports) == ROWS + 1000
    # Each row was sent once: nothing was rolled back.
    written = "select n_tup_ins from pg_stat_user_tables where relname = 'item'"
    wait_until(lambda: replicated.subscriber.execute(written)[0][0] >= ROWS, what="what the agent wrote is counted")
    assert replicated.subscriber.execute(written) == [(ROWS,)]


@pytest.mark.exhaustive
def test_what_another_reader_reads_again_is_begun_again(of_items: ReplicatedDatabase) -> None:
    of_items.publisher.execute(INSERT)
    reports: list[DeliveryReport] = []
    with of_items.open_agent(Watchers(on_batch=reports.append)) as agent:
        deliver(agent)
        with reading_parts(of_items.publisher):
            deliver(agent)
        with reading_parts(of_items.publisher) as reading:
            deliver(agent)
            assert (is_open(of_items.subscriber), count(of_items.subscriber), reports) == (True, 0, [])
            read_rest(of_items.publisher, reading)
        deliver(agent)
    of_items.require_equal("item")
    assert [(one.transactions, one.commands) for one in reports] == [(1, ROWS)]


def test_what_was_read_again_as_a_whole_is_delivered_once(of_items: ReplicatedDatabase) -> None:
    of_items.publisher.execute(INSERT, "delete from item where id <= 10")
    with of_items.open_agent() as agent:
        deliver(agent)
        with reading_parts(of_items.publisher):
            deliver(agent)
        of_items.publisher.read_log()
        deliver(agent)
        assert not is_open(of_items.subscriber)
    of_items.require_equal("item")


def test_no_transaction_stays_open_for_parts_that_do_not_come(
    of_items: ReplicatedDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_items.publisher.execute(INSERT)
    with delivering_parts(of_items) as agent:
        assert is_open(of_items.subscriber)
        monkeypatch.setattr(early_delivery, "PATIENCE_S", 0)
        deliver(agent)
        assert not is_open(of_items.subscriber)
        deliver(agent)
        assert not is_open(of_items.subscriber)
    of_items.require_equal("item")


def test_a_table_altered_within_the_transaction_is_followed(of_items: ReplicatedDatabase) -> None:
    with of_items.writer() as writer:
        writer.execute(INSERT.encode())
        writer.execute("alter table item add column note text default 'none', drop column name")
        writer.execute("insert into item select i, 'note ' || i from generate_series(10001, 12000) i")
    with delivering_parts(of_items):
        assert is_open(of_items.subscriber)
    of_items.deliver()
    of_items.require_equal("item")


def test_a_refused_row_is_named_once_the_transaction_is_read(of_items: ReplicatedDatabase) -> None:
    of_items.subscriber.execute("insert into item values (10, 'in the way')")
    of_items.publisher.execute(INSERT)
    with of_items.open_agent() as agent:
        deliver(agent)
        with reading_parts(of_items.publisher) as reading:
            deliver(agent)
            assert not is_open(of_items.subscriber)
            read_rest(of_items.publisher, reading)
        with pytest.raises(CommandRefused, match="with key id = 10"):
            deliver(agent)
    assert count(of_items.subscriber) == 1
    of_items.subscriber.execute("delete from item")
    of_items.deliver()
    of_items.require_equal("item")


def test_an_article_that_is_changed_meanwhile_is_delivered(of_items: ReplicatedDatabase) -> None:
    of_items.publisher.execute(INSERT)
    with delivering_parts(of_items) as agent:
        of_items.replication.change_article("shop", "item", drop_columns=("name",))
        deliver(agent)
    of_items.publisher.execute("insert into item values (7000, 'new')")
    of_items.deliver()
    assert count(of_items.subscriber) == ROWS + 1


def test_where_conflicts_are_looked_for_the_commit_is_awaited(replicated: ReplicatedDatabase) -> None:
    replicated.subscriber.execute(ITEM)
    replicated.publish(ITEM, item={})
    replicated.subscribe(settings=SubscriptionSettings(conflicts=Resolver.SKIP))
    replicated.deliver()
    replicated.publisher.execute(INSERT)
    with delivering_parts(replicated):
        assert not is_open(replicated.subscriber)
    replicated.require_equal("item")


def test_a_file_is_not_locked_for_parts(replicated_file: ReplicatedFile) -> None:
    replicated_file.begin(ITEM, item={})
    replicated_file.deliver()
    replicated_file.publisher.execute(INSERT)
    with delivering_parts(replicated_file):
        replicated_file.subscriber.execute("create table of_its_own (id int)")
    replicated_file.require_equal("item")
