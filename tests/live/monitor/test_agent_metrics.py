"""Metrics of commands that work: over HTTP while they run, and in the files that they leave behind."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

from builders.capture.captured_databases import LoggedDatabase
from builders.commands.command_lines import rowtide
from builders.monitor.prometheus import scraping
from builders.monitor.rules import list_alerts
from builders.monitor.scrapes import Scrape, scrape_until
from builders.replication.replicated_databases import ReplicatedDatabase
from rowtide.cli.output.metrics import MetricsOptions, measuring
from rowtide.core.addresses import Address
from rowtide.events.event import listening
from rowtide.monitor.agent_figures import AgentCounter
from rowtide.monitor.publishing import serving_figures

(VALIDATION,) = (alert.expression for alert in list_alerts() if alert.name == "RowtideValidationFailed")


def test_a_run_of_capture_leaves_its_metrics(logged: LoggedDatabase, tmp_path: Path) -> None:
    logged.execute("create table item (id int primary key, name text)")
    logged.enable("item")
    logged.execute("insert into item select i, 'canary-value' from generate_series(1, 5) i")
    path = tmp_path / "capture.prom"
    words = ("cdc", "run", "--once", "--metrics-file", str(path), "--db", logged.url)
    assert rowtide(*words).code == 0
    found = Scrape(path.read_text())
    assert found.value("rowtide_capture_rows_total") == 5
    assert found.value("rowtide_capture_cycle_duration_seconds_count", phase="Done") >= 1
    assert found.value("rowtide_job_failed", job="capture") == 0
    assert "canary-value" not in found.text

    logged.execute("drop table cdc.captured_columns cascade")
    assert rowtide(*words).code == 1
    failed = Scrape(path.read_text())
    assert failed.value("rowtide_job_failed", job="capture") == 1
    assert len(failed.values("rowtide_capture_errors_total")) == 1


def test_a_capture_that_runs_is_scraped(logged: LoggedDatabase) -> None:
    logged.execute("create table item (id int primary key)")
    logged.enable("item")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
    stop = threading.Event()
    with measuring(MetricsOptions(listen=listen), "shop", "capture"):
        running = threading.Thread(target=logged.cdc.run, kwargs={"stop": stop})
        running.start()
        try:
            logged.execute("insert into item values (1), (2)")
            scrape_until(Address.parse(listen), lambda found: found.values("rowtide_capture_rows_total") == [2])
        finally:
            stop.set()
            running.join()


def test_rows_that_differ_fire_an_alert_until_they_do_not(replicated: ReplicatedDatabase, tmp_path: Path) -> None:
    replicated.begin("create table item (id int primary key, name text)", item={})
    replicated.publisher.execute("insert into item values (1, 'canary-value'), (2, 'b')")
    replicated.deliver()
    path = tmp_path / "validation.prom"
    words = ("replication", "validate", "shop", "--checksum", "--metrics-file", str(path))

    def validate() -> Scrape:
        rowtide(*words, "--db", replicated.publisher.url)
        return Scrape(path.read_text())

    name = "rowtide_validation_failed"
    assert validate().value(name, article="item", publication="shop") == 0
    counter = AgentCounter("shop", "validate")
    with (
        listening(counter.note),
        serving_figures(counter.copy, Address("127.0.0.1", 0)) as address,
        scraping(tmp_path / "prometheus", address) as prometheus,
    ):
        replicated.subscriber.execute("update item set name = 'altered by hand' where id = 1")
        altered = validate()
        assert altered.value(name, article="item", publication="shop") == 1
        assert altered.value("rowtide_job_failed", job="validate") == 1
        assert "canary-value" not in altered.text
        assert "altered by hand" not in altered.text
        ((series, _),) = prometheus.query_until(VALIDATION, bool)
        assert (series["article"], series["publication"]) == ("item", "shop")
        replicated.subscriber.execute("update item set name = 'canary-value' where id = 1")
        assert validate().value(name, article="item", publication="shop") == 0
        prometheus.query_until(VALIDATION, lambda found: not found)


def test_tracer_tokens_are_measured_by_the_agent(replicated: ReplicatedDatabase, tmp_path: Path) -> None:
    replicated.begin("create table item (id int primary key)", item={})
    replicated.replication.post_tracer_token("shop")
    replicated.publisher.execute("insert into item values (1)")
    path = tmp_path / "replication.prom"
    words = ("replication", "run", "--once", "--metrics-file", str(path), "--db", replicated.publisher.url)
    assert rowtide(*words).code == 0
    found = Scrape(path.read_text())
    for hop in ("log", "delivery"):
        assert found.value("rowtide_tracer_seconds_count", publication="shop", hop=hop) == 1
    assert found.value("rowtide_subscription_commands_total") >= 1
    assert "@" not in "".join(sample.labels.get("subscriber", "") for sample in found.samples)


@pytest.mark.parametrize("options", [("--metrics-listen", "9100"), ("--metrics-listen", "host:x")])
def test_an_address_that_is_none_is_wrong_usage(logged: LoggedDatabase, options: tuple[str, str]) -> None:
    ended = rowtide("cdc", "run", "--once", *options, "--db", logged.url)
    assert ended.code == 2
    assert "write host:port" in ended.errors
