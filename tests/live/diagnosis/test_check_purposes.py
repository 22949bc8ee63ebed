"""What a check says to roles that are for something: what that needs, and no command that they would run in vain."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from sqlalchemy.engine import make_url

from builders.capture.captured_databases import LoggedDatabase
from builders.commands.checks import matching, only, run_mend, stopping
from builders.commands.command_lines import rowtide
from builders.servers.ddl import forget_triggers, opened_as
from rowtide.databases.postgres.connect import open_engine, require_replication_right
from rowtide.databases.postgres.errors import NoReplicationRight
from rowtide.databases.postgres.quoting import quote
from rowtide.diagnosis import LakeNotChecked, Purpose, PurposeUnknown
from rowtide.diagnosis.result import CheckResult, ShellCommand
from rowtide.handle import connect
from rowtide.merge.errors.nodes import OwnerNotHeld

ITEM = "create table item (id int primary key, name text)"
MakeRole = Callable[[str], str]
NO_PUBLISHERS = [purpose for purpose in Purpose if purpose is not Purpose.PUBLISHER]


def as_role(database: LoggedDatabase, role: str) -> str:
    return make_url(database.url).set(username=role).render_as_string(hide_password=False)


def check(url: str, purpose: Purpose | None, *tables: str) -> tuple[CheckResult, ...]:
    return connect(url).check(tables, purpose=purpose)


def proposed(findings: Sequence[CheckResult]) -> list[str]:
    """Return the remedies that the role of the connection would run itself."""
    return [str(finding.remediation) for finding in findings if isinstance(finding.remediation, ShellCommand)]


@pytest.mark.parametrize("purpose", NO_PUBLISHERS)
def test_who_does_not_publish_is_not_asked_to_replicate(
    make_role: MakeRole, logged: LoggedDatabase, purpose: Purpose
) -> None:
    role = make_role("login")
    logged.execute(ITEM)
    assert matching(check(as_role(logged, role), None), "no replication right") != []
    assert matching(check(as_role(logged, role), purpose), "no replication right") == []
    logged.enable("item")
    said = [f"{one.subject} {one.message} {one.remediation}" for one in check(as_role(logged, role), purpose)]
    assert not [text for text in said if "replication right" in text or "alter role" in text or "wal_level" in text]


def test_a_monitor_is_told_what_is_not_well_and_who_mends_it(make_role: MakeRole, logged: LoggedDatabase) -> None:
    role = make_role("login in role pg_monitor")
    logged.execute(ITEM)
    logged.enable("item")
    logged.read_log()
    assert stopping(check(as_role(logged, role), Purpose.MONITOR)) == []
    forget_triggers(logged)
    logged.execute("alter table item replica identity default")
    findings = check(as_role(logged, role), Purpose.MONITOR)
    assert proposed(findings) == []
    triggers = only(findings, "event triggers are missing")
    assert str(triggers.remediation).startswith(
        "Let a superuser, or a role that the service lets create event triggers, run `rowtide"
    )
    assert "as the table's owner" in str(only(findings, "its replica identity is no longer full").remediation)
    assert matching(findings, "other roles' transactions") == []


def test_a_monitor_without_pg_monitor_is_told_so(make_role: MakeRole, logged: LoggedDatabase) -> None:
    role = make_role("login")
    url = as_role(logged, role)
    run_mend(only(check(url, Purpose.MONITOR), "it does not see other roles' transactions"), logged.url)
    assert check(url, Purpose.MONITOR) == ()
    logged.execute(f"revoke pg_read_all_stats from {quote(role)}")


def test_an_owner_that_is_no_superuser_has_no_command_in_vain(make_role: MakeRole, logged: LoggedDatabase) -> None:
    """Enabling once more, as such a role, makes no event triggers."""
    role = make_role("login replication")
    logged.execute(f"grant create on database {quote(str(make_url(logged.url).database))} to {quote(role)}")
    logged.execute(ITEM, f"alter table item owner to {quote(role)}")
    with opened_as(logged, role) as owned:
        owned.enable("item")
        assert str(only(check(owned.url, None), "event triggers are missing").remediation).startswith("Let a superuser")
        assert proposed(matching(check(logged.url, None), "event triggers are missing")) != []
        late = only(check(as_role(logged, make_role("login replication")), None), "has not read yet")
        assert str(late.remediation) == f"Let {role} run `rowtide cdc run`."
        owned.cdc.disable_db()
    logged.execute("drop table item", f"drop owned by {quote(role)}")


def test_a_reader_is_told_what_it_may_not_read(make_role: MakeRole, logged: LoggedDatabase) -> None:
    gate, role, within = make_role("nologin"), make_role("login"), make_role("nologin")
    logged.execute(ITEM, "create table other (id int primary key)", "create table spare (id int primary key)")
    url = as_role(logged, role)
    assert "nothing is captured or tracked" in only(check(url, Purpose.READER), "database").message
    logged.enable("item")
    logged.cdc.enable_table("other", role_name=gate)
    found = check(url, Purpose.READER)
    assert {one.subject for one in stopping(found)} == {"instance public_item", "instance public_other"}
    assert proposed(found) == []
    logged.read_log()
    for _ in range(2):
        for finding in stopping(check(url, Purpose.READER)):
            run_mend(finding, logged.url)
    assert stopping(check(url, Purpose.READER)) == []
    assert "neither captured nor tracked" in only(check(url, Purpose.READER, "spare"), "table public.spare").message
    logged.execute(
        f"revoke select on item from {quote(role)}",
        f"grant select (id, name) on item to {quote(within)}",
        f"grant {quote(within)} to {quote(role)}",
    )
    assert check(url, Purpose.READER, "item") == ()
    logged.execute(f"drop owned by {quote(role)}, {quote(within)}")


def test_a_reader_of_tracked_tables_needs_their_owners_rights(make_role: MakeRole, logged: LoggedDatabase) -> None:
    owner, role = make_role("login"), make_role("login")
    logged.execute(f"grant create on database {quote(str(make_url(logged.url).database))} to {quote(owner)}")
    logged.execute(
        ITEM, f"alter table item owner to {quote(owner)}", f"grant create on schema public to {quote(owner)}"
    )
    with connect(as_role(logged, owner)) as database:
        database.tracking.enable_tracking("item")
    url = as_role(logged, role)
    for finding in stopping(check(url, Purpose.READER, "item")):
        run_mend(finding, logged.url)
    assert check(url, Purpose.READER, "item") == ()
    with connect(url) as database, database.tracking.changes(["public.item"]):
        pass
    logged.execute("drop table item", f"drop owned by {quote(role)}, {quote(owner)} cascade")


def test_a_subscribers_role_is_granted_what_is_printed(make_role: MakeRole, logged: LoggedDatabase) -> None:
    role = make_role("login")
    logged.execute(
        ITEM, "create schema app", "create table app.parts (id int)", f"grant select on item to {quote(role)}"
    )
    url = as_role(logged, role)
    found = check(url, Purpose.SUBSCRIBER, "item", "app.parts")
    assert [one.message.partition(",")[0] for one in stopping(found)] == [
        "it may not create the schema rowtide_subscriber in database " + str(make_url(url).database),
        "it may not insert into",
        "it may not read",
        "it may not use the schema of tables there: app",
    ]
    for finding in found:
        run_mend(finding, logged.url)
    assert check(url, Purpose.SUBSCRIBER, "item", "app.parts") == ()
    logged.execute(f"drop owned by {quote(role)}")


def test_a_subscribers_role_becomes_a_member_of_an_owner(make_role: MakeRole, logged: LoggedDatabase) -> None:
    owner, role = make_role("nologin"), make_role("login")
    logged.execute(ITEM, f"alter table item owner to {quote(owner)}")
    url = as_role(logged, role)
    run_mend(only(check(url, Purpose.SUBSCRIBER, "item"), f"it is no member of {owner}"), logged.url)
    assert matching(check(url, Purpose.SUBSCRIBER, "item"), "no member") == []
    logged.execute(f"drop owned by {quote(owner)}")


def test_a_nodes_role_owns_its_tables(make_role: MakeRole, logged: LoggedDatabase) -> None:
    owner, role = make_role("nologin"), make_role("login")
    logged.execute(ITEM, f"alter table item owner to {quote(owner)}")
    url = as_role(logged, role)
    assert len(stopping(check(url, Purpose.MERGE, "item"))) == 2
    for finding in check(url, Purpose.MERGE, "item"):
        run_mend(finding, logged.url)
    assert check(url, Purpose.MERGE, "item") == ()
    logged.execute(f"drop owned by {quote(role)}, {quote(owner)}")


def test_a_hubs_role_is_granted_the_owner_of_its_table(make_role: MakeRole, logged: LoggedDatabase) -> None:
    owner, role = make_role("nologin"), make_role("login")
    logged.execute(
        f"grant create on schema public to {quote(role)}",
        f"grant create on database {quote(str(make_url(logged.url).database))} to {quote(role)}",
    )
    url = as_role(logged, role)
    with opened_as(logged, role) as session:
        session.execute(ITEM)
    merge = connect(url).merge
    merge.add_publication("m")
    merge.add_article("m", "item")
    logged.execute(f"alter table item owner to {quote(owner)}")
    finding = only(connect(url).check(), f"RT-{OwnerNotHeld.number}")
    assert finding.subject == "public.item"
    run_mend(finding, logged.url)
    assert stopping(matching(connect(url).check(), "public.item: belongs to")) == []
    merge.drop_article("m", "item")
    logged.execute(f"drop owned by {quote(role)}, {quote(owner)} cascade")


def may_replicate(url: str) -> bool:
    engine = open_engine(url)
    with engine.connect() as connection:
        try:
            require_replication_right(connection)
        except NoReplicationRight:
            return False
    return not matching(connect(url).check(), "no replication right")


def test_who_may_replicate_is_tried(make_role: MakeRole, logged: LoggedDatabase) -> None:
    """The attribute in pg_roles says neither that a superuser may, nor whose right a session's role leaves behind."""
    plain, superuser, other = make_role("login"), make_role("superuser login noreplication"), make_role("replication")
    hidden = make_role(f"login replication in role {quote(plain)}")
    logged.execute(f"alter role {quote(hidden)} set role = {quote(plain)}")
    granted = make_role(f"login in role {quote(other)}")
    rights = {role: may_replicate(as_role(logged, role)) for role in (plain, superuser, hidden, granted)}
    assert rights == {plain: False, superuser: True, hidden: True, granted: False}


def test_purposes_are_options_of_the_command(make_role: MakeRole, logged: LoggedDatabase) -> None:
    url = as_role(logged, make_role("login in role pg_monitor"))
    assert rowtide("check", "--as", "monitor", "--db", url).code == 0
    assert rowtide("check", "--db", url).code == 1
    rowtide("check", "--as", "reader", "--lake", "/lake", "--db", url).require_error(5103)
    with pytest.raises(PurposeUnknown, match="Choose one of monitor, reader"):
        connect(url).check(purpose="owner")
    with pytest.raises(LakeNotChecked):
        connect(url).check(purpose="merge", lake="/lake")
