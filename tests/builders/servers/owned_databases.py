"""A database in which a plain role has enabled everything, and another role that may become its member."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from builders.commands.command_lines import Ended, rowtide
from builders.commands.command_tree import Command
from builders.servers.monitored_databases import as_role
from fixtures.servers import fresh_database
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.handle import connect

OWNER, ROLE = "Owner-of-all", "Outsider's"
JOIN = f"""grant "{OWNER}" to "{ROLE}\""""
ATTRIBUTE = f'alter role "{ROLE}" replication'
NAMED_FIRST = "MSmerge_contents"
"""What merge's commands name first: a table of merge's, and a device of that name."""
TABLES = (
    "create table item (id int primary key, name text)",
    "create table orders (id int primary key, note text)",
    "create table part (id int primary key)",
    "create table visit (name text primary key)",
)


@dataclass
class OwnedDatabase:
    """A publisher, hub and tracked database of `OWNER`; `ROLE` may connect."""

    url: str
    session: psycopg.Connection
    subscriber: str
    folder: Path

    @property
    def device(self) -> str:
        """The URL of a subscriber of the merge publication."""
        return f"sqlite:///{self.folder}/device.db"

    def run(self, command: Command) -> Ended:
        """Run a command as the role, on what the owner has."""
        given = {"db": as_role(self.url, ROLE), "yes": "", "once": "", "days": "1", "winner": "delivered"}
        given |= self._names(command.words[0])
        known = {parameter.name for parameter in command.parameters}
        return rowtide(*command.call({name: value for name, value in given.items() if name in known}))

    def _names(self, feature: str) -> Mapping[str, str]:
        match feature:
            case "cdc":
                named = {"table": "item", "instance": "public_item", "instances": "public_item", "tables": "item"}
                # A catalogue of Iceberg takes no JVM; none listens there.
                return named | {"difference": "", "catalogue_kind": "iceberg", "place": "http://127.0.0.1:1"}
            case "merge":
                named = {"publication": "parts", "table": "part", "article": "part", "subscriber": self.device}
                given = {
                    "retention_days": "9",
                    "winner": "publisher",
                    "column_tracking": "",
                    "name": NAMED_FIRST,
                    "to": str(self.folder / "snapshot"),
                }
                return named | given
            case "grant":
                return {"role": ROLE, "purpose": "publisher"}
            case "tracking":
                return {"table": "visit", "tables": "visit"}
            case _:
                return {"subscriber": self.subscriber, "article": "orders", "sql": str(self.folder / "script.sql")}


@contextmanager
def open_owned(server: EmbeddedServer, place: Path) -> Iterator[OwnedDatabase]:
    """Let a role of its own enable everything in a new database."""
    with (
        fresh_database(server) as url,
        fresh_database(server) as elsewhere,
        psycopg.connect(url, autocommit=True) as session,
        psycopg.connect(elsewhere, autocommit=True) as other,
    ):
        owner, role = psycopg.sql.Identifier(OWNER), psycopg.sql.Identifier(ROLE)
        session.execute(psycopg.sql.SQL("create role {} login replication").format(owner))
        session.execute(psycopg.sql.SQL("create role {} login").format(role))
        try:
            for one in (session, other):
                name = psycopg.sql.Identifier(one.info.dbname)
                one.execute(psycopg.sql.SQL("grant create on database {} to {}").format(name, owner))
                one.execute(psycopg.sql.SQL("grant usage, create on schema public to {}").format(owner))
            owned = OwnedDatabase(url, session, as_role(elsewhere, OWNER), place)
            _enable(as_role(url, OWNER), owned, place)
            yield owned
        finally:
            for one in (session, other):
                one.execute(psycopg.sql.SQL("drop owned by {}, {} cascade").format(owner, role))
            session.execute(psycopg.sql.SQL("drop role {}, {}").format(owner, role))


def _enable(url: str, owned: OwnedDatabase, place: Path) -> None:
    (place / "script.sql").write_text("select 1")
    with psycopg.connect(url, autocommit=True) as session:
        for table in TABLES:
            session.execute(table.encode())
    with connect(url) as database:
        database.cdc.enable_db(str(place / "lake"))
        database.cdc.enable_table("item")
        database.cdc.add_consumer("name", ["public_item"])
        database.targets.add("items", ["public_item"], kind="current", path=str(place / "target"))
        database.replication.add_publication("shop")
        database.replication.add_article("shop", "orders")
        database.replication.add_subscription("shop", subscriber=owned.subscriber)
        database.merge.add_publication("parts")
        database.merge.add_article("parts", "part")
        database.merge.add_subscription("parts", subscriber=owned.device)
        database.merge.add_device(NAMED_FIRST, publication="parts")
        database.tracking.enable_tracking("visit")
