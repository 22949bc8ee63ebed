"""Earlier values of an additive column, from which the changes of two nodes can be added up. Pure.

A trigger keeps the value from before the first change since the row was received, with the number 0. Each time the row
is sent, the sent value is appended with the number of its change. A receiver starts from the last value whose change it
includes. `bases` is a JSON list of pairs: the number, and the value as text.
"""

from __future__ import annotations

import json
from decimal import Decimal, InvalidOperation

from rowtide.merge.versions.lineage import Change, Lineage

_MOST = 10
"""Number of sent values that are kept: that many interrupted synchronisations in a row can be added up."""


def append(bases: str, version: int, value: str | None) -> str:
    """Return bases with the value about to be sent. Idempotent."""
    pairs: list[list[int | str | None]] = json.loads(bases)
    if pairs[-1][0] == version:
        return bases
    later = [*pairs[1:], [version, value]]
    return json.dumps([pairs[0], *later[-_MOST:]])


def add_up(bases: str, lineage: Lineage, sender: int, sent: str | None, known: str | None) -> str | None:
    """Return the local value plus the sender's changes since; of NULL and a number, the number.

    `lineage` is what the receiver includes. None if the sum cannot be computed.
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
