"""Scripts of functions that query changes by time (SQL Server: sp_cdc_generate_wrapper_function). Pure.

In Spark SQL, over the functions that `rowtide.register` creates. Nothing is created: the user runs the scripts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rowtide.cdc.change_columns import DELETE, INSERT, TRUNCATE, UPDATE_AFTER, UPDATE_BEFORE
from rowtide.cdc.errors.querying import WrapperColumnUnknown, WrapperFlagUnknown
from rowtide.cdc.instances import Instance
from rowtide.cdc.queries.lsn_times import LARGEST_BEFORE, LARGEST_UP_TO
from rowtide.cdc.queries.net_changes import MERGE, NET_ROW_FILTERS, Truncates, net_select
from rowtide.core.values import frozen
from rowtide.lake.sql_text import quote

_OPERATIONS = {DELETE: "D", INSERT: "I", UPDATE_BEFORE: "UO", UPDATE_AFTER: "UN", MERGE: "M", TRUNCATE: "T"}


@frozen
class WrapperFunction:
    """A function's name, and the statement that creates it."""

    function_name: str
    create_script: str


@frozen
class WrapperRequest:
    """The options of the functions.

    With a closed high end point the window is (start, end], else (start, end). `column_list` are the columns that they
    return (None: all captured), `update_flag_list` those that get a column `<name>_uflag`, which says whether an update
    changed them (None: none).
    """

    closed_high_end_point: bool = True
    column_list: tuple[str, ...] | None = None
    update_flag_list: tuple[str, ...] | None = None


def generate_wrappers(instance: Instance, request: WrapperRequest) -> Iterator[WrapperFunction]:
    """Return the functions of an instance. Raises `WrapperColumnUnknown`, `WrapperFlagUnknown`."""
    instance = instance.for_readers()
    _require_captured(instance, request)
    selected = list(_selected(instance, request))
    yield _all_changes_wrapper(instance, selected, request)
    if instance.supports_net_changes:
        yield _net_changes_wrapper(instance, selected, request)


def _require_captured(instance: Instance, request: WrapperRequest) -> None:
    captured = {column.name for column in instance.columns}
    for name in request.column_list or ():
        if name not in captured:
            raise WrapperColumnUnknown(instance.capture_instance, name)
    for name in request.update_flag_list or ():
        if name not in captured:
            raise WrapperFlagUnknown(instance.capture_instance, name)


def _selected(instance: Instance, request: WrapperRequest) -> Iterator[str]:
    lake_names = {column.name: column.lake_name for column in instance.columns}
    ordinals = {name: ordinal for ordinal, name in enumerate(lake_names, 1)}
    for name in request.column_list if request.column_list is not None else lake_names:
        yield quote(lake_names[name])
    letters = " ".join(f"when {operation} then '{letter}'" for operation, letter in _OPERATIONS.items())
    yield f"case `__$operation` {letters} end as `__CDC_OPERATION`"
    for name in request.update_flag_list or ():
        is_set = f"fn_cdc_is_bit_set({ordinals[name]}, `__$update_mask`)"
        is_known = f"`__$operation` = {UPDATE_AFTER} and `__$update_mask` is not null"
        yield f"if({is_known}, {is_set}, null) as {quote(f'{lake_names[name]}_uflag')}"


def _all_changes_wrapper(instance: Instance, selected: Iterable[str], request: WrapperRequest) -> WrapperFunction:
    name = f"fn_all_changes_{instance.capture_instance}"
    rows = _rows(name, instance, request, check="", option="asked.row_filter_option")
    position = ("`__$start_lsn` as `__CDC_STARTLSN`", "`__$seqval` as `__CDC_SEQVAL`")
    return WrapperFunction(name, _script(name, [*position, *selected], rows))


def _net_changes_wrapper(instance: Instance, selected: Iterable[str], request: WrapperRequest) -> WrapperFunction:
    # Spark's optimizer fails for a net function in a lateral join, so net changes are made from all changes here.
    name = f"fn_net_changes_{instance.capture_instance}"
    known = ", ".join(f"'{option}'" for option in NET_ROW_FILTERS)
    check = _CHECK.format(known=known, words=", ".join(NET_ROW_FILTERS))
    rows = _rows(name, instance, request, check=check, option="'all'")
    net = net_select(rows, instance, f"lower(trim({quote(name)}.row_filter_option))", Truncates.JOINED)
    return WrapperFunction(name, _script(name, selected, f"({net})"))


def _script(name: str, selected: Iterable[str], rows: str) -> str:
    return _SCRIPT.format(name=quote(name), selected=",\n    ".join(selected), rows=rows)


def _rows(name: str, instance: Instance, request: WrapperRequest, *, check: str, option: str) -> str:
    return _ROWS.format(
        name=quote(name),
        function=quote(f"fn_cdc_get_all_changes_{instance.capture_instance}"),
        instance=instance.capture_instance,
        last=LARGEST_UP_TO if request.closed_high_end_point else LARGEST_BEFORE,
        largest_up_to=LARGEST_UP_TO,
        check=check,
        option=option,
    )


_SCRIPT = """\
create or replace temporary function {name}(
    start_time timestamp_ltz default null, end_time timestamp_ltz default null, row_filter_option string default 'all')
returns table return
select
    {selected}
from {rows}
"""

_CHECK = """
                when coalesce(lower(trim(row_filter_option)), '') not in ({known})
                then raise_error('RT-313: the row filter option is none of: {words}')"""

# If no transaction ended in the window, the single LSN that is requested follows a transaction's, and belongs to none.
_ROWS = """(
    select changes.*
    from (
        select from_lsn, if(to_lsn = from_lsn - 1, from_lsn, to_lsn) as to_lsn, row_filter_option
        from (
            select
                row_filter_option,
                case{check}
                when start_time is null then low
                when start_time between low_time and high_time
                then fn_cdc_map_time_to_lsn('{largest_up_to}', start_time) + 1
                else raise_error('RT-313: the start time is outside the validity interval of {instance}')
                end as from_lsn,
                case
                when end_time is null then high
                when end_time between low_time and high_time
                then fn_cdc_map_time_to_lsn('{last}', end_time)
                else raise_error('RT-313: the end time is outside the validity interval of {instance}')
                end as to_lsn
            from (
                select
                    low,
                    high,
                    fn_cdc_map_lsn_to_time(low) as low_time,
                    fn_cdc_map_lsn_to_time(high) as high_time,
                    {name}.start_time,
                    {name}.end_time,
                    {name}.row_filter_option
                from (select fn_cdc_get_min_lsn('{instance}') as low, fn_cdc_get_max_lsn() as high)
            )
        )
    ) as asked, lateral {function}(asked.from_lsn, asked.to_lsn, {option}) as changes
)"""
