"""What event triggers write into the log about DDL on captured tables, and what becomes of these; without Spark."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from builders.capture.captured_databases import LoggedDatabase
from builders.commands.command_lines import rowtide
from builders.servers.ddl import forget_triggers, has_triggers, opened_as, opened_by_owner
from rowtide.log.membership import Alteration, Altered, Disabled, Reshaped

BOTH_SERVERS = pytest.mark.parametrize("version", ["logged", "logged_16"])


@pytest.fixture
def item(request: pytest.FixtureRequest) -> LoggedDatabase:
    """A database with a captured table `item`; a test may say on which server."""
    version = request.node.callspec.params["version"] if hasattr(request.node, "callspec") else "logged"
    logged: LoggedDatabase = request.getfixturevalue(version)
    logged.execute("create table item (id int primary key, name text not null default 'x', amount numeric(9, 2))")
    logged.enable("item")
    return logged


def alterations(logged: LoggedDatabase) -> list[Alteration]:
    return [event.alteration for event in logged.read_log().events if isinstance(event, Altered)]


def names(alteration: Alteration) -> dict[int, str]:
    return {column.number: column.name for column in alteration.columns}


def images(logged: LoggedDatabase) -> list[list[str | None]]:
    return [row["after"] for row in logged.records()]


@BOTH_SERVERS
def test_each_statement_is_reported_with_the_table_as_it_is_then(item: LoggedDatabase, version: str) -> None:
    statements = [
        "alter table item add column more int",
        "alter table item rename column name to label",
        "alter table item drop column amount",
        "alter table item rename to thing",
        "alter schema public rename to app",
        "alter table app.thing set schema rowtide_test",
    ]
    item.execute("create schema rowtide_test", *statements)
    told = alterations(item)
    assert [alteration.statement for alteration in told] == statements
    assert [alteration.command for alteration in told] == [*["ALTER TABLE"] * 4, "ALTER SCHEMA", "ALTER TABLE"]
    assert [(alteration.schema, alteration.table) for alteration in told][2:] == [
        ("public", "item"),
        ("public", "thing"),
        ("app", "thing"),
        ("rowtide_test", "thing"),
    ]
    assert names(told[0]) == {1: "id", 2: "name", 3: "amount", 4: "more"}
    assert names(told[-1]) == {1: "id", 2: "label", 4: "more"}
    (listed,) = item.cdc.list_instances()
    assert (listed.source_schema, listed.source_table) == ("rowtide_test", "thing")


@BOTH_SERVERS
def test_rows_are_described_by_the_names_announced(item: LoggedDatabase, version: str) -> None:
    """Else the difference would be taken for another rename."""
    with item.transaction() as session:
        session.execute("insert into item (id) values (1)")
        session.execute("alter schema public rename to app")
        session.execute("insert into app.item (id) values (2)")
        session.execute("alter table app.item rename to thing")
        session.execute("insert into app.thing (id) values (3)")
    state = item.read_log()
    named = [
        event.alteration if isinstance(event, Altered) else state.tables[event.table_id].shape
        for event in state.events
        if isinstance(event, Altered | Reshaped)
    ]
    assert [one.schema for one in named] == ["public", "app", "app", "app", "app"]
    assert [getattr(one, "name", None) or getattr(one, "table", None) for one in named] == [
        *["item"] * 3,
        *["thing"] * 2,
    ]


def test_columns_have_types_nullability_and_defaults(item: LoggedDatabase) -> None:
    item.execute("create domain price as numeric(9, 2)", "alter table item add column cost price")
    item.execute("alter table item add column twice int generated always as (id * 2) stored")
    _, told = alterations(item)
    assert [
        (c.name, c.type_text, c.base_type_text, c.is_nullable, c.is_generated, c.default) for c in told.columns
    ] == [
        ("id", "integer", None, False, False, None),
        ("name", "text", None, False, False, "'x'::text"),
        ("amount", "numeric(9,2)", None, True, False, None),
        ("cost", "public.price", "numeric(9,2)", True, False, None),
        ("twice", "integer", None, True, True, "(id * 2)"),
    ]


def test_ddl_of_equal_text_is_reported_one_by_one_in_log_order(item: LoggedDatabase) -> None:
    text = "alter table item add a int; alter table item add b int"
    with item.transaction() as session:
        session.execute("insert into item (id) values (1)")
        session.execute(text)
        session.execute("do $$ begin execute 'alter table item drop name'; end $$")
        session.execute("insert into item (id) values (2)")
    first, second, third = alterations(item)
    assert (first.statement, second.statement) == (text, text)
    assert third.statement.startswith("do $$")
    assert [set(names(told).values()) - {"id", "amount"} for told in (first, second, third)] == [
        {"name", "a"},
        {"name", "a", "b"},
        {"a", "b"},
    ]
    assert images(item) == [["1", "x", None], ["2", None]]


@BOTH_SERVERS
@pytest.mark.parametrize("around", [("select", "select"), ("savepoint s", "release savepoint s")])
def test_ddl_precedes_the_rows_after_it_also_in_a_savepoint(
    item: LoggedDatabase, version: str, around: tuple[str, str]
) -> None:
    for number, type_name in enumerate(("int", "bigint", "text")):
        with item.transaction() as session:
            session.execute(f"insert into item (id) values ({2 * number})")
            session.execute(around[0])
            session.execute(f"alter table item alter amount type {type_name}")
            session.execute(around[1])
            session.execute(f"insert into item (id) values ({2 * number + 1})")
    state = item.read_log()
    told = [type(event) for event in state.events if isinstance(event, Altered | Reshaped)]
    assert told == [Reshaped, Altered, Reshaped, Altered, Reshaped, Altered, Reshaped]


def test_rolled_back_ddl_and_ddl_of_other_tables_is_not_reported(item: LoggedDatabase) -> None:
    item.execute("create table other (id int)", "alter table other add a int", "create index by_name on item (name)")
    with item.transaction() as session:
        session.execute("alter table item add a int")
        session.rollback()
    assert alterations(item) == []


@BOTH_SERVERS
def test_a_statement_that_computes_values_again_is_marked(item: LoggedDatabase, version: str) -> None:
    item.execute(
        "insert into item values (1, 'a', 2)",
        "alter table item alter amount type numeric(9, 2) using amount * 2",
        "alter table item add column at timestamptz default clock_timestamp()",
        "alter table item alter name type varchar(9)",
        "alter table item alter name type text",
    )
    assert [told.rewrites_values for told in alterations(item)] == [True, False, True, False]


def test_a_rewritten_partition_marks_the_captured_table(logged: LoggedDatabase) -> None:
    logged.execute(
        "create table measure (id int, v int) partition by range (id)",
        "create table low partition of measure for values from (0) to (10)",
    )
    logged.enable("measure")
    logged.execute("alter table measure alter v type bigint using v * 2", "alter table measure add w int")
    assert [told.rewrites_values for told in alterations(logged)] == [True, False]


@BOTH_SERVERS
def test_partitions_that_bring_or_take_rows_mark_the_table(request: pytest.FixtureRequest, version: str) -> None:
    logged: LoggedDatabase = request.getfixturevalue(version)
    logged.execute(
        "create table measure (id int, v int) partition by range (id)",
        "create table low partition of measure for values from (0) to (10)",
        "create table high partition of measure for values from (10) to (90) partition by range (id)",
        "create table part (id int, v int)",
        "create table other (id int, v int)",
        "insert into part values (11, 1)",
    )
    logged.enable("measure")
    in_a_savepoint = (
        "do $$ begin execute 'alter table measure detach partition low'; exception when others then null; end $$"
    )
    statements = {
        "alter table measure attach partition other for values from (90) to (99)": False,
        "alter table measure detach partition other": False,
        "alter table high attach partition part for values from (10) to (20)": True,
        "insert into measure values (1, 1)": None,
        "alter table measure add w int": False,
        in_a_savepoint: True,
        "alter table measure attach partition low for values from (0) to (10)": True,
        "create table later partition of measure for values from (100) to (110)": None,
        "insert into later values (101)": None,
        "alter table measure detach partition later": True,
        "drop table later": None,
        "drop table high": True,
        "insert into other values (91)": None,
    }
    logged.execute(*statements)
    with logged.transaction() as session:
        session.execute("alter table other add note text")
        session.execute("alter table measure alter v set not null")
    told = [(one.statement, one.moves_rows) for one in alterations(logged) if one.table == "measure"]
    assert told == [
        *((statement, moves) for statement, moves in statements.items() if moves is not None),
        ("alter table measure alter v set not null", False),
    ]


@BOTH_SERVERS
def test_renamed_column_is_read_on_by_number_after_a_restart(item: LoggedDatabase, version: str) -> None:
    item.execute("insert into item values (1, 'a', 1)", "alter table item rename column name to label")
    item.read_log()
    item.execute("alter table item rename column id to name", "insert into item values (2, 'b', 2)")
    item.execute("alter table item drop label", "alter table item add label text")
    item.read_log()
    item.execute("insert into item values (3, 3, 'c')")
    item.read_log()
    assert images(item) == [["1", "a", "1.00"], ["2", "b", "2.00"], ["3", "3.00"]]
    (member,) = item.manifest().state.members
    assert (member.columns, member.column_numbers) == (("name", "amount"), (1, 3))


def test_event_trigger_error_is_a_warning_and_the_ddl_succeeds(
    make_role: Callable[[str], str], item: LoggedDatabase
) -> None:
    app = make_role("login")
    item.execute(f'alter table item owner to "{app}"', f'grant create on schema public to "{app}"')
    item.execute("alter table rowtide.control add check (kind <> 'ddl') not valid")
    warnings: list[str] = []
    with opened_as(item, app) as theirs:
        theirs.session.add_notice_handler(lambda notice: warnings.append(str(notice.message_primary)))
        theirs.execute("alter table item add a int")
        item.execute("alter table rowtide.members rename to hidden")
        theirs.execute("drop table item")
    assert ["violates check constraint" in warnings[0], "does not exist" in warnings[1]] == [True, True]
    assert len(warnings) == 2
    assert item.execute("select to_regclass('item')") == [(None,)]


def test_table_owner_alters_and_drops_without_metadata_rights(
    make_role: Callable[[str], str], logged: LoggedDatabase
) -> None:
    app = make_role("login")
    logged.execute("create table item (id int primary key)", f'alter table item owner to "{app}"')
    logged.execute(f'grant create on schema public to "{app}"')
    logged.enable("item")
    with opened_as(logged, app) as theirs:
        theirs.execute("alter table item add a int", "drop table item")
    assert len(alterations(logged)) == 1
    assert logged.cdc.list_instances() == ()


@BOTH_SERVERS
@pytest.mark.parametrize("drop", ["drop table item", "drop schema public cascade"])
def test_a_table_that_is_dropped_is_disabled_by_that(item: LoggedDatabase, version: str, drop: str) -> None:
    item.cdc.enable_table("item", capture_instance="second")
    members = {member.member_id for member in item.read_log().members}
    with item.transaction() as session:
        session.execute(drop)
        session.rollback()
    assert len(item.cdc.list_instances()) == 2
    item.execute("insert into item (id) values (1)", drop)
    assert item.cdc.list_instances() == ()
    state = item.read_log()
    assert {event.member_id for event in state.events if isinstance(event, Disabled)} == members
    assert state.members == ()
    assert images(item) == [["1", "x", None]]
    leftovers = "select source_object_id from cdc.change_tables union select source_table_id from rowtide.identities"
    assert item.execute(leftovers) == []


def test_partitioned_table_is_disabled_only_by_its_own_drop(
    logged: LoggedDatabase,
) -> None:
    logged.execute(
        "create table measure (id int) partition by range (id)",
        "create table low partition of measure for values from (0) to (10)",
        "create table high partition of measure for values from (10) to (20)",
    )
    logged.enable("measure")
    logged.execute("drop table low")
    assert len(logged.cdc.list_instances()) == 1
    logged.execute("insert into measure values (11)", "drop table measure")
    assert logged.cdc.list_instances() == ()
    logged.read_log()
    assert logged.inserted() == ["11"]


@BOTH_SERVERS
def test_enabling_without_trigger_rights_gets_triggers_later(version: str, request: pytest.FixtureRequest) -> None:
    logged: LoggedDatabase = request.getfixturevalue(version)
    with opened_by_owner(logged) as owner:
        owner.execute("create table item (id int primary key, name text)")
        owner.enable("item")
        assert not has_triggers(logged)
        owner.execute("insert into item values (1, 'a')", "alter table item rename column name to label")
        assert alterations(owner) == []
        refused = rowtide("cdc", "enable-db", "--lake", str(owner.lake), "--db", owner.url)
        assert "Nothing was changed" in refused.errors
        assert "No event triggers: this role may not create them" in refused.errors
        added = rowtide("cdc", "enable-db", "--lake", str(owner.lake), "--db", logged.url)
        assert (added.code, "event triggers were missing" in added.errors) == (0, True)
        assert has_triggers(logged)
        made = logged.execute("select evtname from pg_event_trigger order by evtname")
        assert ("rowtide_announce_drop",) not in made, "nobody is lent a superuser's rights"
        assert len(made) == 4
        owner.execute("alter table item add more int")
        assert [names(told) for told in alterations(owner)] == [{1: "id", 2: "label", 3: "more"}]
        owner.cdc.disable_table("item")


def test_column_renamed_before_a_gap_is_captured_by_its_new_name(item: LoggedDatabase) -> None:
    item.execute("alter table item rename column name to label", "alter table item drop amount")
    item.cdc.reinitialize("to see what is captured")
    (member,) = item.read_log().members
    assert (member.columns, member.column_numbers) == (("id", "label"), (1, 2))
    item.execute("alter table item rename column label to name", "insert into item values (1, 'a')")
    item.read_log()
    assert images(item) == [["1", "a"]]


def test_a_database_that_is_disabled_keeps_no_trigger(item: LoggedDatabase) -> None:
    assert has_triggers(item)
    item.execute("drop schema cdc cascade", "drop schema rowtide cascade")
    assert not has_triggers(item)
    item.execute("alter table item add more int", "drop table item")


def test_unreported_dropped_table_is_disabled_by_instance_name(
    item: LoggedDatabase,
) -> None:
    forget_triggers(item)
    item.execute("create table other (id int)")
    item.enable("other")
    forget_triggers(item)
    item.execute("drop table item")
    item.cdc.disable_table("item", capture_instance="public_item")
    item.execute("insert into other values (1)")
    item.read_log()
    assert item.inserted() == ["1"]
