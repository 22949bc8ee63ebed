"""Grants as statements, and as the table of commands says them."""

from __future__ import annotations

import pytest

from rowtide.rights.errors import PurposeUnknown
from rowtide.rights.grants import Attribute, Grant, ObjectGrant, RoleMembership, describe
from rowtide.rights.monitor_views import plan_views
from rowtide.rights.purpose import Purpose, parse_purpose

ROLE = 'Watch "er'


@pytest.mark.parametrize(
    ("grant", "granting", "revoking", "said"),
    [
        (
            ObjectGrant(("select", "insert"), "table", ("The shop", 'odd"one')),
            'grant select, insert on "The shop"."odd""one" to "Watch ""er"',
            'revoke select, insert on "The shop"."odd""one" from "Watch ""er"',
            "select, insert on the table",
        ),
        (
            ObjectGrant(("select",), "table", ("rowtide_monitor_cdc", "job_history"), ("Run id", "message")),
            'grant select ("Run id", "message") on "rowtide_monitor_cdc"."job_history" to "Watch ""er"',
            'revoke select ("Run id", "message") on "rowtide_monitor_cdc"."job_history" from "Watch ""er"',
            "select on rowtide_monitor_cdc.job_history",
        ),
        (
            ObjectGrant(("usage",), "schema", ("rowtide_monitor_cdc",)),
            'grant usage on schema "rowtide_monitor_cdc" to "Watch ""er"',
            'revoke usage on schema "rowtide_monitor_cdc" from "Watch ""er"',
            "usage on schema rowtide_monitor_cdc",
        ),
        (
            ObjectGrant(("set",), "parameter", ("session_replication_role",)),
            'grant set on parameter session_replication_role to "Watch ""er"',
            'revoke set on parameter session_replication_role from "Watch ""er"',
            "set on parameter session_replication_role",
        ),
        (
            RoleMembership("App", whose="the owner of the tables", is_explicit=True),
            'grant "App" to "Watch ""er" with inherit true',
            'revoke "App" from "Watch ""er"',
            "membership in the owner of the tables",
        ),
        (
            RoleMembership("pg_read_all_stats"),
            'grant pg_read_all_stats to "Watch ""er"',
            'revoke pg_read_all_stats from "Watch ""er"',
            "membership in pg_read_all_stats",
        ),
        (
            Attribute(),
            'alter role "Watch ""er" replication',
            'alter role "Watch ""er" noreplication',
            "the attribute replication",
        ),
    ],
)
def test_a_grant_is_a_statement_that_can_be_pasted(grant: Grant, granting: str, revoking: str, said: str) -> None:
    assert (grant.grant_to(ROLE), grant.revoke_from(ROLE), describe(grant)) == (granting, revoking, said)


def test_views_have_only_tables_that_are_listed() -> None:
    present = {"job_history": ("run_id", "outcome", "message"), "mend_requests": ("outcome",)}
    views = plan_views("cdc", present)
    assert views is not None
    assert views.names == ("job_history",)
    assert len(views.statements) == 1
    assert "with (security_barrier)" in views.statements[0]
    assert plan_views("rowtide", {"source": ("slot",)}) is None
    changed = plan_views("cdc", {**present, "job_history": ("run_id",)})
    assert changed is not None
    assert changed.mark != views.mark


def test_purposes_have_names() -> None:
    assert parse_purpose("tracker") is Purpose.TRACKER
    with pytest.raises(PurposeUnknown, match="RT-5105"):
        parse_purpose("owner")
