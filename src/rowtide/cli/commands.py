"""The features' commands and the modules that have them, in the order of the features' help.

A command's module is imported for that command, and all modules of a feature for its help.
"""

from __future__ import annotations

from collections.abc import Mapping

COMMANDS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "cdc": {
        "cdc.enabling": ("enable-db", "disable-db", "enable-table", "disable-table", "table-rules", "drop-table-rule"),
        "cdc.running": ("run", "scan", "reinitialize", "skip-transaction", "resnapshot", "snapshots"),
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
        "cdc.follow": ("follow",),
        "cdc.listings": ("instances", "columns", "generate-wrapper", "status"),
        "cdc.jobs": (
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
        ),
        "replication.conflicts": ("conflicts", "resolve"),
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
        ),
        "replication.running": ("deliver-backlogs", "run", "restart-log"),
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
            "adjust-identity-range",
            "restore-identity-range",
            "drop-article",
            "alter-article",
            "schema-changes",
            "mark-schema-change",
        ),
        "merge.listings": (
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
        "merge.status": ("status", "history", "row", "cleanup", "conflicts", "resolve"),
    },
    "tracking": {
        "tracking": ("enable", "disable", "resume", "options", "changes", "purge"),
    },
    "conflicts": {
        "conflicts": ("list", "causes", "decide"),
    },
    "gateway": {
        "gateway": ("serve",),
    },
    "monitor": {
        "monitor": ("serve", "alerts", "dashboard"),
    },
}
"""By feature and module of this package."""
