"""Scripts of functions that ask for changes by time (SQL Server: sp_cdc_generate_wrapper_function). Pure.

In Spark SQL, over the functions that `rowtide.register` makes. Nothing is created: who wants them runs them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rowtide.cdc.errors import WrapperColumnUnknown, WrapperFlagUnknown
from rowtide.cdc.expressions import DELETE, INSERT, TRUNCATE, UPDATE_AFTER, UPDATE_BEFORE, quote
from rowtide.cdc.instances import name_lake_columns
from rowtide.cdc.lsn_times import LARGEST_BEFORE, LARGEST_UP_TO
from rowtide.cdc.net_changes import MERGE

_OPERATIONS = {DELETE: "D", INSERT: "I", UPDATE_BEFORE: "UO", UPDATE_AFTER: "UN", MERGE: "M", TRUNCATE: "T"}


@dataclass(frozen=True, slots=True)
class WrapperFunction:
    """A function's name, and the statement that makes it."""

    function_name: str
    create_script: str


@dataclass(frozen=True, slots=True)
class WrapperRequest:
    """What the functions are to be like.

    With a closed high end point the window is (start, end], else (start, end). `column_list` are the columns that they
    return (None: all captured), `update_flag_list` those of which a column `<name>_uflag` tells whether an update
    changed them (None: none).
    """

    closed_high_end_point: bool = True
    column_list: tuple[str, ...] | None = None
    update_flag_list: tuple[str, ...] | None = None


def generate_wrappers(
    capture_instance: str, columns: Sequence[str], request: WrapperRequest, *, supports_net_changes: bool
) -> Iterator[WrapperFunction]:
    """Return the functions of an instance with these captured columns.

    Raises `WrapperColumnUnknown`, `WrapperFlagUnknown`.
    """
    for name in request.column_list or ():
        if name not in columns:
            raise WrapperColumnUnknown(capture_instance, name)
    for name in request.update_flag_list or ():
        if name not in columns:
            raise WrapperFlagUnknown(capture_instance, name)
    position = ("`__$start_lsn` as `__CDC_STARTLSN`", "`__$seqval` as `__CDC_SEQVAL`")
    selected = list(_selected(columns, request))
    yield _wrapper("all", capture_instance, [*position, *selected], request)
    if supports_net_changes:
        yield _wrapper("net", capture_instance, selected, request)


def _selected(columns: Sequence[str], request: WrapperRequest) -> Iterator[str]:
    lake_names = dict(zip(columns, name_lake_columns(columns), strict=True))
    for name in request.column_list if request.column_list is not None else columns:
        yield f"changes.{quote(lake_names[name])}"
    letters = " ".join(f"when {operation} then '{letter}'" for operation, letter in _OPERATIONS.items())
    yield f"case `__$operation` {letters} end as `__CDC_OPERATION`"
    for name in request.update_flag_list or ():
        is_set = f"fn_cdc_is_bit_set({columns.index(name) + 1}, `__$update_mask`)"
        is_known = f"`__$operation` = {UPDATE_AFTER} and `__$update_mask` is not null"
        yield f"if({is_known}, {is_set}, null) as {quote(f'{lake_names[name]}_uflag')}"


def _wrapper(kind: str, capture_instance: str, selected: Sequence[str], request: WrapperRequest) -> WrapperFunction:
    name = f"fn_{kind}_changes_{capture_instance}"
    asked = quote(f"fn_cdc_get_{kind}_changes_{capture_instance}")
    last = LARGEST_UP_TO if request.closed_high_end_point else LARGEST_BEFORE
    script = _SCRIPT.format(
        name=quote(name),
        selected=",\n    ".join(selected),
        asked=asked,
        instance=capture_instance,
        largest_up_to=LARGEST_UP_TO,
        last=last,
    )
    return WrapperFunction(name, script)


# Where no transaction ended in the window, the one LSN that is asked for is above a transaction's, and no one's own.
_SCRIPT = """\
create or replace temporary function {name}(
    start_time timestamp default null, end_time timestamp default null, row_filter_option string default 'all')
returns table return
select
    {selected}
from (
    select
        from_lsn,
        if(to_lsn = from_lsn - 1, from_lsn, to_lsn) as to_lsn,
        row_filter_option
    from (
        select
            case
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
            end as to_lsn,
            row_filter_option
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
) as asked, lateral {asked}(asked.from_lsn, asked.to_lsn, asked.row_filter_option) as changes
"""
