"""Arguments and options shared by many commands."""

from __future__ import annotations

from typing import Annotated

from rowtide.cli.output.rows import OutputFormat
from rowtide.core.options import Argument, Option
from rowtide.databases.urls import lasting

Db = Annotated[
    str,
    Option("--db", envvar="ROWTIDE_DB", help="The source database: postgresql://user@host/name", show_default=False),
]
AnyDb = Annotated[
    str,
    Option(
        "--db",
        envvar="ROWTIDE_DB",
        help="The database: sqlite:///folder/file.db, postgresql://user@host/name",
        show_default=False,
        check=lasting,
    ),
]
"""The option for a database of any kind that can be tracked."""
DryRun = Annotated[bool, Option("--dry-run", help="Print the statements instead of running them.")]
InstanceName = Annotated[str, Argument(metavar="INSTANCE", help="a capture instance")]
ListingFormat = Annotated[OutputFormat, Option("--format", help="How rows are printed.")]
IgnoreSubscriber = Annotated[bool, Option("--ignore-subscriber", help="The subscriber is gone: change nothing there.")]
HideKeys = Annotated[
    bool,
    Option("--hide-keys", help="Print and store *** in place of rows' keys and values, also in what databases say."),
]
"""Read before the command line is parsed: see `run_command`."""
Wide = Annotated[bool, Option("--wide", help="Show all columns of a table.")]
