"""`rowtide grant`: who gets what, who is refused, and what a monitor can never read."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import psycopg
import pytest
from psycopg import sql

from builders.capture.captured_databases import LoggedDatabase
from builders.commands.checks import matching, only, run_mend
from builders.commands.command_lines import rowtide
from builders.commands.hints import run_printed
from builders.servers.monitored_databases import ROLE, MonitoredDatabase, as_role, open_monitored
from rowtide.cdc.errors.enabling import NotOwner
from rowtide.databases.postgres.connect import libpq_url
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.databases.postgres.errors import TableNotFound
from rowtide.databases.postgres.quoting import quote
from rowtide.handle import connect
from rowtide.monitor.labels import without_users
from rowtide.rights.errors import GrantRefused, NothingToGrant, RoleUnknown
from rowtide.rights.monitor_views import plan_views
from rowtide.rights.purpose import Purpose

MakeRole = Callable[[str], str]
CANARY = "canary-4711"
_LISTED = """
select format('select * from %I.%I', n.nspname, c.relname) from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relkind = 'v' and starts_with(n.nspname, 'rowtide_monitor_')
"""
_CANARIES = (
    f"update distribution.\"MSdistribution_agents\" set subscriber = 'postgresql://{CANARY}:x@db1:5432/shop?options={CANARY}'",
    (
        'insert into distribution."MSrepl_errors" (time, source_name, error_code, error_text) '
        f"values (now(), 'postgresql://{CANARY}@db1/shop', '20598', 'RT-20598: the row ({CANARY}) is missing')"
    ),
    (
        'insert into distribution."MSdistribution_history" (agent_id, runstatus, start_time, time, duration, comments, '
        "delivered_transactions, delivered_commands, delivery_rate, total_delivered_commands, error_id) "
        f"select id, 6, now(), now(), 0, 'RT-20598: {CANARY}', 0, 0, 0, 0, 1 "
        'from distribution."MSdistribution_agents"'
    ),
    f"insert into cdc.job_history (job_type, outcome, message, agent) values ('capture', 'failed', '{CANARY}', 'here')",
    (
        "insert into cdc.log_scan_errors values (1, 1, now(), 1, 1, 1, "
        f"'RT-1109: the server refused a statement: {CANARY}', null, null, null)"
    ),
    (
        "insert into cdc.snapshots (capture_instance, member_id, condition, state, outcome) "
        f"select name, member_id, 'name = ''{CANARY}''', 'failed', '{CANARY}' "
        "from rowtide.members where feature = 'cdc'"
    ),
    (
        "insert into cdc.cleanup_requests (retention_us, is_forced, outcome) "
        f'values (1, false, \'{{"refusal": "{CANARY}"}}\')'
    ),
    f"insert into visit values ('{CANARY}')",
    f"delete from visit where name = '{CANARY}'",
    (
        "update rowtide_merge.sysmerge_stored_subscriptions set last_sync_status = 6, "
        f"last_sync_summary = '{CANARY}', subscriber_server = 'postgresql://{CANARY}@db1/parts'"
    ),
    (
        f"update rowtide_merge.\"MSmerge_devices\" set suser_name = '{CANARY}', code_digest = '{CANARY}', "
        f"next_digest = '{CANARY}', token_digest = '{CANARY}', former_digest = '{CANARY}'"
    ),
    (
        'insert into rowtide_merge."MSmerge_retries" select replnickname, 1, '
        f"'{CANARY}', '1', '{CANARY}', now() from rowtide_merge.sysmerge_stored_subscriptions"
    ),
    (
        'insert into rowtide_merge."MSmerge_conflicts_info" (conflict_id, pubid, article, tablenick, rowguid, '
        "conflict_type, origin_datasource, origin_datasource_id, reason_code, reason_text, losing_row, "
        "winning_row, losing_lineage) "
        f"select 'c', pubid, 'part', 1, '{CANARY}', 1, 'postgresql://{CANARY}@x/y', 1, '1', '{CANARY}', '{CANARY}', "
        f"'{CANARY}', '{CANARY}'::bytea from rowtide_merge.sysmerge_stored_publications"
    ),
)


@pytest.fixture(scope="module")
def monitored(server: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MonitoredDatabase]:
    with open_monitored(server, tmp_path_factory.mktemp("monitored")) as opened:
        yield opened


def test_granting_again_changes_nothing(monitored: MonitoredDatabase) -> None:
    database = connect(monitored.publisher.url)
    assert database.grant(ROLE, "monitor", dry_run=True).statements == ()
    assert database.grant(ROLE, "monitor").statements == ()
    ended = rowtide("grant", ROLE, "--as", "monitor", "--db", monitored.publisher.url)
    assert (ended.code, ended.output) == (0, "")


def test_what_is_missing_is_granted_again(monitored: MonitoredDatabase) -> None:
    monitored.only()
    database = connect(monitored.publisher.url)
    printed = database.grant(ROLE, "monitor", dry_run=True).statements
    assert printed == tuple(grant.grant_to(ROLE) for grant in monitored.grants.values())
    assert database.grant(ROLE, "monitor").statements == printed
    assert database.grant(ROLE, "monitor").statements == ()


def test_a_monitor_reads_no_values_urls_and_texts(monitored: MonitoredDatabase) -> None:
    """Each view has a row with them; the owner's tables are closed."""
    connect(monitored.publisher.url).grant(ROLE, "monitor")
    with monitored.publisher.transaction() as session:
        for statement in _CANARIES:
            session.execute(statement.encode())
    queries = [query for (query,) in monitored.publisher.execute(_LISTED)]
    with psycopg.connect(libpq_url(monitored.url), autocommit=True) as role:
        read = [str(row) for query in queries for row in role.execute(query.encode())]
        assert any("db1:5432/shop" in row for row in read)
        assert any("RT-20598: not shown" in row for row in read)
        assert [row for row in read if CANARY in row or CANARY.encode().hex() in row] == []
        for closed in ('distribution."MSdistribution_agents"', "cdc.job_history", 'rowtide_merge."MSmerge_log"'):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                role.execute(f"select * from {closed}".encode())
    said = [monitored.run(command) for command in ("health", "replication errors", "cdc job-history", "merge status")]
    assert [ended for ended in said if CANARY in ended.output + ended.errors] == []


