"""The workloads of merge replication, by their names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from benchmarks.merge import bucardo, exchange, gateway, many_devices, network, postgres_writes, sqlite_writes
from benchmarks.table import Sizes, Table

MERGE: Mapping[str, Callable[[Sizes], Iterator[Table]]] = {
    "merge-sqlite": sqlite_writes.measure_writes,
    "merge-postgres": postgres_writes.measure_writes,
    "merge-exchange": exchange.measure_exchange,
    "merge-devices": many_devices.measure_devices,
    "merge-gateway": gateway.measure_gateway,
    "merge-network": network.measure_network,
    "merge-bucardo": bucardo.measure_beside,
}
