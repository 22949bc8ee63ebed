"""The workloads of replication, by their names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from benchmarks.replication import backlog, copying, fan_out, latency, streams, whole_command
from benchmarks.table import Sizes, Table

REPLICATION: Mapping[str, Callable[[Sizes], Iterator[Table]]] = {
    "replication": backlog.measure_backlog,
    "replication-command": whole_command.measure_commands,
    "replication-copy": copying.measure_copying,
    "replication-latency": latency.measure_latency,
    "replication-streams": streams.measure_streams,
    "replication-fan-out": fan_out.measure_fan_out,
}
