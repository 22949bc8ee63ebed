"""Declared states: a file's text applied to a database, and read from it again."""

from __future__ import annotations

from rowtide.declared import applying
from rowtide.declared.file import parse_file, write_file
from rowtide.declared.planning import Action, Plan


def plan_text(url: str, text: str, *, prunes: bool = False) -> Plan:
    """Return the plan of a file's text."""
    return applying.plan(url, parse_file(text, "shop.toml"), prunes=prunes)


def apply_text(url: str, text: str, *, prunes: bool = False) -> Plan:
    """Apply a file's text; return what was planned."""
    planned = plan_text(url, text, prunes=prunes)
    applying.apply(url, planned)
    return planned


def export_text(url: str) -> str:
    """Return what `rowtide export` prints."""
    return write_file(applying.read_state(url))


def actions_of(planned: Plan) -> dict[str, str]:
    """Return what is done with each object that is not left, by its kind and name."""
    return {f"{step.kind} {step.name}".rstrip(): step.action for step in planned.steps if step.action != Action.LEAVE}
