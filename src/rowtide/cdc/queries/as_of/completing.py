"""How last rows meet the rows of the lowest layer: by their keys, and for the values that they lack. SQL text. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rowtide.cdc.instances import Instance
from rowtide.cdc.queries.net_changes import LACKS_VALUES, key_expressions
from rowtide.cdc.queries.table_functions import mark_condition, mask_of, null_if_empty
from rowtide.cdc.rows.change_columns import column_type
from rowtide.lake.sql_text import quote

_ABSENT, _EXACT = "__$absent_mask", "__$exact"
_HIDES = "__$hides"


def table_columns(instance: Instance) -> list[str]:
    """Return the columns of a table as of an LSN: the captured ones, and what they lack and hold."""
    return [*(column.lake_name for column in instance.columns), _ABSENT, _EXACT]


def named_keys(instance: Instance) -> Iterator[str]:
    """Return what identifies a row, under names of its own: `key_condition` compares with them."""
    return (f"{key} as {_key_name(place)}" for place, key in enumerate(key_expressions(instance)))


def key_condition(instance: Instance) -> str:
    """Return the condition that a row of a table has the key that another relation has as `named_keys`."""
    # A key's column is never null, but where its text is in `__$exact`.
    holds_all = {quote(one.lake_name) for one in instance.columns if column_type(instance, one).holds_all}
    keys = enumerate(key_expressions(instance))
    return " and ".join(f"{key} {'=' if key in holds_all else '<=>'} {_key_name(place)}" for place, key in keys)


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


def _key_name(place: int) -> str:
    return f"`__$key_{place}`"


def _below(name: str) -> str:
    return quote(f"__$below_{name}")
