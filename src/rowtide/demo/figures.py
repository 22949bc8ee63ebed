"""The run in figures, from the lake: change rows, latency, one account's changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rowtide.cdc.lake_tables import ledger_path
from rowtide.cdc.presentation import present
from rowtide.cdc.queries import Changes
from rowtide.demo.reading import changes_of, instance_of
from rowtide.demo.workload import ACCOUNT, KEYS
from rowtide.lake import tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SHOWN_CHANGES = 8


@dataclass(frozen=True, slots=True)
class Span:
    """The LSNs of pgbench's transactions: those above `after`, up to and with `last`."""

    after: int
    last: int


@dataclass(frozen=True, slots=True)
class Figures:
    """`latency_*` is the time from a transaction's commit to the commit of its publication in the lake.

    `account_rows` are the last changes of `ACCOUNT` with the names `account_columns`, oldest first.
    """

    change_rows: dict[str, int]
    cycles: int
    latency_median_s: float
    latency_p95_s: float
    account_columns: Sequence[str]
    account_rows: Sequence[Sequence[object]]


def read_figures(spark: SparkSession, lake: str, span: Span) -> Figures:
    """Read the figures of pgbench's transactions."""
    latency = _latencies(spark, lake, span).selectExpr(
        "count(distinct cycle) as cycles", "percentile(seconds, array(0.5D, 0.95D)) as percentiles"
    )
    found = latency.first()
    assert found is not None
    median_s, p95_s = found["percentiles"]
    columns, rows = _account_changes(spark, lake)
    return Figures(
        change_rows={table: changes_of(spark, lake, table).count() for table in KEYS},
        cycles=found["cycles"],
        latency_median_s=median_s,
        latency_p95_s=p95_s,
        account_columns=columns,
        account_rows=rows,
    )


def _latencies(spark: SparkSession, lake: str, span: Span) -> DataFrame:
    """Return `cycle` and `seconds` of each transaction.

    `published_at` is stamped as a publication begins; a reader sees it when Delta has committed it.
    """
    from delta.tables import DeltaTable

    path = ledger_path(lake, "lsn_time_mapping")
    commits = (
        DeltaTable.forPath(spark, path)
        .history()
        .where("operation = 'WRITE'")
        .selectExpr("row_number() over (order by version) as publication", "timestamp as queryable_at")
    )
    published = tables.read_table(spark, path).selectExpr("*", "dense_rank() over (order by cycle) as publication")
    committed = published.where(f"start_lsn > {span.after} and start_lsn <= {span.last}")
    return committed.join(commits, "publication").selectExpr(
        "cycle", "(unix_micros(queryable_at) - unix_micros(tran_commit_time)) / 1e6D as seconds"
    )


def _account_changes(spark: SparkSession, lake: str) -> tuple[list[str], list[tuple[object, ...]]]:
    changes = Changes(spark, lake)
    instance = changes.instance(instance_of("pgbench_accounts"))
    rows = changes.get_all_changes(instance.instance.capture_instance, row_filter_option="all update old")
    names, presented = present(rows.where(f"aid = {ACCOUNT}"), instance.instance)
    return names, list(presented)[-_SHOWN_CHANGES:]
