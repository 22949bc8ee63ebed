"""Rights on PostgreSQL: who may administer capture, and who may read an instance's changes.

Members of the instance's gating role who may select its captured columns may read; without a gating role, that right
suffices. Superusers, the database's owner and the owner of schema `cdc` (the role that enabled the database) need
neither. Only calls that connect to the database check this: the lake's files have no roles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, Executable, Row, text

from rowtide.cdc.definitions import read_source
from rowtide.cdc.errors import InstanceUnknown, NotOwner, ReadingDenied, RoleNameEmpty, RoleNameInvalid, RoleNotCreated
from rowtide.databases.postgres.quoting import quote, quote_qualified, statement
from rowtide.log.catalogue import SourceDefinition

_LONGEST_NAME_BYTES = 63
_RESERVED_NAMES = ("public", "none", "current_role", "current_user", "session_user")

READER_GRANTS: tuple[Executable, ...] = (
    statement("grant usage on schema rowtide, cdc to public"),
    statement("grant select on rowtide.source, rowtide.members to public"),
    statement("grant select on cdc.change_tables, cdc.captured_columns, cdc.index_columns to public"),
    statement("grant select on cdc.consumers, cdc.consumer_instances to public"),
    statement("grant update (acknowledged_lsn, acknowledged_time, acknowledged_at) on cdc.consumers to public"),
    statement("alter table cdc.consumers enable row level security"),
    statement("drop policy if exists rowtide_read on cdc.consumers"),
    statement("create policy rowtide_read on cdc.consumers for select using (true)"),
    statement("drop policy if exists rowtide_acknowledge on cdc.consumers"),
    statement(
        "create policy rowtide_acknowledge on cdc.consumers for update using (exists ("
        "select from pg_roles r where r.rolname = role_name and pg_has_role(r.oid, 'member')))"
    ),
)
"""The rights on the definitions that reading calls need, which reveal no more of tables than the server's own
catalogue; and those for acknowledgements by members of a consumer's role.
"""


@dataclass(frozen=True, slots=True)
class RoleAccess:
    """The connection's role; `refusals` has the instances that it may not read."""

    role: str
    is_owner: bool
    known: frozenset[str]
    refusals: dict[str, ReadingDenied]

    def may_read(self, capture_instance: str) -> bool:
        """Return whether an instance may be read; one that only the lake still has, by an owner."""
        return self.is_owner or (capture_instance in self.known and capture_instance not in self.refusals)

    def require(self, capture_instance: str) -> None:
        """Raise `ReadingDenied` or `InstanceUnknown` unless the instance may be read."""
        if not self.may_read(capture_instance):
            raise self.refusals.get(capture_instance) or InstanceUnknown(capture_instance)


def read_role_access(connection: Connection) -> RoleAccess:
    """Return the rights of the connection's role."""
    role = connection.execute(text(_ROLE)).one()
    rows = connection.execute(text(_INSTANCES)).all()
    denied = {} if role.is_owner else {row.capture_instance: _refusal(role.name, row) for row in rows}
    return RoleAccess(
        role=role.name,
        is_owner=role.is_owner,
        known=frozenset(row.capture_instance for row in rows),
        refusals={name: refusal for name, refusal in denied.items() if refusal is not None},
    )


def require_owner(connection: Connection, database: str) -> None:
    """Raise `NotOwner` unless the connection's role owns what enabling the database made."""
    role = connection.execute(text(_ROLE)).one()
    if not role.is_administrator:
        raise NotOwner(role.name, database, role.administrator)


def own_source(connection: Connection, database: str) -> SourceDefinition:
    """Return the definition of this database's source, for its owner only. Raises `DatabaseNotEnabled`, `NotOwner`."""
    source = read_source(connection, database)
    require_owner(connection, database)
    return source


def plan_gating_role(connection: Connection, role_name: str | None) -> Sequence[Executable]:
    """Return the step that creates the gating role, none if it exists.

    Raises `RoleNameEmpty`, `RoleNameInvalid`, `RoleNotCreated`.
    """
    if role_name is None:
        return []
    require_role_name(role_name)
    row = connection.execute(text(_GATING_ROLE), {"name": role_name}).one()
    if row.is_there:
        return []
    if not row.may_create:
        raise RoleNotCreated(role_name, row.user, quote(role_name))
    return [statement(f"create role {quote(role_name)}")]


def require_role_name(name: str) -> None:
    """Raise `RoleNameEmpty` or `RoleNameInvalid` for an invalid role name. Pure."""
    if not name.strip():
        raise RoleNameEmpty
    if len(name.encode()) > _LONGEST_NAME_BYTES:
        raise RoleNameInvalid(name, f"it has more than {_LONGEST_NAME_BYTES} bytes")
    if name in _RESERVED_NAMES or name.startswith("pg_"):
        raise RoleNameInvalid(name, "the server keeps it to itself")
    if "\0" in name:
        raise RoleNameInvalid(name, "it has a NUL character")


def _refusal(role: str, row: Row[tuple[object, ...]]) -> ReadingDenied | None:
    table = quote_qualified(row.source_schema, row.source_name)
    if row.role_name is not None and not row.is_member:
        mend = f"grant {quote(row.role_name)} to {quote(role)}"
        return ReadingDenied(role, row.capture_instance, f"it is no member of gating role {row.role_name}", mend)
    if not row.may_select:
        mend = f"grant select on {table} to {quote(role)}"
        return ReadingDenied(role, row.capture_instance, f"it may not select every captured column of {table}", mend)
    return None


_ROLE = """
select current_user::text as name, owner.rolname::text as administrator,
       pg_has_role(owner.oid, 'usage') as is_administrator,
       pg_has_role(owner.oid, 'usage') or pg_has_role(d.datdba, 'usage') as is_owner
from pg_database d
join pg_namespace n on n.nspname = 'cdc'
join pg_roles owner on owner.oid = n.nspowner
where d.datname = current_database()
"""

_INSTANCES = """
select t.capture_instance, t.role_name, m.source_schema, m.source_name,
       exists (select from pg_roles r where r.rolname = t.role_name and pg_has_role(r.oid, 'member')) as is_member,
       coalesce(has_table_privilege(t.source_object_id::oid, 'select'), false) or not exists (
           select from cdc.captured_columns c
           where c.object_id = t.object_id
             and not coalesce(
                 has_column_privilege(t.source_object_id::oid, c.column_id::smallint, 'select'), false)) as may_select
from cdc.change_tables t join rowtide.members m on m.member_id = t.member_id
"""

_GATING_ROLE = """
select current_user::text as user, exists (select from pg_roles where rolname = :name) as is_there,
       (select rolcreaterole or rolsuper from pg_roles where rolname = current_user) as may_create
"""
