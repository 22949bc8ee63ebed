"""Between servers of different versions, in both directions."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from builders.capture.captured_databases import LoggedDatabase
from builders.replication.articles import commands
from builders.replication.replicated_databases import ReplicatedDatabase, Subscriber
from fixtures.servers import fresh_database
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.replication.subscription_settings import Constraints, IfExists, SyncType

TABLES = (
    (
        "create table parents (id int primary key, name text, amount numeric(10, 2), tags text[], at timestamptz, "
        "doubled numeric generated always as (amount * 2) stored)"
    ),
    "create table children (id bigint primary key, of int references parents on delete cascade, flag bool)",
    "create table lines (a int, b text, v int, primary key (b, a))",
)
ROWS = (
    (
        "insert into parents select i, 'n' || i, i / 3.0, array['a', null], '2024-02-29 00:00Z'::timestamptz + i * "
        "interval '1 hour' from generate_series(1, 500) i"
    ),
    "insert into children select i, i % 500 + 1, i % 2 = 0 from generate_series(1, 1000) i",
    "insert into lines select i, 'b' || i % 7, 0 from generate_series(1, 300) i",
)
CHANGES = (
    "update parents set name = null, amount = amount + 1 where id % 3 = 0",
    "update parents set id = id + 1000 where id > 490 and not exists (select from children where of = parents.id)",
    "delete from parents where id < 20",
    "update lines set a = -a, v = 1 where a < 10",
    "delete from lines where b = 'b3'",
    "insert into lines select i, 'new', i from generate_series(1, 50) i",
)


@pytest.fixture(params=[(16, 18), (18, 16)], ids=["from 16 to 18", "from 18 to 16"])
def across(
    request: pytest.FixtureRequest,
    logged: LoggedDatabase,
    logged_16: LoggedDatabase,
    server: EmbeddedServer,
    server_16: EmbeddedServer,
) -> Iterator[ReplicatedDatabase]:
    """A publisher and an empty subscriber of another version."""
    publisher, subscriber = request.param
    with (
        fresh_database({16: server_16, 18: server}[subscriber]) as url,
        psycopg.connect(url, autocommit=True) as session,
    ):
        yield ReplicatedDatabase({16: logged_16, 18: logged}[publisher], Subscriber(url, session))


@pytest.mark.parametrize("update", ["SCALL", "XCALL", "SQL"])
def test_tables_are_copied_and_kept_in_step(across: ReplicatedDatabase, update: str) -> None:
    across.publish(
        *TABLES, *ROWS, children={}, parents={"commands": commands(update=update)}, lines={"where": "v < 40"}
    )
    across.subscribe(SyncType.AUTOMATIC)
    across.deliver()
    across.publisher.execute(*CHANGES, "truncate children")
    across.deliver()

    across.require_equal("parents", "children")
    assert {found.result for found in across.replication.validate("shop", checksum=True)} == {"passed"}


def test_expressions_of_generated_columns_follow(across: ReplicatedDatabase) -> None:
    across.publish(*TABLES, *ROWS, parents={})
    across.subscribe(SyncType.AUTOMATIC)
    across.deliver()
    again = "drop column doubled, add column doubled numeric generated always as (amount * 3) stored"
    can_set = across.publisher.session.info.server_version >= 170000
    altered = "alter column doubled set expression as (amount * 3)" if can_set else again
    across.publisher.execute(f"alter table parents {altered}", "update parents set amount = 7 where id = 3")
    across.deliver()

    across.require_equal("parents")


def test_constraints_are_left_out_of_tables_that_are_kept(across: ReplicatedDatabase) -> None:
    across.subscriber.execute(*TABLES)
    across.publish(*TABLES, *ROWS, children={}, parents={})
    across.subscribe(SyncType.AUTOMATIC, if_exists=IfExists.KEEP, constraints=Constraints.NOT_FOR_REPLICATION)
    across.deliver()
    across.publisher.execute(*CHANGES)
    across.deliver()

    across.require_equal("parents", "children")