@pytest.mark.parametrize(
    "stored",
    [
        f"postgresql://{CANARY}@db1:5433/my shop?sslmode=require&host=/run&passfile={CANARY}&port=5432",
        f"postgresql://[::1]/shop?application_name=reports&options=-c+x%3D{CANARY}&user={CANARY}",
        f"postgresql://db1,db2/shop?user={CANARY}&target_session_attrs=any",
        "sqlite:////data/a%26b&c=d.db?mode=ro",
        "log reader",
    ],
)
def test_monitors_and_metrics_name_a_subscriber_alike(server: EmbeddedServer, stored: str) -> None:
    views = plan_views("distribution", {"MSdistribution_agents": ("subscriber",)})
    assert views is not None
    with psycopg.connect(server.url()) as session:
        session.execute('create schema distribution create table "MSdistribution_agents" (subscriber text)')
        session.execute("create schema rowtide_monitor_distribution")
        session.execute('insert into distribution."MSdistribution_agents" values (%s)', [stored])
        for statement in views.statements:
            session.execute(statement.encode())
        named = session.execute(
            'select subscriber from rowtide_monitor_distribution."MSdistribution_agents"'
        ).fetchone()
        session.rollback()
    assert named == (without_users(stored),)
    assert CANARY not in str(named)


def test_a_grant_that_was_revoked_is_granted_by_what_is_printed(monitored: MonitoredDatabase) -> None:
    monitored.only(*(right for right in monitored.grants if "job_history" not in right))
    found = only(connect(monitored.url).check(purpose="monitor"), "all that monitors read")
    run_mend(found, monitored.publisher.url)
    assert matching(connect(monitored.url).check(purpose="monitor"), "all that monitors read") == []


def test_a_role_without_grants_is_told_the_command(make_role: MakeRole, logged: LoggedDatabase) -> None:
    role = make_role("login")
    logged.execute("create table item (id int primary key)")
    logged.enable("item")
    cdc = connect(as_role(logged.url, role)).cdc
    with pytest.raises(NotOwner) as refused:
        cdc.list_jobs()
    run_printed(refused.value, logged.url)
    assert len(cdc.list_jobs()) == 2
    logged.execute(f"drop owned by {quote(role)}")


