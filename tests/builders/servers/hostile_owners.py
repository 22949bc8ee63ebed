"""A role that owns a schema, its tables and types, and defines what others might evaluate for it.

Its code counts, in a sequence, each time that it runs as somebody else: in a security definer function of another's, or
in a session of another's.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256

import psycopg
from psycopg import sql

from fixtures.servers import fresh_database
from rowtide.databases.postgres.embedded import EmbeddedServer

ROLE = "hostile owner"
VALUES = {
    "kind": ("app.kind", "a", "b", "c"),
    "pair": ("app.pair", "(1,x)", "(2,y)", "(3,z)"),
    "span": ("app.span", "[1,2)", "[3,4)", "[5,6)"),
    "kinds": ("app.kind[]", "{a}", "{a,b}", "{c}"),
}
"""Of each of its types the name, and three values: an enum, a composite with a domain, a range, an array."""

_SPRING = """
create sequence app.sprung;
create function app.spring() returns void language plpgsql as $$
begin if current_user <> 'hostile owner' then perform pg_catalog.nextval('app.sprung'); end if; end $$;
create domain app.checked as int check (app.spring() is null or true);
create type app.kind as enum ('a', 'b', 'c');
create type app.pair as (n app.checked, s text);
create type app.span as range (subtype = int);
"""


@dataclass(frozen=True, slots=True)
class HostileOwner:
    """The owner's session, in a database that `url` opens as a superuser."""

    url: str
    session: psycopg.Connection

    def run(self, *statements: str) -> None:
        """Execute statements as the owner."""
        for one in statements:
            self.session.execute(one.encode())

    def try_to(self, *statements: str) -> None:
        """Execute statements as the owner; those that fail are omitted."""
        for one in statements:
            try:
                self.session.execute(one.encode())
            except psycopg.Error:
                continue

    def define_casts(self, type_name: str, context: str) -> None:
        """Define casts of a type of its own to and from text and bigint, that spring the trap."""
        for other, value in (("text", "'zz'"), ("bigint", "1"), ("varchar", "'zz'")):
            place = sha256(f"{type_name}{other}".encode()).hexdigest()[:8]
            sprung = "language plpgsql immutable as $$ begin perform app.spring(); return"
            self.run(
                f"create function app.to_{place}({type_name}) returns {other} {sprung} {value}; end $$",
                f"create function app.from_{place}({other}) returns {type_name} {sprung} null; end $$",
                f"create cast ({type_name} as {other}) with function app.to_{place} {context}",
                f"create cast ({other} as {type_name}) with function app.from_{place} {context}",
            )

    def sprung(self) -> int:
        """Return how often its code has run as somebody else."""
        row = self.session.execute("select case when is_called then last_value else 0 end from app.sprung").fetchone()
        assert row is not None
        return int(row[0])


@contextmanager
def hostile_owner(server: EmbeddedServer) -> Iterator[HostileOwner]:
    """Yield an owner with a schema `app` in a new database."""
    role = sql.Identifier(ROLE)
    with psycopg.connect(server.url(), autocommit=True) as admin:
        admin.execute(sql.SQL("drop role if exists {}").format(role))
        admin.execute(sql.SQL("create role {} login").format(role))
        try:
            with fresh_database(server) as url:
                with psycopg.connect(url, autocommit=True) as first:
                    first.execute(sql.SQL("create schema app authorization {}").format(role))
                with psycopg.connect(url, user=ROLE, autocommit=True) as session:
                    owner = HostileOwner(url, session)
                    owner.run(_SPRING)
                    yield owner
        finally:
            admin.execute(sql.SQL("drop role if exists {}").format(role))
