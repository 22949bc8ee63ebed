"""Agents killed anywhere between preparing and committing streams: each batch is there whole, or not at all."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from builders.commands.command_lines import rowtide
from builders.faults.failpoints import STREAM_FAILPOINTS, STREAM_RECOVERY_FAILPOINTS
from builders.faults.killed_programs import KILLED, run_program
from builders.replication.replicated_databases import ReplicatedDatabase
from rowtide.replication import recover
from rowtide.replication.subscription_settings import IfExists, SubscriptionSettings, SyncType

ACCOUNTS = "create table accounts (id int primary key, balance int not null)"
FILLED = "insert into accounts select i, 0 from generate_series(1, 200) i"
PREPARED = "select count(*) from pg_prepared_xacts where database = current_database()"
BALANCES = "select distinct balance from accounts"
_DELIVERS = """
import sys
from rowtide.databases.postgres.connect import open_engine
from rowtide.replication.distributor import subscription_records
from rowtide.replication.distribution.run_context import DeliveryContext
from rowtide.replication.running.subscription_agent import SubscriptionAgent
url = sys.argv[1]
engine = open_engine(url)
with engine.connect() as connection:
    (subscription,) = subscription_records.list_subscriptions(connection)
with SubscriptionAgent.open(DeliveryContext(url, engine), subscription) as agent:
    while agent.step():
        pass
"""


def begin(replicated: ReplicatedDatabase, streams: int) -> None:
    """Publish rows, and subscribe; each transaction is a batch."""
    replicated.subscriber.execute(ACCOUNTS, FILLED)
    replicated.publish(ACCOUNTS, FILLED, accounts={})
    replicated.subscribe(settings=SubscriptionSettings(streams=streams, commit_batch_size=1))


def kill(replicated: ReplicatedDatabase, failpoint: str, *, changes: int = 1) -> None:
    """Commit changes of all rows, and kill their delivery."""
    replicated.publisher.execute(*["update accounts set balance = balance + 1"] * changes)
    replicated.publisher.read_log()
    assert run_program(_DELIVERS, replicated.publisher.url, failpoint=failpoint) == KILLED


@pytest.mark.parametrize(
    ("streams", "failpoints"),
    [
        (2, ("stream_decision.after",)),
        pytest.param(2, STREAM_FAILPOINTS, marks=pytest.mark.exhaustive),
        pytest.param(
            4,
            (
                *STREAM_FAILPOINTS,
                *(f"{name}@{hit}" for name in STREAM_FAILPOINTS[:2] for hit in (2, 3, 4)),
                *(f"{name}@{hit}" for name in STREAM_FAILPOINTS[4:] for hit in (2, 3)),
            ),
            marks=pytest.mark.exhaustive,
        ),
    ],
)
def test_killed_streams_leave_whole_batches(
    replicated: ReplicatedDatabase, streams: int, failpoints: Sequence[str]
) -> None:
    begin(replicated, streams)
    for number, failpoint in enumerate(failpoints):
        kill(replicated, failpoint)
        if number % 2:
            # Without the publisher; else the next agent has to.
            recover(replicated.subscriber.url)
            assert len(replicated.subscriber.execute(BALANCES)) == 1, failpoint
            assert replicated.subscriber.execute(PREPARED) == [(0,)]
    replicated.deliver()

    replicated.require_equal("accounts")
    assert replicated.subscriber.execute(PREPARED) == [(0,)]


@pytest.mark.parametrize(
    "failpoints",
    [
        ("stream_decision.after@2",),
        pytest.param(
            # The second batch, which is sent while it is read: of two streams, each twice.
            tuple(
                f"{name}@{hit}"
                for name in STREAM_FAILPOINTS
                for hit in ((3, 4) if name.startswith("stream_prepare") else (2,))
            ),
            marks=pytest.mark.exhaustive,
        ),
    ],
)
def test_killed_streams_of_a_later_batch_leave_it_whole(
    replicated: ReplicatedDatabase, failpoints: Sequence[str]
) -> None:
    begin(replicated, 2)
    for failpoint in failpoints:
        replicated.deliver()
        kill(replicated, failpoint, changes=2)
        outcomes = [one.outcome for one in recover(replicated.subscriber.url)]
        is_decided = not failpoint.startswith(("stream_prepare", "stream_decision.before"))
        assert set(outcomes) <= {"committed" if is_decided else "rolled back"}, failpoint
        assert outcomes or not failpoint.startswith("stream_decision"), failpoint
        assert len(replicated.subscriber.execute(BALANCES)) == 1, failpoint
        assert replicated.subscriber.execute(PREPARED) == [(0,)]
    replicated.deliver()

    replicated.require_equal("accounts")


@pytest.mark.exhaustive
@pytest.mark.parametrize("left_by", ["stream_decision.before", "stream_decision.after"])
def test_killed_recovery_is_completed(replicated: ReplicatedDatabase, left_by: str) -> None:
    begin(replicated, 4)
    for failpoint in (*STREAM_RECOVERY_FAILPOINTS, *(f"{name}@2" for name in STREAM_RECOVERY_FAILPOINTS)):
        kill(replicated, left_by)
        assert run_program(_DELIVERS, replicated.publisher.url, failpoint=failpoint) == KILLED
        recover(replicated.subscriber.url)
        assert len(replicated.subscriber.execute(BALANCES)) == 1, failpoint
    replicated.deliver()

    replicated.require_equal("accounts")


@pytest.mark.exhaustive
def test_what_was_left_is_recovered_without_the_publisher(replicated: ReplicatedDatabase) -> None:
    begin(replicated, 2)
    kill(replicated, "stream_decision.after")
    completed = rowtide("replication", "recover", replicated.subscriber.url)
    after = replicated.subscriber.execute(BALANCES)
    again = rowtide("replication", "recover", replicated.subscriber.url)

    assert ":1: committed." in completed.errors
    assert after == [(1,)]
    assert "Nothing is left prepared." in again.errors


@pytest.mark.exhaustive
def test_a_subscription_is_copied_again_over_what_was_left(replicated: ReplicatedDatabase) -> None:
    begin(replicated, 2)
    kill(replicated, "stream_decision.before")
    replicated.replication.reinitialize("shop", if_exists=IfExists.TRUNCATE)
    replicated.deliver()

    replicated.require_equal("accounts")


@pytest.mark.exhaustive
def test_what_a_lost_subscription_left_locks_no_other(replicated: ReplicatedDatabase) -> None:
    begin(replicated, 2)
    kill(replicated, "stream_decision.before")
    replicated.replication.drop_subscription("shop", replicated.subscriber.url, ignore_subscriber=True)
    replicated.subscriber.execute('delete from rowtide_subscriber."MSreplication_subscriptions" where false')
    recover(replicated.subscriber.url)
    replicated.subscribe(if_exists=IfExists.DROP, sync_type=SyncType.AUTOMATIC)
    replicated.deliver()

    replicated.require_equal("accounts")
