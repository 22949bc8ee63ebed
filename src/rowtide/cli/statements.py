"""Statements as text, for `--dry-run`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from rowtide.cli.output import notes

if TYPE_CHECKING:
    from sqlalchemy import Executable


def print_statements(steps: Sequence[Executable]) -> None:
    """Print statements with their values, as they would run."""
    from sqlalchemy.dialects import postgresql

    dialect = postgresql.dialect(paramstyle="named")  # type: ignore[no-untyped-call]
    for step in steps:
        compiled = step.compile(dialect=dialect, compile_kwargs={"literal_binds": True})  # type: ignore[attr-defined]
        sys.stdout.write(f"{str(compiled).strip()};\n")


@contextmanager
def rehearsed(rehearse: Callable[[], AbstractContextManager[list[str]]], *, dry_run: bool) -> Iterator[None]:
    """With --dry-run, run without effect and print the statements."""
    if not dry_run:
        yield
        return
    with rehearse() as statements:
        yield
    write_statements(statements)


def write_statements(statements: Sequence[str]) -> None:
    """Print statements as they would run."""
    for each in statements:
        sys.stdout.write(f"{each.strip()};\n")


def tell(what: str, *, dry_run: bool) -> None:
    """Print what was done, unless nothing was."""
    if not dry_run:
        notes.print(what)
