"""The grants of each purpose: those that it needs, and those that widen what the role sees or may do. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from rowtide.core.values import frozen
from rowtide.databases.postgres.monitoring import view_schema
from rowtide.rights.facts import RightsFacts
from rowtide.rights.grants import Attribute, Grant, Membership, ObjectGrant
from rowtide.rights.purpose import Purpose

_SUPERUSER = "a superuser"
TRACKING, SUBSCRIBER, MERGE = "rowtide_tracking", "rowtide_subscriber", "rowtide_merge"
_PUBLISHERS = ("rowtide", "cdc", "distribution")
_WRITES = ("select", "insert", "update", "delete", "truncate")
OF_LOG = ("dropped_members", "features", "distributor")
"""Tables of schema `rowtide` that monitors read as they are: they have names, and a URL without a password."""


@frozen
class Plan:
    """The grants of a purpose in one database."""

    needed: tuple[Grant, ...]
    widening: tuple[Grant, ...] = ()

    @property
    def all(self) -> tuple[Grant, ...]:
        """Return both."""
        return (*self.needed, *self.widening)


def plan(facts: RightsFacts, purpose: Purpose) -> Plan:
    """Return what a role needs for a purpose."""
    return _PLANS[purpose](facts)


def _monitor(facts: RightsFacts) -> Plan:
    needed: list[Grant] = []
    for schema, names in facts.views.items():
        owner = facts.schemas[schema]
        if names:
            needed.append(ObjectGrant(("usage",), "schema", (view_schema(schema),), owner=owner))
        needed += [ObjectGrant(("select",), "table", (view_schema(schema), name), owner=owner) for name in names]
    needed += _select(facts, "rowtide", OF_LOG)
    explicit = _is_explicit(facts)
    return Plan(tuple(needed), (Membership("pg_read_all_stats", _SUPERUSER, explicit),))


def _select(facts: RightsFacts, schema: str, tables: Iterable[str]) -> Iterator[ObjectGrant]:
    present = facts.relations.get(schema, {})
    return (
        ObjectGrant(("select",), "table", (schema, name), owner=facts.schemas[schema])
        for name in tables
        if name in present
    )


def _reader(facts: RightsFacts) -> Plan:
    read = [table for table in facts.tables if table.is_captured or table.is_tracked]
    gates = sorted({gate for table in read for gate in table.gates})
    needed: list[Grant] = [_membership(facts, gate) for gate in gates]
    for table in read:
        columns = () if table.is_tracked else table.columns
        needed.append(ObjectGrant(("select",), "table", (table.schema, table.name), columns, table.owner))
    tracked = [table for table in read if table.is_tracked]
    needed += [
        ObjectGrant(("usage",), "schema", (schema,), owner=facts.schema_owners[schema])
        for schema in sorted({table.schema for table in tracked})
    ]
    if TRACKING in facts.schemas and tracked:
        needed += _enumeration(facts)
    return Plan(tuple(needed))


def _enumeration(facts: RightsFacts) -> Iterator[Grant]:
    """An enumeration reads tombstones and stores its anchor."""
    owner = facts.schemas[TRACKING]
    yield ObjectGrant(("usage",), "schema", (TRACKING,), owner=owner)
    for name in facts.relations[TRACKING]:
        privileges = ("select", "insert") if name == "__sysAnchors" else ("select",)
        yield ObjectGrant(privileges, "table", (TRACKING, name), owner=owner)


def _publisher(facts: RightsFacts) -> Plan:
    made = [schema for schema in _PUBLISHERS if schema in facts.schemas]
    return Plan((Attribute(), _create_in_database(facts), *_owners(facts, made)))


def _subscriber(facts: RightsFacts) -> Plan:
    needed: list[Grant] = [*_made(facts, SUBSCRIBER)]
    for schema, owner in facts.schema_owners.items():
        needed.append(ObjectGrant(("usage", "create"), "schema", (schema,), owner=owner))
    needed += [ObjectGrant(_WRITES, "table", (table.schema, table.name), owner=table.owner) for table in facts.tables]
    needed += _owners(facts, ())
    parameters = [ObjectGrant(("set",), "parameter", ("session_replication_role",), owner=_SUPERUSER)]
    functions = [ObjectGrant(("execute",), "function", (one,), owner=_SUPERUSER) for one in facts.origin_functions]
    return Plan(tuple(needed), (*(parameters if facts.version >= _PARAMETERS_SINCE else ()), *functions))


def _merge(facts: RightsFacts) -> Plan:
    return Plan((*_made(facts, MERGE), *_owners(facts, ())))


def _tracker(facts: RightsFacts) -> Plan:
    return Plan((*_made(facts, TRACKING), *_owners(facts, ())))


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
    of_tables = {table.owner for table in facts.tables if not table.owner_is_superuser} if with_tables else set()
    owners = {facts.schemas[schema] for schema in schemas} | of_tables
    for owner in sorted(owners - {facts.grantee.name}):
        yield _membership(facts, owner)


def _membership(facts: RightsFacts, group: str) -> Membership:
    return Membership(group, f"a role with admin option on {group}", _is_explicit(facts))


def _is_explicit(facts: RightsFacts) -> bool:
    return not facts.grantee.inherits and facts.version >= _INHERITANCE_OF_GRANTS_SINCE


_PARAMETERS_SINCE, _INHERITANCE_OF_GRANTS_SINCE = 15, 16
_PLANS: Mapping[Purpose, Callable[[RightsFacts], Plan]] = {
    Purpose.MONITOR: _monitor,
    Purpose.READER: _reader,
    Purpose.PUBLISHER: _publisher,
    Purpose.SUBSCRIBER: _subscriber,
    Purpose.MERGE: _merge,
    Purpose.TRACKER: _tracker,
}
