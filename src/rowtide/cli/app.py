"""The tree of the `rowtide` command's features and commands."""

from __future__ import annotations

from typing import Annotated

import typer

from rowtide.cli.adopt import adopt
from rowtide.cli.check import check
from rowtide.cli.demo import demo
from rowtide.cli.features import FeatureGroup, Group
from rowtide.cli.health import health

_FEATURES = {
    "cdc": "Change data capture: changes in Delta tables, queryable by LSN.",
    "lake": "Copy a lake and its log store, from disk to a bucket and back, and move them.",
    "agent": "The jobs of a database: capture all the time, cleanup daily.",
    "replication": "Transactional replication: published tables delivered to subscribers, exactly once.",
    "merge": "Merge replication: a hub and subscribers that all write, offline too, and come to the same rows.",
    "tracking": "Change tracking: what changed since the last synchronisation.",
}

app = typer.Typer(
    name="rowtide",
    cls=Group,
    help="SQL Server's change-data family for PostgreSQL and SQLite, with the data pipeline on Spark.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for _name, _help in _FEATURES.items():
    app.add_typer(typer.Typer(cls=FeatureGroup, help=_help, no_args_is_help=True), name=_name)
app.command(epilog="Example: rowtide adopt --yes --db postgresql://localhost/shop")(adopt)
app.command(epilog="Example: rowtide check --as monitor --db postgresql://watcher@localhost/shop")(check)
app.command(epilog="Example: rowtide health --format json --db postgresql://localhost/shop")(health)
app.command(epilog="Example: rowtide demo --keep /tmp/rowtide-demo")(demo)


def print_version(*, wanted: bool) -> None:
    """Print the version and exit."""
    if wanted:
        from importlib.metadata import version

        print(f"rowtide {version('rowtide')}")
        raise typer.Exit


@app.callback()
def take_common_options(
    *,
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=lambda wanted: print_version(wanted=wanted), is_eager=True, help="Print the version."
        ),
    ] = False,
    _debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error, and log what agents do.")
    ] = False,
) -> None:
    """Take the options of all commands, which have been read before: see `run_command`."""
