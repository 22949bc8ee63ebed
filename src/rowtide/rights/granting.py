"""Granting a role what a purpose needs: in one transaction, and only what it lacks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import psycopg
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from rowtide.core.values import frozen
from rowtide.databases.postgres.connect import open_engine
from rowtide.databases.postgres.errors import describe, translated
from rowtide.databases.postgres.functions import guard_schema, view_schema
from rowtide.databases.postgres.quoting import quote, quote_literal, quote_qualified, statement
from rowtide.rights.errors import GrantRefused, NothingToGrant
from rowtide.rights.facts import RightsFacts, read_facts
from rowtide.rights.grants import Attribute, Grant, Granted, ObjectGrant, Ownership, RoleMembership
from rowtide.rights.monitor_views import OF_EVERYBODY, MonitorViews, plan_views
from rowtide.rights.purpose import Purpose, parse_purpose

_SUPERUSER = "a superuser"
TRACKING, SUBSCRIBER, MERGE = "rowtide_tracking", "rowtide_subscriber", "rowtide_merge"
_PUBLISHERS = ("rowtide", "cdc", "distribution")
_WRITES = ("select", "insert", "update", "delete", "truncate")


@frozen
class GrantPlan:
    """The grants of a purpose in one database."""

    needed: tuple[Grant, ...]
    widening: tuple[Grant, ...] = ()
    ownership: tuple[Ownership, ...] = ()

    @property
    def all(self) -> tuple[Grant, ...]:
        """Return what can be granted."""
        return (*self.needed, *self.widening)


def plan(facts: RightsFacts, purpose: Purpose) -> GrantPlan:
    """Return what a role needs for a purpose."""
    return _PLANS[purpose](facts)


def _monitor(facts: RightsFacts) -> GrantPlan:
    needed: list[Grant] = []
    for schema, names in facts.views.items():
        owner = facts.schemas[schema]
        if names:
            needed.append(ObjectGrant(("usage",), "schema", (view_schema(schema),), owner=owner))
        needed += [
            ObjectGrant(("select",), "table", (view_schema(schema), name), owner=owner)
            for name in names
            if name not in OF_EVERYBODY
        ]
    needed += _select(facts, "rowtide", ("distributor",))
    statistics = RoleMembership("pg_read_all_stats", _SUPERUSER, is_explicit=_is_explicit(facts))
    return GrantPlan(tuple(needed), (*_select(facts, "rowtide", ("dropped_members",)), statistics))


def _select(facts: RightsFacts, schema: str, tables: Iterable[str]) -> Iterator[ObjectGrant]:
    present = facts.relations.get(schema, {})
    return (
        ObjectGrant(("select",), "table", (schema, name), owner=facts.schemas[schema])
        for name in tables
        if name in present
    )


def _reader(facts: RightsFacts) -> GrantPlan:
    captured = [table for table in facts.tables if table.is_captured]
    gates = sorted({gate for table in captured for gate in table.gates})
    needed: list[Grant] = [_membership(facts, gate, "the gating role") for gate in gates]
    needed += [
        ObjectGrant(("select",), "table", (table.schema, table.name), table.columns, table.owner) for table in captured
    ]
    if TRACKING in facts.schemas and any(table.is_tracked for table in facts.tables):
        # An enumeration locks tables and stores anchors.
        needed += _owners(facts, (TRACKING,), with_tables=False)
    return GrantPlan(tuple(needed))


def _publisher(facts: RightsFacts) -> GrantPlan:
    made = [schema for schema in _PUBLISHERS if schema in facts.schemas]
    rights = (Attribute(), _create_in_database(facts), *_schemas(facts, "usage"))
    return GrantPlan((*rights, *_owners(facts, made)), ownership=_of_superusers(facts))


def _subscriber(facts: RightsFacts) -> GrantPlan:
    needed: list[Grant] = [*_made(facts, SUBSCRIBER)]
    needed += _schemas(facts, "usage", "create")
    if set(facts.lacking.values()) - facts.schema_owners.keys():
        # Delivery creates the schema of a table, too.
        needed.append(_create_in_database(facts))
    needed += [ObjectGrant(_WRITES, "table", (table.schema, table.name), owner=table.owner) for table in facts.tables]
    needed += _owners(facts, ())
    parameters = [ObjectGrant(("set",), "parameter", ("session_replication_role",), owner=_SUPERUSER)]
    functions = [ObjectGrant(("execute",), "function", (one,), owner=_SUPERUSER) for one in facts.origin_functions]
    return GrantPlan(tuple(needed), (*(parameters if facts.version >= _PARAMETERS_SINCE else ()), *functions))


def _merge(facts: RightsFacts) -> GrantPlan:
    needed = (*_made(facts, MERGE), *_schemas(facts, "usage"), *_owners(facts, ()))
    return GrantPlan(needed, ownership=_of_superusers(facts))


def _gateway(facts: RightsFacts) -> GrantPlan:
    if MERGE not in facts.schemas:
        return GrantPlan(())
    # Rows are read and written as the owners of their tables, who have the rights in the tables' schemas.
    merged = replace(facts, tables=tuple(table for table in facts.tables if table.is_merged))
    return GrantPlan((*_owners(merged, (MERGE,)),))


def _tracker(facts: RightsFacts) -> GrantPlan:
    # An index is created in the table's schema, with the rights of who creates it.
    needed = (*_made(facts, TRACKING), *_schemas(facts, "usage", "create"), *_owners(facts, ()))
    return GrantPlan(needed, ownership=_of_superusers(facts))


def _schemas(facts: RightsFacts, *privileges: str) -> Iterator[Grant]:
    """Rights in the schemas of tables, each checked by itself: `usage` of most is everybody's."""
    for schema, owner in facts.schema_owners.items():
        for privilege in privileges:
            yield ObjectGrant((privilege,), "schema", (schema,), owner=owner)


