"""Errors of bridging a gap."""

from __future__ import annotations

from rowtide.core.errors import Invalid, numbered


@numbered
class DifferenceImpossible(Invalid):
    """What a gap changed cannot be found for some capture instances."""

    number = 4270
    fact = "what the gap changed cannot be found: {reasons}"
    hint = (
        "Disable these instances and repeat the command, or run `rowtide cdc reinitialize` without --difference: all "
        "instances then continue after the gap."
    )
    reasons: str


@numbered
class TableRenamed(Invalid):
    """A table was renamed or dropped while it was locked for the comparison."""

    number = 4271
    fact = "table {table} was renamed, dropped or altered while the gap was being bridged"
    hint = "Repeat the command."
    table: str
