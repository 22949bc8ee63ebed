"""The tree of the `rowtide` command: the features' commands and the modules that have them, in the order of the help.

A command's module is imported for that command, and all modules of a feature for its help.
"""

from __future__ import annotations

from collections.abc import Mapping

import click

from rowtide.cli.groups import CliGroup, CommandTable, FeatureGroup

COMMANDS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "cdc": {
        "cdc.enabling": ("enable-db", "disable-db", "enable-table", "disable-table", "table-rules", "drop-table-rule"),
        "cdc.running": ("run", "scan", "reinitialize", "skip-transaction", "resnapshot", "snapshots", "follow"),
        "cdc.changes": (
            "changes",
            "as-of",
            "ddl-history",
            "table-changes",
            "lsn",
            "has-column-changed",
            "is-bit-set",
            "column-ordinal",
        ),
        "cdc.status": (
            "instances",
            "columns",
            "generate-wrapper",
            "status",
            "jobs",
            "job-history",
            "add-job",
            "change-job",
            "drop-job",
            "start-job",
            "stop-job",
            "sessions",
            "errors",
            "consumers",
            "add-consumer",
            "change-consumer",
            "drop-consumer",
            "acknowledge",
            "cleanup",
        ),
        "cdc.targets": ("targets", "add-target", "apply", "drop-target", "register-catalog"),
    },
    "lake": {
        "lake": ("copy", "mend"),
    },
    "agent": {
        "agent": ("run",),
    },
    "config": {
        "config": ("show",),
    },
    "replication": {
        "replication.publishing": (
            "add-publication",
            "move-distribution",
            "drop-publication",
            "add-article",
            "add-schema",
            "drop-article",
            "script-procedures",
            "change-article",
            "add-column",
            "drop-column",
            "register-custom-scripting",
            "unregister-custom-scripting",
        ),
        "replication.status": (
            "status",
            "history",
            "errors",
            "browse-commands",
            "post-tracer-token",
            "tracer-tokens",
            "publications",
            "articles",
            "subscriptions",
            "conflicts",
            "resolve",
        ),
        "replication.subscribing": (
            "add-subscription",
            "change-subscription",
            "sync-sequences",
            "drop-subscription",
            "reinitialize",
            "pause",
            "resume",
            "recover",
            "change-distribution",
            "change-publication",
            "deliver-backlogs",
            "run",
            "restart-log",
        ),
        "replication.comparing": ("validate", "repairs", "row"),
    },
    "merge": {
        "merge.publishing": (
            "add-publication",
            "change-publication",
            "drop-publication",
            "add-article",
            "add-filter",
            "change-article",
            "add-partition",
            "drop-partition",
            "adjust-identity-range",
            "restore-identity-range",
            "drop-article",
            "alter-article",
            "schema-changes",
            "mark-schema-change",
        ),
        "merge.status": (
            "status",
            "history",
            "row",
            "cleanup",
            "conflicts",
            "resolve",
            "publications",
            "articles",
            "identity-ranges",
            "filters",
            "subscriptions",
            "table",
            "make-generation",
            "enum-changes",
            "get-metadata",
            "dummy-update",
        ),
        "merge.subscribing": ("add-subscription", "snapshot", "drop-subscription", "reinitialize", "validate"),
        "merge.devices": ("add-device", "devices", "revoke-device", "rotate-token"),
        "merge.synchronising": ("sync", "resync", "change-subscription", "pending"),
    },
    "tracking": {
        "tracking": ("enable", "disable", "resume", "options", "changes", "purge"),
    },
    "conflicts": {
        "conflicts": ("list", "causes", "show", "preview", "comment", "decide"),
    },
    "gateway": {
        "gateway": ("serve",),
    },
    "monitor": {
        "monitor": ("serve", "alerts", "dashboard"),
    },
}
"""The commands, by feature and module of this package."""


_FEATURES = {
    "cdc": "Change data capture: changes in Delta tables, queryable by LSN.",
    "lake": "Copy a lake and its log store, from disk to a bucket and back, and move them.",
    "agent": "The jobs of databases: capture, cleanup, targets, delivery and merge, until stopped.",
    "replication": "Transactional replication: published tables delivered to subscribers, exactly once.",
    "config": "The configuration file.",
    "merge": "Merge replication: a hub and subscribers that all write, offline too, and converge.",
    "tracking": "Change tracking: what changed since the last synchronisation.",
    "conflicts": "Conflicts of merge and of delivery in one list, and decisions about them.",
    "monitor": "Pages about databases, actions and conflicts, and metrics for Prometheus.",
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
    _commands[_name] = FeatureGroup(_name, _help, COMMANDS[_name])

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
