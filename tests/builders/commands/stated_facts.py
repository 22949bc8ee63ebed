"""What `health`, `check` and the `status` commands state of a database, to be compared from one moment to another."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from builders.commands.command_lines import rowtide

_STATUS = ("cdc status", "replication status", "merge status", "tracking options")
_COMMANDS = {
    "health": ("health", "--format", "json"),
    "check": ("check", "--format", "jsonl"),
    **{command: (*command.split(), "--format", "jsonl") for command in _STATUS},
}
_PASSING = {"log_end", "lag_bytes", "lag_seconds", "kept_wal_bytes", "capture_lag_seconds"}
"""Columns whose value changes from one moment to the next."""
_PASSES = {
    r"\b[0-9A-F]+/[0-9A-F]+\b": "an LSN",
    r"\b\d+(\.\d+)? (ms|s|minutes|hours|days)\b": "some time",
    r"\b\d+(\.\d+)? (bytes|[KMGT]iB)": "some bytes",
    r"\d{4}-\d\d-\d\dT[\d:.]+(\+00:00)?": "a moment",
}


@dataclass(frozen=True, slots=True)
class Stated:
    """What one command printed: by subject what it says and in which state; rows of a listing are their columns."""

    code: int
    errors: str
    facts: Mapping[tuple[str, str], tuple[str | None, str]]
    """By subject and message, or column and value: the state, and what remedies it."""


def state(url: str) -> dict[str, Stated]:
    """Run the commands on a database; none may end in a traceback."""
    return {name: _state(url, words) for name, words in _COMMANDS.items()}


def _state(url: str, words: tuple[str, ...]) -> Stated:
    ended = rowtide(*words, "--db", url)
    assert "Traceback" not in ended.errors, ended
    facts: dict[tuple[str, str], tuple[str | None, str]] = {}
    for line in ended.output.splitlines():
        printed = json.loads(line)
        for row in printed.get("results", [printed]):
            facts.update(_facts(row))
    return Stated(ended.code, _without_passing(ended.errors), facts)


def _facts(row: dict[str, Any]) -> Iterator[tuple[tuple[str, str], tuple[str | None, str]]]:
    if "message" in row:
        remediation = _without_passing(row["remediation"] or "")
        yield (row["subject"], _without_passing(row["message"])), (row["state"], remediation)
        return
    for column, value in row.items():
        if value is not None:
            text = "a number" if column in _PASSING else _without_passing(json.dumps(value))
            yield (column, text), (None, "")


def _without_passing(text: str) -> str:
    for pattern, word in _PASSES.items():
        text = re.sub(pattern, word, text)
    return text
