"""Rights as values: the statements that grant and revoke each, and the expression that checks whether a role has it."""

from __future__ import annotations

from rowtide.core.values import frozen
from rowtide.databases.postgres.quoting import quote, quote_literal, share_ownership


@frozen
class ObjectGrant:
    """Privileges in one object, of which `path` are the schema and the name, or the name alone.

    `kind` is `table`, `schema`, `database`, `function` or `parameter`; the last two are named as SQL takes them. With
    `columns` the privileges are in these columns alone. `owner` is who may grant it, in words.
    """

    privileges: tuple[str, ...]
    kind: str
    path: tuple[str, ...]
    columns: tuple[str, ...] = ()
    owner: str = "the owner of the object"

    @property
    def name(self) -> str:
        """The object as SQL takes it."""
        return self.path[0] if self.kind in ("function", "parameter") else ".".join(map(quote, self.path))

    @property
    def _rights(self) -> str:
        columns = f" ({', '.join(map(quote, self.columns))})" if self.columns else ""
        return ", ".join(f"{privilege}{columns}" for privilege in self.privileges)

    def grant_to(self, role: str) -> str:
        """Return the statement that grants it."""
        return f"grant {self._rights} on {self._object} to {quote(role)}"

    def revoke_from(self, role: str) -> str:
        """Return the statement that revokes it."""
        return f"revoke {self._rights} on {self._object} from {quote(role)}"

    @property
    def _object(self) -> str:
        return self.name if self.kind == "table" else f"{self.kind} {self.name}"

    def condition(self, role: str) -> str:
        """Return the expression that says whether the role has it; the object exists."""
        holder = quote_literal(role)
        return " and ".join(self._ask(holder, quote_literal(privilege)) for privilege in self.privileges)

    def _ask(self, holder: str, privilege: str) -> str:
        """By the object's oid: a name fails if the role may not use its schema, or if it does not exist."""
        match self.kind:
            case "table" if self.columns:
                columns = ", ".join(map(quote_literal, self.columns))
                asked = f"has_column_privilege({holder}, c.oid, a.name, {privilege})"
                each = f"(select bool_and({asked}) from unnest(array[{columns}]) a (name))"  # noqa: S608
                return f"coalesce((select {each} {self._relation}), false)"
            case "table":
                return f"coalesce((select has_table_privilege({holder}, c.oid, {privilege}) {self._relation}), false)"
            case "schema":
                named = f"from pg_namespace n where n.nspname = {quote_literal(self.path[0])}"
                return f"coalesce((select has_schema_privilege({holder}, n.oid, {privilege}) {named}), false)"
            case _:
                return f"has_{self.kind}_privilege({holder}, {quote_literal(self.path[0])}, {privilege})"

    @property
    def _relation(self) -> str:
        schema, name = map(quote_literal, self.path)
        return (
            "from pg_class c join pg_namespace n on n.oid = c.relnamespace "
            f"where n.nspname = {schema} and c.relname = {name}"
        )


@frozen
class RoleMembership:
    """Membership in a role, with its rights."""

    group: str
    owner: str = "a superuser"
    whose: str = ""
    """A description of what the membership gives access to."""
    is_explicit: bool = False
    """Whether the member does not inherit the rights of its groups unless each grant says so."""

    def grant_to(self, role: str) -> str:
        """Return the statement that grants it."""
        return f"grant {self._group} to {quote(role)}{' with inherit true' if self.is_explicit else ''}"

    def revoke_from(self, role: str) -> str:
        """Return the statement that revokes it."""
        return f"revoke {self._group} from {quote(role)}"

    @property
    def _group(self) -> str:
        return self.group if self.group.startswith("pg_") else quote(self.group)

    def condition(self, role: str) -> str:
        """Return the expression that says whether the role has it."""
        return f"pg_has_role({quote_literal(role)}, {quote_literal(self.group)}, 'usage')"


@frozen
class Attribute:
    """The attribute of roles that may open replication connections."""

    owner: str = "a superuser"

    def grant_to(self, role: str) -> str:
        """Return the statement that grants it."""
        return f"alter role {quote(role)} replication"

    def revoke_from(self, role: str) -> str:
        """Return the statement that revokes it."""
        return f"alter role {quote(role)} noreplication"

    def condition(self, role: str) -> str:
        """Return the expression that says whether the role has it."""
        of_role = f"rolname = {quote_literal(role)}"
        return f"coalesce((select rolreplication or rolsuper from pg_roles where {of_role}), false)"  # noqa: S608


@frozen
class Ownership:
    """Ownership of a superuser's table, which no grant shares: a member of its owner could do all that it can."""

    table: str
    """The table's name, quoted for SQL."""
    held_by: str

    def grant_to(self, role: str) -> str:
        """Return the statement that makes the role the table's owner."""
        return share_ownership(self.table, self.held_by, role, is_superusers=True)


Grant = ObjectGrant | RoleMembership | Attribute
_OF_ROWTIDE = ("rowtide", "cdc", "distribution")


def describe(grant: Grant) -> str:
    """Return a grant in words that are the same in every database."""
    match grant:
        case Attribute():
            return "the attribute replication"
        case RoleMembership(group, whose=whose):
            return f"membership in {whose or group}"
        case ObjectGrant(privileges, "database"):
            return f"{', '.join(privileges)} on the database"
        case ObjectGrant(privileges, kind, path) if kind in ("table", "schema"):
            is_ours = path[0] in _OF_ROWTIDE or path[0].startswith("rowtide_")
            name = ".".join(path) if is_ours else f"the {kind}"
            of_schema = "schema " if is_ours and kind == "schema" else ""
            return f"{', '.join(privileges)} on {of_schema}{name}"
        case _:
            return f"{', '.join(grant.privileges)} on {grant.kind} {grant.name}"


@frozen
class Granted:
    """What was granted, as statements; `not_granted` are rights that widen the view, which a superuser has to grant.

    `ownership` are statements that make the role the owner of superusers' tables, which it needs, and whose owner only
    a person decides to change. `lacking` are tables that are not there yet: they are created with what was granted.
    """

    statements: tuple[str, ...]
    not_granted: tuple[str, ...] = ()
    ownership: tuple[str, ...] = ()
    lacking: tuple[str, ...] = ()
