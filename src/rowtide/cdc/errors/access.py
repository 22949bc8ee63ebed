"""Errors of roles and rights."""

from __future__ import annotations

from rowtide.core.errors import Denied, Invalid


class ReadingDenied(Denied, number=229):
    """The role may not read an instance's changes (SQL Server: 229)."""

    fact = "role {role} may not read capture instance {instance}: {reason}"
    hint = "Ask the owner of the database to run `{mend}`."
    role: str
    instance: str
    reason: str
    mend: str


class RoleNameEmpty(Invalid, number=22907):
    """The gating role's name is empty (SQL Server: 22907)."""

    fact = "the gating role has no name"
    hint = "Name a role with --role, or omit the option."


class RoleNameInvalid(Invalid, number=22938):
    """The gating role's name is not a valid role name (SQL Server: 22938)."""

    fact = '"{role}" cannot name a gating role: {reason}'
    hint = "Name another one with --role."
    role: str
    reason: str


class RoleNotCreated(Denied, number=22944):
    """The gating role does not exist, and may not be created (SQL Server: 22944)."""

    fact = "there is no role {role}, and {user} may not create it"
    hint = "Run `create role {quoted}` as a role with createrole, then enable again."
    role: str
    user: str
    quoted: str


class NotOwner(Denied, number=22904):
    """Only the owner administers capture (SQL Server: 22904, db_owner)."""

    fact = "role {role} does not own the change data capture of database {database}: {owner} enabled it"
    hint = "Connect as {owner} or a member of it, or as a superuser."
    role: str
    database: str
    owner: str
