"""What cannot continue: a numbered error with the way out, and nothing half done."""

from __future__ import annotations

import re
import sqlite3
import subprocess
import sys
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from builders.merge.merged_databases import (
    PUBLICATION,
    FileMember,
    Merge,
    ServerMember,
    open_file_member,
)
from fixtures.servers import fresh_database
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.merge.conflicts.resolvers import Winner
from rowtide.merge.errors.nodes import NodeBusy, NodeRestored
from rowtide.merge.errors.publishing import (
    ArticleTableNotFound,
    MergeArticleExists,
    MergedTableAltered,
    MergePublicationUnknown,
    ResolverUnknown,
    RowguidUnfit,
    SubscriptionsLeft,
    UnsupportedColumnType,
)
from rowtide.merge.errors.rows import ConflictUnknown, CopiedRowRefused
from rowtide.merge.errors.subscribing import (
    AddressTaken,
    MergeSubscriptionExists,
    MergeSubscriptionUnknown,
    SubscriberHasTable,
    SubscriberIsHub,
)

CUSTOMER = "create table customer (id integer primary key, name varchar(20), qty integer)"
COLUMNS = "id, name, qty"
ROWS_THAT_FILL_A_DISK = 3000


def begin(merged: Merge) -> None:
    merged.begin(CUSTOMER, "insert into customer values (1, 'first', 1)", customer={})


def test_an_article_is_published_with_one_choice_of_options(merged: Merge) -> None:
    begin(merged)
    merged.merge.add_publication("other")

    with pytest.raises(MergeArticleExists, match="column tracking"):
        merged.merge.add_article("other", "customer", column_tracking=True)
    with pytest.raises(ArticleTableNotFound):
        merged.merge.add_article("other", "nothing")
    with pytest.raises(MergePublicationUnknown):
        merged.merge.add_article("nothing", "customer")
    with pytest.raises(MergeArticleExists, match="has an article customer"):
        merged.merge.add_article(PUBLICATION, "customer")
    with pytest.raises(SubscriptionsLeft):
        merged.merge.drop_publication(PUBLICATION)
    assert [status.articles for status in merged.merge.status("other")] == [()]


@pytest.mark.parametrize("resolver", ["latest", "later-wins:nothing", "additive", "python:nothing"])
def test_a_resolver_that_is_none_is_refused(merged: Merge, resolver: str) -> None:
    merged.hub.execute(CUSTOMER)
    merged.merge.add_publication(PUBLICATION)

    with pytest.raises(ResolverUnknown, match=re.escape(f'there is no resolver "{resolver}"')):
        merged.merge.add_article(PUBLICATION, "customer", resolver=resolver)


def test_a_table_that_is_there_is_not_taken(merged: Merge) -> None:
    merged.hub.execute(CUSTOMER)
    merged.merge.add_publication(PUBLICATION)
    merged.merge.add_article(PUBLICATION, "customer")
    merged.subscribers[0].execute(CUSTOMER, "insert into customer (id) values (7)")

    with pytest.raises(SubscriberHasTable):
        merged.merge.add_subscription(PUBLICATION, merged.subscribers[0].url)
    assert merged.subscribers[0].rows("customer", "id") == [(7,)]


def test_a_subscriber_subscribes_once(merged: Merge) -> None:
    begin(merged)

    with pytest.raises(MergeSubscriptionExists):
        merged.merge.add_subscription(PUBLICATION, merged.subscribers[0].url)


def test_subscriber_of_a_recreated_publication_is_refused(merged: Merge) -> None:
    begin(merged)
    for subscriber in merged.subscribers:
        merged.merge.drop_subscription(PUBLICATION, subscriber.url, ignore_subscriber=True)
    merged.merge.drop_publication(PUBLICATION)
    merged.merge.add_publication(PUBLICATION)
    merged.merge.add_article(PUBLICATION, "customer")

    with pytest.raises(MergeSubscriptionUnknown, match="add-subscription"):
        merged.sync()


def test_column_missing_at_the_subscriber_stops_any_exchange(merged: Merge) -> None:
    begin(merged)
    trigger = "MSmerge_upd_" if isinstance(merged.subscribers[0], FileMember) else None
    if trigger is not None:
        for (name,) in merged.subscribers[0].execute("select name from sqlite_master where type = 'trigger'"):
            merged.subscribers[0].execute(f'drop trigger "{name}"')
    merged.subscribers[0].execute("alter table customer drop column qty")
    merged.hub.execute("insert into customer (id) values (2)")

    with pytest.raises(MergedTableAltered, match="column qty is missing"):
        merged.sync()
    assert merged.conflicts() == []
    assert len(merged.subscribers[0].rows("customer")) == 1


