"""A database in which everything is enabled, and a role that is granted rights in it one by one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
from sqlalchemy.engine import make_url

from builders.capture.captured_databases import LoggedDatabase
from builders.commands.command_lines import Ended, rowtide
from builders.replication.replicated_databases import ReplicatedDatabase, Subscriber
from fixtures.servers import fresh_database
from rowtide.databases.postgres.connect import open_engine
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.handle import connect
from rowtide.rights.facts import read_facts
from rowtide.rights.grants import Grant, describe
from rowtide.rights.purpose import Purpose
from rowtide.rights.purpose_plans import GrantPlan, plan_grants

ROLE = "Watch \"er's"


@dataclass
class MonitoredDatabase:
    """A publisher, hub and tracked database; `ROLE` may connect, and has what `only` gives it."""

    publisher: LoggedDatabase
    url: str
    grants: dict[str, Grant]

    def run(self, command: str) -> Ended:
        """Run a command as the role."""
        words = command.replace("PUBLICATION", "shop").split()
        return rowtide(*words, "--db", self.url)

    def only(self, *rights: str) -> None:
        """Let the role have some of the rights, as `describe` says them, and no others."""
        with self.publisher.transaction() as session:
            for name, grant in self.grants.items():
                statement = grant.grant_to(ROLE) if name in rights else grant.revoke_from(ROLE)
                session.execute(statement.encode())

    def plan(self) -> GrantPlan:
        """Return what a monitor needs here."""
        with open_engine(self.publisher.url).connect() as connection:
            return plan_grants(read_facts(connection, ROLE), Purpose.MONITOR)


def as_role(url: str, role: str) -> str:
    """Return a database's URL with another role in it."""
    return make_url(url).set(username=role).render_as_string(hide_password=False)


@contextmanager
def open_monitored(server: EmbeddedServer, place: Path) -> Iterator[MonitoredDatabase]:
    """Enable everything in a new database, and grant the role what a monitor needs."""
    with (
        fresh_database(server) as url,
        fresh_database(server) as elsewhere,
        psycopg.connect(url, autocommit=True) as session,
        psycopg.connect(elsewhere, autocommit=True) as other,
    ):
        publisher = LoggedDatabase(url, place / "lake", session)
        publisher.execute("create table item (id int primary key, name text)")
        publisher.enable("item")
        replicated = ReplicatedDatabase(publisher, Subscriber(elsewhere, other))
        replicated.begin("create table orders (id int primary key, note text)", orders={})
        publisher.execute("create table part (id int primary key)", "create table visit (name text primary key)")
        database = connect(url)
        database.merge.add_publication("parts")
        database.merge.add_article("parts", "part")
        database.merge.add_subscription("parts", subscriber=f"sqlite:///{place}/device.db")
        database.merge.add_device("tablet", publication="parts")
        with database:
            database.tracking.enable_tracking("visit")
        publisher.execute("insert into item values (1, 'a')", "insert into orders values (1, 'x')")
        publisher.read_log()
        database.actions.perform("replication post-tracer-token", {"publication": "shop"}, actor="anna")
        role = psycopg.sql.Identifier(ROLE)
        session.execute(psycopg.sql.SQL("create role {} login").format(role))
        try:
            database.grant(ROLE, Purpose.MONITOR)
            monitored = MonitoredDatabase(publisher, as_role(url, ROLE), {})
            monitored.grants = {describe(grant): grant for grant in monitored.plan().all}
            yield monitored
        finally:
            session.execute(psycopg.sql.SQL("drop owned by {0}; drop role {0}").format(role))
