"""Pages of a database that captures, publishes, merges and tracks are made of one poll's view."""

from __future__ import annotations

from pathlib import Path

from builders.capture.captured_databases import LoggedDatabase
from builders.monitor.scrapes import MERGED, do_everything
from builders.replication.replicated_databases import PUBLICATION, ReplicatedDatabase
from rowtide.diagnosis import State
from rowtide.monitor.catalogue import METRICS
from rowtide.monitor.databases import name_databases
from rowtide.monitor.polling import gauges_of, open_reader
from rowtide.monitor.views import HopKind, make_overview, make_view


def test_one_poll_has_what_every_page_shows(replicated: ReplicatedDatabase, tmp_path: Path) -> None:
    publisher = do_everything(replicated, tmp_path)
    with open_reader(*name_databases([publisher.url])) as reader:
        view = make_view(reader.read())
    (summary,) = make_overview([view]).databases
    assert summary.state is not State.FAILING, summary.worst

    assert view.capture is not None
    (instance,) = view.capture.instances
    assert (instance.name, instance.columns, instance.consumers) == (
        "public_item",
        ("id", "name"),
        ("reader", "target:items"),
    )
    interval = instance.interval
    assert interval is not None
    assert interval.low < interval.high
    assert interval.low_at is not None
    assert interval.high_at is not None
    assert interval.low_at < interval.high_at
    assert view.capture.cycles
    assert sum(cycle.rows for cycle in view.capture.cycles) == 3
    assert view.capture.cleanup is not None

    (publication,) = view.publications
    (subscription,) = publication.subscriptions
    assert publication.name == PUBLICATION
    assert (subscription.total_commands, subscription.undelivered_commands) == (2, 1)
    assert subscription.rate is not None
    assert [one.articles for one in view.merges if one.publication == MERGED] == [("note",)]

    hops = {hop.kind: hop for hop in view.way}
    assert set(hops) == set(HopKind)
    kept = gauges_of(view)
    named = {hop.lag_series for hop in view.way} | {hop.bytes_series for hop in view.way}
    metrics = {metric.name: metric for metric in METRICS}
    for series in named - {None}:
        assert series is not None
        metric = metrics[series.metric]
        assert metric.keeps_history
        assert len(series.labels) == len(metric.labels)
    assert {hops[HopKind.READER].lag_series.key, hops[HopKind.DEVICES].lag_series.key} <= kept.keys()  # type: ignore[union-attr]
    assert "canary-value" not in repr(view)


def test_schema_changes_of_an_instance_are_seen(logged: LoggedDatabase) -> None:
    logged.execute("create table item (id int primary key)")
    logged.enable("item")
    logged.cdc.run(once=True)
    logged.execute("alter table item add column note text default 'canary-value'", "insert into item values (1)")
    logged.cdc.run(once=True)
    with open_reader(*name_databases([logged.url])) as reader:
        view = make_view(reader.read())
    assert view.capture is not None
    (instance,) = view.capture.instances
    (change,) = instance.schema_changes
    assert (change.changes_type, change.is_inferred) == (False, False)
    assert instance.interval is not None
    assert instance.interval.low <= change.lsn <= instance.interval.high
    assert "canary-value" not in repr(view)
