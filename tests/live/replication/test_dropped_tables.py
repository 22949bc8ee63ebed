"""A dropped published table is reported until its article is dropped, and the other tables are delivered."""

from __future__ import annotations

import pytest

from builders.commands.command_lines import rowtide
from builders.replication.replicated_databases import PUBLICATION, ReplicatedDatabase
from rowtide.replication.distribution.run_context import DroppedTable, Watchers
from rowtide.replication.errors.delivery import PublishedTableDropped

KEPT = "create table kept (id int primary key)"
GONE = "create table gone (id int primary key)"


@pytest.fixture(params=["replicated", "replicated_16"])
def dropped(request: pytest.FixtureRequest) -> ReplicatedDatabase:
    """Two tables are published; one was dropped, the other continues."""
    replicated: ReplicatedDatabase = request.getfixturevalue(request.param)
    replicated.subscriber.execute(KEPT, GONE)
    replicated.publish_alone(KEPT, GONE)
    replicated.subscribe()
    replicated.publisher.execute("insert into gone values (1)", "drop table gone", "insert into kept values (1)")
    return replicated


@pytest.mark.exhaustive
def test_a_dropped_table_is_reported_and_the_others_go_on(dropped: ReplicatedDatabase) -> None:
    told: list[DroppedTable] = []
    dropped.replication.run(once=True, watchers=Watchers(on_dropped=told.append))
    dropped.replication.run(once=True)

    assert [found.error.table for found in told] == ["public.gone"]
    assert dropped.subscriber.execute("select * from kept, gone") == [(1, 1)]
    (error,) = dropped.replication.list_errors()
    assert error.error_code == "7164"
    (status,) = dropped.replication.status()
    assert status.last_error is not None
    assert "public.gone was dropped" in status.last_error
    for word in ("check", "health"):
        assert "public.gone is published and was dropped" in rowtide(word, "--db", dropped.publisher.url).output


@pytest.mark.exhaustive
def test_run_prints_that_a_table_was_dropped(dropped: ReplicatedDatabase) -> None:
    ended = rowtide("replication", "run", "--once", "--db", dropped.publisher.url)

    assert ended.code == 0
    assert "RT-7164: published table public.gone was dropped" in ended.output + ended.errors


def test_without_the_article_nothing_more_is_reported(dropped: ReplicatedDatabase) -> None:
    dropped.deliver()
    dropped.replication.drop_subscription(PUBLICATION, dropped.subscriber.url)
    dropped.replication.drop_article(PUBLICATION, "public.gone")
    dropped.subscribe()
    dropped.publisher.execute("insert into kept values (2)")
    dropped.deliver()

    dropped.require_equal("kept")
    (status,) = dropped.replication.status()
    assert status.last_error is None


@pytest.mark.exhaustive
def test_a_new_table_of_its_name_is_not_copied(replicated: ReplicatedDatabase) -> None:
    replicated.publish_alone(KEPT, GONE)
    url = replicated.subscriber.url
    replicated.replication.add_subscription(PUBLICATION, url)
    replicated.replication.run(once=True)
    replicated.publisher.execute("drop table gone", "insert into kept values (1)")
    for remade in (False, True):
        if remade:
            replicated.publisher.execute(GONE, "insert into gone values (9)")
        with pytest.raises(PublishedTableDropped, match="RT-7164"):
            replicated.replication.reinitialize(PUBLICATION, url, article="gone")
        replicated.replication.reinitialize(PUBLICATION, url)
        replicated.replication.run(once=True)
        replicated.require_equal("kept")
        assert replicated.subscriber.execute("select * from gone") == []
