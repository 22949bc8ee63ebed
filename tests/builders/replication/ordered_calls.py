"""Calls as a delivery is given them, of calls that are given one by one."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from rowtide.core.operations import Operation
from rowtide.replication.distribution.calls.arguments import CallArguments
from rowtide.replication.distribution.calls.ordered import Calls, OrderedCalls, ProcedureCall


def in_order(calls: Iterable[ProcedureCall]) -> OrderedCalls:
    """Return calls in log order; those of one article and operation together, as they are read."""
    found: dict[tuple[str, Operation], list[ProcedureCall]] = {}
    for call in calls:
        found.setdefault((call.article.article_id, call.operation), []).append(call)
    return OrderedCalls.of(map(together, found.values()))


def numbered(calls: Iterable[ProcedureCall]) -> OrderedCalls:
    """Return calls in the order in which they are given, as changes of one transaction."""
    return in_order(call._replace(seqval=number) for number, call in enumerate(calls))


def together(calls: list[ProcedureCall]) -> Calls:
    """Return calls of one article and operation."""
    return Calls(
        calls[0].article,
        calls[0].operation,
        np.array([call.lsn for call in calls], dtype=np.int64),
        np.array([call.seqval for call in calls], dtype=np.int64),
        CallArguments.of([call.arguments for call in calls]),
    )
