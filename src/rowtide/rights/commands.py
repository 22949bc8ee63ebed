"""The rights that commands need, and those that widen what they see: `docs/reference/grants.md` is made of it. Pure.

A test runs each command as a role that has these rights alone, and then without each of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rowtide.core.values import frozen
from rowtide.databases.postgres.functions import view_schema
from rowtide.rights.purpose import Purpose


@frozen
class CommandRights:
    """A command with its arguments, and rights as `describe` says them; both lists may be empty."""

    command: str
    purpose: Purpose
    needed: tuple[str, ...]
    widening: tuple[str, ...] = ()


def _views(schema: str, *names: str) -> tuple[str, ...]:
    views = view_schema(schema)
    return (f"usage on schema {views}", *(f"select on {views}.{name}" for name in names))


def _all(*parts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(right for part in parts for right in part))


_CREATE = "create on the database"
_CREATE_THERE = "create on the distribution database"
_OF_OWNER = "membership in the owner of rowtide's schemas"
_OF_TABLES = "membership in the owner of the tables"
_USAGE = "usage on the schema"
_PUBLISHED = ("the attribute replication", _CREATE, _USAGE, _OF_TABLES)
_STATISTICS = ("membership in pg_read_all_stats",)
_DROPPED = ("select on rowtide.dropped_members",)
_JOBS = _views("cdc", "cdc_jobs", "job_history")
_CAPTURING = _views("cdc", "cdc_jobs", "cleanup_requests", "job_history", "log_scan_errors", "snapshots")
_PUBLICATIONS = _views("distribution", "MSarticles", "MSdistribution_agents", "MSpublications")
_HISTORY = _views("distribution", "MSdistribution_agents", "MSdistribution_history", "MSpublications", "MSrepl_errors")
_SUBSCRIPTIONS = _all(_PUBLICATIONS, _HISTORY, _views("distribution", "MSsubscriptions"))
_MERGED = _views("rowtide_merge", "sysmerge_stored_articles", "sysmerge_stored_publications")
_NODES = _all(
    _MERGED,
    _views("rowtide_merge", "MSmerge_replinfo", "MSmerge_stored_partition_groups", "sysmerge_stored_subscriptions"),
)
_SYNCHRONISED = _all(_NODES, _views("rowtide_merge", "MSmerge_conflicts_info", "MSmerge_devices", "MSmerge_retries"))
_TRACKED = _views("rowtide_tracking", "__sysOCSTrackedObjects")
_EVERYTHING = _all(
    _CAPTURING,
    _SUBSCRIPTIONS,
    _views("distribution", "MSdistributiondbs"),
    _SYNCHRONISED,
    _TRACKED,
    _views("rowtide_tracking", "__sysOCSDeletedRows"),
)
_AUDITED = _views("rowtide_audit", "rowtide_actions")
_READ = ("membership in the gating role", "select on the table")

_READERS = ("changes", "lsn min", "generate-wrapper", "as-of", "columns", "ddl-history", "follow")
_BY_ANYONE = ("instances", "has-column-changed", "column-ordinal", "lsn max", "lsn of-time", "lsn time-of")
_RUN_BY_OWNERS = ("agent run", "cdc reinitialize", "cdc run", "cdc scan", "replication run")
"""They read the log, too."""
_OF_OWNERS: Mapping[Purpose, tuple[str, ...]] = {
    Purpose.PUBLISHER: (
        "adopt",
        "cdc add-consumer",
        "cdc add-job",
        "cdc add-target",
        "cdc change-consumer",
        "cdc change-job",
        "cdc cleanup",
        "cdc disable-db",
        "cdc disable-table",
        "cdc drop-consumer",
        "cdc drop-job",
        "cdc drop-table-rule",
        "cdc drop-target",
        "cdc register-catalog",
        "cdc resnapshot",
        "cdc skip-transaction",
        "cdc start-job",
        "cdc stop-job",
        "conflicts causes",
        "conflicts comment",
        "conflicts decide",
        "conflicts list",
        "conflicts preview",
        "conflicts show",
        "export",
        "grant",
        "lake mend",
        "replication add-column",
        "replication add-schema",
        "replication add-subscription",
        "replication browse-commands",
        "replication change-article",
        "replication change-distribution",
        "replication change-publication",
        "replication change-subscription",
        "replication conflicts",
        "replication deliver-backlogs",
        "replication drop-article",
        "replication drop-column",
        "replication drop-publication",
        "replication drop-subscription",
        "replication pause",
        "replication post-tracer-token",
        "replication register-custom-scripting",
        "replication reinitialize",
        "replication repairs",
        "replication resolve",
        "replication restart-log",
        "replication resume",
        "replication row",
        "replication script-procedures",
        "replication sync-sequences",
        "replication unregister-custom-scripting",
        "replication validate",
        "upgrade",
    ),
    Purpose.MERGE: (
        "merge add-device",
        "merge add-filter",
        "merge add-partition",
        "merge add-subscription",
        "merge adjust-identity-range",
        "merge alter-article",
        "merge change-article",
        "merge change-publication",
        "merge change-subscription",
        "merge cleanup",
        "merge conflicts",
        "merge devices",
        "merge drop-article",
        "merge drop-partition",
        "merge drop-publication",
        "merge drop-subscription",
        "merge dummy-update",
        "merge enum-changes",
        "merge get-metadata",
        "merge make-generation",
        "merge mark-schema-change",
        "merge pending",
        "merge reinitialize",
        "merge resolve",
        "merge restore-identity-range",
        "merge resync",
        "merge revoke-device",
        "merge rotate-token",
        "merge row",
        "merge schema-changes",
        "merge snapshot",
        "merge sync",
        "merge table",
        "merge validate",
    ),
    Purpose.TRACKER: (
        "tracking disable",
        "tracking purge tombstones",
        "tracking purge transactions",
        "tracking resume",
    ),
}
"""Commands for the owner of rowtide's schemas and its members."""
WITHOUT_RIGHTS = frozenset(
    {
        "cdc is-bit-set",
        "cdc lsn decrement",
        "cdc lsn increment",
        "completion",
        "config show",
        "demo",
        "install-units",
        "lake copy",
        "monitor alerts",
        "monitor dashboard",
    }
)
"""Commands that ask no database."""
AS_OTHERS: Mapping[str, str] = {"monitor serve": "health", "top": "health"}
"""Commands that run until they are stopped, and the one whose rights they need at least."""

