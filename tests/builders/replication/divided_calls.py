"""Calls of a small table, as a batch has them, whose division among streams is looked at."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from builders.capture.capture_instances import source_table
from builders.replication.articles import article
from rowtide.core.operations import Operation
from rowtide.replication.articles.articles import Article
from rowtide.replication.distribution.calls.arguments import bitmap_length
from rowtide.replication.distribution.calls.ordered import ProcedureCall

TABLE = source_table([("id", "integer"), ("code", "text"), ("parent", "integer")], name="orders")
ORDERS = article(TABLE)
BY_XCALL = article(TABLE, update="XCALL", delete="XCALL")
Row = tuple[bytes, bytes | None, bytes | None]


def insert(made: Article, row: Row) -> ProcedureCall:
    return ProcedureCall(0, 0, made, Operation.INSERT, list(row))


def delete(made: Article, row: Row) -> ProcedureCall:
    return ProcedureCall(0, 0, made, Operation.DELETE, list(row) if made is BY_XCALL else [row[0]])


def update(made: Article, old: Row, new: Row) -> ProcedureCall:
    if made is BY_XCALL:
        return ProcedureCall(0, 0, made, Operation.UPDATE, [*old, *new])
    changed = [before != after for before, after in zip(old, new, strict=True)]
    bits = sum(1 << place for place, is_changed in enumerate(changed) if is_changed)
    shown = [value if is_changed else None for value, is_changed in zip(new, changed, strict=True)]
    return ProcedureCall(0, 0, made, Operation.UPDATE, [*shown, old[0], b"\\x%0*x" % (2 * bitmap_length(3), bits)])


@st.composite
def histories(draw: st.DrawFn) -> list[ProcedureCall]:
    """Draw what is done to a table whose keys and codes are unique at each moment, by either call format."""
    made = draw(st.sampled_from([ORDERS, BY_XCALL]))
    rows: dict[bytes, Row] = {}
    calls: list[ProcedureCall] = []
    for _ in range(draw(st.integers(1, 25))):
        key, code = draw(st.sampled_from([b"1", b"2", b"3", b"4"])), draw(st.sampled_from([b"a", b"b", b"c", None]))
        old = rows.get(draw(st.sampled_from([b"1", b"2", b"3", b"4"])))
        others = [row for row in rows.values() if row != old]
        is_free = all(row[0] != key and (code is None or row[1] != code) for row in others)
        if old is not None and draw(st.booleans()):
            calls.append(delete(made, old))
            del rows[old[0]]
        elif is_free:
            new: Row = (key, code, None)
            if old is not None and new != old:
                calls.append(update(made, old, new))
                del rows[old[0]]
            elif old is None and key not in rows:
                calls.append(insert(made, new))
            rows[key] = new
    return calls


def shares_of(calls: Sequence[ProcedureCall], numbers: Sequence[int]) -> list[list[ProcedureCall]]:
    """Return the calls of each stream that has one, of calls with the numbers of their streams."""
    assert len(numbers) == len(calls)
    return [
        [call for call, of in zip(calls, numbers, strict=True) if of == number] for number in range(max(numbers) + 1)
    ]


def row_after(call: ProcedureCall, code_before: bytes | None) -> tuple[bytes | None, bytes | None]:
    """Return the key and code that an insert or update leaves."""
    arguments = call.arguments
    if call.operation is Operation.INSERT:
        return arguments[0], arguments[1]
    if call.article is BY_XCALL:
        return arguments[3], arguments[4]
    bits = int((arguments[4] or b"")[2:4], 16)
    return arguments[0] if bits & 1 else arguments[3], arguments[1] if bits & 2 else code_before