def _made(facts: RightsFacts, schema: str) -> Iterator[Grant]:
    """A schema of rowtide's is created by a role that may create in the database, and used by its owner."""
    if schema in facts.schemas:
        yield from _owners(facts, (schema,), with_tables=False)
    else:
        yield _create_in_database(facts)


def _create_in_database(facts: RightsFacts) -> Grant:
    return ObjectGrant(("create",), "database", (facts.database,), owner=facts.database_owner)


def _owners(facts: RightsFacts, schemas: Iterable[str], *, with_tables: bool = True) -> Iterator[Grant]:
    """Membership in the owners of schemas and tables; superuser is never granted for a table's sake."""
    whose = {facts.schemas[schema]: "the owner of rowtide's schemas" for schema in schemas}
    if with_tables:
        of_tables = {table.owner for table in facts.tables if not table.owner_is_superuser}
        whose = dict.fromkeys(of_tables, "the owner of the tables") | whose
    for owner in sorted(whose.keys() - {facts.grantee.name}):
        yield _membership(facts, owner, whose[owner])


def _of_superusers(facts: RightsFacts) -> tuple[Ownership, ...]:
    if facts.grantee.is_superuser:
        return ()
    owned = (table for table in facts.tables if table.owner_is_superuser)
    return tuple(Ownership(quote_qualified(table.schema, table.name), table.owner) for table in owned)


def _membership(facts: RightsFacts, group: str, whose: str) -> RoleMembership:
    return RoleMembership(group, f"a role with admin option on {group}", whose, _is_explicit(facts))


def _is_explicit(facts: RightsFacts) -> bool:
    return not facts.grantee.inherits and facts.version >= _INHERITANCE_OF_GRANTS_SINCE


_PARAMETERS_SINCE, _INHERITANCE_OF_GRANTS_SINCE = 15, 16
_PLANS: Mapping[Purpose, Callable[[RightsFacts], GrantPlan]] = {
    Purpose.MONITOR: _monitor,
    Purpose.READER: _reader,
    Purpose.PUBLISHER: _publisher,
    Purpose.SUBSCRIBER: _subscriber,
    Purpose.MERGE: _merge,
    Purpose.GATEWAY: _gateway,
    Purpose.TRACKER: _tracker,
}


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
        return Granted(statements, (), _list_ownership(whole, holder), tuple(facts.lacking))


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
    whole = plan(replace(facts, views={schema: facts.views[schema] for schema in others}), Purpose.MONITOR)
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
    return Granted(tuple(statements), tuple(not_granted), _list_ownership(whole, holder), tuple(facts.lacking))


def _list_ownership(whole: GrantPlan, holder: str) -> tuple[str, ...]:
    return tuple(one.grant_to(holder) for one in whole.ownership)


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
    whole = plan(facts, purpose)
    if not (whole.needed or steps):
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
    if owner == _SUPERUSER:
        return owner
    if owner not in facts.schemas.values():
        return f"a superuser or as {owner}"
    joining = f"grant {quote(owner)} to {quote(facts.grantor)}"
    return f"a superuser, as {owner}, or as a member of it (`{joining}`)"
