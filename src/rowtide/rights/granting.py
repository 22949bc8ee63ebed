"""Granting a role what its purpose's plan has: in one transaction, and only what it lacks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import psycopg
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from rowtide.core.values import frozen
from rowtide.databases.postgres.connect import open_engine
from rowtide.databases.postgres.errors import describe, translated
from rowtide.databases.postgres.functions import guard_schema, view_schema
from rowtide.databases.postgres.quoting import quote, quote_literal, statement
from rowtide.rights.errors import GrantRefused, NothingToGrant
from rowtide.rights.facts import RightsFacts, read_facts
from rowtide.rights.grants import Grant, Granted, RoleMembership
from rowtide.rights.monitor_views import MonitorViews, plan_views
from rowtide.rights.purpose import Purpose, parse_purpose
from rowtide.rights.purpose_plans import OF_DATABASE, SUPERUSER, GrantPlan, plan_grants


def grant(
    url: str, role: str, purpose: Purpose | str, tables: Sequence[str] = (), *, group: str | None = None
) -> Granted:
    """Grant a role, or a group and the role's membership in it, what it lacks for a purpose; return the statements.

    All or nothing, but for rights that widen the view. Raises `PurposeUnknown`, `RoleUnknown`, `GrantRefused`,
    `NothingToGrant`, `TableNotFound`, `SchemaOfOthers`.
    """
    with translated(), open_engine(url).begin() as connection:
        return _grant(connection, role, parse_purpose(purpose), tables, group)


def rehearse_grant(
    url: str, role: str, purpose: Purpose | str, tables: Sequence[str] = (), *, group: str | None = None
) -> Granted:
    """Return what `grant` would run, without effect, whether or not this role may grant it. Raises as `grant`, but
    `GrantRefused`.
    """
    with translated(), open_engine(url).connect() as connection:
        steps, whole, facts = _prepare(connection, role, parse_purpose(purpose), tables, group)
        holder = group or role
        grants = (one.grant_to(holder) for one in _lacking(connection, holder, whole.all))
        statements = (*steps, *grants, *_join(connection, role, group))
        withheld = _list_withheld(connection, holder, whole)
        return Granted(statements, (), _list_ownership(whole, holder), tuple(facts.lacking), withheld)


@frozen
class MonitorGaps:
    """What a role lacks as a monitor; `makers` are the owners who have to run `rowtide grant`, which makes views."""

    missing: GrantPlan
    makers: tuple[str, ...]


def find_monitor_gaps(connection: Connection, role: str) -> MonitorGaps:
    """Return what a role lacks as a monitor of what others own. Raises `RoleUnknown`."""
    facts = read_facts(connection, role, has_tables=False)
    if facts.grantee.is_superuser:
        return MonitorGaps(GrantPlan(()), ())
    held = text("select rolname::text from pg_roles where pg_has_role(:role, oid, 'usage')")
    mine = frozenset(connection.execute(held, {"role": role}).scalars())
    unmade = {facts.schemas[views.schema] for views in find_unmade_views(facts)}
    others = {schema: owner for schema, owner in facts.schemas.items() if owner not in mine}
    whole = plan_grants(replace(facts, views={schema: facts.views[schema] for schema in others}), Purpose.MONITOR)
    lacking = GrantPlan(_lacking(connection, role, whole.needed), _lacking(connection, role, whole.widening))
    return MonitorGaps(lacking, tuple(sorted(unmade - mine)))


def find_unmade_views(facts: RightsFacts) -> tuple[MonitorViews, ...]:
    """Return the views for monitors that are missing, or were made by another version. Pure."""
    planned = (plan_views(schema, facts.relations[schema]) for schema in facts.schemas)
    return tuple(views for views in planned if views is not None and facts.comments.get(views.schema) != views.mark)


def _grant(connection: Connection, role: str, purpose: Purpose, tables: Sequence[str], group: str | None) -> Granted:
    steps, whole, facts = _prepare(connection, role, purpose, tables, group)
    holder = group or role
    for step in steps:
        _run(connection, step, facts)
    statements = list(steps)
    for one in _lacking(connection, holder, whole.needed):
        statements.append(one.grant_to(holder))
        _run(connection, statements[-1], facts, one)
        if _lacking(connection, holder, (one,)):
            # With some right in the object, but not to grant this one, the server only warns.
            raise GrantRefused(facts.grantor, statements[-1], "nothing was granted", _grantors(one.owner, facts))
    for step in _join(connection, role, group):
        statements.append(step)
        _run(connection, step, facts)
    not_granted = []
    for one in _lacking(connection, holder, whole.widening):
        # A statement that the server refuses would end the transaction, with the grants that are needed.
        attempt = connection.begin_nested()
        try:
            _run(connection, one.grant_to(holder), facts, one)
        except GrantRefused:
            attempt.rollback()
            not_granted.append(one.grant_to(holder))
        else:
            attempt.commit()
            statements.append(one.grant_to(holder))
    withheld = _list_withheld(connection, holder, whole)
    owning = _list_ownership(whole, holder)
    return Granted(tuple(statements), tuple(not_granted), owning, tuple(facts.lacking), withheld)


def _list_ownership(whole: GrantPlan, holder: str) -> tuple[str, ...]:
    return tuple(one.grant_to(holder) for one in whole.ownership)


def _list_withheld(connection: Connection, holder: str, whole: GrantPlan) -> tuple[str, ...]:
    lacking = _lacking(connection, holder, whole.withheld)
    return tuple(one.group for one in lacking if isinstance(one, RoleMembership))


def _prepare(
    connection: Connection, role: str, purpose: Purpose, tables: Sequence[str], group: str | None
) -> tuple[tuple[str, ...], GrantPlan, RightsFacts]:
    """Return the statements that make views, the grants, and what they were found by."""
    if group is not None:
        read_facts(connection, role, has_tables=False)
    # Delivery creates tables that are not there.
    facts = read_facts(connection, group or role, tables, may_lack=purpose is Purpose.SUBSCRIBER)
    steps: tuple[str, ...] = ()
    if purpose is Purpose.MONITOR:
        unmade = find_unmade_views(facts)
        steps = tuple(step for views in unmade for step in _make(views, facts))
        facts = replace(facts, views={**facts.views, **{views.schema: views.names for views in unmade}})
    whole = plan_grants(facts, purpose)
    if not (whole.needed or whole.withheld or steps):
        raise NothingToGrant(purpose, facts.database)
    return steps, whole, facts


def _make(views: MonitorViews, facts: RightsFacts) -> Sequence[str]:
    """Return the statements that make a schema's views, as the owner of what they show."""
    schema, owner = quote(view_schema(views.schema)), quote(facts.schemas[views.schema])
    # A view reads with its owner's rights: one of a superuser's would show whatever its functions read.
    as_owner = facts.grantor != facts.schemas[views.schema]
    return [
        f"create schema if not exists {schema} authorization {owner}",
        *([f"set local role {owner}"] if as_owner else []),
        guard_schema(view_schema(views.schema)),
        *views.statements,
        f"comment on schema {schema} is {quote_literal(views.mark)}",
        *(["reset role"] if as_owner else []),
    ]


