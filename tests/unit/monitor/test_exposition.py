"""What is exposed can be parsed, whatever names are in it, and stays bounded."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families

from rowtide.diagnosis import State
from rowtide.monitor.catalogue import BUILD_INFO, METRICS, MetricType
from rowtide.monitor.counters import CountedEvent, DatabaseCounters, Durations, Total
from rowtide.monitor.exposition import Polled, render
from rowtide.monitor.views import (
    ConsumerView,
    DatabaseView,
    Judgement,
    LogView,
    MergeSubscriptionView,
    MergeView,
    SubscriptionView,
)

NOW = datetime(2026, 11, 30, tzinfo=UTC)
HOSTILE = ('a"b', "a\\b", "a\nb", "<script>", "../../etc", "\u202egnp", 'x"} 1\nrowtide_up{database="y"', "é" * 63)


def view(**values: object) -> DatabaseView:
    plain = DatabaseView("shop", True, NOW, 0.1, None, None, (), {}, {}, {})  # noqa: FBT003
    return replace(plain, **values)  # type: ignore[arg-type]


def text_of(*views: DatabaseView, counted: DatabaseCounters | None = None, device_series: bool = False) -> str:
    body, _ = render([Polled(one, counted or DatabaseCounters()) for one in views], device_series=device_series)
    return body.decode()


def samples_of(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    return {
        (sample.name, frozenset(sample.labels.items())): float(sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_values_and_nothing_else(name: str) -> None:
    judged = Judgement("tables", name, State.WARNING, "code", "")
    text = text_of(view(name=name, judgements=(judged,), consumers=(ConsumerView(name, 1.0, 2.0),)))
    found = samples_of(text)
    assert found["rowtide_up", frozenset({("database", name)})] == 1
    labels = frozenset({("database", name), ("area", "tables"), ("subject", name)})
    assert found["rowtide_health_state", labels] == 1
    assert found["rowtide_consumer_lag_seconds", frozenset({("database", name), ("consumer", name)})] == 1
    assert len([key for key in found if key[0] == "rowtide_up"]) == 1


def test_what_was_not_read_is_absent() -> None:
    unread = view(log=LogView(lag_bytes=None, lag_s=None, slot=None, store_bytes=7, unread_bytes=None))
    names = {name for name, _ in samples_of(text_of(unread))}
    assert names == {
        "rowtide_build_info",
        "rowtide_up",
        "rowtide_scrape_duration_seconds",
        "rowtide_log_store_bytes",
    }


def test_a_database_that_is_down_shows_no_counters() -> None:
    counted = DatabaseCounters()
    counted.take([Total("rowtide_capture_rows_total", (), 5)], timeline=0)
    assert "rowtide_capture_rows_total{" in text_of(view(), counted=counted)
    assert "rowtide_capture_rows_total{" not in text_of(view(is_up=False), counted=counted)


def test_ten_thousand_devices_are_a_few_series() -> None:
    devices = tuple(
        MergeSubscriptionView("field", f"sqlite:///device{number}.db", "healthy", float(number), 1e6 + number, 1)
        for number in range(10_000)
    )
    of_devices = view(merges=(MergeView("field", 3, devices),))
    found = samples_of(text_of(of_devices))
    assert len(found) < 20
    of_publication = {("database", "shop"), ("publication", "field")}
    assert found["rowtide_merge_oldest_sync_age_seconds", frozenset(of_publication)] == 9_999
    assert found["rowtide_merge_rows_refused", frozenset(of_publication)] == 10_000
    assert found["rowtide_merge_subscriptions", frozenset({*of_publication, ("state", "healthy")})] == 10_000
    assert len(samples_of(text_of(of_devices, device_series=True))) > 20_000


def test_subscribers_of_one_name_are_one_series() -> None:
    one = SubscriptionView("shop", "postgresql://h/d", "late", 1.0, 2, 3, 4.0, 5)
    found = samples_of(text_of(view(subscriptions=(one, replace(one, latency_s=9.0)))))
    assert [value for (name, _), value in found.items() if name == "rowtide_subscription_latency_seconds"] == [9.0]


def test_openmetrics_is_served_to_who_accepts_it() -> None:
    counted = DatabaseCounters()
    counted.take([Durations("rowtide_tracer_seconds", "log", [CountedEvent(1, (("hop", "log"),), 0.3)])], timeline=0)
    accept = "application/openmetrics-text; version=1.0.0"
    body, content_type = render([Polled(view(), counted)], device_series=False, accept=accept)
    assert content_type.startswith("application/openmetrics-text")
    families = parse_openmetrics(body.decode())  # type: ignore[no-untyped-call]
    (tracer,) = [one for one in families if one.name == "rowtide_tracer_seconds"]
    assert [sample.value for sample in tracer.samples if sample.name.endswith("_count")] == [1]


def test_names_follow_the_conventions_of_prometheus() -> None:
    for metric in METRICS:
        assert metric.name.startswith("rowtide_")
        assert metric.name.endswith("_total") == (metric.type is MetricType.COUNTER)
        if metric.unit:
            assert metric.name.endswith(f"_{metric.unit}")
        assert metric.help.endswith(".")
        assert (metric.source is None) == (metric.type is not MetricType.GAUGE)
    names = [metric.name for metric in (BUILD_INFO, *METRICS)]
    assert len(set(names)) == len(names)
