"""Rights on PostgreSQL: who may administer capture, and who may read an instance's changes.

Members of the instance's gating role who may select its captured columns may read; without a gating role, that right
suffices. Superusers, the database's owner and the owner of schema `cdc` (the role that enabled the database) need
neither. Only calls that connect to the database check this: the lake's files have no roles.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, Executable, text

from rowtide.cdc import rights
from rowtide.cdc.definitions import SCHEMA, read_source
from rowtide.cdc.errors.enabling import NotOwner, RoleNameEmpty, RoleNameInvalid, RoleNotCreated
from rowtide.cdc.rights import RoleAccess
from rowtide.databases.postgres.catalogue import has_schema, running_through
from rowtide.databases.postgres.errors import GrantMissing
from rowtide.databases.postgres.functions import reads_views, view_schema
from rowtide.databases.postgres.quoting import join_owner, quote, statement
from rowtide.log.source_definition import SourceDefinition

_LONGEST_NAME_BYTES = 63
_RESERVED_NAMES = ("public", "none", "current_role", "current_user", "session_user")

READER_GRANTS: tuple[Executable, ...] = (
    statement("grant usage on schema rowtide, cdc to public"),
    statement("grant select on rowtide.source, rowtide.members to public"),
    statement("grant select on cdc.change_tables, cdc.captured_columns, cdc.index_columns to public"),
    statement("grant select on cdc.consumers, cdc.consumer_instances, cdc.targets to public"),
    statement("grant select on cdc.table_rules, cdc.ruled_tables, cdc.new_tables to public"),
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


def read_role_access(connection: Connection) -> RoleAccess:
    """Return the rights of the connection's role."""
    return rights.read_role_access(running_through(connection))


def require_owner(connection: Connection, database: str) -> None:
    """Raise `NotOwner` unless the connection's role owns what enabling the database made."""
    role = connection.execute(text(rights.ROLE)).one()
    if not role.is_administrator:
        joining = join_owner(role.administrator, role.name, is_superusers=role.is_superusers)
        raise NotOwner(role.name, database, role.administrator, joining)


def own_source(connection: Connection, database: str) -> SourceDefinition:
    """Return the definition of this database's source, for its owner only. Raises `DatabaseNotEnabled`, `NotOwner`."""
    source = read_source(connection, database)
    require_owner(connection, database)
    return source


def seen_source(connection: Connection, database: str) -> SourceDefinition:
    """Return the definition of this database's source, for its owner, and for monitors, which read views of the
    metadata. Raises `DatabaseNotEnabled`, `GrantMissing` where only a grant is lacking for that, else `NotOwner`.
    """
    source = read_source(connection, database)
    if not reads_views(connection, SCHEMA):
        role = connection.execute(text(rights.ROLE)).one()
        views = view_schema(SCHEMA)
        if not role.is_administrator and has_schema(connection, views):
            granting = f"grant usage on schema {quote(views)} to {quote(role.name)}"
            raise GrantMissing(f"permission denied for schema {views}", granting, role.administrator)
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


_GATING_ROLE = """
select current_user::text as user, exists (select from pg_roles where rolname = :name) as is_there,
       (select rolcreaterole or rolsuper from pg_roles where rolname = current_user) as may_create
"""
