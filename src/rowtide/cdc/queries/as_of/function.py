"""The SQL of tables as of an LSN: last rows above the lowest layer, and the function of Spark SQL. Pure.

Other readers get facts about a base from Delta's log; here they are read from its rows: rows of a merged layer have the
`__$seqval` -1. Rows that are both in the base and in the change table are harmless, since only the last row of a key
counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rowtide.cdc.change_columns import TRUNCATE, change_columns, column_type
from rowtide.cdc.instances import Instance
from rowtide.cdc.published import SKIPPED, SUSPENDED, base_table_path, change_table_path, system_table_path
from rowtide.cdc.queries.net_changes import IS_DELETED, LACKS_VALUES, Truncates, key_expressions, last_select
from rowtide.cdc.queries.table_functions import (
    Check,
    SqlFunction,
    guard,
    key_checks,
    latest_value,
    mark_condition,
    mask_of,
    null_if_empty,
    table_function,
)
from rowtide.cdc.recorded_snapshots import SnapshotState
from rowtide.core.values import frozen
from rowtide.databases.lake_types import INTEGER_DIGITS, WIDENED
from rowtide.lake.sql_text import literal, quote, table_at

_ABSENT, _EXACT = "__$absent_mask", "__$exact"
_HIDES = "__$hides"


def table_columns(instance: Instance) -> list[str]:
    """Return the columns of a table as of an LSN: the captured ones, and what they lack and hold."""
    return [*(column.lake_name for column in instance.columns), _ABSENT, _EXACT]


def named_keys(instance: Instance) -> Iterator[str]:
    """Return what identifies a row, under names of its own: `key_condition` compares with them."""
    return (f"{key} as {_key_name(index)}" for index, key in enumerate(key_expressions(instance)))


def key_condition(instance: Instance) -> str:
    """Return the condition that a row of a table has the key that another relation has as `named_keys`."""
    # A key's column is null only if its text is in `__$exact`.
    holds_all = {quote(one.lake_name) for one in instance.columns if column_type(instance, one).holds_all}
    keys = enumerate(key_expressions(instance))
    return " and ".join(f"{key} {'=' if key in holds_all else '<=>'} {_key_name(index)}" for index, key in keys)


def rows_below(instance: Instance) -> Iterator[str]:
    """Return the columns of rows of the lowest layer that values are taken from, as `completed_columns` knows them."""
    yield from named_keys(instance)
    yield from (f"{quote(name)} as {_below(name)}" for name in table_columns(instance))
    yield f"true as `{_HIDES}`"


def completed_columns(instance: Instance) -> Iterator[str]:
    """Return the columns of last rows that were joined with `rows_below`, with the values that they lack."""
    count = len(instance.columns)
    takes = f"`{LACKS_VALUES}` and `{_HIDES}` is not null"
    is_taken = [f"({takes} and {mark_condition(f'`{_ABSENT}`', ordinal, count)})" for ordinal in range(1, count + 1)]
    for column, taken in zip(instance.columns, is_taken, strict=True):
        name = quote(column.lake_name)
        yield f"if({taken}, {_below(column.lake_name)}, {name}) as {name}"
    absent = [
        f"{taken} and {mark_condition(_below(_ABSENT), ordinal, count)}" for ordinal, taken in enumerate(is_taken, 1)
    ]
    yield f"if({takes}, {null_if_empty(mask_of(absent), count)}, `{_ABSENT}`) as `{_ABSENT}`"
    texts = ", ".join(
        f"{ordinal}, try_element_at(if({taken}, {_below(_EXACT)}, `{_EXACT}`), {ordinal})"
        for ordinal, taken in enumerate(is_taken, 1)
    )
    has_texts = f"{takes} and (`{_EXACT}` is not null or {_below(_EXACT)} is not null)"
    exact = f"map_filter(map({texts}), (ordinal, text) -> text is not null)"
    yield f"if({has_texts}, {exact}, `{_EXACT}`) as `{_EXACT}`"


def without_dropped(instance: Instance, dropped: Sequence[int], is_dropped: str) -> Iterator[str]:
    """Return the columns of a table as of an LSN, with null in some of them, by ordinal, on a condition."""
    count = len(instance.columns)
    for ordinal, column in enumerate(instance.columns, 1):
        name = quote(column.lake_name)
        yield f"if({is_dropped}, null, {name}) as {name}" if ordinal in dropped else name
    bits = [
        "false" if ordinal in dropped else mark_condition(f"`{_ABSENT}`", ordinal, count)
        for ordinal in range(1, count + 1)
    ]
    absent = f"if(`{_ABSENT}` is null, null, {null_if_empty(mask_of(bits), count)})"
    yield f"if({is_dropped}, {absent}, `{_ABSENT}`) as `{_ABSENT}`"
    left = f"map_filter(`{_EXACT}`, (ordinal, text) -> ordinal not in ({', '.join(map(str, dropped))}))"
    yield f"if({is_dropped}, {left}, `{_EXACT}`) as `{_EXACT}`"


def _key_name(index: int) -> str:
    return f"`__$key_{index}`"


def _below(name: str) -> str:
    return quote(f"__$below_{name}")


FOLDED_SEQVAL = -1
"""`__$seqval` of the rows of a folded layer: below those of snapshots, 0, and of changes."""

_LSN, _OPERATION = "`__$start_lsn`", "`__$operation`"
_LOWEST = "greatest(`__$begin`, coalesce(`__$folded_at`, 0))"


def table_as_of(lake: str, visible: str, recorded: str, instance: Instance) -> SqlFunction:
    """Return the function, which takes an LSN. `visible` and `recorded` are what `sql_functions` reads."""
    name = f"fn_cdc_get_table_as_of_{instance.capture_instance}"
    facts = _Facts(lake, recorded, instance, f"{quote(name)}.lsn")
    wanted = table_columns(instance.for_readers())
    columns = [(one.name, one.type_name) for one in change_columns(instance.for_readers()) if one.name in wanted]
    interval = (
        f"(select {latest_value('lsn')} as low from {recorded} where {facts.condition}) "
        f"cross join (select max(start_lsn) as high from {visible})"
    )
    row = " cross join ".join((interval, facts.begin, facts.earliest, facts.rewritten, facts.skipped, facts.differing))
    checks = [*_checks(instance.capture_instance, facts.asked), *key_checks(instance, facts.asked)]
    checked = guard(columns, checks, row)
    rows, shown_as = _rows(facts, wanted), instance.for_readers()
    for ordinal, column in enumerate(instance.columns, 1):
        if column.dropped_at is not None:
            kept = without_dropped(shown_as, [ordinal], f"{facts.asked} >= {column.dropped_at}")
            rows = f"select {', '.join(kept)} from ({rows})"
    return table_function(name, "lsn bigint", columns, f"{rows} union all {checked}")


@frozen
class _Facts:
    """Relations of one row, which the function's rows and checks are made of; `asked` is the argument."""

    lake: str
    recorded: str
    instance: Instance
    asked: str

    @property
    def condition(self) -> str:
        """The condition of rows of system tables that belong to the instance."""
        return f"member_id = {literal(self.instance.member_id)}"

    @property
    def begin(self) -> str:
        """The LSN of the snapshot's rows."""
        return (
            f"(select max_by(begin_lsn, snapshot) as `__$begin` from {self._complete} and covered_lsn <= {self.asked})"
        )

    @property
    def earliest(self) -> str:
        """The lowest LSN at which a snapshot is complete."""
        return f"(select min(covered_lsn) as `__$earliest` from {self._complete})"

    @property
    def folded_at(self) -> str:
        """The LSN of the rows of a folded layer."""
        return f"(select max({_LSN}) as `__$folded_at` from {self.base} where `__$seqval` = {FOLDED_SEQVAL})"

    @property
    def excluded(self) -> str:
        """The LSNs of rows of snapshots that are not complete."""
        covered = f"min(if(state = '{SnapshotState.COVERED}', covered_lsn, null)) as covered"
        each = f"select begin_lsn, {covered} from {self._snapshots} where {self.condition} group by begin_lsn"
        not_complete = f"covered is null or covered > {self.asked}"
        return f"(select collect_set(begin_lsn) as `__$excluded` from ({each}) where {not_complete})"

    @property
    def rewritten(self) -> str:
        """The last statement that rewrote values."""
        history = table_at(system_table_path(self.lake, "ddl_history"))
        return (
            f"(select max(ddl_lsn) as rewritten from {history} "
            f"where {self.condition} and rewrites_values and ddl_lsn <= {self.asked})"
        )

    @property
    def skipped(self) -> str:
        """The last transaction whose changes are missing."""
        return (
            f"(select max(lsn) as skipped from {self.recorded} "
            f"where {self.condition} and state = '{SKIPPED}' and lsn <= {self.asked})"
        )

    @property
    def differing(self) -> str:
        """The columns whose values are not the same in the types of the base and of the change table; see
        `opening.find_widened`.
        """
        each = ", ".join(
            f"struct({literal(one.lake_name)} as name, typeof(base.{quote(one.lake_name)}) as old, "
            f"typeof(changes.{quote(one.lake_name)}) as new)"
            for one in self.instance.columns
        )
        # The types without rows: nothing is read.
        row = f"(select 1) left join {self.base} base on false left join {self.changes} changes on false"
        differing = f"filter(array({each}), each -> not ({IS_CARRIED}))"
        return f"(select array_join(transform({differing}, each -> each.name), ', ') as `__$differing` from {row})"

    @property
    def base(self) -> str:
        return table_at(base_table_path(self.lake, self.instance.capture_instance))

    @property
    def changes(self) -> str:
        return table_at(change_table_path(self.lake, self.instance.capture_instance))

    @property
    def _snapshots(self) -> str:
        return table_at(system_table_path(self.lake, "snapshots"))

    @property
    def _complete(self) -> str:
        """The whole snapshots since the last gap."""
        gap = f"(select coalesce(max(lsn), 0) from {self.recorded} where {self.condition} and state = '{SUSPENDED}')"
        is_complete = f"state = '{SnapshotState.COVERED}' and is_whole"
        return f"{self._snapshots} where {self.condition} and {is_complete} and begin_lsn >= {gap}"


