"""Statements as text, for `--dry-run`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from sqlalchemy import Executable
from sqlalchemy.dialects import postgresql


def print_statements(steps: Sequence[Executable]) -> None:
    """Print statements with their values, as they would run."""
    dialect = postgresql.dialect(paramstyle="named")  # type: ignore[no-untyped-call]
    for step in steps:
        compiled = step.compile(dialect=dialect, compile_kwargs={"literal_binds": True})  # type: ignore[attr-defined]
        sys.stdout.write(f"{str(compiled).strip()};\n")
