"""Rules for new tables: they are enabled as they are created, renamed or moved, or by the process that captures."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import pytest
from sqlalchemy import make_url

from builders.capture.captured_databases import LoggedDatabase
from builders.commands.command_lines import rowtide
from rowtide.cdc.api import ChangeDataCapture
from rowtide.cdc.enabling.instances import as_member, define_instance
from rowtide.cdc.enabling.joining import join_new_tables
from rowtide.cdc.instances import decode_instance
from rowtide.cdc.requests import InstanceRequest
from rowtide.core.tables import BeforeImages
from rowtide.databases.postgres.advisory_locks import MEMBERS
from rowtide.databases.postgres.catalogue import find_table
from rowtide.databases.postgres.connect import open_engine
from rowtide.handle import connect
from rowtide.log.catalogue import find_source
from rowtide.log.membership import Enabled
from rowtide.log.postgres.table_publications import find_blocker, read_publishing

JOINS = (
    "create table plain (id int primary key, note text)",
    "create table keyless (a int, b numeric(10, 2)[])",
    "create table as_query as select 1 as id, 'x'::text as note",
    "select 1 as id into selected",
    "create table alike (like plain including all)",
    """create table odd (second int, first uuid, gone int, sum int generated always as (second + 1) stored,
       price shop.price, primary key (first, second)); alter table odd drop column gone""",
    "create table later_key (id int); insert into later_key values (1); alter table later_key add primary key (id)",
    "create table deferred (id int primary key deferrable initially deferred)",
    """create table parted (id int primary key) partition by range (id);
       create table part partition of parted for values from (0) to (10)""",
    "create table tmp_made (id int); alter table tmp_made rename to renamed",
    "alter table other.moved set schema public",
    "alter table tmp_old rename to old",
    "create table heir (more int) inherits (plain)",
)
PASSED_BY = (
    "create temporary table fleeting (id int)",
    "create unlogged table fast (id int)",
    "create table tmp_work (id int)",
    "create table other.elsewhere (id int)",
    "create table more_of_parted partition of parted for values from (10) to (20)",
    "create view sight as select 1 as id",
    "alter table there add column more int",
)
LEFT_TO_THE_POLL = (
    'create table "Upper Case" (id int)',
    'create table umlaut ("größe" int)',
    'create table cased ("A" int, a int)',
    'create table "dotted.name" (id int)',
)
JOINED = [
    "alike",
    "as_query",
    "deferred",
    "heir",
    "keyless",
    "later_key",
    "moved",
    "odd",
    "old",
    "parted",
    "plain",
    "renamed",
    "selected",
]


@pytest.fixture
def shop(logged: LoggedDatabase) -> LoggedDatabase:
    """An enabled database with a rule for its schema public, and tables that were there before."""
    logged.enable()
    logged.execute(
        "create schema other",
        "create schema shop",
        "create domain shop.price as numeric(8, 2)",
        "create table there (id int primary key)",
        "create table other.moved (id int primary key)",
        "create table tmp_old (id int primary key)",
    )
    logged.cdc.enable_tables(["public.*"], excluding=["public.tmp_*"], with_new_tables=True)
    return logged


def tables(logged: LoggedDatabase) -> list[str]:
    return sorted(listed.source_table for listed in logged.cdc.list_instances())


def poll(logged: LoggedDatabase) -> None:
    join_new_tables(open_engine(logged.url), logged.url)


def in_transaction(logged: LoggedDatabase, *statements: str) -> None:
    with logged.transaction() as session:
        for statement in statements:
            session.execute(statement)


def test_new_tables_are_enabled_as_their_transactions_commit(shop: LoggedDatabase) -> None:
    """What the triggers write is what enabling each table by hand would write."""
    for statements in (*JOINS, *PASSED_BY):
        in_transaction(shop, statements)
    assert tables(shop) == sorted([*JOINED, "there"])
    shop.execute(*(f"insert into {name} default values" for name in ("keyless", "renamed")))
    members = {member.table: member for member in shop.read_log().members}
    with open_engine(shop.url).connect() as connection:
        source = find_source(connection)
        assert source is not None
        for name in JOINED:
            table = find_table(connection, name)
            joined = members[name]
            expected = as_member(define_instance(table, InstanceRequest(), joined.member_id))
            assert decode_instance(joined.definition) == decode_instance(expected.definition), name
            assert replace(joined, definition="") == replace(expected, definition=""), name
            assert {table.identity, *(part.identity for part in table.row_holders[:1])} == {"f"}
            publishing = read_publishing(connection, source, table.source_id)
            assert (publishing.with_others, publishing.making) == (True, None)
            assert find_blocker(connection, source, [table.source_id]) is None
    assert shop.execute(CATALOGUE) == []
    copied = shop.execute("select capture_instance from cdc.snapshots order by 1")
    assert [name for (name,) in copied] == sorted(f"public_{name}" for name in [*JOINED, "there"])
    assert len(shop.records()) == 2


CATALOGUE = """
select t.capture_instance from cdc.change_tables t join rowtide.members m using (member_id)
where t.capture_instance <> 'public_there' and (t.source_object_id <> m.source_table_id or t.capture_instance <> m.name
   or (select count(*) from cdc.captured_columns c where c.object_id = t.object_id)
      <> (select count(*) from pg_attribute a where a.attrelid = t.source_object_id::oid and attnum > 0
          and not attisdropped)
   or (select string_agg(c.column_name, ',' order by index_ordinal) from cdc.index_columns c
       where c.object_id = t.object_id)
      is distinct from (select string_agg(a.attname, ',' order by array_position(k.conkey, a.attnum))
                        from pg_constraint k join pg_attribute a on a.attrelid = k.conrelid and attnum = any(k.conkey)
                        where k.conrelid = t.source_object_id::oid and k.contype = 'p' and not k.condeferrable))