def test_lost_triggers_are_noticed_and_all_begin_again(merged: Merge) -> None:
    begin(merged)
    merged.settle()
    if isinstance(merged.hub, FileMember):
        for (name,) in merged.hub.execute("select name from sqlite_master where type = 'trigger'"):
            merged.hub.execute(f'drop trigger "{name}"')
    else:
        merged.hub.execute("alter table customer disable trigger all")
    merged.hub.execute("update customer set qty = 99")

    for number in (0, 1):
        with pytest.raises(MergedTableAltered, match="trigger MSmerge_"):
            merged.sync(number)
    merged.merge.reinitialize(PUBLICATION, merged.subscribers[0].url)
    with pytest.raises(NodeRestored):
        merged.merge.list_pending(PUBLICATION, merged.subscribers[1].url)
    with pytest.raises(NodeRestored):
        merged.sync(1)
    merged.merge.reinitialize(PUBLICATION, merged.subscribers[1].url)
    merged.hub.execute("update customer set name = 'tracked'")
    merged.settle()
    merged.require_equal("customer", columns=COLUMNS)
    assert merged.subscribers[1].rows("customer", COLUMNS) == [(1, "tracked", 99)]


def test_a_type_that_the_subscriber_has_not_is_named(merged: Merge) -> None:
    if not (isinstance(merged.hub, ServerMember) and isinstance(merged.subscribers[1], ServerMember)):
        pytest.skip("both have types of their own only where both are servers")
    merged.hub.execute(
        "create type mood as enum ('glad', 'sad')", "create table person (id int primary key, feels mood)"
    )
    merged.merge.add_publication(PUBLICATION)
    merged.merge.add_article(PUBLICATION, "person")

    with pytest.raises(UnsupportedColumnType, match="mood"):
        merged.merge.add_subscription(PUBLICATION, merged.subscribers[1].url)
    merged.subscribers[1].execute("create type mood as enum ('glad', 'sad')")
    merged.merge.add_subscription(PUBLICATION, merged.subscribers[1].url)
    merged.merge.add_subscription(PUBLICATION, merged.subscribers[0].url)
    merged.subscribers[0].execute("insert into person (id, feels) values (1, 'glad')")
    merged.settle()
    assert merged.subscribers[1].rows("person", "id, feels") == [(1, "glad")]


def file_of(merged: Merge) -> tuple[int, FileMember]:
    """Return a subscriber that is a file, with its number."""
    return next((number, each) for number, each in enumerate(merged.subscribers) if isinstance(each, FileMember))


def test_a_file_that_is_locked_is_busy_and_goes_on_later(merged: Merge, monkeypatch: pytest.MonkeyPatch) -> None:
    begin(merged)
    number, subscriber = file_of(merged)
    merged.hub.execute("insert into customer (id) values (2)")
    monkeypatch.setattr("rowtide.databases.sqlite.connect.LOCK_DEADLINE_S", 0.1)
    with closing(sqlite3.connect(Path(subscriber.url.removeprefix("sqlite:///")))) as other:
        other.execute("begin immediate")
        with pytest.raises(NodeBusy):
            merged.sync(number)
    merged.sync(number)
    assert len(subscriber.rows("customer")) == 2


def test_full_disk_is_reported_and_the_next_sync_continues(merged: Merge) -> None:
    begin(merged)
    number, subscriber = file_of(merged)
    for key in range(10, 10 + ROWS_THAT_FILL_A_DISK, 1000):
        values = ", ".join(f"({each}, 'a long enough name', 1)" for each in range(key, key + 1000))
        merged.hub.execute(f"insert into customer (id, name, qty) values {values}")
    size = Path(subscriber.url.removeprefix("sqlite:///")).stat().st_size
    program = (
        "import resource, signal, sys\n"
        "from rowtide.core.errors import RowtideError\n"
        "from rowtide.merge.api import MergeReplication\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({size + 20_000}, {size + 20_000}))\n"
        "try:\n"
        f"    MergeReplication(sys.argv[1]).sync({PUBLICATION!r}, sys.argv[2])\n"
        "except RowtideError as error:\n"
        "    sys.exit(str(error))\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program, merged.hub.url, subscriber.url], capture_output=True, text=True, check=False
    )

    assert ended.returncode == 1
    assert ended.stderr.startswith("RT-1"), ended.stderr
    merged.sync(number)
    assert len(subscriber.rows("customer")) == 1 + ROWS_THAT_FILL_A_DISK


