"""Statements as text, for `--dry-run`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

from rowtide.cli.output.rows import notes


class Rehearsal(Protocol):
    """What a handle's `rehearsal` returns."""

    statements: list[str]


Rehearsed = TypeVar("Rehearsed", bound=Rehearsal)


@contextmanager
def printed(rehearsal: Rehearsed) -> Iterator[Rehearsed]:
    """Yield a rehearsal, and print its statements as they would run."""
    yield rehearsal
    for each in rehearsal.statements:
        sys.stdout.write(f"{each.strip()};\n")


def report(what: str, *, dry_run: bool) -> None:
    """Print what was done, unless nothing was."""
    if not dry_run:
        notes.print(what)