"""


def test_a_table_that_nobody_may_wait_for_joins_later(shop: LoggedDatabase) -> None:
    """The lock of other changes of members is held: the application's transaction commits all the same."""
    with shop.transaction() as other:
        other.execute("select pg_advisory_xact_lock(%(class)s, %(key)s)", MEMBERS)
        begun = time.monotonic()
        shop.execute("create table urgent (id int primary key)")
        assert time.monotonic() - begun < 1
        assert "urgent" not in tables(shop)
    poll(shop)
    assert "urgent" in tables(shop)


def test_tables_that_need_a_decision_join_by_the_poll(shop: LoggedDatabase) -> None:
    shop.execute(*LEFT_TO_THE_POLL, "create table quiet (id int)")
    shop.cdc.disable_table("there")
    assert tables(shop) == ["quiet"]
    poll(shop)
    assert tables(shop) == ["cased", "quiet", "umlaut"]
    (rule,) = shop.cdc.list_table_rules()
    assert (rule.rule_name, rule.excluding, rule.enabled, rule.failed) == ("public.*", ("public.tmp_*",), 3, 2)
    shop.cdc.disable_table("quiet")
    shop.execute('alter table "Upper Case" rename to upper_case')
    poll(shop)
    assert tables(shop) == ["cased", "umlaut", "upper_case"]


@pytest.mark.exhaustive
def test_failures_are_named_and_rules_are_dropped(shop: LoggedDatabase) -> None:
    shop.execute('create table "Upper Case" (id int)')
    poll(shop)
    listed = rowtide("cdc", "table-rules", "public.*", "--format", "csv", "--db", shop.url)
    assert 'public,Upper Case,failed,"RT-22932: ' in listed.output
    checked = rowtide("check", "--format", "jsonl", "--db", shop.url)
    assert "rule public.* cannot enable it: RT-22932" in checked.output
    rowtide("cdc", "table-rules", "other.*", "--db", shop.url).require_error(4162)
    assert rowtide("cdc", "drop-table-rule", "public.*", "--db", shop.url).code == 0
    rowtide("cdc", "drop-table-rule", "public.*", "--db", shop.url).require_error(4162)
    shop.execute("create table plain (id int)")
    assert tables(shop) == ["there"]
    shop.cdc.disable_db()


@pytest.mark.exhaustive
def test_rules_without_a_pattern_or_schema_are_refused(logged: LoggedDatabase) -> None:
    logged.enable()
    logged.execute("create table there (id int)")
    for names, number in ((("public.there",), 4161), (("th*",), 4160), (("public.[z-a]*",), 4113)):
        ended = rowtide("cdc", "enable-table", *names, "--with-new-tables", "--db", logged.url)
        ended.require_error(number)
    ended = rowtide("cdc", "enable-table", "public.*", "--except", "tmp_*", "--with-new-tables", "--db", logged.url)
    ended.require_error(4160)
    assert tables(logged) == []


