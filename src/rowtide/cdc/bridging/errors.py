"""Errors of reconciling a gap."""

from __future__ import annotations

from rowtide.core.errors import Invalid


class DifferenceImpossible(Invalid, number=4270):
    """What a gap changed cannot be found for some capture instances."""

    fact = "what the gap changed cannot be found: {reasons}"
    hint = """Enable the tables of articles with a snapshot, or drop the publications. An instance begins again after
        the gap if that is allowed: the command asks, and in Python `restart` names it. `rowtide cdc reinitialize` lets
        all instances begin again."""
    reasons: str


class TableRenamed(Invalid, number=4271):
    """A table was renamed or dropped while it was locked for the comparison."""

    fact = "table {table} was renamed, dropped or altered while the gap was being reconciled"
    hint = "Repeat the command."
    table: str