def _join(connection: Connection, role: str, group: str | None) -> tuple[str, ...]:
    if group is None:
        return ()
    is_member = "select pg_has_role(:role, :group, 'usage')"
    if connection.execute(text(is_member), {"role": role, "group": group}).scalar_one():
        return ()
    return (f"grant {quote(group)} to {quote(role)}",)


def _lacking(connection: Connection, role: str, grants: Sequence[Grant]) -> tuple[Grant, ...]:
    if not grants:
        return ()
    asked = ", ".join(f"({one.condition(role)})" for one in grants)
    held = connection.execute(statement(f"select {asked}")).one()
    return tuple(one for one, is_held in zip(grants, held, strict=True) if not is_held)


def _run(connection: Connection, sql: str, facts: RightsFacts, one: Grant | None = None) -> None:
    try:
        connection.execute(statement(sql))
    except DBAPIError as error:
        if isinstance(error.orig, psycopg.errors.InsufficientPrivilege):
            owner = one.owner if one is not None else _owner_of_views(facts)
            raise GrantRefused(facts.grantor, sql, describe(error.orig), _grantors(owner, facts)) from error
        raise


def _owner_of_views(facts: RightsFacts) -> str:
    return next(iter(facts.schemas.values()), facts.database_owner)


def _grantors(owner: str, facts: RightsFacts) -> str:
    if owner == SUPERUSER:
        return owner
    if owner not in facts.schemas.values():
        return f"a superuser or as {facts.database_owner if owner == OF_DATABASE else owner}"
    if owner in facts.superusers:
        return owner
    joining = f"grant {quote(owner)} to {quote(facts.grantor)}"
    return f"a superuser, as {owner}, or as a member of it (`{joining}`)"