@pytest.mark.exhaustive
def test_the_first_table_of_all_joins_too(logged: LoggedDatabase) -> None:
    logged.enable()
    logged.cdc.enable_tables(["shop.*", "other.*"], with_new_tables=True, before_images=BeforeImages.KEY)
    logged.execute("create schema shop create table item (id int primary key) create table keyless (id int)")
    assert tables(logged) == ["item"]
    logged.execute("alter table shop.keyless add primary key (id)")
    assert tables(logged) == ["item", "keyless"]
    logged.execute("insert into shop.item values (1)", "insert into shop.keyless values (2)")
    logged.read_log()
    assert logged.inserted() == ["1", "2"]
    assert [job.job_type for job in logged.cdc.list_jobs()] == ["capture", "cleanup"]


@pytest.mark.exhaustive
def test_rows_of_the_creating_transaction_come_before_it(shop: LoggedDatabase) -> None:
    """Also if the table is enabled before them, where constraints are set immediate: they are no changes."""
    in_transaction(
        shop,
        "set constraints all immediate",
        "create table eager (id int primary key)",
        "insert into eager values (1)",
        "alter table eager add more int default 7",
        "insert into eager values (2, 2)",
    )
    in_transaction(shop, "create table gone (id int)", "insert into gone values (1)", "drop table gone")
    in_transaction(shop, "create table plain (id int primary key)", "insert into plain values (3)")
    shop.execute("insert into eager values (4)", "insert into plain values (5)")
    begun = {
        event.member.table: event.commit_lsn.value for event in shop.read_log().events if isinstance(event, Enabled)
    }
    rows = [(row["after"], row["commit_lsn"] - begun["eager"]) for row in shop.records()]
    assert [(after, distance > 0) for after, distance in rows] == [
        (["1"], False),
        (["2"], False),
        (["4"], True),
        (["5"], True),
    ]
    assert tables(shop) == ["eager", "plain", "there"]


@pytest.mark.exhaustive
def test_whatever_is_broken_the_application_may_create_tables(shop: LoggedDatabase) -> None:
    notices: list[str] = []
    shop.session.add_notice_handler(lambda found: notices.append(str(found.message_primary)))
    for number, (broken, mended) in enumerate(BROKEN):
        shop.execute(broken)
        notices.clear()
        shop.execute(f"create table fine_{number} (id int)")
        assert [notice.partition(": ")[2].partition(": ")[0] for notice in notices] == [
            "a new table is enabled by the next poll only"
        ]
        shop.execute(mended)
    assert tables(shop) == ["there"]
    poll(shop)
    assert tables(shop) == [*(f"fine_{number}" for number in range(len(BROKEN))), "there"]


BROKEN = (
    ("alter table cdc.new_tables rename to hidden", "alter table cdc.hidden rename to new_tables"),
    ("alter table cdc.table_rules rename to hidden", "alter table cdc.hidden rename to table_rules"),
    ("alter table rowtide.members rename to hidden", "alter table rowtide.hidden rename to members"),
    ("alter table rowtide.control rename kind to hidden", "alter table rowtide.control rename hidden to kind"),
)


@pytest.mark.exhaustive
def test_without_triggers_the_capture_looks_for_tables(make_role: Callable[[str], str], logged: LoggedDatabase) -> None:
    owner = make_role("login replication")
    logged.execute(
        f'grant create on database {logged.session.info.dbname} to "{owner}"',
        f'grant create on schema public to "{owner}"',
        f'grant execute on function pg_control_system(), pg_control_checkpoint() to "{owner}"',
    )
    url = make_url(logged.url).set(username=owner).render_as_string(hide_password=False)
    cdc: ChangeDataCapture = connect(url).cdc
    cdc.enable_db(str(logged.lake))
    cdc.enable_tables(["public.*"], with_new_tables=True)
    logged.execute(f'set role "{owner}"', "create table own (id int primary key)", "reset role")
    logged.execute("create table foreign_one (id int primary key)")
    assert tables(logged) == []
    found = join_new_tables(open_engine(url), url)
    assert [(one.source_table, one.outcome) for one in found] == [("foreign_one", "failed"), ("own", "enabled")]
    checked = rowtide("check", "--format", "jsonl", "--db", url)
    assert "new tables are enabled by the running capture only" in checked.output
    cdc.disable_db()
    logged.execute(f'drop owned by "{owner}" cascade')
