"""Subscribers without room, or that take no writes for a while: waited for, and reported meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from builders.capture.captured_databases import wait_until
from builders.replication.replicated_databases import PUBLICATION, ReplicatedDatabase
from builders.replication.replication_runs import running, wait_rows
from rowtide.agents.loop import FIRST_PAUSE_S
from rowtide.core.errors import RowtideError
from rowtide.databases.postgres.errors import (
    ServerOutOfResources,
    TransactionAborted,
    WritesRefused,
)
from rowtide.replication.subscription_settings import Constraints, IfExists, SyncType

ORDERS = "create table orders (id int primary key, qty int)"
OUTAGES: list[tuple[str, type[RowtideError]]] = [
    ("53100", ServerOutOfResources),
    ("40P01", TransactionAborted),
]
REFUSE = """
create function refuse() returns trigger language plpgsql as $$ begin
    if exists (select from refusing) then raise exception using errcode = (select code from refusing); end if;
    return new;
end $$
"""


def publish(replicated: ReplicatedDatabase, sqlstate: str, *, when: str = "true") -> None:
    """Publish a table with rows; the subscriber refuses rows with a SQLSTATE, as its server would."""
    replicated.subscriber.execute(
        ORDERS,
        f"create table refusing as select '{sqlstate}' as code",
        REFUSE,
        f"create trigger refuse before insert on orders for each row when ({when}) execute function refuse()",
    )
    replicated.publish_alone(ORDERS)


@contextmanager
def tried_again(replicated: ReplicatedDatabase, error: type[RowtideError]) -> Iterator[None]:
    """Run until the subscriber is tried again after an error; what is done then ends the outage."""
    with running(replicated) as run:
        trouble = run.wait_trouble(error, replicated.subscriber)
        assert trouble.pause_s is not None
        wait_until(lambda: replicated.replication.status()[0].agent == "retry", what="status says so")
        last_error = replicated.replication.status()[0].last_error
        assert last_error is not None
        assert last_error.startswith(f"RT-{error.number}")
        yield
        wait_rows(replicated.subscriber, [(1, 1), (2, 2), (3, 3)])
        assert run.error is None


@pytest.mark.parametrize(("sqlstate", "error"), OUTAGES)
def test_an_outage_in_a_batch_is_waited_out(
    replicated: ReplicatedDatabase, sqlstate: str, error: type[RowtideError]
) -> None:
    publish(replicated, sqlstate)
    replicated.subscribe(constraints=Constraints.ENFORCE)
    replicated.publisher.execute("insert into orders select i, i from generate_series(1, 3) i")
    with tried_again(replicated, error):
        replicated.subscriber.execute("truncate refusing")


def test_the_pause_grows_while_a_batch_keeps_failing(replicated: ReplicatedDatabase) -> None:
    """The subscriber is opened before each try, which must not count as work."""
    publish(replicated, "53100")
    replicated.subscribe(constraints=Constraints.ENFORCE)
    replicated.publisher.execute("insert into orders values (1, 1)")
    with running(replicated) as run:
        wait_until(lambda: len(run.troubles) >= 2, what="two tries")
        replicated.subscriber.execute("truncate refusing")
        wait_rows(replicated.subscriber, [(1, 1)])
    assert [trouble.pause_s for trouble in run.troubles[:2]] == [FIRST_PAUSE_S, 2 * FIRST_PAUSE_S]


@pytest.mark.exhaustive
def test_outage_beside_a_skipped_command_is_waited_out(replicated: ReplicatedDatabase) -> None:
    """It is met where each command is tried by itself."""
    publish(replicated, "53100", when="new.id = 2")
    replicated.subscribe(constraints=Constraints.ENFORCE)
    replicated.subscriber.execute("insert into orders values (1, 0)")
    replicated.publisher.execute("insert into orders select i, i from generate_series(1, 3) i")
    with running(replicated, skip_errors="2627") as run:
        assert run.wait_trouble(ServerOutOfResources, replicated.subscriber).pause_s is not None
        replicated.subscriber.execute("truncate refusing")
        wait_rows(replicated.subscriber, [(1, 0), (2, 2), (3, 3)])
        assert run.error is None


def test_a_full_disk_while_rows_are_copied_is_waited_out(replicated: ReplicatedDatabase) -> None:
    publish(replicated, "53100")
    replicated.publisher.execute("insert into orders select i, i from generate_series(1, 3) i")
    # Others are off during a copy.
    replicated.subscriber.execute("alter table orders enable always trigger refuse")
    replicated.subscribe(SyncType.AUTOMATIC, constraints=Constraints.ENFORCE, if_exists=IfExists.KEEP)
    with tried_again(replicated, ServerOutOfResources):
        replicated.subscriber.execute("truncate refusing")


@pytest.mark.parametrize("name", ["replicated", "replicated_16"])
def test_a_subscriber_that_takes_no_writes_is_waited_for(name: str, request: pytest.FixtureRequest) -> None:
    replicated: ReplicatedDatabase = request.getfixturevalue(name)
    replicated.subscriber.execute(ORDERS)
    replicated.publish_alone(ORDERS)
    replicated.subscribe()
    database = replicated.subscriber.session.info.dbname
    replicated.subscriber.execute(f'alter database "{database}" set default_transaction_read_only = on')
    replicated.publisher.execute("insert into orders select i, i from generate_series(1, 3) i")
    with tried_again(replicated, WritesRefused):
        replicated.subscriber.execute(f'alter database "{database}" reset default_transaction_read_only')


def test_an_error_of_a_command_is_none_of_the_server(replicated: ReplicatedDatabase) -> None:
    publish(replicated, "22000")
    replicated.subscribe(constraints=Constraints.ENFORCE)
    replicated.publisher.execute("insert into orders values (1, 1)")
    with pytest.raises(RowtideError, match="RT-7114"):
        replicated.deliver()
    assert replicated.replication.status(PUBLICATION)[0].subscriber
