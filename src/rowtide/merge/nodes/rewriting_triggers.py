"""Triggers of programs that change the row they fire for, also when the agent writes it."""

from __future__ import annotations

from rowtide.core.values import frozen


@frozen
class RewritingTrigger:
    """A trigger by which a row that arrives becomes another one; `exemption` is the condition that prevents it."""

    name: str
    table: str
    exemption: str

    def __str__(self) -> str:
        return (
            f"trigger {self.name} changes rows of {self.table} that arrive: they are uploaded again, and conflict, "
            f"without end where several nodes do so. Let it leave the agent's writes out: when ({self.exemption})"
        )
