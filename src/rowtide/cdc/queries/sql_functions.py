"""The query functions of one lake in Spark SQL, under SQL Server's names, as create statements.

A bound read in the same statement as the rows is never ahead of them: only publications from before the statement's
start count, their rows were committed before, and Delta takes its snapshots later. A range outside the validity
interval raises an error even if no row is read: the check is a `union all` branch over one row, whose columns no filter
can eliminate.

`rowtide.register(spark, lake)` creates them in a Spark session.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

from rowtide.cdc.change_columns import ROW_FILTERS, shown_columns
from rowtide.cdc.instances import Instance
from rowtide.cdc.published import SKIPPED, base_table_path, change_table_path, system_table_path
from rowtide.cdc.queries.as_of.function import table_as_of
from rowtide.cdc.queries.lsn_times import TIME_OPERATORS, visible_mapping
from rowtide.cdc.queries.net_changes import ALL, NET_ROW_FILTERS, Truncates, net_columns, net_select
from rowtide.cdc.queries.table_functions import Check, SqlFunction, guard, key_checks, latest_value, table_function
from rowtide.cdc.queries.windows import PublishedLake
from rowtide.delta.formats import IDENTITY
from rowtide.delta.snapshot import open_snapshot
from rowtide.lake.jars import lack_named
from rowtide.lake.session import require_reachable
from rowtide.lake.sql_text import literal, quote, table_at
from rowtide.lake.stores import locate
from rowtide.lake.tables import host_name
from rowtide.storage.places import spark_url

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


WINDOW = "from_lsn bigint, to_lsn bigint, row_filter_option string"
"""The arguments of the functions for changes."""


def sql_functions(
    lake: str, instances: Iterable[Instance], host: str, copied: Collection[str] = ()
) -> tuple[Sequence[SqlFunction], Sequence[Sequence[SqlFunction]]]:
    """Return the scalar functions, and the table functions of each instance; each list in the order of creation.

    `copied` has the member ids of instances with a base: those with a key have a function for the table as of an LSN.
    `host` is the reader's name: publications of another host count when they are older than a margin.
    """
    visible = visible_mapping(lake, host)
    recorded = table_at(system_table_path(lake, "instances"))
    of_instances = []
    for instance in instances:
        functions = [_all_changes(lake, visible, recorded, instance)]
        if instance.supports_net_changes:
            functions.append(_net_changes(instance))
        if instance.member_id in copied and instance.index_columns:
            functions.append(table_as_of(lake, visible, recorded, instance))
        of_instances.append(functions)
    return [*_lsn_functions(visible, recorded), *_mask_functions(recorded)], of_instances


def _lsn_functions(visible: str, recorded: str) -> Iterator[SqlFunction]:
    yield SqlFunction("fn_cdc_get_max_lsn", f"() returns bigint return (select max(start_lsn) from {visible})")
    low = _latest(recorded, "lsn", "fn_cdc_get_min_lsn.capture_instance")
    yield SqlFunction("fn_cdc_get_min_lsn", f"(capture_instance string) returns bigint return coalesce({low}, 0)")
    yield SqlFunction("fn_cdc_increment_lsn", "(lsn bigint) returns bigint return lsn + 1")
    yield SqlFunction("fn_cdc_decrement_lsn", "(lsn bigint) returns bigint return lsn - 1")
    time = f"select max(tran_end_time) from {visible} where start_lsn = fn_cdc_map_lsn_to_time.lsn"
    yield SqlFunction("fn_cdc_map_lsn_to_time", f"(lsn bigint) returns timestamp_ltz return ({time})")
    found = " ".join(
        f"when {literal(words)} then (select {end}(start_lsn) from {visible} "
        f"where tran_end_time {comparison} fn_cdc_map_time_to_lsn.tracking_time)"
        for words, (end, comparison) in TIME_OPERATORS.items()
    )
    refusal = _raise("RT-313: the relational operator is none of: " + ", ".join(TIME_OPERATORS))
    yield SqlFunction(
        "fn_cdc_map_time_to_lsn",
        "(relational_operator string, tracking_time timestamp_ltz) returns bigint "
        f"return case lower(trim(relational_operator)) {found} else {refusal} end",
    )


def _mask_functions(recorded: str) -> Iterator[SqlFunction]:
    definition = _latest(recorded, "definition", "fn_cdc_get_column_ordinal.capture_instance")
    columns = f"from_json({definition}, 'columns array<struct<name: string>>').columns.name"
    yield SqlFunction(
        "fn_cdc_get_column_ordinal",
        "(capture_instance string, column_name string) returns int "
        f"return nullif(cast(array_position({columns}, column_name) as int), 0)",
    )
    byte = "substring(update_mask, cast(length(update_mask) - (position - 1) div 8 as int), 1)"
    bit = f"shiftright(cast(conv(hex({byte}), 16, 10) as int), cast((position - 1) % 8 as int)) & 1"
    yield SqlFunction(
        "fn_cdc_is_bit_set",
        "(position int, update_mask binary) returns int "
        f"return if(position between 1 and 8 * length(update_mask), {bit}, 0)",
    )
    yield SqlFunction(
        "fn_cdc_has_column_changed",
        "(capture_instance string, column_name string, update_mask binary) returns int "
        "return fn_cdc_is_bit_set(fn_cdc_get_column_ordinal(capture_instance, column_name), update_mask)",
    )


def _all_changes(lake: str, visible: str, recorded: str, instance: Instance) -> SqlFunction:
    name = f"fn_cdc_get_all_changes_{instance.capture_instance}"
    asked_from, asked_to, option = _arguments(name)
    shown_as = instance.for_readers()
    columns = shown_columns(shown_as)
    names = ", ".join(
        f"{quote(name)} as {quote(instance.reader_names.get(name, name))}" for name, _ in shown_columns(instance)
    )
    shown = " or ".join(
        f"{option} = {literal(words)} and `__$operation` in ({', '.join(map(str, operations))})"
        for words, operations in ROW_FILTERS.items()
    )
    rows = (
        f"select {names} from {table_at(change_table_path(lake, instance.capture_instance))} "
        f"where `__$start_lsn` between {asked_from} and {asked_to} and ({shown})"
    )
    high = f"(select max(start_lsn) as high from {visible})"
    low = f"(select {latest_value('lsn')} as low from {recorded} where {_instance_condition(instance)})"
    missing = (
        f"(select min_by(concat(lsn, ': ', note), lsn) as missing from {recorded} "
        f"where {_instance_condition(instance)} "
        f"and state = '{SKIPPED}' and lsn between {asked_from} and {asked_to})"
    )
    interval = (
        f"({asked_from} >= low and {asked_from} <= {asked_to} and {asked_to} <= high "
        f"or {asked_from} = high + 1 and {asked_to} in (high, high + 1))"
    )
    words = (
        f"'RT-313: LSN range ', {asked_from}, ' to ', {asked_to}, "
        f"' is outside the validity interval of {instance.capture_instance}, ', low, ' to ', high"
    )
    over_gap = f"'RT-313: LSN range ', {asked_from}, ' to ', {asked_to}, ' contains ', missing"
    checks = [
        *_option_check(option, ROW_FILTERS),
        (interval, f"concat({words})"),
        ("missing is null", f"concat({over_gap})"),
    ]
    checked = guard(columns, checks, f"{low} cross join {high} cross join {missing}")
    return table_function(name, WINDOW, columns, f"{rows} union all {checked}")


def _net_changes(recorded: Instance) -> SqlFunction:
    instance = recorded.for_readers()
    name = f"fn_cdc_get_net_changes_{instance.capture_instance}"
    asked_from, asked_to, option = _arguments(name)
    rows = f"{quote(f'fn_cdc_get_all_changes_{instance.capture_instance}')}({asked_from}, {asked_to}, '{ALL}')"
    columns = net_columns(instance)
    names = ", ".join(quote(column) for column, _ in columns)
    query = f"select {names} from ({net_select(rows, instance, option, Truncates.JOINED)})"
    checks = [*_option_check(option, NET_ROW_FILTERS), *key_checks(instance, asked_to)]
    checked = guard(columns, checks, "(select 1)")
    return table_function(name, WINDOW, columns, f"{query} union all {checked}")


def _arguments(name: str) -> tuple[str, str, str]:
    """Return a table function's arguments, qualified: a captured column may have one of their names."""
    function = quote(name)
    return f"{function}.from_lsn", f"{function}.to_lsn", f"lower(trim({function}.row_filter_option))"


