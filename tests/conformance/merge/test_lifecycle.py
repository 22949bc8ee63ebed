"""Subscriptions over time: reinitialised, restored, expired, purged, validated, explained."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from uuid import uuid4

import pytest
from sqlalchemy import select, update

from builders.commands.hints import run_printed
from builders.merge.merged_databases import PUBLICATION, FileMember, Member, Merge
from rowtide.merge.api import MergeReplication
from rowtide.merge.catalogue import get_publication, list_articles, read_nickname
from rowtide.merge.conflicts.records import ConflictType
from rowtide.merge.conflicts.resolvers import Winner
from rowtide.merge.definitions import article_history, genhistory, sessions, subscriptions
from rowtide.merge.errors.nodes import NodeRestored
from rowtide.merge.errors.rows import ConflictOfSubscriber, ConflictUnknown, RowsRefused
from rowtide.merge.errors.subscribing import ChangesNotUploaded, SubscriptionExpired, UploadNotComparable
from rowtide.merge.exchange_state import list_retries, put_retry
from rowtide.merge.nodes.connecting import address, open_node
from rowtide.merge.session.messages import UploadResult
from rowtide.merge.session.over_transport import find_device
from rowtide.merge.session.pairing import UNSENT_PURGED, pair, require_in_step

CUSTOMER = "create table customer (id integer primary key, name varchar(20), qty integer)"
ORDERS = "create table orders (id integer primary key, customer_id integer references customer (id), note text)"
NOTES = ORDERS.replace("note text", "note varchar(20) unique")
COLUMNS = "id, name, qty"


def begin(merged: Merge, **options: object) -> None:
    """One table with one row."""
    merged.begin(CUSTOMER, "insert into customer values (1, 'first', 1)", customer=options)


def metadata(member: Member) -> int:
    """Return how many rows of metadata a member has."""
    prefix = "rowtide_merge." if not isinstance(member, FileMember) else ""
    tables = (f'{prefix}"MSmerge_stored_contents"', f'{prefix}"MSmerge_stored_tombstone"')
    return sum(int(member.execute(f"select count(*) from {table}")[0][0]) for table in tables)


def make_old(merged: Merge) -> None:
    """Let it be long ago that the first subscriber synchronised."""
    with open_node(merged.hub.url) as hub, hub.transaction():
        long_ago = merged.merge.status()[0].last_sync
        assert long_ago is not None
        url = merged.merge.status()[0].subscriber
        of_subscriber = subscriptions.c.subscriber_server == url
        hub.connection.execute(
            update(subscriptions).where(of_subscriber).values(last_sync_date=long_ago.replace(year=2020))
        )


def first(merged: Merge) -> int:
    """Return the number of the subscriber that the status lists first."""
    listed = merged.merge.status()[0].subscriber
    return next(number for number, each in enumerate(merged.subscribers) if address(each.url) == listed)


def test_a_subscriber_is_filled_again_and_loses_what_only_it_has(merged: Merge) -> None:
    begin(merged)
    merged.hub.execute("insert into customer (id, name) values (2, 'hub')")
    merged.subscribers[0].execute(
        "insert into customer (id, name) values (3, 'sub')", "delete from customer where id = 1"
    )
    merged.merge.reinitialize(PUBLICATION, merged.subscribers[0].url)

    assert merged.subscribers[0].rows("customer", COLUMNS) == [(1, "first", 1), (2, "hub", None)]
    merged.subscribers[0].execute("update customer set qty = 7 where id = 2")
    merged.settle()
    merged.require_equal("customer", columns=COLUMNS)
    assert merged.hub.rows("customer", COLUMNS) == [(1, "first", 1), (2, "hub", 7)]
    assert all(summary.is_quiet for summary in merged.settle())


def test_reinitialize_uploads_subscriber_changes_first_if_chosen(merged: Merge) -> None:
    begin(merged)
    merged.subscribers[0].execute("insert into customer (id, name) values (3, 'sub')")
    summary = merged.merge.reinitialize(PUBLICATION, merged.subscribers[0].url, upload_first=True)

    assert summary is not None
    assert summary.upload.total.inserts == 1
    merged.settle()
    merged.require_equal("customer", columns=COLUMNS)
    assert len(merged.hub.rows("customer")) == 2


def test_related_tables_are_filled_and_filled_again(merged: Merge) -> None:
    rows = ("insert into customer (id) values (1)", "insert into orders (id, customer_id) values (1, 1)")
    merged.begin(CUSTOMER, ORDERS, *rows, orders={}, customer={})
    for subscriber in merged.subscribers:
        merged.merge.reinitialize(PUBLICATION, subscriber.url)

    merged.require_equal("customer", columns=COLUMNS)
    merged.require_equal("orders", columns="id, customer_id, note")


def test_an_expired_subscriber_is_refused_and_begins_again(merged: Merge) -> None:
    begin(merged)
    merged.settle(2)
    make_old(merged)
    late = first(merged)
    merged.subscribers[late].execute("update customer set name = 'late'")

    with pytest.raises(SubscriptionExpired, match="reinitialize"):
        merged.sync(late)

    merged.merge.reinitialize(PUBLICATION, merged.subscribers[late].url, upload_first=True)
    merged.settle()
    assert merged.hub.rows("customer", "name") == [("late",)]
    merged.require_equal("customer", columns=COLUMNS)


@pytest.mark.exhaustive
def test_expired_subscriber_blocks_no_purge_and_cannot_upload(merged: Merge) -> None:
    begin(merged)
    merged.settle(2)
    make_old(merged)
    late = first(merged)
    merged.hub.execute("update customer set qty = 2")
    for _ in range(3):
        merged.sync(1 - late)

    assert merged.merge.cleanup() > 0
    with pytest.raises(UploadNotComparable, match="without --upload-first") as refused:
        merged.merge.reinitialize(PUBLICATION, merged.subscribers[late].url, upload_first=True)
    run_printed(refused.value, merged.hub.url, PUBLICATION=PUBLICATION)
    merged.settle()
    merged.require_equal("customer", columns=COLUMNS)


def test_a_purge_up_to_what_was_sent_leaves_no_gap(merged: Merge) -> None:
    begin(merged)
    merged.settle(2)
    url = merged.subscribers[0].url
    with open_node(merged.hub.url) as hub, open_node(url) as device:
        found = pair(hub, device, PUBLICATION, address(url))
        require_in_step(hub, device, replace(found, purged=found.at_hub.sent))
        with pytest.raises(UploadNotComparable, match=UNSENT_PURGED):
            require_in_step(hub, device, replace(found, purged=found.at_hub.sent + 1))


@pytest.mark.exhaustive
def test_metadata_are_kept_until_no_conflict_can_need_them(merged: Merge) -> None:
    begin(merged)
    merged.settle(1)
    merged.hub.execute("update customer set name = 'hub'")
    merged.subscribers[0].execute("update customer set name = 'sub'")
    merged.sync(1)
    assert merged.merge.cleanup() == 0

    # The row comes to the first subscriber's own change: that is told from an older one still.
    merged.settle()
    assert [kind for kind, *_ in merged.conflicts()] == [ConflictType.UPDATE_CONFLICT]
    merged.settle(2)
    assert merged.merge.cleanup() == 1
    assert metadata(merged.hub) == 0


@pytest.mark.exhaustive
def test_changes_go_on_behind_a_purge_everywhere(merged: Merge) -> None:
    begin(merged, column_tracking=True)
    for round_ in range(3):
        merged.hub.execute(f"update customer set qty = {round_}", f"insert into customer (id) values ({10 + round_})")
        merged.subscribers[0].execute(f"update customer set name = 'round {round_}' where id = 1")
        merged.subscribers[1].execute("delete from customer where id > 11")
        # A subscriber forgets what the hub has forgotten, and of that what it had at the synchronisation before.
        for _ in range(3):
            merged.settle(2)
            for member in merged.members:
                MergeReplication(member.url).cleanup()
        assert [metadata(member) for member in merged.members] == [0, 0, 0]
    merged.require_equal("customer", columns=COLUMNS)
    assert merged.conflicts() == []
    with open_node(merged.hub.url) as hub:
        assert len(hub.connection.execute(genhistory.select()).all()) <= 3

    # Both ends change a row that nobody has metadata of: that is a conflict as any.
    merged.hub.execute("update customer set qty = 77 where id = 1")
    merged.subscribers[0].execute("update customer set qty = 78 where id = 1")
    merged.settle()
    assert [kind for kind, *_ in merged.conflicts()] == [ConflictType.COLUMN_UPDATE_CONFLICT]
    merged.require_equal("customer", columns=COLUMNS)


def test_a_resolution_is_changed_afterwards(merged: Merge) -> None:
    begin(merged)
    merged.hub.execute("update customer set name = 'hub'")
    merged.subscribers[0].execute("update customer set name = 'sub'")
    merged.settle()
    [conflict] = merged.merge.list_conflicts(PUBLICATION, "customer")

    assert conflict.resolved_time is None
    assert json.loads(conflict.losing_row or "")["name"] == "sub"
    assert merged.merge.resolve(conflict.conflict_id, Winner.SUBSCRIBER)
    merged.settle()
    merged.require_equal("customer", columns=COLUMNS)
    assert merged.hub.rows("customer", "name") == [("sub",)]
    [conflict] = merged.merge.list_conflicts(PUBLICATION)
    assert conflict.resolved_time is not None
    assert merged.merge.status()[0].open_conflicts == 0
    assert all(summary.is_quiet for summary in merged.settle())


def test_a_resolution_that_is_right_stays(merged: Merge) -> None:
    begin(merged)
    merged.hub.execute("delete from customer")
    merged.subscribers[0].execute("update customer set name = 'sub'")
    merged.settle()
    [conflict] = merged.merge.list_conflicts(PUBLICATION)

    assert not merged.merge.resolve(conflict.conflict_id, Winner.PUBLISHER)
    assert merged.merge.resolve(conflict.conflict_id, Winner.SUBSCRIBER)
    merged.settle()
    assert merged.hub.rows("customer", COLUMNS) == [(1, "sub", 1)]
    merged.require_equal("customer", columns=COLUMNS)


def with_note_of_another(merged: Merge) -> None:
    """A subscriber has an order with the note of another order that the hub has."""
    merged.begin(CUSTOMER, NOTES, orders={}, customer={})
    merged.hub.execute("insert into orders (id, note) values (9, 'same')")
    merged.subscribers[0].execute("insert into orders (id, note) values (1, 'same')")


def test_row_refused_by_the_publisher_is_undone_by_hand(merged: Merge) -> None:
    with_note_of_another(merged)
    merged.sync()
    conflicts = [
        each
        for each in merged.merge.list_conflicts(PUBLICATION, "orders")
        if each.resolved_time is None and each.conflict_type == ConflictType.UPLOAD_INSERT_FAILED
    ]
    assert conflicts

    with pytest.raises(RowsRefused):
        merged.merge.resolve(conflicts[0].conflict_id, Winner.SUBSCRIBER)
    assert merged.merge.resolve(conflicts[0].conflict_id, Winner.PUBLISHER)
    merged.settle(3)
    assert [member.rows("orders", "id, note") for member in merged.members] == [[(9, "same")]] * 3
    assert all(summary.is_quiet for summary in merged.settle())


def test_a_dropped_subscription_uploads_first_or_stays(merged: Merge) -> None:
    merged.begin(NOTES.replace(" references customer (id)", ""), orders={})
    merged.hub.execute("insert into orders (id, note) values (1, 'a')")
    device = merged.subscribers[0]
    device.execute("insert into orders (id, note) values (2, 'a')", "insert into orders (id, note) values (3, 'b')")
    with pytest.raises(ChangesNotUploaded, match="refused"):
        merged.merge.drop_subscription(PUBLICATION, device.url, upload_first=True)
    assert merged.hub.rows("orders", "id, note") == [(1, "a"), (3, "b")]

    device.execute("update orders set note = 'c' where id = 2")
    summary = merged.merge.drop_subscription(PUBLICATION, device.url, upload_first=True)
    assert summary is not None
    assert summary.upload.total.inserts == 1
    assert merged.hub.rows("orders", "id, note") == [(1, "a"), (2, "c"), (3, "b")]
    assert [status.subscriber for status in merged.merge.status()] == [address(merged.subscribers[1].url)]


def test_a_row_that_comes_at_last_is_no_open_conflict(merged: Merge) -> None:
    with_note_of_another(merged)
    merged.sync()
    assert merged.merge.status()[0].open_conflicts > 0
    merged.subscribers[0].execute("update orders set note = 'another'")
    merged.settle(3)

    merged.require_equal("orders", columns="id, customer_id, note")
    assert {each.resolved_time is None for each in merged.merge.list_conflicts(PUBLICATION, "orders")} == {False}


def test_row_refused_by_a_subscriber_is_kept_at_the_publisher(merged: Merge) -> None:
    begin(merged)
    subscriber = merged.subscribers[0]
    subscriber.execute(
        "create table badge (customer_id integer references customer (id))", "insert into badge values (1)"
    )
    merged.hub.execute("delete from customer")
    merged.sync()
    [conflict] = merged.merge.list_conflicts(PUBLICATION)

    assert conflict.conflict_type == ConflictType.DOWNLOAD_DELETE_FAILED
    with pytest.raises(ConflictOfSubscriber, match="refuses"):
        merged.merge.resolve(conflict.conflict_id, Winner.PUBLISHER)
    subscriber.execute("delete from badge")
    merged.sync()
    assert subscriber.rows("customer") == []
    assert merged.merge.list_conflicts(PUBLICATION)[0].resolved_time is not None


@pytest.mark.parametrize("refusing", [0, 1])
def test_refused_row_arrives_though_metadata_were_purged(merged: Merge, refusing: int) -> None:
    begin(merged)
    receiver, sender = merged.members[refusing], merged.members[1 - refusing]
    receiver.execute("create unique index refusing on customer (qty)", "insert into customer (id, qty) values (7, 7)")
    sender.execute("update customer set qty = 7 where id = 1")
    merged.settle(3)
    assert receiver.rows("customer", "id, qty") == [(1, 1), (7, 7)]
    for member in merged.members:
        MergeReplication(member.url).cleanup()
    receiver.execute("drop index refusing")
    merged.settle(3)

    assert receiver.rows("customer", "id, qty") == [(1, 7), (7, 7)]
    merged.require_equal("customer", columns=COLUMNS)


def test_a_conflict_that_is_not_there_cannot_be_resolved(merged: Merge) -> None:
    begin(merged)

    with pytest.raises(ConflictUnknown):
        merged.merge.resolve("nothing", Winner.PUBLISHER)


def test_validation_finds_a_differing_and_a_missing_row(merged: Merge) -> None:
    begin(merged)
    merged.settle()
    subscriber = merged.subscribers[0]
    equal = merged.merge.validate(PUBLICATION, subscriber.url, checksum=True)
    assert [(row.publisher_rows, row.subscriber_rows, row.is_equal) for row in equal] == [(1, 1, True)]

    merged.hub.execute("update customer set qty = 5", "insert into customer (id) values (2)")
    [counted] = merged.merge.validate(PUBLICATION, subscriber.url)
    assert (counted.publisher_rows, counted.subscriber_rows, counted.is_equal) == (2, 1, False)
    [compared] = merged.merge.validate(PUBLICATION, subscriber.url, checksum=True)
    assert set(compared.differing) == {merged.hub.rowguid("customer", 1), merged.hub.rowguid("customer", 2)}


def test_a_row_tells_where_it_is(merged: Merge) -> None:
    begin(merged)
    merged.settle()
    merged.subscribers[0].execute("update customer set name = 'sub'")
    rowguid = merged.hub.rowguid("customer", 1)
    merged.sync(0)

    listed = merged.merge.list_row_replicas("customer", rowguid)
    comments = {row.server: (row.state, row.comment) for row in listed}
    names = [address(subscriber.url) for subscriber in merged.subscribers]
    assert "came from" in comments["this node"][1]
    assert comments[names[0]] == ("live", "the version is its own")
    assert comments[names[1]][0] == "pending"
    for _ in range(2):
        # By requests, the hub learns with the next one what a device has got.
        merged.sync(1)
    assert [row.state for row in merged.merge.list_row_replicas("customer", rowguid)] == ["live", "live", "live"]


@pytest.mark.direct(reason="a hub that is asked by requests counts an insert that it sends as an update")
def test_sessions_are_listed_by_article(merged: Merge) -> None:
    begin(merged)
    merged.hub.execute("insert into customer (id) values (2)")
    merged.sync()

    [session] = merged.merge.list_history(PUBLICATION)
    assert (session.state, session.article, session.phase, session.inserts) == ("succeeded", "customer", "download", 1)


def test_sessions_are_kept_for_fourteen_days(merged: Merge) -> None:
    begin(merged)
    merged.hub.execute("update customer set qty = 2")
    merged.sync()
    long_ago = datetime.now(UTC) - timedelta(days=15)
    with open_node(merged.hub.url) as hub, hub.transaction():
        hub.connection.execute(update(sessions).values(start_time=long_ago))
    merged.hub.execute("update customer set qty = 3")
    merged.sync()
    merged.merge.cleanup()

    assert len(merged.merge.list_history()) == 1
    with open_node(merged.hub.url) as hub:
        kept = hub.connection.execute(select(article_history.c.session_id).distinct()).scalars().all()
        assert kept == hub.connection.execute(select(sessions.c.session_id)).scalars().all()


def test_restored_or_copied_file_is_refused_and_reinitialized(merged: Merge, tmp_path: Path) -> None:
    number, subscriber = next(
        ((number, each) for number, each in enumerate(merged.subscribers) if isinstance(each, FileMember)), (0, None)
    )
    assert subscriber is not None, "each combination has a file that subscribes"
    begin(merged)
    merged.settle()
    path = Path(subscriber.url.removeprefix("sqlite:///"))
    backup = tmp_path / "backup.db"
    subscriber.execute(f"vacuum into '{backup}'")
    subscriber.execute("update customer set name = 'later'")
    merged.sync(number)
    subscriber.program.close()
    for leftover in path.parent.glob(f"{path.name}-*"):
        leftover.unlink()
    shutil.copy(backup, path)

    with pytest.raises(NodeRestored, match="reinitialize"):
        merged.sync(number)
    with pytest.raises(NodeRestored):
        merged.merge.reinitialize(PUBLICATION, subscriber.url, upload_first=True)
    merged.merge.reinitialize(PUBLICATION, subscriber.url)
    merged.settle()
    with open_node(subscriber.url) as node:
        assert node.connection.exec_driver_sql("select name from customer").fetchall() == [("later",)]


def test_refused_row_reaches_a_subscriber_added_later(merged: Merge) -> None:
    """What one row's version includes says nothing of another's: both were changed in one generation."""
    rows = ("insert into customer (id) values (1), (2)", "insert into orders (id, customer_id) values (1, 1), (2, 2)")
    merged.begin(CUSTOMER, NOTES, *rows, orders={}, customer={})
    late = merged.subscribers[1]
    merged.merge.drop_subscription(PUBLICATION, late.url)
    late.execute("drop table orders", "drop table customer")
    merged.hub.execute("insert into orders (id, note) values (3, 'late')")
    merged.subscribers[0].execute(
        "update orders set note = 'taken' where id = 1", "update orders set note = 'late' where id = 2"
    )
    summary = merged.sync()
    assert summary.upload.total.refused == 1

    merged.merge.add_subscription(PUBLICATION, late.url)
    merged.hub.execute("update orders set note = 'other' where id = 3")
    merged.settle(4)
    columns = "id, customer_id, note"
    assert (2, 2, "late") in merged.hub.rows("orders", columns)
    merged.require_equal("orders", columns=columns)


def test_a_reinitialised_one_undoes_nothing_known_of_columns(merged: Merge) -> None:
    begin(merged, column_tracking=True)
    merged.hub.execute("update customer set name = 'hub'")
    merged.merge.reinitialize(PUBLICATION, merged.subscribers[0].url)
    merged.subscribers[0].execute("update customer set qty = 5")
    merged.sync(0)
    merged.subscribers[1].execute("update customer set name = 'sub'")
    merged.settle()

    assert [kind for kind, *_ in merged.conflicts()] == [ConflictType.COLUMN_UPDATE_CONFLICT]
    assert merged.hub.rows("customer", COLUMNS) == [(1, "hub", 5)]
    merged.require_equal("customer", columns=COLUMNS)


def test_a_view_of_a_table_does_not_keep_its_publication(merged: Merge) -> None:
    begin(merged)
    merged.hub.execute("create view seen as select id, rowguid from customer")
    for subscriber in merged.subscribers:
        merged.merge.drop_subscription(PUBLICATION, subscriber.url)
    merged.merge.drop_publication(PUBLICATION)
    merged.hub.execute("insert into customer (id, name) values (2, 'second')")
    assert len(set(merged.hub.execute("select rowguid from seen"))) == 2


@pytest.mark.parametrize("command", ["reinitialize", "drop_subscription"])
def test_refused_rows_of_another_publication_stay_listed(merged: Merge, command: str) -> None:
    """Each end requests them again with the other publication, or sends them."""
    merged.hub.execute(CUSTOMER, ORDERS)
    url, names = merged.subscribers[0].url, {"customer": PUBLICATION, "orders": "others"}
    for table, publication in names.items():
        merged.merge.add_publication(publication)
        merged.merge.add_article(publication, table)
        merged.merge.add_subscription(publication, url)
    with open_node(merged.hub.url) as hub, open_node(url) as node:
        sources = read_nickname(hub.connection), read_nickname(node.connection)
        articles = [
            list_articles(hub.connection, get_publication(hub.connection, publication).pubid)[0].nickname
            for publication in names.values()
        ]
        listed = {article: [str(uuid4())] for article in articles}
        for each, of_sources in ((hub, sources[1:]), (node, sources)):
            with each.transaction():
                for source, article in product(of_sources, articles):
                    put_retry(each.connection, source, article, listed[article][0], "1", "refused")
    getattr(merged.merge, command)(PUBLICATION, url)
    others = {articles[1]: listed[articles[1]]}
    with open_node(merged.hub.url) as hub, open_node(url) as node:
        assert list_retries(hub.connection, sources[1]) == others
        # Its number may be another since.
        assert list_retries(node.connection, sources[0]) == others


def test_rows_that_one_hub_awaits_leave_those_of_others_listed(merged: Merge) -> None:
    merged.begin(CUSTOMER, customer={})
    url = merged.subscribers[0].url
    with open_node(url) as node:
        own, other = read_nickname(node.connection), 1
        device = find_device(node, PUBLICATION, url)
        (article,) = (each.nickname for each in device.known)
        listed = {each: [str(uuid4())] for each in (article, other)}
        with node.transaction():
            put_retry(node.connection, own, other, listed[other][0], "", "")
        device.keep_awaited(UploadResult(0, has_refused=True, awaited={article: listed[article]}))
        assert list_retries(node.connection, own) == listed
        assert device.list_awaited() == {article: listed[article]}
        device.keep_awaited(UploadResult(0, has_refused=False))
        assert list_retries(node.connection, own) == {other: listed[other]}
