"""Who may read an instance's changes; read as text, so that any kind of session can do so (see `access`)."""

from __future__ import annotations

from typing import Any

from rowtide.cdc.errors.enabling import ReadingDenied
from rowtide.cdc.errors.querying import InstanceNotReadable, InstanceUnknown
from rowtide.core.values import frozen
from rowtide.databases.postgres.quoting import Run, quote, quote_qualified


@frozen
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

    def require_known(self, capture_instance: str) -> None:
        """Raise `InstanceNotReadable` unless the catalogue has the instance, and it may be read."""
        if capture_instance not in self.known or not self.may_read(capture_instance):
            refusal = self.refusals.get(capture_instance)
            granting = f"{refusal.filled_hint} " if refusal is not None else ""
            raise InstanceNotReadable(capture_instance, self.role, granting)


def read_role_access(run: Run) -> RoleAccess:
    """Return the rights of the role that runs statements."""
    (role,), rows = run(ROLE), run(_INSTANCES)
    denied = {} if role.is_owner else {row.capture_instance: _refusal(role.name, row) for row in rows}
    return RoleAccess(
        role=role.name,
        is_owner=role.is_owner,
        known=frozenset(row.capture_instance for row in rows),
        refusals={name: refusal for name, refusal in denied.items() if refusal is not None},
    )


def _refusal(role: str, row: Any) -> ReadingDenied | None:
    table = quote_qualified(row.source_schema, row.source_name)
    if row.role_name is not None and not row.is_member:
        mend = f"grant {quote(row.role_name)} to {quote(role)}"
        return ReadingDenied(role, row.capture_instance, f"it is no member of gating role {row.role_name}", mend)
    if not row.may_select:
        mend = f"grant select on {table} to {quote(role)}"
        return ReadingDenied(role, row.capture_instance, f"it may not select every captured column of {table}", mend)
    return None


ROLE = """
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
