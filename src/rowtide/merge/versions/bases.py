"""What an additive column was before a node changed it, so that changes of two nodes can be added up. Pure.

A trigger keeps the value from before the first change since the row was received: that is `bases`, with the number 0.
Each time the row is sent, the value that is sent is appended with the number of the change that made it. Whoever
receives it has one of these: the last whose change it includes. Bases are a JSON list of pairs, the number and the
value as a text.
"""

from __future__ import annotations

import json
from decimal import Decimal, InvalidOperation

from rowtide.merge.versions.lineage import Change, Lineage

_MOST = 10
"""Values that are kept behind the first: as many synchronisations may be cut off before any is known to have come."""


def append(bases: str, version: int, value: str | None) -> str:
    """Return bases with the value that is about to be sent; a repeat is nothing new."""
    pairs: list[list[int | str | None]] = json.loads(bases)
    if pairs[-1][0] == version:
        return bases
    later = [*pairs[1:], [version, value]]
    return json.dumps([pairs[0], *later[-_MOST:]])


def add_up(bases: str, lineage: Lineage, sender: int, sent: str | None, known: str | None) -> str | None:
    """Return what is known with what the sender has changed since; of NULL and a number the number.

    `lineage` is what is known to be included. None where it cannot be said.
    """
    if sent is None or known is None:
        return known if sent is None else sent
    included = [value for version, value in json.loads(bases) if lineage.includes(Change(sender, version))]
    base = included[-1] if included else None
    if base is None:
        return None
    try:
        total = Decimal(known) + Decimal(sent) - Decimal(base)
    except InvalidOperation:
        return None
    return format(total, "f") if total.is_finite() else None
