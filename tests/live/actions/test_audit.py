"""The audit: each action once, with its result; an action whose entry cannot be written is refused."""

from __future__ import annotations

import csv
import io
import threading
from collections.abc import Callable
from uuid import uuid4

import psycopg
import pytest
from sqlalchemy.engine import make_url

from builders.capture.captured_databases import LoggedDatabase
from builders.commands.command_lines import Ended, rowtide
from builders.faults.failpoints import ACTION_FAILPOINTS
from builders.faults.killed_programs import KILLED, run_program
from builders.replication.replicated_databases import PUBLICATION, ReplicatedDatabase
from builders.replication.replication_runs import ORDERS
from builders.servers.monitored_databases import as_role
from rowtide.actions import ActionEntry, ActionOutcome
from rowtide.actions.errors import ActionIdTaken, ActionNotRecorded
from rowtide.databases.postgres.errors import GrantMissing
from rowtide.databases.postgres.quoting import quote
from rowtide.handle import connect

PUBLISHED = "create table item (id int primary key, name text)"
MAKE_ROLE = Callable[[str], str]
POSTED = """
import sys
from rowtide.handle import connect

connect(sys.argv[1]).actions.perform(
    "replication post-tracer-token", {"publication": "shop"}, actor="anna", action_id=sys.argv[2]
)
"""


@pytest.fixture
def published(logged: LoggedDatabase) -> LoggedDatabase:
    """A publisher with an empty publication."""
    logged.execute(PUBLISHED)
    replication = connect(logged.url).replication
    replication.add_publication(PUBLICATION, lake=str(logged.lake))
    replication.add_article(PUBLICATION, "item")
    return logged


def post(url: str, action_id: str, actor: str = "anna") -> ActionEntry:
    entry = connect(url).actions.perform(
        "replication post-tracer-token", {"publication": PUBLICATION}, actor=actor, action_id=action_id
    )
    assert entry is not None
    return entry


def tokens(published: LoggedDatabase) -> int:
    return len(connect(published.url).replication.list_tracer_tokens(PUBLICATION))


def audited(url: str) -> list[dict[str, str]]:
    ended = rowtide("audit", "--format", "csv", "--db", url)
    assert ended.code == 0, ended
    return list(csv.DictReader(io.StringIO(ended.output)))


def posting(url: str) -> Ended:
    return rowtide("replication", "post-tracer-token", PUBLICATION, "--db", url)


def test_commands_are_listed_with_their_results(replicated: ReplicatedDatabase) -> None:
    replicated.begin(ORDERS, orders={})
    url, subscriber = replicated.publisher.url, replicated.subscriber.url
    secret = make_url(subscriber).set(password="s3cret").render_as_string(hide_password=False)
    assert rowtide("replication", "pause", PUBLICATION, "--subscriber", secret, "--db", url).code == 1
    assert rowtide("replication", "pause", PUBLICATION, "--subscriber", subscriber, "--db", url).code == 0
    assert rowtide("replication", "resume", "another", "--db", url).code == 1
    assert rowtide("cdc", "stop-job", "capture", "--db", url).code == 1
    assert rowtide("replication", "validate", PUBLICATION, "--repair", "--dry-run", "--db", url).code == 0
    assert rowtide("replication", "validate", PUBLICATION, "--checksum", "--db", url).code == 0

    validated, stopped, resumed, paused, refused = audited(url)
    assert (validated["action"], validated["arguments"]) == ("replication validate", '{"checksum": true}')
    assert validated["result"] == "Tables with equal rows: 1."
    assert (stopped["subject"], stopped["outcome"]) == ("capture", "failed")
    assert stopped["result"].startswith(f"RT-{stopped['error_number']}: ")
    assert (resumed["subject"], resumed["result"][:3]) == ("another", "RT-")
    assert (paused["outcome"], paused["channel"], paused["result"]) == ("done", "command line", "Paused.")
    assert paused["subject"] == f"{PUBLICATION} to {subscriber}"
    assert (refused["error_number"], "s3cret" in str(refused)) == ("7124", False)


def test_an_action_is_done_once(published: LoggedDatabase) -> None:
    action_id = str(uuid4())
    first = post(published.url, action_id)
    again = post(published.url, action_id.upper(), "ben")
    assert (first.outcome, first.actor, again) == (ActionOutcome.DONE, "anna", first)
    assert tokens(published) == 1
    with pytest.raises(ActionIdTaken):
        connect(published.url).actions.perform(
            "replication pause", {"publication": PUBLICATION}, actor="anna", action_id=action_id
        )


