"""Goals, and whether what was measured meets them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Goal:
    """A goal and what was measured, as texts: `is_met` has compared them."""

    name: str
    needed: str
    measured: str
    is_met: bool


def at_least(name: str, needed: float, measured: float) -> Goal:
    """Return a goal that is met from `needed` on."""
    return Goal(name, f"≥ {needed:,g}", figure(measured), measured >= needed)


def at_most(name: str, needed: float, measured: float) -> Goal:
    """Return a goal that is met up to `needed`."""
    return Goal(name, f"≤ {needed:,g}", figure(measured), measured <= needed)


def figure(value: float) -> str:
    """Return a number in as many digits as it deserves."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}"
