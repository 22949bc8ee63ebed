"""What each purpose needs in a database: a plan of grants, made of the facts. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from rowtide.core.values import frozen
from rowtide.databases.postgres.functions import view_schema
from rowtide.databases.postgres.quoting import quote_qualified
from rowtide.rights.facts import RightsFacts
from rowtide.rights.grants import Attribute, Grant, ObjectGrant, Ownership, RoleMembership
from rowtide.rights.monitor_views import OF_EVERYBODY
from rowtide.rights.purpose import Purpose

SUPERUSER = "a superuser"
OF_DATABASE = "pg_database_owner"
"""The owner of schema public, as whom nobody connects."""
TRACKING, SUBSCRIBER, MERGE = "rowtide_tracking", "rowtide_subscriber", "rowtide_merge"
_PUBLISHERS = ("rowtide", "cdc", "distribution")
_WRITES = ("select", "insert", "update", "delete", "truncate")


@frozen
class GrantPlan:
    """The grants of a purpose in one database.

    `withheld` are memberships in superusers who own rowtide's schemas: a member could do all that a superuser can.
    """

    needed: tuple[Grant, ...]
    widening: tuple[Grant, ...] = ()
    ownership: tuple[Ownership, ...] = ()
    withheld: tuple[RoleMembership, ...] = ()

    @property
    def all(self) -> tuple[Grant, ...]:
        """Return what can be granted."""
        return (*self.needed, *self.widening)


def plan_grants(facts: RightsFacts, purpose: Purpose) -> GrantPlan:
    """Return what a role needs for a purpose."""
    whole = _PLANS[purpose](facts)
    memberships = (one for one in whole.needed if isinstance(one, RoleMembership))
    withheld = () if facts.grantee.is_superuser else tuple(one for one in memberships if one.group in facts.superusers)
    return replace(whole, needed=tuple(one for one in whole.needed if one not in withheld), withheld=withheld)


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
    statistics = RoleMembership("pg_read_all_stats", SUPERUSER, is_explicit=_is_explicit(facts))
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
    parameters = [ObjectGrant(("set",), "parameter", ("session_replication_role",), owner=SUPERUSER)]
    functions = [ObjectGrant(("execute",), "function", (one,), owner=SUPERUSER) for one in facts.origin_functions]
    return GrantPlan(tuple(needed), (*(parameters if facts.version >= _PARAMETERS_SINCE else ()), *functions))


def _merge(facts: RightsFacts) -> GrantPlan:
    # A table gets an index, with the rights of its owner.
    own = {table.schema for table in facts.tables if table.owner == facts.grantee.name}
    making = replace(facts, schema_owners={name: owner for name, owner in facts.schema_owners.items() if name in own})
    needed = (*_made(facts, MERGE), *_schemas(facts, "usage"), *_schemas(making, "create"), *_owners(facts, ()))
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
