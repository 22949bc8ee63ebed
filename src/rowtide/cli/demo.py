"""`rowtide demo`: see capture work."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from rowtide.cli.groups import CommandTable
from rowtide.core.options import Option

app = CommandTable()


@app.command(epilog="Example: rowtide demo --keep /tmp/rowtide-demo")
def demo(
    *,
    seconds: Annotated[int, Option(min=1, help="How long pgbench runs, at least.")] = 20,
    keep: Annotated[
        Path | None, Option(help="An empty folder, in which everything is kept: lake, log store, PostgreSQL's data.")
    ] = None,
) -> None:
    """Run capture on an embedded PostgreSQL with a real workload, and prove that nothing is lost.

    Starts PostgreSQL and pgbench, captures their changes while they run, reads them consistently from a second process,
    and compares the result with the source, row by row.
    """
    from rich.console import Console

    from rowtide.demo.report import write_report
    from rowtide.demo.story import run_demo

    outcome = run_demo(seconds=seconds, keep=keep, console=Console(stderr=True, highlight=False))
    print(write_report(outcome))
