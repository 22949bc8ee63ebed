"""The `rowtide` command."""

from __future__ import annotations

import logging
import sys
from typing import Annotated

import typer

from rowtide.cli import agent, cdc, merge, replication, tracking
from rowtide.cli.check import check
from rowtide.cli.demo import demo
from rowtide.core.errors import RowtideError

app = typer.Typer(
    name="rowtide",
    help="SQL Server's change-data family for PostgreSQL and SQLite, with the data pipeline on Spark.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(cdc.app, name="cdc")
app.add_typer(agent.app, name="agent")
app.add_typer(replication.app, name="replication")
app.add_typer(merge.app, name="merge")
app.add_typer(tracking.app, name="tracking")
app.command(epilog="Example: rowtide check --lake /data/lake --db postgresql://localhost/shop")(check)
app.command(epilog="Example: rowtide demo --keep /tmp/rowtide-demo")(demo)


@app.callback()
def configure(
    *,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error, and log what agents do.")
    ] = False,
) -> None:
    """Set what holds for every command."""
    logging.basicConfig(level=logging.INFO if debug else logging.ERROR, format="%(asctime)s %(name)s %(message)s")


def main() -> None:
    """Run the command line: exit 0 on success, 1 with one `RT-nnnn` line on stderr for an error, 2 for wrong usage."""
    arguments = sys.argv[1:]
    if is_debugging := "--debug" in arguments:
        arguments = ["--debug", *(argument for argument in arguments if argument != "--debug")]
    try:
        app(arguments)
    except RowtideError as error:
        if is_debugging:
            raise
        print(error, file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