@pytest.mark.direct(reason="a device by requests says what its own file does not subscribe to")
def test_nothing_is_merged_is_said_before_anything_exists(merged: Merge) -> None:
    merge = merged.merge
    subscriber = merged.subscribers[0].url

    assert list(merge.list_conflicts()) == []
    assert list(merge.status()) == []
    for use in (
        lambda: merge.status("absent"),
        lambda: merge.list_history("absent"),
        lambda: merge.list_conflicts("absent"),
        lambda: merge.drop_publication("absent"),
        lambda: merge.add_article("absent", "item"),
        lambda: merge.add_subscription("absent", subscriber),
        lambda: merge.sync("absent", subscriber),
        lambda: merge.validate("absent", subscriber),
    ):
        with pytest.raises(MergePublicationUnknown):
            use()
    with pytest.raises(ConflictUnknown):
        merge.resolve("absent", Winner.PUBLISHER)


def test_a_column_rowguid_of_numbers_is_refused(merged: Merge) -> None:
    merged.merge.add_publication("shop")
    for table, definition in {"plain": "integer", "unique_one": "integer not null unique"}.items():
        merged.hub.execute(f"create table {table} (id integer primary key, rowguid {definition})")
        with pytest.raises(RowguidUnfit, match="rowguid, of type"):
            merged.merge.add_article("shop", table)


def test_a_hub_does_not_subscribe_to_itself(merged: Merge) -> None:
    begin(merged)
    with pytest.raises(SubscriberIsHub, match="RT-8132: .* is the publisher of shop, or a copy of it"):
        merged.merge.add_subscription(PUBLICATION, merged.hub.url)
    assert all(not summary.refused for summary in merged.settle())


def test_an_address_belongs_to_one_database(tmp_path: Path) -> None:
    with ExitStack() as opened:
        hub = opened.enter_context(open_file_member(tmp_path / "hub.db"))
        merge = Merge(hub, [FileMember(f"sqlite:///{tmp_path}/a.db", sqlite3.connect(":memory:"))])
        begin(merge)
        (tmp_path / "a.db").rename(tmp_path / "moved.db")
        moved = opened.enter_context(open_file_member(tmp_path / "moved.db"))
        moved.execute("update customer set qty = 7")
        at_its_place = merge.subscribers[0].url
        with pytest.raises(AddressTaken, match=r"RT-8134: another database subscribes to shop"):
            merge.merge.add_subscription(PUBLICATION, at_its_place)

        merge.merge.sync(PUBLICATION, moved.url)
        assert hub.rows("customer", "qty") == [(7,)]
        kept: list[str] = []
        merge.merge.drop_subscription(PUBLICATION, moved.url, on_kept=lambda one: kept.append(one.subscriber))
        assert kept == [at_its_place]
        merge.merge.drop_subscription(PUBLICATION, at_its_place, ignore_subscriber=True)
        merge.merge.add_subscription(PUBLICATION, at_its_place)
        merge.merge.sync(PUBLICATION, at_its_place)


@pytest.mark.live
@pytest.mark.parametrize(
    ("values", "is_server", "reason"),
    [
        (
            "cast(X'41ff' as text), 1",
            False,
            r"customer .* \(22021\): .* valid UTF-8; the row has the rowguid [-0-9a-f]{36}",
        ),
        ("cast(X'41ff' as text), 1", True, r"customer .* \(22021\): .* valid UTF-8"),
        ("'a' || char(0), 1", True, r"customer .* \(22021\): "),
        ("'a', 'no number'", True, r"customer .* \(22P02\): .*\(column qty\)"),
    ],
)
def test_a_row_that_cannot_be_copied_is_named(
    server: EmbeddedServer, tmp_path: Path, values: str, *, is_server: bool, reason: str
) -> None:
    with ExitStack() as opened:
        hub = opened.enter_context(open_file_member(tmp_path / "hub.db"))
        url = f"sqlite:///{tmp_path}/a.db"
        if is_server:
            url = opened.enter_context(fresh_database(server))
        hub.execute(CUSTOMER, f"insert into customer values (1, {values})")
        merge = Merge(hub, [])
        merge.begin(customer={})
        with pytest.raises(CopiedRowRefused, match=reason):
            merge.merge.add_subscription(PUBLICATION, url)
        hub.execute("update customer set name = 'b', qty = 1")
        merge.merge.add_subscription(PUBLICATION, url)
