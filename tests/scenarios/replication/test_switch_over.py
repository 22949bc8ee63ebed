"""The how-to pages of a switch-over and of a start from a copy: their commands, run as they are written there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from builders.replication.replicated_databases import ReplicatedDatabase
from builders.servers.copied_databases import METADATA
from fixtures.servers import SETTINGS
from rowtide.databases.postgres.embedded import EmbeddedServer

HOW_TO = Path(__file__).parents[3] / "docs" / "how-to"
SHOP = (
    "create table customers (id int generated always as identity primary key, name text unique)",
    (
        "create table orders (id serial primary key, customer int not null references customers on delete cascade, "
        "qty int)"
    ),
    "create view large as select * from orders where qty > 5",
    "create table noted (what text)",
    (
        "create function note() returns trigger language plpgsql as $$begin insert into noted values (tg_op); "
        "return null; end$$"
    ),
    "create trigger note after insert on orders for each row execute function note()",
    "insert into customers (name) select 'c' || i from generate_series(1, 50) i",
    "insert into orders (customer, qty) select i, i from generate_series(1, 50) i",
)
DESCRIBED = """
select conrelid::regclass::text, conname::text, pg_get_constraintdef(oid) from pg_constraint
where connamespace = 'public'::regnamespace
union all select attrelid::regclass::text, attname::text, attidentity::text from pg_attribute
where attrelid in ('customers'::regclass, 'orders'::regclass) and attnum > 0
union all select tgrelid::regclass::text, tgname::text, tgenabled::text from pg_trigger where not tgisinternal
order by 1, 2
"""


def commands_of(page: str, *, until: str = "") -> list[str]:
    """Return the blocks of shell commands of a page, up to a heading."""
    text = (HOW_TO / page).read_text(encoding="utf-8")
    blocks = re.findall(
        r"^( *)```sh\n(.*?)^ *```$", text.partition(until)[0] if until else text, re.DOTALL | re.MULTILINE
    )
    return ["\n".join(line.removeprefix(indent) for line in block.splitlines()) for indent, block in blocks]


class Shell:
    """Runs the blocks in one environment; places that a page names are replaced."""

    def __init__(self, server: EmbeddedServer, replaced: dict[str, str], **variables: str) -> None:
        programs = f"{Path(sys.executable).parent}:{server.binary('psql').parent}"
        self._environment = {
            **os.environ,
            **server.environment(),
            **variables,
            "PATH": f"{programs}:{os.environ['PATH']}",
        }
        self._replaced = replaced
        self._exports: list[str] = []

    def run(self, block: str) -> str:
        """Run a block; return what it printed."""
        for place, by in self._replaced.items():
            block = block.replace(place, by)
        if block.startswith("export"):
            self._exports.append(block)
            return ""
        script = "\n".join(["set -euo pipefail", *self._exports, block])
        ended = subprocess.run(
            ["bash", "-c", script], env=self._environment, capture_output=True, text=True, check=False
        )
        assert ended.returncode == 0, (block, ended.stdout, ended.stderr)
        return ended.stdout + ended.stderr


@pytest.mark.exhaustive
def test_a_switch_over_and_back_by_the_commands_of_its_page(
    replicated: ReplicatedDatabase, server: EmbeddedServer, tmp_path: Path
) -> None:
    publisher, subscriber = replicated.publisher, replicated.subscriber
    publisher.execute(*SHOP)
    before = publisher.execute(DESCRIBED)
    places = {
        "postgresql://localhost/shop": f"'{publisher.url}'",
        "postgresql://localhost/new": f"'{subscriber.url}'",
        "/data/": f"{tmp_path}/",
    }
    shell = Shell(server, places)
    switching = commands_of("switch-over.md", until="## Keep a way back")
    stopped = next(place for place, block in enumerate(switching) if "run shop --once" in block)
    for block in switching[:stopped]:
        shell.run(block)
        publisher.execute("insert into orders (customer, qty) values (1, 9)")
    shell.run(switching[stopped])
    publisher.execute("insert into customers (name) values ('late')")
    # The programs have stopped.
    printed = "".join(map(shell.run, switching[stopped:]))
    assert "public.orders" in printed
    replicated.require_equal("customers", "orders", "large")
    assert subscriber.execute(DESCRIBED) == before
    (back,) = commands_of("switch-over.md")[len(switching) :]
    *published, running = back.rsplit("\n", 1)
    shell.run(published[0])
    subscriber.execute("insert into orders (customer, qty) values (2, 7)", "delete from customers where id = 3")
    shell.run(running)
    replicated.require_equal("customers", "orders", "large")


@pytest.mark.exhaustive
def test_a_base_backup_subscribes_by_the_commands_of_its_page(tmp_path: Path) -> None:
    with (
        EmbeddedServer.start(tmp_path / "primary", settings=SETTINGS) as primary,
        psycopg.connect(primary.url(), autocommit=True) as session,
    ):
        for statement in SHOP:
            session.execute(statement.encode())
        place = tmp_path / "copy"
        place.mkdir(mode=0o700)
        places = {"postgresql://localhost/shop": f"'{primary.url()}'"}
        shell = Shell(primary, places, ROWTIDE_DB=primary.url(), COPY_DATA=str(place / "data"))
        shell.run(f"rowtide replication add-publication shop --lake {tmp_path}/lake")
        for table in ("customers", "orders"):
            shell.run(f"rowtide replication add-article shop {table}")
        exporting, backing_up, promoting, subscribing = commands_of("start-from-a-copy.md")
        shell.run(exporting)
        shell.run(backing_up)
        subprocess.run(["chown", "-R", "--reference", str(primary.directory / "data"), str(place / "data")], check=True)
        with EmbeddedServer.start(place, settings=SETTINGS) as copy:
            shell.run(f"export COPY='{copy.url()}'")
            session.execute("update orders set qty = 0 where id = 1")
            shell.run(promoting)
            session.execute("delete from customers where id = 2")
            shell.run(f"{subscribing} --constraints not-for-replication")
            shell.run("rowtide replication run --once")
            with psycopg.connect(copy.url(), autocommit=True) as other:
                for table in ("customers", "orders", "large"):
                    query = f"select t::text from {table} t order by 1".encode()
                    assert other.execute(query).fetchall() == session.execute(query).fetchall()
                assert [other.execute(query.encode()).fetchall() for query in METADATA] == [[], [], [], []]
