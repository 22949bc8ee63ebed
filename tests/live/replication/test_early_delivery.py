"""A large transaction, delivered in parts while the log reader still reads it: whole at the subscriber, once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from builders.captured_databases import LoggedDatabase, wait_until
from builders.replicated_databases import ReplicatedDatabase, Subscriber, is_open, open_only_agent
from builders.replicated_files import ReplicatedFile
from rowtide.log import reader
from rowtide.log.opening import open_log_reader
from rowtide.log.reader import LogReader
from rowtide.replication.conflicts import Resolver
from rowtide.replication.distribution import early_delivery
from rowtide.replication.distribution.watchers import DeliveryReport, Watchers
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


def count(subscriber: Subscriber) -> int:
    [(rows,)] = subscriber.execute("select count(*)::int from item")
    return int(rows)


@pytest.mark.parametrize("streams", [1, 4])
def test_parts_are_delivered_before_the_commit_is_read(replicated: ReplicatedDatabase, streams: int) -> None:
    replicated.subscriber.execute(ITEM)
    replicated.publish(ITEM, item={})
    replicated.subscribe(settings=SubscriptionSettings(streams=streams))
    replicated.deliver()
    replicated.publisher.execute(INSERT, "update item set name = 'other' where id <= 1000")
    reports: list[DeliveryReport] = []
    with replicated.open_agent(Watchers(on_batch=reports.append)) as agent:
        deliver(agent)
        with reading_parts(replicated.publisher) as reading:
            deliver(agent)
            assert (is_open(replicated.subscriber), count(replicated.subscriber), reports) == (True, 0, [])
            read_rest(replicated.publisher, reading)
        deliver(agent)
    replicated.require_equal("item")
    assert [(one.transactions, one.commands) for one in reports[:1]] == [(1, ROWS)]
    assert sum(one.commands for one in reports) == ROWS + 1000
    # Each row was sent once: nothing was rolled back.
    written = "select n_tup_ins from pg_stat_user_tables where relname = 'item'"
    wait_until(lambda: replicated.subscriber.execute(written)[0][0] >= ROWS, what="what the agent wrote is counted")
    assert replicated.subscriber.execute(written) == [(ROWS,)]


def test_what_another_reader_reads_again_is_begun_again(replicated: ReplicatedDatabase) -> None:
    replicated.begin(ITEM, item={})
    replicated.deliver()
    replicated.publisher.execute(INSERT)
    reports: list[DeliveryReport] = []
    with replicated.open_agent(Watchers(on_batch=reports.append)) as agent:
        deliver(agent)
        with reading_parts(replicated.publisher):
            deliver(agent)
        with reading_parts(replicated.publisher) as reading:
            deliver(agent)
            assert (is_open(replicated.subscriber), count(replicated.subscriber), reports) == (True, 0, [])
            read_rest(replicated.publisher, reading)
        deliver(agent)
    replicated.require_equal("item")
    assert [(one.transactions, one.commands) for one in reports] == [(1, ROWS)]


def test_what_was_read_again_as_a_whole_is_delivered_once(replicated: ReplicatedDatabase) -> None:
    replicated.begin(ITEM, item={})
    replicated.deliver()
    replicated.publisher.execute(INSERT, "delete from item where id <= 10")
    with replicated.open_agent() as agent:
        deliver(agent)
        with reading_parts(replicated.publisher):
            deliver(agent)
        replicated.publisher.read_log()
        deliver(agent)
        assert not is_open(replicated.subscriber)
    replicated.require_equal("item")


def test_no_transaction_stays_open_for_parts_that_do_not_come(
    replicated: ReplicatedDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    replicated.begin(ITEM, item={})
    replicated.deliver()
    replicated.publisher.execute(INSERT)
    with replicated.open_agent() as agent:
        deliver(agent)
        with reading_parts(replicated.publisher) as reading:
            deliver(agent)
            assert is_open(replicated.subscriber)
            monkeypatch.setattr(early_delivery, "PATIENCE_S", 0)
            deliver(agent)
            assert not is_open(replicated.subscriber)
            deliver(agent)
            assert not is_open(replicated.subscriber)
            read_rest(replicated.publisher, reading)
        deliver(agent)
    replicated.require_equal("item")


def test_a_table_altered_within_the_transaction_is_followed(replicated: ReplicatedDatabase) -> None:
    replicated.begin(ITEM, item={})
    replicated.deliver()
    with replicated.writer() as writer:
        writer.execute(INSERT.encode())
        writer.execute("alter table item add column note text default 'none', drop column name")
        writer.execute("insert into item select i, 'note ' || i from generate_series(10001, 12000) i")
    with replicated.open_agent() as agent:
        deliver(agent)
        with reading_parts(replicated.publisher) as reading:
            deliver(agent)
            assert is_open(replicated.subscriber)
            read_rest(replicated.publisher, reading)
        deliver(agent)
        deliver(agent)
    replicated.require_equal("item")


def test_a_refused_row_is_named_once_the_transaction_is_read(replicated: ReplicatedDatabase) -> None:
    replicated.begin(ITEM, item={})
    replicated.deliver()
    replicated.subscriber.execute("insert into item values (10, 'in the way')")
    replicated.publisher.execute(INSERT)
    with replicated.open_agent() as agent:
        deliver(agent)
        with reading_parts(replicated.publisher) as reading:
            deliver(agent)
            assert not is_open(replicated.subscriber)
            read_rest(replicated.publisher, reading)
        with pytest.raises(CommandRefused, match="with key id = 10"):
            deliver(agent)
    assert count(replicated.subscriber) == 1
    replicated.subscriber.execute("delete from item")
    replicated.deliver()
    replicated.require_equal("item")


def test_an_article_that_is_changed_meanwhile_is_delivered(replicated: ReplicatedDatabase) -> None:
    replicated.begin(ITEM, item={})
    replicated.deliver()
    replicated.publisher.execute(INSERT)
    with replicated.open_agent() as agent:
        deliver(agent)
        with reading_parts(replicated.publisher) as reading:
            deliver(agent)
            replicated.replication.change_article("shop", "item", drop_columns=("name",))
            deliver(agent)
            read_rest(replicated.publisher, reading)
        deliver(agent)
        replicated.publisher.execute("insert into item values (7000, 'new')")
    replicated.deliver()
    assert count(replicated.subscriber) == ROWS + 1


def test_where_conflicts_are_looked_for_the_commit_is_awaited(replicated: ReplicatedDatabase) -> None:
    replicated.subscriber.execute(ITEM)
    replicated.publish(ITEM, item={})
    replicated.subscribe(settings=SubscriptionSettings(conflicts=Resolver.SKIP))
    replicated.deliver()
    replicated.publisher.execute(INSERT)
    with replicated.open_agent() as agent:
        deliver(agent)
        with reading_parts(replicated.publisher) as reading:
            deliver(agent)
            assert not is_open(replicated.subscriber)
            read_rest(replicated.publisher, reading)
        deliver(agent)
    replicated.require_equal("item")


def test_a_file_is_not_locked_for_parts(replicated_file: ReplicatedFile) -> None:
    replicated_file.begin(ITEM, item={})
    replicated_file.deliver()
    replicated_file.publisher.execute(INSERT)
    with open_only_agent(replicated_file.publisher) as agent:
        deliver(agent)
        with reading_parts(replicated_file.publisher) as reading:
            deliver(agent)
            replicated_file.subscriber.execute("create table of_its_own (id int)")
            read_rest(replicated_file.publisher, reading)
        deliver(agent)
    replicated_file.require_equal("item")
