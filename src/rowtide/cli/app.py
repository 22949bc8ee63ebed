"""The tree of the `rowtide` command's features and commands."""

from __future__ import annotations

import click

from rowtide.cli.groups import CliGroup, CommandTable, FeatureGroup

_FEATURES = {
    "cdc": "Change data capture: changes in Delta tables, queryable by LSN.",
    "lake": "Copy a lake and its log store, from disk to a bucket and back, and move them.",
    "agent": "The jobs of a database: capture all the time, cleanup daily.",
    "replication": "Transactional replication: published tables delivered to subscribers, exactly once.",
    "config": "The configuration file.",
    "merge": "Merge replication: a hub and subscribers that all write, offline too, and come to the same rows.",
    "tracking": "Change tracking: what changed since the last synchronisation.",
    "conflicts": "Conflicts of merge and of delivery in one list, and decisions about them.",
    "monitor": "Metrics of databases for Prometheus.",
    "gateway": "Devices that synchronise over HTTP.",
}


def print_version(context: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    """Print the version and exit."""
    if wanted:
        from importlib.metadata import version

        print(f"rowtide {version('rowtide')}")
        context.exit()


_commands = CommandTable()
for _name, _module in (
    ("adopt", "database"),
    ("check", "health"),
    ("grant", "database"),
    ("health", "health"),
    ("export", "database"),
    ("apply", "database"),
    ("upgrade", "database"),
    ("audit", "database"),
    ("install-units", "ungrouped"),
    ("demo", "ungrouped"),
    ("top", "ungrouped"),
    ("completion", "ungrouped"),
):
    _commands.import_on_use(_name, f"rowtide.cli.{_module}")
for _name, _help in _FEATURES.items():
    _commands[_name] = FeatureGroup(_name, _help)

app = CliGroup(
    "rowtide",
    "SQL Server's change-data family for PostgreSQL and SQLite, with the data pipeline on Spark.",
    _commands,
    params=[
        click.Option(
            ["--version"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=print_version,
            help="Print the version.",
        ),
        # These are taken before the command line is parsed: see `run_command`.
        click.Option(
            ["--config"],
            metavar="FILE",
            expose_value=False,
            help="The configuration file; default: ROWTIDE_CONFIG, ~/.config/rowtide/rowtide.toml, "
            "/etc/rowtide/rowtide.toml.",
        ),
        click.Option(
            ["--debug"],
            is_flag=True,
            expose_value=False,
            help="Show the traceback of an error, and log what agents do.",
        ),
        click.Option(["--quiet"], is_flag=True, expose_value=False, help="Print nothing but results and errors."),
        click.Option(["-v"], is_flag=True, expose_value=False, help="Print events that are not shown otherwise."),
    ],
)
