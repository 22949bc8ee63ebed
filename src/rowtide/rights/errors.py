"""Errors of rights: 114x, and the purposes' 5105."""

from __future__ import annotations

from rowtide.core.errors import Denied, Invalid, NotFound


class PurposeUnknown(Invalid, number=5105):
    """A role can have no purpose of this name."""

    fact = '"{name}" is not a purpose of a role'
    hint = "Choose one of {purposes}."
    name: str
    purposes: str


class RoleUnknown(NotFound, number=1144):
    """A role to which rights are to be granted does not exist; `rowtide grant` creates none."""

    fact = "there is no role {role} on this server"
    hint = "Run `create role {quoted}` first; add `login` for a role that connects."
    role: str
    quoted: str


class GrantRefused(Denied, number=1145):
    """The role that grants may not grant one of the rights; nothing was granted."""

    fact = "the server does not let {granter} run `{statement}`: {reason}"
    hint = "Nothing was granted. Connect as {grantors}, or let them run the statements that --dry-run prints."
    granter: str
    statement: str
    reason: str
    grantors: str
    """The roles that may grant it, and how the granter becomes a member of one."""


class NothingToGrant(NotFound, number=1146):
    """rowtide has nothing in the database that a role for the purpose could use."""

    fact = "nothing that a {purpose} uses is enabled in database {database}"
    hint = "Enable it first, then grant again."
    purpose: str
    database: str