def _can_widen() -> str:
    """Return the condition that Delta widens a type of `each` to the other one; see `can_widen`."""
    (digits, scale), (new_digits, new_scale) = _decimal("each.old"), _decimal("each.new")
    pairs = ", ".join(f"struct({literal(old)}, {literal(new)})" for old, new in sorted(WIDENED))
    of_integers = " ".join(f"when {literal(name)} then {count}" for name, count in INTEGER_DIGITS.items())
    is_wider = f"{new_digits} >= case each.old {of_integers} else {digits} end and {new_scale} >= coalesce({scale}, 0)"
    return f"struct(each.old, each.new) in ({pairs}) or coalesce({is_wider}, false)"


def _decimal(name: str) -> tuple[str, str]:
    """Return the expressions for a decimal type's digits before and behind its point; null of another type."""
    parts = [
        f"try_cast(regexp_extract({name}, '^decimal[(]([0-9]+),([0-9]+)[)]$', {index}) as int)" for index in (1, 2)
    ]
    return f"({parts[0]} - {parts[1]})", parts[1]


IS_CARRIED = f"each.old = each.new or {_can_widen()}"
"""The condition that a value is the same in the types `each.old` and `each.new`."""


def _checks(name: str, asked: str) -> Iterator[Check]:
    cannot = f"'{name} cannot be read as of ', {asked}, "
    yield (
        f"{asked} between low and high",
        f"concat('RT-4252: ', {cannot}': its validity interval is ', low, ' to ', high)",
    )
    yield "`__$earliest` is not null", f"'RT-4250: no snapshot of {name} is complete'"
    earliest = f"{cannot}': its first usable snapshot is complete as of ', `__$earliest`"
    yield "`__$begin` is not null", f"concat('RT-4251: ', {earliest})"
    rewritten = f"{cannot}': a statement changed values without change rows at ', rewritten"
    yield "coalesce(rewritten, 0) <= `__$begin`", f"concat('RT-4253: ', {rewritten})"
    skipped = f"{cannot}': changes since its last snapshot are missing, at ', skipped"
    yield "coalesce(skipped, 0) <= `__$begin`", f"concat('RT-4254: ', {skipped})"
    differing = f"the change table of {name} and its base have other types of "
    yield "`__$differing` = ''", f"concat('RT-2217: ', {literal(differing)}, `__$differing`)"


