"""What a command's events become, as they are scraped."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families

from rowtide.core.errors import FileNotReadable
from rowtide.core.lsn import Position
from rowtide.events.catalogue import (
    AgentFailed,
    AgentRetries,
    AgentStarted,
    ArticleValidated,
    BatchDelivered,
    CyclePublished,
    GatewayAnswered,
    JobEnded,
    JobFailed,
    RowsCaptured,
    SubscriptionRetries,
    SubscriptionStopped,
    Synchronised,
    TracerArrived,
)
from rowtide.events.event import Emitted, Event, Scope
from rowtide.monitor.agent_figures import MOST_INSTANCES, AgentCounter
from rowtide.monitor.exposition import render_agent

NOW = datetime(2026, 11, 30, tzinfo=UTC)
STORED = "postgresql://bob:secret@db1/shop"
SUBSCRIBER = "postgresql://db1/shop"
ERROR = FileNotReadable("/lake", "it is gone")
LSN = Position.of(1, 1)


def counted(*events: Event, job: str = "", database: str = "shop") -> AgentCounter:
    counter = AgentCounter(database, "agent")
    for event in events:
        counter.note(Emitted(NOW, event, Scope("shop", job)))
    return counter


def samples(counter: AgentCounter) -> Mapping[tuple[str, frozenset[tuple[str, str]]], float]:
    text = render_agent(counter.copy())[0].decode()
    return {
        (sample.name, frozenset(sample.labels.items())): float(sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(counter: AgentCounter, name: str, **labels: str) -> float | None:
    return samples(counter).get((name, frozenset({"database": "shop", **labels}.items())))


def cycle(rows: int, seconds: float) -> CyclePublished:
    return CyclePublished(1, LSN, ("public_item",), 1, rows, seconds, is_heartbeat=False)


def test_rows_are_counted_by_operation_and_by_few_instances() -> None:
    counter = counted(
        RowsCaptured("public_item", 3, 2, 0),
        RowsCaptured("public_item", 1, 0, 0),
        *(RowsCaptured(f"public_item_{number}", 0, 0, 1) for number in range(MOST_INSTANCES + 10)),
    )
    name = "rowtide_capture_rows_total"
    assert value(counter, name, instance="public_item", operation="insert") == 4
    assert value(counter, name, instance="public_item", operation="update") == 2
    assert value(counter, name, instance="public_item", operation="delete") is None
    assert value(counter, name, instance="public_item_0", operation="delete") == 1
    assert value(counter, name, instance="", operation="delete") == 11
    assert len([key for key in samples(counter) if key[0] == name]) == 2 + MOST_INSTANCES


def test_cycles_are_a_histogram() -> None:
    counter = counted(cycle(3, 0.2), cycle(4, 700.0))
    name, phase = "rowtide_capture_cycle_duration_seconds", "Done"
    assert value(counter, f"{name}_bucket", phase=phase, le="0.25") == 1
    assert value(counter, f"{name}_bucket", phase=phase, le="600.0") == 1
    assert value(counter, f"{name}_bucket", phase=phase, le="+Inf") == 2
    assert value(counter, f"{name}_sum", phase=phase) == pytest.approx(700.2)


def test_delivery_is_counted_by_subscriber_without_its_user() -> None:
    batch = BatchDelivered(STORED, LSN, 1, 5, 0.1, 20)
    counter = counted(
        batch, batch, SubscriptionRetries("p", STORED, 1.0, ERROR), SubscriptionStopped("p", STORED, ValueError("row"))
    )
    assert value(counter, "rowtide_subscription_commands_total", publication="", subscriber=SUBSCRIBER) == 10
    for number in ("RT-1008", "ValueError"):
        labels = {"publication": "p", "subscriber": SUBSCRIBER, "number": number}
        assert value(counter, "rowtide_subscription_errors_total", **labels) == 1
    text = render_agent(counter.copy())[0].decode()
    assert "secret" not in text
    assert "bob" not in text
    assert "/lake" not in text


def test_a_hop_is_measured_where_both_of_its_times_are_known() -> None:
    counter = counted(TracerArrived("p", STORED, None, 2.0), TracerArrived("p", STORED, -1.0, 3.0))
    counts = {
        hop: value(counter, "rowtide_tracer_seconds_count", publication="p", subscriber=SUBSCRIBER, hop=hop)
        for hop in ("log", "delivery")
    }
    sums = value(counter, "rowtide_tracer_seconds_sum", publication="p", subscriber=SUBSCRIBER, hop="log")
    assert counts == {"log": 1, "delivery": 2}
    # Clocks that differ make no time negative.
    assert sums == 0


def test_the_last_validation_of_an_article_counts() -> None:
    def validated(*results: int) -> float | None:
        counter = counted(*(ArticleValidated("p", STORED, "item", is_equal=bool(result)) for result in results))
        labels = {"publication": "p", "subscriber": SUBSCRIBER, "article": "item"}
        return value(counter, "rowtide_validation_failed", **labels)

    assert validated(1, 0) == 1
    assert validated(0, 1) == 0
    assert validated() is None


@pytest.mark.parametrize(
    ("event", "failed", "succeeded_at"),
    [
        (JobEnded("succeeded", 0, ""), 0, NOW.timestamp()),
        (JobEnded("stopped", 0, ""), None, None),
        (JobFailed(0, ERROR), 1, None),
        (AgentFailed(ERROR), 1, None),
        (AgentRetries(1.0, ERROR), None, None),
        (AgentStarted("1", 2), None, None),
    ],
)
def test_a_job_has_failed_or_succeeded_at_a_time(
    event: Event, failed: float | None, succeeded_at: float | None
) -> None:
    counter = counted(event, job="cleanup")
    assert value(counter, "rowtide_job_failed", job="cleanup") == failed
    assert value(counter, "rowtide_job_last_success_timestamp_seconds", job="cleanup") == succeeded_at


def test_errors_of_capture_are_counted_by_number_and_others_not() -> None:
    failures = AgentRetries(1.0, ERROR), JobFailed(1, ERROR), AgentFailed(KeyError("row"))
    counter = counted(*failures, job="capture")
    assert value(counter, "rowtide_capture_errors_total", number="RT-1008") == 2
    assert value(counter, "rowtide_capture_errors_total", number="KeyError") == 1
    assert value(counted(*failures, job="cleanup"), "rowtide_capture_errors_total", number="RT-1008") is None


def test_synchronisations_are_a_histogram() -> None:
    counter = counted(Synchronised("p", STORED, 1, 2, 0, 0, 1.5), job="merge")
    assert value(counter, "rowtide_merge_sync_duration_seconds_sum", publication="p") == 1.5


def test_a_command_ends_well_or_not() -> None:
    counter = counted()
    counter.note_end(has_failed=True)
    assert value(counter, "rowtide_job_failed", job="agent") == 1
    assert value(counter, "rowtide_job_last_success_timestamp_seconds", job="agent") is None
    counter.note_end(has_failed=False)
    assert value(counter, "rowtide_job_failed", job="agent") == 0


@pytest.mark.parametrize("name", ['a"b', "a\\b", "a\nb", 'x"} 1\nrowtide_up{database="y"'])
def test_hostile_names_are_values_in_both_formats(name: str) -> None:
    counter = counted(ArticleValidated(name, name, name, is_equal=False), cycle(1, 1.0), database=name)
    for accept, parse in (
        ("", text_string_to_metric_families),
        ("application/openmetrics-text; version=1.0.0", parse_openmetrics),
    ):
        families = parse(render_agent(counter.copy(), accept)[0].decode())
        found = [one for family in families for one in family.samples if one.name == "rowtide_validation_failed"]
        assert [(one.labels["article"], one.labels["database"]) for one in found] == [(name, name)]


def answered(step: str, status: int = 200, hub: str = "hub", seconds: float = 0.2) -> GatewayAnswered:
    return GatewayAnswered(
        path=f"/{hub}/{step}",
        hub=hub,
        step=step,
        device="",
        status=status,
        code="",
        sent=1,
        rows_up=3 if step == "sync" else 0,
        rows_down=0,
        seconds=seconds,
    )


def test_requests_of_devices_are_counted_by_hub() -> None:
    counter = counted(answered("sync"), answered("sync", 401), answered("wait", seconds=60), answered("", 404, ""))
    found = {(name, *sorted(labels)): amount for (name, labels), amount in samples(counter).items()}
    of_hub = ("database", "hub")
    requests = "rowtide_gateway_requests_total"
    assert found[requests, of_hub, ("status", "200"), ("step", "sync")] == 1
    assert found[requests, ("database", ""), ("status", "404"), ("step", "")] == 1
    assert found["rowtide_gateway_refused_tokens_total", of_hub] == 1
    assert found["rowtide_gateway_rows_total", of_hub, ("direction", "up")] == 6
    assert found["rowtide_gateway_request_duration_seconds_count", of_hub, ("step", "sync")] == 2
    assert ("rowtide_gateway_request_duration_seconds_count", of_hub, ("step", "wait")) not in found