def _option_check(option: str, options: Iterable[str]) -> list[Check]:
    known = ", ".join(map(literal, options))
    return [
        (f"{option} in ({known})", f"concat('RT-313: ', {option}, ' is no row filter option of: {', '.join(options)}')")
    ]


def _latest(recorded: str, column: str, name: str) -> str:
    """Return the subquery for a column of an enabled instance's latest row, null for any other."""
    return f"(select {latest_value(column)} from {recorded} as recorded where recorded.capture_instance = {name})"


def _instance_condition(instance: Instance) -> str:
    return f"capture_instance = {literal(instance.capture_instance)}"


def _raise(message: str) -> str:
    return f"raise_error({literal(message)})"


_AT_ONCE = 4
"""The number of instances that are registered concurrently: creating a function, Spark lists each table that it
reads.
"""


def register(spark: SparkSession, lake: str) -> tuple[str, ...]:
    """Create the functions of a lake's enabled instances as temporary functions of a session; return their names.

    Call again for instances that are enabled later. Raises `LakeUnknown`, `StorageNotShared`.
    """
    require_reachable(lake)
    instances = [recorded.instance for recorded in PublishedLake(lake).list_recorded_instances()]
    copied = [one.member_id for one in instances if _has_base(lake, one)]
    scalar, of_instances = sql_functions(spark_url(lake, os.environ), instances, host_name(), copied)
    create = partial(_create, spark)
    with lack_named():
        # The first one runs alone, because its first read of a table initializes Spark for all.
        create(scalar)
        with ThreadPoolExecutor(_AT_ONCE, "rowtide-register") as pool:
            list(pool.map(create, of_instances))
    return tuple(function.name for functions in (scalar, *of_instances) for function in functions)


def _create(spark: SparkSession, functions: Sequence[SqlFunction]) -> None:
    for function in functions:
        spark.sql(function.statement)


def _has_base(lake: str, instance: Instance) -> bool:
    snapshot = open_snapshot(locate(base_table_path(lake, instance.capture_instance)))
    return snapshot is not None and snapshot.properties.get(IDENTITY) == instance.member_id
