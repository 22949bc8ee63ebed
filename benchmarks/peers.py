"""The peers on the log: PostgreSQL's own client, which is the ceiling, and Debezium's embedded engine."""

from __future__ import annotations

import os
import subprocess
import time
from dataclasses import dataclass

from benchmarks.children import run_child
from benchmarks.debezium_process import Answer, Settings
from benchmarks.measured import Measured
from benchmarks.source import Source

CEILING = "pg_recvlogical"
DEBEZIUM = "Debezium"

_TUNED = {
    # Events without their schema, which would be most of each; deletes without a second, empty event.
    "converter.schemas.enable": "false",
    "key.converter.schemas.enable": "false",
    "value.converter.schemas.enable": "false",
    "tombstones.on.delete": "false",
    # Its statistics cannot keep up at full speed and write a warning for each event.
    "statistics.metrics.enabled": "false",
    "advanced.metrics.enable": "false",
}
_THROUGHPUT_JAVA = ("-XX:-UseG1GC", "-XX:+UseParallelGC")


@dataclass(frozen=True, slots=True)
class DebeziumLog:
    """Debezium's slot, and the events behind it: those that warm it up, then those that are measured."""

    slot: str
    warm_up: int
    events: int


def run_pg_recvlogical(source: Source, end: str, number: int) -> Measured:
    """Let PostgreSQL's own client receive the same stream and throw it away: the walsender's own rate."""
    definition = source.cdc.get_source()
    slot = source.copy_slot(f"{CEILING}_{number}")
    command = [str(source.server.binary("pg_recvlogical")), "--dbname", source.url, "--slot", slot, "--start"]
    command += ["--file", "/dev/null", "--endpos", end, "--no-loop", "--option", "proto_version=1"]
    command += ["--option", f'publication_names="{definition.publication}"', "--option", "messages=true"]
    begin = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, **source.server.environment()})
    return Measured(CEILING, time.perf_counter() - begin)


def run_debezium(source: Source, log: DebeziumLog) -> Measured:
    """Let Debezium deliver the events as JSON to a Python handler that counts.

    Its start is until the first event came. The log's events are timed behind those that warmed it up.
    """
    settings = Settings(_properties(source, log.slot), _THROUGHPUT_JAVA, log.warm_up, log.events)
    answer = Answer(**run_child("benchmarks.debezium_process", settings, source.folder, "debezium"))
    # The batch in which the warm-up ends may hold some of the log's events already.
    running_s = (answer.last_s - answer.warm_s) * log.events / answer.events_after_warm
    return Measured(DEBEZIUM, answer.first_s + running_s, answer.first_s, answer.peak_memory)


def run_debezium_snapshot(source: Source, table: str, rows: int) -> Measured:
    """Let Debezium deliver the rows that a table has; the first tenth of them warms it up, and is not timed."""
    properties = {
        **_properties(source, "debezium_snapshot"),
        "snapshot.mode": "initial_only",
        "table.include.list": table,
    }
    warm_up = rows // 10
    settings = Settings(properties, _THROUGHPUT_JAVA, warm_up, rows - warm_up)
    answer = Answer(**run_child("benchmarks.debezium_process", settings, source.folder, "debezium-snapshot"))
    seconds = (answer.last_s - answer.warm_s) * rows / answer.events_after_warm
    return Measured(DEBEZIUM, seconds, answer.first_s, answer.peak_memory)


def _properties(source: Source, slot: str) -> dict[str, str]:
    return {
        "name": "benchmark",
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "topic.prefix": "benchmark",
        "database.hostname": "127.0.0.1",
        "database.port": str(source.login.port),
        "database.user": source.login.user,
        "database.password": source.login.password,
        "database.dbname": "postgres",
        "plugin.name": "pgoutput",
        "slot.name": slot,
        "publication.name": source.cdc.get_source().publication,
        "publication.autocreate.mode": "disabled",
        "snapshot.mode": "no_data",
        "message.prefix.exclude.list": ".*",
        "offset.storage": "org.apache.kafka.connect.storage.MemoryOffsetBackingStore",
        **_TUNED,
    }