def _rows(facts: _Facts, wanted: list[str]) -> str:
    """Return the query for the rows."""
    instance = facts.instance.for_readers()
    shown = ", ".join(
        f"{quote(column.name)} as {quote(facts.instance.reader_names.get(column.name, column.name))}"
        for column in change_columns(facts.instance)
        if column.name != "__$end_lsn"
    )
    above = f"{facts.begin} cross join {facts.folded_at}"
    of_base = f"{facts.base} cross join {above}"
    upper = (
        f"(select {shown} from {of_base} cross join {facts.excluded} "
        f"where {_LSN} > {_LOWEST} and {_LSN} <= {facts.asked} and not array_contains(`__$excluded`, {_LSN}) union all "
        f"select {shown} from {facts.changes} cross join {facts.begin} "
        f"where {_LSN} > `__$begin` and {_LSN} <= {facts.asked})"
    )
    columns = ", ".join(map(quote, wanted))
    truncated = f"(select count(*) as `__$truncates` from {upper} where {_OPERATION} = {TRUNCATE})"
    lowest = (
        f"(select {columns} from (select {shown} from {of_base} where {_LSN} = {_LOWEST}) cross join {truncated} "
        "where `__$truncates` = 0)"
    )
    keys = f"(select {', '.join(named_keys(instance))} from {upper} where {_OPERATION} != {TRUNCATE})"
    kept = f"select {columns} from {lowest} left anti join {keys} on {key_condition(instance)}"
    last = f"(select * from ({last_select(upper, instance, Truncates.JOINED)}) where not `{IS_DELETED}`)"
    if not instance.may_lack_values:
        return f"{kept} union all select {columns} from {last}"
    below = f"(select {', '.join(rows_below(instance))} from {lowest})"
    joined = f"{last} left join {below} on {key_condition(instance)} and `{LACKS_VALUES}`"
    return f"{kept} union all select {', '.join(completed_columns(instance))} from {joined}"