def test_a_role_that_does_not_exist_is_not_made(database: str) -> None:
    with pytest.raises(RoleUnknown, match='create role "No ""body"') as refused:
        connect(database).grant('No "body', "monitor")
    run_printed(refused.value, database)
    with psycopg.connect(database, autocommit=True) as session:
        session.execute('drop role "No ""body"')
    with pytest.raises(NothingToGrant):
        connect(database).grant("postgres", "monitor")


def test_who_may_not_grant_is_told_which_statement(make_role: MakeRole, logged: LoggedDatabase) -> None:
    granter, role = make_role("login"), make_role("login")
    logged.execute("create table item (id int primary key)")
    logged.enable("item")
    url = as_role(logged.url, granter)
    with pytest.raises(GrantRefused, match="Nothing was granted"):
        connect(url).grant(role, Purpose.MONITOR)
    assert connect(url).grant(role, Purpose.MONITOR, dry_run=True).statements != ()
    assert logged.execute("select 1 from pg_namespace where starts_with(nspname, 'rowtide_monitor_')") == []


def test_rights_go_through_a_group(make_role: MakeRole, logged: LoggedDatabase) -> None:
    group, role = make_role("nologin"), make_role("login")
    logged.execute("create table item (id int primary key)")
    logged.enable("item")
    connect(logged.url).grant(role, "monitor", group=group)
    assert rowtide("cdc", "jobs", "--db", as_role(logged.url, role)).code == 0
    logged.execute(f"revoke {quote(group)} from {quote(role)}")
    assert "RT-1143" in rowtide("cdc", "jobs", "--db", as_role(logged.url, role)).errors
    logged.execute(f"drop owned by {quote(group)}")


def test_a_member_that_inherits_nothing_is_granted_it(make_role: MakeRole, logged: LoggedDatabase) -> None:
    owner, role = make_role("nologin"), make_role("login noinherit replication")
    logged.execute(
        "create table item (id int primary key)",
        f"alter table item owner to {quote(owner)}",
        f"grant {quote(owner)} to {quote(role)}",
    )
    granted = connect(logged.url).grant(role, Purpose.PUBLISHER, ["item"])
    assert f"grant {quote(owner)} to {quote(role)} with inherit true" in granted.statements
    assert connect(logged.url).grant(role, Purpose.PUBLISHER, ["item"]).statements == ()
    logged.execute("drop table item", f"drop owned by {quote(role)}, {quote(owner)}")


@pytest.mark.parametrize("purpose", [Purpose.PUBLISHER, Purpose.MERGE, Purpose.TRACKER])
def test_a_superusers_table_needs_another_owner(make_role: MakeRole, logged: LoggedDatabase, purpose: Purpose) -> None:
    """Membership in its owner would let the role do everything."""
    role = make_role("login")
    logged.execute('create table "Item" (id int primary key)', 'grant all on "Item" to public')
    ended = rowtide("grant", role, "--as", purpose, "--table", '"Item"', "--db", logged.url)
    changing = f'alter table "public"."Item" owner to {quote(role)};'
    assert changing in ended.errors
    assert "alter table" not in ended.output
    assert logged.execute("""select pg_get_userbyid(relowner) from pg_class where relname = 'Item'""") == [
        ("postgres",)
    ]
    logged.execute(changing)
    assert connect(logged.url).grant(role, purpose, ['"Item"']).ownership == ()
    logged.execute(f"drop owned by {quote(role)}")


@pytest.mark.parametrize("words", [("cdc", "enable-table"), ("replication", "add-article", "shop")])
def test_the_hint_grants_no_superuser(make_role: MakeRole, logged: LoggedDatabase, words: tuple[str, ...]) -> None:
    role = make_role("login replication")
    logged.execute("create table item (id int primary key)")
    connect(logged.url).grant(role, Purpose.PUBLISHER, ["item"])
    url = as_role(logged.url, role)
    connect(url).replication.add_publication("shop", lake=str(logged.lake))
    connect(url).cdc.enable_db(str(logged.lake))
    said = rowtide(*words, "item", "--db", url).require_error(1143)
    changing = f'alter table "public"."item" owner to {quote(role)}'
    assert f"Run `{changing}` as a superuser" in said
    logged.execute(changing)
    assert rowtide(*words, "item", "--db", url).code == 0
    connect(url).replication.drop_publication("shop")
    logged.execute(f"drop owned by {quote(role)} cascade")


