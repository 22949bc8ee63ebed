"""The PL/pgSQL block that writes the staged rows that the database accepts, and lists those that it refuses.

Each attempt is a subtransaction. Its statements are restricted to its rows by `WITHIN`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rowtide.databases.postgres.quoting import quote_literal
from rowtide.merge.definitions import SCHEMA
from rowtide.merge.nodes.postgres.execution import LOCKED, NO_RIGHT, OF_ROWS, OUTSIDE

REFUSED = "pg_temp.rowtide_refused"
"""The temporary table of the rows that the database refused, by their place."""
INVALID = "pg_temp.rowtide_invalid"
"""The temporary table of the rows with values that their columns' types do not take."""
OF_VALUES = (
    "data_exception or integrity_constraint_violation or feature_not_supported or plpgsql_error or "
    "external_routine_exception"
)
"""The conditions of a text that is no value of a type; a domain's check may raise what it likes."""
_EARLY, _TOGETHER, _EXCHANGES, _ALONE = range(4)


def in_retry(statements: Sequence[str]) -> str:
    """Return the statement of a block that runs others in retries only."""
    return f"if rowtide_phase > {_EARLY} then {'; '.join(statements)}; end if"


def refused_rows_block(
    rights: Sequence[str], statements: Sequence[str], places: Sequence[int], retry: str = "exit"
) -> str:
    """Return the block that runs the statements of a try for places, in halves where they fail, and lists the rest.

    `rights` are the conditions that the tables may be written; `retry` is what follows, see `retrying`.
    """
    # The block uses the arrays as a stack, from whose end it takes the first range.
    ranges = list(_ranges(places))[::-1]
    lows, highs = (",".join(str(each[end]) for each in ranges) for end in (0, 1))
    classes = ", ".join(map(quote_literal, OF_ROWS))
    may = " and ".join(rights)
    is_of_rows = f"(left(rowtide_state, 2) in ({classes}) and (rowtide_state <> '{NO_RIGHT}' or {may}))"
    # An error of rowtide's own tables is a fault, and no refused row: it ends the block.
    # After the first row that is locked, others are waited for only for a moment: else each would take the whole
    # patience, which `write_each` sets before the block and resets behind it.
    is_expected = f"{is_of_rows} and rowtide_schema is distinct from {quote_literal(SCHEMA)}"
    return f"""declare
rowtide_lows int[] := '{{{lows}}}'; rowtide_highs int[] := '{{{highs}}}'; rowtide_low int; rowtide_high int;
rowtide_middle int; rowtide_only int[]; rowtide_left int[]; rowtide_phase int := {_EARLY};
rowtide_taken boolean := false; rowtide_state text; rowtide_message text; rowtide_schema text;
begin loop
if cardinality(rowtide_lows) = 0 then {retry}; end if;
rowtide_low := rowtide_lows[cardinality(rowtide_lows)];
rowtide_high := rowtide_highs[cardinality(rowtide_highs)];
rowtide_lows := rowtide_lows[1:cardinality(rowtide_lows) - 1];
rowtide_highs := rowtide_highs[1:cardinality(rowtide_highs) - 1];
if rowtide_phase = {_EXCHANGES} then rowtide_only := array[rowtide_low, rowtide_high];
continue when not rowtide_left @> rowtide_only; end if;
begin
{"; ".join(statements)}; rowtide_taken := true;
if rowtide_phase in ({_TOGETHER}, {_EXCHANGES}) then
rowtide_left := array(select unnest(rowtide_left) except select unnest(rowtide_only)); end if;
exception when others then
get stacked diagnostics rowtide_state = returned_sqlstate, rowtide_message = message_text,
rowtide_schema = schema_name;
if rowtide_state = '{LOCKED}' then perform set_config('lock_timeout', '50ms', true);
elsif not (rowtide_state = '{OUTSIDE}' or {is_expected}) then raise; end if;
if rowtide_phase = {_EARLY} and rowtide_low < rowtide_high then
rowtide_middle := (rowtide_low + rowtide_high) / 2;
rowtide_lows := rowtide_lows || array[rowtide_middle + 1, rowtide_low];
rowtide_highs := rowtide_highs || array[rowtide_high, rowtide_middle];
elsif rowtide_phase in ({_EARLY}, {_ALONE}) then
insert into {REFUSED} values (rowtide_low, rowtide_state, rowtide_message); end if;
end; end loop; end"""


def retrying(places: Sequence[int], exchanges: Sequence[str], after: Sequence[str]) -> str:
    """Return what follows once all was tried: what was refused is tried again, with the rows at further places.

    All of it together; then each removal with the row that takes its key, which `exchanges` are queries of, by their
    places; then each row alone, again while others were accepted: rows may wait for each other in any order. That is
    quadratic in the length of such a chain, and linear in rows that nothing accepts. `after` follows the queries. The
    arrays are a stack here, too: rows are in descending order in them.
    """
    pairs = " union all ".join(exchanges) or "select 0, 0 where false"
    listed = ",".join(map(str, places))
    return f"""if rowtide_phase = {_EARLY} then
rowtide_left := array(select rowtide_place from {REFUSED} union all select unnest('{{{listed}}}'::int[]) order by 1);
exit when cardinality(rowtide_left) = 0;
delete from {REFUSED};
rowtide_phase := {_TOGETHER}; rowtide_only := rowtide_left;
rowtide_lows := rowtide_left[1:1]; rowtide_highs := array[rowtide_left[cardinality(rowtide_left)]];
end if;
if rowtide_phase = {_TOGETHER} and (cardinality(rowtide_left) = 1 or cardinality(rowtide_lows) = 0) then
exit when cardinality(rowtide_left) = 0;
rowtide_phase := {_EXCHANGES};
begin
select coalesce(array_agg(least(a, b)), '{{}}'), coalesce(array_agg(greatest(a, b)), '{{}}')
into rowtide_lows, rowtide_highs from ({pairs}) p (a, b);
exception when {OF_VALUES} then rowtide_lows := '{{}}'; rowtide_highs := '{{}}'; end;
{"".join(f"{each}; " for each in after)}end if;
if rowtide_phase = {_EXCHANGES} and cardinality(rowtide_lows) = 0 then
rowtide_phase := {_ALONE}; rowtide_only := null; rowtide_taken := false;
rowtide_lows := array(select unnest(rowtide_left) order by 1 desc); rowtide_highs := rowtide_lows;
elsif rowtide_phase = {_ALONE} then
exit when not rowtide_taken;
rowtide_taken := false;
rowtide_lows := array(select rowtide_place from {REFUSED} order by 1 desc); rowtide_highs := rowtide_lows;
delete from {REFUSED};
end if;
exit when cardinality(rowtide_lows) = 0"""


def _ranges(places: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and the last place of each run of places, which ascend."""
    first = last = None
    for place in places:
        if last is None or place != last + 1:
            if first is not None and last is not None:
                yield first, last
            first = place
        last = place
    if first is not None and last is not None:
        yield first, last
