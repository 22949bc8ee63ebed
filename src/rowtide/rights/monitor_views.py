"""The views through which monitors read rowtide's tables.

A view has its table's name and columns, in a schema beside the table's (`rowtide.databases.postgres.functions`). What
could have a row's key or values, a URL, a login, or what a database says is replaced: an error by its number, a
subscriber's URL by the name of its database. Tables that have whole rows, secrets or statements have no view.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from rowtide.core.values import frozen
from rowtide.databases.postgres.functions import view_schema
from rowtide.databases.postgres.quoting import quote, quote_escaped, quote_literal, quote_qualified
from rowtide.databases.urls import NAMING

_HIDDEN = "not shown to monitors"


def _error(column: str) -> str:
    """An error's number in place of its text."""
    shown = f"concat_ws(': ', substring({column} from '^RT-[0-9]+'), {quote_literal(_HIDDEN)})"
    return f"case when {column} is not null then {shown} end"


def _unless(condition: str, column: str) -> str:
    return f"case when {condition} then {_error(column)} else {column} end"


def _name(column: str) -> str:
    """The name of the database of a URL: without user, secrets and settings."""
    for pattern, replacement in NAMING:
        column = f"regexp_replace({column}, {quote_escaped(pattern)}, {quote_escaped(replacement)}, 'g')"
    return column


def _flag(column: str) -> str:
    return f"case when {column} is not null then {quote_literal(_HIDDEN)} end"


_NOTHING = "''::text"
_NULL = "null::text"
_NO_BYTES = "''::bytea"
_OUTCOME = (
    "case when outcome is not null then json_build_object('refusal', "
    f"case when outcome::json ->> 'refusal' is not null then {quote_literal(_HIDDEN)} end)::text end"
)

_CAPTURE: Mapping[str, Mapping[str, str]] = {
    "captured_columns": {},
    "cdc_jobs": {},
    "change_tables": {},
    "cleanup_requests": {"outcome": _OUTCOME, "requested_by": _NOTHING},
    "consumer_instances": {},
    "consumers": {},
    "index_columns": {},
    "job_history": {"message": _unless("outcome not in ('succeeded', 'stopped')", "message")},
    "log_scan_errors": {"error_message": _error("error_message")},
    "log_scan_sessions": {},
    "new_tables": {},
    "ruled_tables": {"reason": _error("reason")},
    "snapshots": {"condition": _flag("condition"), "outcome": _error("outcome"), "requested_by": _NOTHING},
    "table_rules": {},
    "targets": {},
}
OF_EVERYBODY = frozenset(
    {
        *("captured_columns", "change_tables", "consumer_instances", "consumers", "index_columns", "new_tables"),
        *("ruled_tables", "table_rules", "targets"),
    }
)
"""The views of tables of capture that every role may read: those of a monitor that is also a reader."""
_DISTRIBUTION: Mapping[str, Mapping[str, str]] = {
    "MSarticles": {},
    "MSdistribution_agents": {"subscriber": _name("subscriber")},
    "MSdistribution_history": {"comments": _unless("error_id is not null or runstatus in (5, 6)", "comments")},
    "MSdistributiondbs": {},
    "MSpublications": {},
    "MScustom_scripts": {"script": _flag("script")},
    "MSrepl_errors": {"source_name": _name("source_name"), "error_text": _error("error_text")},
    "MSschemaarticles": {},
    "MSsubscriptions": {},
    "MStracer_history": {},
    "MStracer_tokens": {},
}
_TRACKING: Mapping[str, Mapping[str, str]] = {
    "__sysOCSDeletedRows": {"__sysRK": "'{}'::text[]"},
    "__sysOCSTrackedObjects": {},
}
_MERGE: Mapping[str, Mapping[str, str]] = {
    "MSmerge_articlehistory": {},
    "MSmerge_conflicts_info": {
        "rowguid": _NOTHING,
        "origin_datasource": _name("origin_datasource"),
        "reason_text": _NOTHING,
        **dict.fromkeys(("losing_row", "winning_row", "parents", "settled_row", "replaced_row"), _NULL),
        "losing_lineage": _NO_BYTES,
    },
    "MSmerge_devices": {
        **dict.fromkeys(("code_digest", "next_digest", "token_digest", "former_digest"), _NULL),
        "suser_name": _flag("suser_name"),
    },
    "MSmerge_identity_range": {},
    "MSmerge_replinfo": {"place": _NULL},
    "MSmerge_retries": {"rowguid": _NOTHING, "reason_text": _NOTHING},
    "MSmerge_sessions": {"message": _unless("runstatus = 6", "message")},
    "MSmerge_stored_partition_groups": {"SUSER_NAME_FN": _flag('"SUSER_NAME_FN"')},
    "sysmerge_stored_articles": {},
    "sysmerge_stored_publications": {},
    "sysmerge_stored_subscriptions": {
        "subscriber_server": _name("subscriber_server"),
        "replicastate": _NOTHING,
        "next_replicastate": _NULL,
        "last_sync_summary": _unless("last_sync_status = 6", "last_sync_summary"),
    },
}
_AUDIT: Mapping[str, Mapping[str, str]] = {
    "rowtide_actions": {
        "login": _NOTHING,
        # What an action is about may name a subscriber.
        "subject": "regexp_replace(subject, '([a-z0-9+]+://)([^@ ]*@)?([^ ?#]*)([^ ]*)', '\\3', 'g')",
        "result": f"case when outcome = 'failed' then {quote_literal(_HIDDEN)} else result end",
    }
}


@frozen
class MonitorViews:
    """The views of one schema: their names, and the statements that make them."""

    schema: str
    names: tuple[str, ...]
    statements: tuple[str, ...]

    @property
    def mark(self) -> str:
        """The comment on the schema, by which a version recognises its views."""
        digest = hashlib.sha256("\n".join(self.statements).encode()).hexdigest()[:12]
        return f"rowtide's views for monitors, {digest}"


def plan_views(schema: str, present: Mapping[str, Sequence[str]]) -> MonitorViews | None:
    """Return the views of those of a schema's tables that are there, given with their columns; None where monitors read
    none of it. Pure.
    """
    shown = _VIEWS.get("distribution" if schema.startswith("distribution") else schema)
    if shown is None:
        return None
    names = tuple(sorted(shown.keys() & present.keys()))
    views = tuple(_create(schema, name, present[name], shown[name]) for name in names)
    public = [quote_qualified(view_schema(schema), name) for name in names if name in OF_EVERYBODY]
    grants = [f"grant select on {', '.join(public)} to public"] if public else []
    return MonitorViews(schema, names, (*views, *grants))


def _create(schema: str, name: str, columns: Sequence[str], replaced: Mapping[str, str]) -> str:
    listed = ", ".join(f"{replaced[one]} as {quote(one)}" if one in replaced else quote(one) for one in columns)
    view, source = quote_qualified(view_schema(schema), name), quote_qualified(schema, name)
    return f"create or replace view {view} with (security_barrier) as select {listed} from {source}"  # noqa: S608


_VIEWS: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    "cdc": _CAPTURE,
    "distribution": _DISTRIBUTION,
    "rowtide_audit": _AUDIT,
    "rowtide_merge": _MERGE,
    "rowtide_tracking": _TRACKING,
}