def test_the_owner_of_a_table_is_granted_what_merging_it_takes(make_role: MakeRole, logged: LoggedDatabase) -> None:
    """In schema public, too, whose owner is a role that nobody connects as."""
    role, stranger = make_role("login"), make_role("login")
    logged.execute("create table item (id int primary key)", f"alter table item owner to {quote(role)}")
    merging = ("merge", "add-article", "shop", "item", "--db", as_role(logged.url, role))
    logged.execute(f"grant create on database {logged.session.info.dbname} to {quote(role)}")
    connect(as_role(logged.url, role)).merge.add_publication("shop")
    assert "to " + quote(role) + "` as postgres, or connect as postgres." in rowtide(*merging).require_error(1143)
    with pytest.raises(GrantRefused, match="a superuser or as postgres"):
        connect(as_role(logged.url, stranger)).grant(role, Purpose.MERGE, ["item"])
    connect(logged.url).grant(role, Purpose.MERGE, ["item"])
    assert rowtide(*merging).code == 0
    logged.execute("drop table item cascade", f"drop owned by {quote(role)} cascade")


@pytest.mark.parametrize(
    ("table", "needed"),
    [
        ("later", {'create on schema "public"'}),
        ('"The shop"."Orders"', {"create on database"}),
    ],
)
def test_what_delivery_creates_is_granted(
    make_role: MakeRole, logged: LoggedDatabase, table: str, needed: set[str]
) -> None:
    role = make_role("login")
    ended = rowtide("grant", role, "--as", "subscriber", "--table", table, "--db", logged.url)
    assert f"There is no table {table} yet" in " ".join(ended.errors.split())
    assert all(right in ended.output for right in needed)
    with psycopg.connect(libpq_url(as_role(logged.url, role)), autocommit=True) as session:
        if "." in table:
            session.execute('create schema "The shop"')
        session.execute(f"create table {table} (id int)".encode())
    assert connect(logged.url).grant(role, "subscriber", [table]).statements == ()
    for purpose in (Purpose.PUBLISHER, Purpose.MERGE):
        with pytest.raises(TableNotFound, match="there is no table none"):
            connect(logged.url).grant(role, purpose, ["none"])
    with pytest.raises(TableNotFound, match="there is no table no name; at all"):
        connect(logged.url).grant(role, "subscriber", ["no name; at all"])
    logged.execute(f"drop owned by {quote(role)} cascade")


def test_views_of_another_owner_are_not_read(make_role: MakeRole, logged: LoggedDatabase) -> None:
    """Their functions would be called with the rights of whoever reads them."""
    hostile, role = make_role("login"), make_role("login")
    logged.execute("create table item (id int primary key)")
    logged.enable("item")
    with logged.transaction() as session:
        session.execute(sql.SQL("create schema rowtide_monitor_cdc authorization {}").format(sql.Identifier(hostile)))
        session.execute("create view rowtide_monitor_cdc.consumers as select 1 / 0 as consumer_name")
        session.execute("grant usage on schema rowtide_monitor_cdc to public")
        session.execute("grant select on rowtide_monitor_cdc.consumers to public")
    assert rowtide("cdc", "consumers", "--db", as_role(logged.url, role)).code == 0
    ended = rowtide("grant", role, "--as", "monitor", "--db", logged.url)
    ended.require_error(1127)
    logged.execute("drop schema rowtide_monitor_cdc cascade")


def test_disabling_takes_the_views_away(make_role: MakeRole, logged: LoggedDatabase) -> None:
    role = make_role("login")
    logged.execute("create table item (id int primary key)")
    logged.enable("item")
    connect(logged.url).grant(role, "monitor")
    logged.cdc.disable_db()
    assert logged.execute("select 1 from pg_namespace where starts_with(nspname, 'rowtide_monitor_')") == []


def test_a_monitor_that_reads_changes_acknowledges_them(make_role: MakeRole, logged: LoggedDatabase) -> None:
    role = make_role("login")
    logged.execute("create table item (id int primary key)")
    logged.enable("item")
    logged.cdc.add_consumer("search", ["public_item"], role_name=role)
    connect(logged.url).grant(role, Purpose.MONITOR)
    connect(logged.url).grant(role, Purpose.READER)
    url = as_role(logged.url, role)
    assert rowtide("cdc", "columns", "public_item", "--db", url).code == 0
    with psycopg.connect(libpq_url(url)) as session:
        session.execute("update cdc.consumers set acknowledged_at = now() where consumer_name = 'search'")
    logged.execute(f"drop owned by {quote(role)}")