def test_two_at_once_with_one_id_do_it_once(published: LoggedDatabase) -> None:
    action_id = str(uuid4())
    together = threading.Barrier(4)
    found: list[ActionEntry] = []

    def act() -> None:
        together.wait()
        found.append(post(published.url, action_id))

    threads = [threading.Thread(target=act) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert tokens(published) == 1
    assert len(audited(published.url)) == 1


@pytest.mark.parametrize("failpoint", ACTION_FAILPOINTS)
def test_an_action_that_was_killed_is_not_repeated(published: LoggedDatabase, failpoint: str) -> None:
    action_id = str(uuid4())
    assert run_program(POSTED, published.url, action_id, failpoint=failpoint) == KILLED
    done = tokens(published)
    assert done == (failpoint == "action.after")
    entry = post(published.url, action_id)
    assert (entry.outcome, entry.ended_at) == (ActionOutcome.BEGUN, None)
    assert tokens(published) == done


def test_a_database_that_is_read_only_refuses(published: LoggedDatabase) -> None:
    read_only = make_url(published.url).update_query_dict({"options": "-c default_transaction_read_only=on"})
    ended = posting(read_only.render_as_string(hide_password=False))
    assert "its entry in the audit cannot be written" in ended.require_error(1226)
    assert tokens(published) == 0


def test_a_schema_that_others_made_is_not_written_to(make_role: MAKE_ROLE, published: LoggedDatabase) -> None:
    intruder = make_role("login")
    published.execute(f"create schema rowtide_audit authorization {quote(intruder)}")
    with pytest.raises(ActionNotRecorded, match="belongs to role"):
        post(published.url, str(uuid4()))
    assert tokens(published) == 0
    published.execute("drop schema rowtide_audit")


def test_members_of_the_owner_share_the_audit(make_role: MAKE_ROLE, published: LoggedDatabase) -> None:
    """A superuser acts first; the audit belongs to the owner of rowtide's schemas all the same."""
    owner, member, stranger = (make_role("login") for _ in range(3))
    for schema in ("rowtide", "distribution", "cdc"):
        if published.execute(f"select 1 from pg_namespace where nspname = '{schema}'"):
            published.execute(f"alter schema {schema} owner to {quote(owner)}")
    name = make_url(published.url).database
    published.execute(f"grant create on database {quote(str(name))} to {quote(owner)}")
    published.execute(f"grant {quote(owner)} to {quote(member)}")
    try:
        post(published.url, str(uuid4()))
        owners = "select distinct tableowner::text from pg_tables where schemaname = 'rowtide_audit'"
        assert published.execute(owners) == [(owner,)]
        posting(as_role(published.url, member))
        # It may not post, which its entry says: the entry itself is written.
        assert [row["outcome"] for row in audited(published.url)] == ["failed", "done"]
        ended = posting(as_role(published.url, stranger))
        assert "grant" in ended.require_error(1226).lower()
    finally:
        published.execute("drop schema rowtide_audit cascade")
        for schema in ("rowtide", "distribution", "cdc"):
            if published.execute(f"select 1 from pg_namespace where nspname = '{schema}'"):
                published.execute(f"alter schema {schema} owner to current_user")
        published.execute(f"drop owned by {quote(owner)}")


def test_a_database_without_rowtide_gets_no_audit(database: str) -> None:
    assert rowtide("replication", "pause", PUBLICATION, "--db", database).code == 1
    assert audited(database) == []
    with psycopg.connect(database) as session:
        assert session.execute("select 1 from pg_namespace where nspname = 'rowtide_audit'").fetchall() == []


def test_the_audit_is_a_store_of_its_own(published: LoggedDatabase) -> None:
    post(published.url, str(uuid4()))
    ended = rowtide("upgrade", "--dry-run", "--format", "csv", "--db", published.url)
    assert "audit of actions" in ended.output


def test_entries_are_deleted_after_a_year(published: LoggedDatabase) -> None:
    first, second = str(uuid4()), str(uuid4())
    post(published.url, first)
    published.execute("update rowtide_audit.rowtide_actions set begun_at = begun_at - interval '366 days'")
    post(published.url, second)
    assert [one.action_id for one in connect(published.url).actions.list_entries()] == [second]
    published.execute("update rowtide_audit.rowtide_actions set begun_at = begun_at - interval '8 days'")
    assert connect(published.url).actions.purge(7) == 1


def test_a_monitor_reads_the_audit_without_logins(make_role: MAKE_ROLE, published: LoggedDatabase) -> None:
    watcher = make_role("login")
    subscriber = "postgresql://eve@db2/copy?options=canary"
    arguments = {"publication": PUBLICATION, "subscriber": subscriber}
    connect(published.url).actions.perform("replication pause", arguments, actor="anna")
    connect(published.url).grant(watcher, "monitor")
    watched = as_role(published.url, watcher)
    (entry,) = connect(watched).actions.list_entries()
    assert (entry.action, entry.actor, entry.subject) == ("replication pause", "anna", f"{PUBLICATION} to db2/copy")
    assert (entry.outcome, entry.result) == (ActionOutcome.FAILED, "not shown to monitors")
    assert connect(watched).actions.find_entry(entry.action_id) == entry
    with psycopg.connect(watched.replace(" ", "%20")) as session:
        logins = session.execute("select login from rowtide_monitor_rowtide_audit.rowtide_actions").fetchall()
        assert logins == [("",)]
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            session.execute("select * from rowtide_audit.rowtide_actions")
    published.execute(f"drop owned by {quote(watcher)}")


def test_a_monitor_is_told_of_an_audit_made_since(make_role: MAKE_ROLE, published: LoggedDatabase) -> None:
    """The views of the audit are made once there is one; a check names who makes them."""
    watcher = make_role("login")
    connect(published.url).grant(watcher, "monitor")
    watched = as_role(published.url, watcher)
    before = {one.message for one in connect(watched).check(purpose="monitor")}
    post(published.url, str(uuid4()))
    said = [one for one in connect(watched).check(purpose="monitor") if one.message not in before]
    assert any("rowtide grant" in str(one.remediation) for one in said), said
    with pytest.raises(GrantMissing, match="rowtide grant"):
        connect(watched).actions.list_entries()
    connect(published.url).grant(watcher, "monitor")
    assert len(connect(watched).actions.list_entries()) == 1
    published.execute(f"drop owned by {quote(watcher)}")
