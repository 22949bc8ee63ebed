"""The grants of each purpose: those that it needs, and those that widen what the role sees or may do. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from rowtide.core.values import frozen
from rowtide.databases.postgres.functions import view_schema
from rowtide.rights.facts import RightsFacts
from rowtide.rights.grants import Attribute, Grant, ObjectGrant, RoleMembership
from rowtide.rights.monitor_views import OF_EVERYBODY
from rowtide.rights.purpose import Purpose

_SUPERUSER = "a superuser"
TRACKING, SUBSCRIBER, MERGE = "rowtide_tracking", "rowtide_subscriber", "rowtide_merge"
_PUBLISHERS = ("rowtide", "cdc", "distribution")
_WRITES = ("select", "insert", "update", "delete", "truncate")


@frozen
class GrantPlan:
    """The grants of a purpose in one database."""

    needed: tuple[Grant, ...]
    widening: tuple[Grant, ...] = ()

    @property
    def all(self) -> tuple[Grant, ...]:
        """Return both."""
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
    return GrantPlan((*rights, *_owners(facts, made)))


def _subscriber(facts: RightsFacts) -> GrantPlan:
    needed: list[Grant] = [*_made(facts, SUBSCRIBER)]
    needed += _schemas(facts, "usage", "create")
    needed += [ObjectGrant(_WRITES, "table", (table.schema, table.name), owner=table.owner) for table in facts.tables]
    needed += _owners(facts, ())
    parameters = [ObjectGrant(("set",), "parameter", ("session_replication_role",), owner=_SUPERUSER)]
    functions = [ObjectGrant(("execute",), "function", (one,), owner=_SUPERUSER) for one in facts.origin_functions]
    return GrantPlan(tuple(needed), (*(parameters if facts.version >= _PARAMETERS_SINCE else ()), *functions))


def _merge(facts: RightsFacts) -> GrantPlan:
    return GrantPlan((*_made(facts, MERGE), *_schemas(facts, "usage"), *_owners(facts, ())))


def _tracker(facts: RightsFacts) -> GrantPlan:
    # An index is created in the table's schema, with the rights of who creates it.
    return GrantPlan((*_made(facts, TRACKING), *_schemas(facts, "usage", "create"), *_owners(facts, ())))


def _schemas(facts: RightsFacts, *privileges: str) -> Iterator[Grant]:
    """Rights in the schemas of tables, one by one: `usage` of most is everybody's."""
    for schema, owner in facts.schema_owners.items():
        for privilege in privileges:
            yield ObjectGrant((privilege,), "schema", (schema,), owner=owner)


def _made(facts: RightsFacts, schema: str) -> Iterator[Grant]:
    """A schema of rowtide's is created by who may create in the database, and used by its owner."""
    if schema in facts.schemas:
        yield from _owners(facts, (schema,), with_tables=False)
    else:
        yield _create_in_database(facts)


def _create_in_database(facts: RightsFacts) -> Grant:
    return ObjectGrant(("create",), "database", (facts.database,), owner=facts.database_owner)


def _owners(facts: RightsFacts, schemas: Iterable[str], *, with_tables: bool = True) -> Iterator[Grant]:
    """Membership in who owns schemas and tables; superuser is never granted for the sake of a table."""
    whose = {facts.schemas[schema]: "the owner of rowtide's schemas" for schema in schemas}
    if with_tables:
        of_tables = {table.owner for table in facts.tables if not table.owner_is_superuser}
        whose = dict.fromkeys(of_tables, "the owner of the tables") | whose
    for owner in sorted(whose.keys() - {facts.grantee.name}):
        yield _membership(facts, owner, whose[owner])


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
    Purpose.TRACKER: _tracker,
}