AT_SUBSCRIBERS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "replication run": {
        "tables that are created": (_CREATE, _USAGE, "create on the schema"),
        "tables that are there": (_CREATE, _OF_TABLES),
    },
    "merge sync": {
        "tables that are created": (_CREATE, _USAGE, "create on the schema"),
        "tables that are there": (_CREATE, _OF_TABLES),
    },
}
"""What the role in a subscriber's URL needs there, so that a command copies and delivers, by the tables."""

COMMANDS = (
    CommandRights("health", Purpose.MONITOR, _EVERYTHING),
    CommandRights("check --as monitor", Purpose.MONITOR, _EVERYTHING, (*_DROPPED, *_STATISTICS)),
    CommandRights("audit", Purpose.MONITOR, _AUDITED),
    CommandRights("cdc status", Purpose.MONITOR, _all(_CAPTURING, _views("distribution", "MSrepl_errors"))),
    CommandRights("cdc snapshots", Purpose.MONITOR, _views("cdc", "snapshots")),
    CommandRights("cdc sessions", Purpose.MONITOR, _views("cdc", "log_scan_sessions")),
    CommandRights("cdc errors", Purpose.MONITOR, _views("cdc", "log_scan_errors")),
    CommandRights("cdc jobs", Purpose.MONITOR, _JOBS),
    CommandRights("cdc job-history", Purpose.MONITOR, _views("cdc", "job_history")),
    CommandRights("cdc consumers", Purpose.MONITOR, ()),
    CommandRights("cdc targets", Purpose.MONITOR, ()),
    CommandRights("cdc table-rules", Purpose.MONITOR, ()),
    CommandRights(
        "replication status",
        Purpose.MONITOR,
        _all(_SUBSCRIPTIONS, _views("distribution", "MSdistributiondbs")),
    ),
    CommandRights("replication history", Purpose.MONITOR, _HISTORY),
    CommandRights("replication errors", Purpose.MONITOR, _HISTORY),
    CommandRights("replication publications", Purpose.MONITOR, _PUBLICATIONS),
    CommandRights(
        "replication articles",
        Purpose.MONITOR,
        _views("distribution", "MSarticles", "MScustom_scripts", "MSpublications", "MSschemaarticles"),
    ),
    CommandRights("replication subscriptions", Purpose.MONITOR, _SUBSCRIPTIONS),
    CommandRights(
        "replication tracer-tokens PUBLICATION",
        Purpose.MONITOR,
        _views("distribution", "MSdistribution_agents", "MSpublications", "MStracer_history", "MStracer_tokens"),
    ),
    CommandRights("merge status", Purpose.MONITOR, _SYNCHRONISED),
    CommandRights(
        "merge history",
        Purpose.MONITOR,
        _views("rowtide_merge", "MSmerge_articlehistory", "MSmerge_sessions", "sysmerge_stored_subscriptions"),
    ),
    CommandRights("merge publications", Purpose.MONITOR, _NODES),
    CommandRights("merge articles", Purpose.MONITOR, _MERGED),
    CommandRights("merge subscriptions", Purpose.MONITOR, _SYNCHRONISED),
    CommandRights(
        "merge identity-ranges", Purpose.MONITOR, _all(_MERGED, _views("rowtide_merge", "MSmerge_identity_range"))
    ),
    CommandRights("merge filters", Purpose.MONITOR, _MERGED),
    CommandRights("tracking options", Purpose.MONITOR, _TRACKED),
    *(CommandRights(f"cdc {name} INSTANCE", Purpose.READER, _READ) for name in _READERS),
    *(CommandRights(f"cdc {name}", Purpose.READER, ()) for name in _BY_ANYONE),
    CommandRights("cdc table-changes TABLE", Purpose.READER, _READ),
    CommandRights("cdc acknowledge CONSUMER LSN", Purpose.READER, ("membership in the consumer's role",)),
    CommandRights("tracking changes TABLE", Purpose.READER, (_OF_OWNER,)),
    CommandRights("cdc enable-db", Purpose.PUBLISHER, ("the attribute replication", _CREATE)),
    CommandRights("replication add-publication PUBLICATION", Purpose.PUBLISHER, ("the attribute replication", _CREATE)),
    CommandRights("replication move-distribution URL", Purpose.PUBLISHER, (_OF_OWNER, _CREATE_THERE)),
    CommandRights("apply FILE", Purpose.PUBLISHER, _PUBLISHED),
    CommandRights("cdc apply TARGET", Purpose.PUBLISHER, (_OF_OWNER,)),
    CommandRights("cdc enable-table TABLE", Purpose.PUBLISHER, _PUBLISHED),
    CommandRights("replication add-article PUBLICATION TABLE", Purpose.PUBLISHER, _PUBLISHED),
    CommandRights("gateway serve", Purpose.GATEWAY, (_OF_OWNER,)),
    CommandRights("replication recover SUBSCRIBER", Purpose.SUBSCRIBER, ("to be the role that delivered",)),
    CommandRights("merge add-publication PUBLICATION", Purpose.MERGE, (_CREATE,)),
    CommandRights("merge add-article PUBLICATION TABLE", Purpose.MERGE, (_CREATE, _OF_TABLES)),
    CommandRights("tracking enable TABLE", Purpose.TRACKER, (_CREATE, _USAGE, "create on the schema", _OF_TABLES)),
    *(CommandRights(name, Purpose.PUBLISHER, ("the attribute replication", _OF_OWNER)) for name in _RUN_BY_OWNERS),
    *(CommandRights(name, purpose, (_OF_OWNER,)) for purpose, names in _OF_OWNERS.items() for name in names),
)
