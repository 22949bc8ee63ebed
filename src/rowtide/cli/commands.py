"""The features' commands and the modules that have them, in the order of the features' help.

A command's module is imported for that command, and all modules of a feature for its help.
"""

from __future__ import annotations

from collections.abc import Mapping

COMMANDS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "cdc": {
        "cdc_enabling": ("enable-db", "disable-db", "enable-table", "disable-table"),
        "cdc_table_rules": ("table-rules", "drop-table-rule"),
        "cdc_running": ("run", "scan", "reinitialize", "skip-transaction"),
        "cdc_changes": ("changes", "as-of"),
        "cdc_follow": ("follow",),
        "cdc_snapshots": ("resnapshot", "snapshots"),
        "cdc_status": ("status",),
        "cdc_lsn": ("lsn",),
        "cdc_listings": ("instances", "columns", "generate-wrapper"),
        "cdc_masks": ("has-column-changed", "is-bit-set", "column-ordinal"),
        "cdc_ddl": ("ddl-history", "table-changes"),
        "cdc_cleanup": ("cleanup",),
        "cdc_consumers": ("consumers", "add-consumer", "change-consumer", "drop-consumer", "acknowledge"),
        "cdc_jobs": ("jobs", "job-history", "add-job", "change-job", "drop-job", "start-job", "stop-job"),
        "cdc_scans": ("sessions", "errors"),
        "cdc_targets": ("targets", "add-target", "apply", "drop-target"),
    },
    "lake": {
        "lake": ("copy",),
    },
    "agent": {
        "agent": ("run",),
    },
    "replication": {
        "replication_publishing": (
            "add-publication",
            "move-distribution",
            "drop-publication",
            "add-article",
            "add-schema",
            "drop-article",
            "script-procedures",
        ),
        "replication_articles": ("change-article", "add-column", "drop-column"),
        "replication_scripting": ("register-custom-scripting", "unregister-custom-scripting"),
        "replication_listings": ("publications", "articles", "subscriptions"),
        "replication_subscribing": (
            "add-subscription",
            "change-subscription",
            "sync-sequences",
            "drop-subscription",
            "reinitialize",
            "pause",
            "resume",
            "recover",
            "change-distribution",
        ),
        "replication_running": ("deliver-backlogs", "run", "restart-log"),
        "replication_status": (
            "status",
            "history",
            "errors",
            "browse-commands",
            "conflicts",
            "post-tracer-token",
            "tracer-tokens",
        ),
        "replication_comparing": ("validate", "repairs", "row"),
    },
    "merge": {
        "merge_publishing": (
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
        ),
        "merge_schema_changes": ("alter-article", "schema-changes", "mark-schema-change"),
        "merge_listings": ("publications", "articles", "identity-ranges", "filters", "subscriptions"),
        "merge_subscribing": ("add-subscription", "snapshot", "drop-subscription", "reinitialize", "validate"),
        "merge_synchronising": ("sync", "resync", "change-subscription", "pending"),
        "merge_conflicts": ("conflicts", "resolve"),
        "merge_status": ("status", "history", "row", "cleanup"),
        "merge_tables": ("table", "make-generation", "enum-changes", "get-metadata", "dummy-update"),
    },
    "tracking": {
        "tracking": ("enable", "disable", "resume", "options", "upgrade", "changes", "purge"),
    },
}
"""By feature and module of this package."""
