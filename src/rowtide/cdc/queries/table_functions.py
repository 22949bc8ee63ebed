"""Spark SQL as text: functions, their checks, and masks. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rowtide.cdc.change_columns import mask_length
from rowtide.cdc.instances import Instance
from rowtide.cdc.published import ALTERED, ENABLED, SKIPPED
from rowtide.core.values import frozen
from rowtide.lake.sql_text import literal, quote


@frozen
class SqlFunction:
    """A temporary function: its name, and what follows it in `create temporary function`."""

    name: str
    definition: str

    @property
    def statement(self) -> str:
        """The statement that creates or replaces the function."""
        return f"create or replace temporary function {quote(self.name)}{self.definition}"


def table_function(name: str, arguments: str, columns: Iterable[tuple[str, str]], query: str) -> SqlFunction:
    """Return a function that returns a query's rows."""
    shape = ", ".join(f"{quote(column)} {type_name}" for column, type_name in columns)
    return SqlFunction(name, f"({arguments}) returns table ({shape}) return {query}")


Check = tuple[str, str]
"""A condition, and the message if it is false or null."""


def key_checks(instance: Instance, asked: str) -> list[Check]:
    """Return the check that an instance's key identifies rows as of an LSN."""
    if instance.key_lost_at is None:
        return []
    message = (
        f"RT-22862: the key of {instance.capture_instance} no longer identifies its rows since {instance.key_lost_at}"
    )
    return [(f"{asked} < {instance.key_lost_at}", literal(message))]


def guard(columns: Iterable[tuple[str, str]], checks: Iterable[Check], row: str) -> str:
    """Return a query without rows over a relation of one row, which raises if one of the checks fails."""
    failures = " ".join(
        f"when not coalesce({condition}, false) then coalesce({message}, 'RT-313: an argument is null')"
        for condition, message in checks
    )
    failure = f"(select case {failures} end as failure from {row})"
    nothing = (
        f"if(failure is null, cast(null as {type_name}), raise_error(failure)) as {quote(name)}"
        for name, type_name in columns
    )
    return f"select {', '.join(nothing)} from {failure} where if(failure is null, false, raise_error(failure))"


def latest_value(column: str) -> str:
    """Return the aggregate over an instance's rows of `instances` for a column of its latest state, if enabled."""
    place = f"if(state in ('{SKIPPED}', '{ALTERED}'), null, struct(cycle, ordinal))"
    return f"max_by(if(state = '{ENABLED}', {column}, null), {place})"


def mark_condition(mask: str, ordinal: int, columns: int) -> str:
    """Return whether a mask has an ordinal's bit; a null mask has none."""
    byte = f"substring({mask}, {mask_length(columns) - (ordinal - 1) // 8}, 1)"
    bit = f"shiftright(cast(conv(hex({byte}), 16, 10) as int), {(ordinal - 1) % 8}) % 2 = 1"
    return f"coalesce({bit}, false)"


def mask_of(bits: Sequence[str]) -> str:
    """Return the mask of one condition per ordinal."""
    length = mask_length(len(bits))
    # Ordinal 1 is the lowest bit of the last byte.
    from_the_last = ["false"] * (8 * length - len(bits)) + list(bits[::-1])
    digits = (f"if({bit}, '1', '0')" for bit in from_the_last)
    packed = f"transform(sequence(0, {2 * length - 1}), digit -> conv(substring(bits, 4 * digit + 1, 4), 2, 16))"
    # An array of one, whose element the function names: the bits are made once, not for each digit.
    return f"get(transform(array(concat({', '.join(digits)})), bits -> unhex(array_join({packed}, ''))), 0)"


def null_if_empty(mask: str, columns: int) -> str:
    """Return a mask, null if it has no bit."""
    return f"nullif({mask}, X'{bytes(mask_length(columns)).hex()}')"
