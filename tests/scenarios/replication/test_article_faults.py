"""Articles join and leave under load, and whatever runs is killed anywhere: each row is there once, others continue."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from builders.capture.capture_processes import DELIVERY
from builders.capture.captured_databases import LoggedDatabase, wait_until
from builders.capture.transfers import DEFINITIONS, FIRST_ROWS, read_state, transfers
from builders.commands.command_lines import rowtide_process
from builders.faults.failpoints import (
    ARTICLE_COPY_FAILPOINTS,
    DELIVERY_FAILPOINTS,
    JOINING_FAILPOINTS,
    LEAVING_FAILPOINTS,
    SNAPSHOT_FAILPOINTS,
    SQLITE_DELIVERY_FAILPOINTS,
)
from builders.replication.replicated_databases import ReplicatedDatabase, list_subscriptions
from builders.replication.replicated_files import ReplicatedFile
from rowtide.replication.subscription_settings import SyncType

_COMMITS = tuple(f"{DELIVERY_FAILPOINTS[side]}@{hit}" for hit in range(1, 6) for side in (0, 1))
_FILE_COMMITS = tuple(f"{name}@{hit}" for hit in range(1, 10) for name in SQLITE_DELIVERY_FAILPOINTS)
KILLED = -9


def run_once(publisher: LoggedDatabase, failpoint: str) -> int:
    """Run replication until everything is delivered, or until it is killed; return the exit code."""
    return rowtide_process(
        *DELIVERY, "--once", "--db", publisher.url, environment={"ROWTIDE_FAILPOINT": failpoint}
    ).code


def kill_at_each(publisher: LoggedDatabase, failpoints: Sequence[str]) -> list[str]:
    """Run replication once for each failpoint; return those that it came to."""
    codes = {failpoint: run_once(publisher, failpoint) for failpoint in failpoints}
    assert set(codes.values()) <= {0, KILLED}
    return [failpoint for failpoint, code in codes.items() if code == KILLED]


@pytest.mark.exhaustive
@pytest.mark.parametrize("failpoint", [*SNAPSHOT_FAILPOINTS, *JOINING_FAILPOINTS, *_COMMITS])
def test_killed_joining_resumes_and_brings_each_row_once(replicated: ReplicatedDatabase, failpoint: str) -> None:
    replicated.publish(*DEFINITIONS, FIRST_ROWS, account={})
    replicated.subscribe(SyncType.AUTOMATIC)
    replicated.deliver()
    with transfers(replicated.publisher.url, first=0, seed=3):
        wait_until(lambda: len(read_state(replicated.publisher.url)[1]) > 100, what="transfers before the copy")
        replicated.replication.add_article("shop", "transfer")
        assert run_once(replicated.publisher, failpoint) in (0, KILLED)
        assert run_once(replicated.publisher, "") == 0
    replicated.deliver()

    replicated.require_equal("account", "transfer")


@pytest.mark.exhaustive
def test_article_copied_again_survives_kills_one_after_another(replicated: ReplicatedDatabase) -> None:
    # In the order in which an article comes to them.
    failpoints = [*LEAVING_FAILPOINTS, *JOINING_FAILPOINTS[:2], *SNAPSHOT_FAILPOINTS, *JOINING_FAILPOINTS[2:]]
    replicated.publish(*DEFINITIONS, FIRST_ROWS, account={}, transfer={})
    replicated.subscribe(SyncType.AUTOMATIC)
    replicated.deliver()
    with transfers(replicated.publisher.url, first=0, seed=3):
        wait_until(lambda: len(read_state(replicated.publisher.url)[1]) > 100, what="transfers before the copy")
        replicated.replication.reinitialize("shop", article="account")
        assert kill_at_each(replicated.publisher, failpoints) == failpoints
    replicated.deliver()

    replicated.require_equal("account", "transfer")
    assert len(list_subscriptions(replicated.publisher)) == 1


@pytest.mark.exhaustive
def test_file_whose_articles_join_and_leave_survives_kills(replicated_file: ReplicatedFile) -> None:
    replicated_file.publish(*DEFINITIONS, FIRST_ROWS, account={})
    replicated_file.subscribe(SyncType.AUTOMATIC)
    replicated_file.deliver()
    with transfers(replicated_file.publisher.url, first=0, seed=5):
        for failpoints in ((*JOINING_FAILPOINTS, *LEAVING_FAILPOINTS), _FILE_COMMITS):
            if "transfer" in {article.article for article in replicated_file.replication.list_articles()}:
                replicated_file.replication.reinitialize("shop", article="transfer")
            else:
                replicated_file.replication.add_article("shop", "transfer")
            assert kill_at_each(replicated_file.publisher, failpoints)
    replicated_file.deliver()

    replicated_file.require_equal("account", "transfer")


@pytest.mark.exhaustive
def test_altered_table_is_copied_again_in_spite_of_kills(replicated: ReplicatedDatabase) -> None:
    replicated.publish(*DEFINITIONS, FIRST_ROWS, account={}, transfer={})
    replicated.subscribe(SyncType.AUTOMATIC)
    replicated.deliver()
    replicated.deliver()
    replicated.publisher.execute("alter table transfer add column at timestamptz default clock_timestamp()")
    assert kill_at_each(replicated.publisher, ARTICLE_COPY_FAILPOINTS) == list(ARTICLE_COPY_FAILPOINTS)
    replicated.deliver()

    replicated.require_equal("account", "transfer")
