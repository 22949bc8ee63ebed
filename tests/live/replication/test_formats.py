"""What publishers and subscribers keep has a format: newer ones are refused, what has none is only removed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from builders.formats import NEWER, NEWER_READABLE, forgetting, recording
from builders.replication.replicated_databases import PUBLICATION, ReplicatedDatabase, deliver_all
from builders.replication.replicated_files import ReplicatedFile
from rowtide.core.formats import FormatNewer, FormatUnnumbered
from rowtide.replication.subscription_settings import SyncType

ORDERS = "create table orders (id int primary key, note text)"
PUBLISHER, DISTRIBUTION = "rowtide.rowtide_format", "distribution.rowtide_format"
SUBSCRIBER, FILE = "rowtide_subscriber.rowtide_format", "MSreplication_format"
LEFT = r"""
select 'schema', nspname::text from pg_namespace where nspname ~ '^(rowtide|cdc|distribution)'
union all select 'slot', slot_name::text from pg_replication_slots where database = current_database()
union all select 'publication', pubname::text from pg_publication
union all select 'event trigger', evtname::text from pg_event_trigger
"""


@pytest.mark.parametrize("view", [PUBLISHER, DISTRIBUTION])
def test_a_newer_publisher_is_read_where_it_may_be(replicated: ReplicatedDatabase, view: str) -> None:
    replicated.begin(ORDERS, orders={})
    replicated.publisher.execute(*recording(view, NEWER_READABLE))
    writers: tuple[Callable[[], object], ...] = (
        lambda: replicated.replication.change_article(PUBLICATION, "orders", where="id > 1"),
        lambda: replicated.replication.drop_publication(PUBLICATION),
        lambda: replicated.replication.add_publication("another"),
        lambda: replicated.replication.change_subscription(PUBLICATION, replicated.subscriber.url, commit_batch_size=7),
    )
    for write in writers:
        with pytest.raises(FormatNewer, match="format 2"):
            write()
    assert [one.publication for one in replicated.replication.list_publications()] == [PUBLICATION]
    assert len(replicated.replication.status()) == 1
    replicated.publisher.execute(*recording(view, NEWER))
    with pytest.raises(FormatNewer, match="a newer version of rowtide wrote"):
        replicated.replication.list_publications()


def test_a_publisher_without_a_format_is_only_dropped(replicated: ReplicatedDatabase) -> None:
    publisher = replicated.publisher
    before = set(publisher.execute(LEFT))
    publisher.execute(ORDERS)
    replicated.replication.add_publication(PUBLICATION, lake=str(publisher.lake))
    replicated.replication.add_article(PUBLICATION, "orders")
    replicated.replication.add_subscription(PUBLICATION, replicated.subscriber.url, sync_type=SyncType.AUTOMATIC)
    publisher.execute(forgetting(PUBLISHER), forgetting(DISTRIBUTION))
    replicated.subscriber.execute(forgetting(SUBSCRIBER))
    made = set(publisher.execute(LEFT))
    for use in (
        replicated.replication.list_publications,
        replicated.replication.status,
        lambda: replicated.replication.add_publication("another", lake=str(publisher.lake)),
        lambda: replicated.replication.add_article(PUBLICATION, "orders"),
        lambda: deliver_all(publisher),
    ):
        with pytest.raises(FormatUnnumbered):
            use()
    assert set(publisher.execute(LEFT)) == made
    replicated.replication.drop_subscription(PUBLICATION, replicated.subscriber.url)
    replicated.replication.drop_publication(PUBLICATION)
    assert set(publisher.execute(LEFT)) == before
    assert replicated.subscriber.execute(LEFT) == []


def test_a_subscriber_of_another_format_gets_nothing(replicated: ReplicatedDatabase) -> None:
    replicated.begin(ORDERS, orders={})
    replicated.publisher.execute("insert into orders values (1, 'a')")
    for other, expected, problem in (
        (recording(SUBSCRIBER, NEWER_READABLE), FormatNewer, f"it has format {NEWER_READABLE[0]}"),
        ((forgetting(SUBSCRIBER),), FormatUnnumbered, "before formats had numbers"),
    ):
        replicated.subscriber.execute(*other)
        with pytest.raises(expected, match=problem):
            deliver_all(replicated.publisher)
    assert replicated.subscriber.execute("select * from orders") == []
    replicated.replication.drop_subscription(PUBLICATION, replicated.subscriber.url)
    assert replicated.subscriber.execute("select from pg_namespace where nspname = 'rowtide_subscriber'") == []


def test_a_file_of_another_format_gets_nothing(replicated_file: ReplicatedFile) -> None:
    replicated_file.begin(ORDERS, orders={})
    replicated_file.publisher.execute("insert into orders values (1, 'a')")
    for other, expected, problem in (
        (recording(FILE, NEWER_READABLE), FormatNewer, f"it has format {NEWER_READABLE[0]}"),
        ((forgetting(FILE),), FormatUnnumbered, "before formats had numbers"),
    ):
        replicated_file.subscriber.execute(*other)
        with pytest.raises(expected, match=problem):
            deliver_all(replicated_file.publisher)
    assert replicated_file.subscriber.execute("select * from orders") == []
    replicated_file.replication.drop_subscription(PUBLICATION, replicated_file.subscriber.url)
    assert replicated_file.subscriber.execute("select 1 from sqlite_schema where name like 'MSrepl%'") == []
