"""Tables whose columns come from elsewhere: what is done to a parent, or to a type, is done to them."""

from __future__ import annotations

import pytest

from builders.capture.captured_databases import LoggedDatabase
from builders.commands.checks import only
from builders.servers.ddl import forget_triggers
from rowtide.diagnosis.result import State
from rowtide.handle import connect
from rowtide.log.membership import Alteration, Altered, ChangesOmitted

BOTH_SERVERS = pytest.mark.parametrize("version", ["logged", "logged_16"])
THREE_LEVELS = (
    "create table top (id int, v text, n int)",
    "create table middle () inherits (top)",
    "create table child (extra text, primary key (id)) inherits (middle)",
)
TYPED = ("create type thing as (id int, v text)", "create table child of thing (primary key (id))")


def opened(request: pytest.FixtureRequest, version: str, *definitions: str) -> LoggedDatabase:
    """Capture `child`, on either server."""
    logged: LoggedDatabase = request.getfixturevalue(version)
    logged.execute(*definitions)
    logged.enable("child")
    return logged


def alterations(logged: LoggedDatabase) -> list[Alteration]:
    return [event.alteration for event in logged.read_log().events if isinstance(event, Altered)]


def renames(logged: LoggedDatabase) -> list[tuple[tuple[str, str], ...]]:
    return [event.alteration.renames for event in logged.manifest().state.events if isinstance(event, Altered)]


def images(logged: LoggedDatabase) -> list[list[str | None]]:
    return [row["after"] for row in logged.records()]


@BOTH_SERVERS
def test_ddl_of_a_parent_is_reported_of_its_captured_child(request: pytest.FixtureRequest, version: str) -> None:
    logged = opened(request, version, *THREE_LEVELS)
    statements = [
        "alter table top rename column v to w",
        "alter table top alter n type bigint using n * 2",
        "alter table top add column more int",
        "alter table top drop column n",
    ]
    logged.execute("insert into child values (1, 'a', 1, 'x')", statements[0], "insert into child values (2, 'b', 2)")
    logged.execute(*statements[1:], "insert into child (id, w) values (3, 'c')")
    told = alterations(logged)
    assert [alteration.statement for alteration in told] == statements
    assert {(alteration.schema, alteration.table, alteration.is_inherited) for alteration in told} == {
        ("public", "child", True)
    }
    assert [alteration.rewrites_values for alteration in told] == [False, True, False, False]
    assert images(logged) == [["1", "a", "1", "x"], ["2", "b", "2", None], ["3", "c", None]]


@BOTH_SERVERS
def test_ddl_of_a_type_is_reported_of_its_captured_table(request: pytest.FixtureRequest, version: str) -> None:
    logged = opened(request, version, *TYPED)
    statements = [
        "alter type thing rename attribute v to w cascade",
        "alter type thing add attribute n int cascade",
        "alter type thing alter attribute n type bigint cascade",
    ]
    logged.execute("insert into child values (1, 'a')", *statements, "insert into child values (2, 'b')")
    assert [alteration.statement for alteration in alterations(logged)] == statements
    assert images(logged) == [["1", "a"], ["2", "b"]]


@BOTH_SERVERS
def test_a_renamed_label_changes_values_of_tables_that_hold_it(request: pytest.FixtureRequest, version: str) -> None:
    logged = opened(
        request,
        version,
        "create type mood as enum ('calm', 'glad')",
        "create domain moods as mood[]",
        "create type pair as (mood mood, note text)",
        "create table child (id int primary key, own mood, several moods, pair pair)",
    )
    logged.execute("create table beside (id int primary key)")
    logged.enable("beside")
    statements = [
        "alter type mood add value 'sad'",
        "alter type mood rename value 'glad' to 'happy'",
        "alter type pair add attribute more int",
        "alter type pair rename attribute note to remark",
        "do $$ begin alter type mood rename value 'sad' to 'low'; end $$",
    ]
    logged.execute(*statements, "alter table child drop column own", "alter type mood rename value 'low' to 'down'")
    found = alterations(logged)
    told = {alteration.statement: alteration.rewrites_values for alteration in found}
    assert {statement: told.get(statement) for statement in statements} == dict.fromkeys(statements, True) | {
        statements[0]: None,
        statements[3]: None,
    }
    assert told["alter type mood rename value 'low' to 'down'"]
    assert {alteration.table for alteration in found} == {"child"}


def test_a_table_that_was_altered_itself_is_reported_once(logged: LoggedDatabase) -> None:
    logged.execute(*THREE_LEVELS)
    logged.enable("child", "middle")
    logged.execute("alter table middle add column more int")
    told = {alteration.table: alteration.is_inherited for alteration in alterations(logged)}
    assert told == {"middle": False, "child": True}


@BOTH_SERVERS
def test_a_generated_column_that_becomes_an_ordinary_one_is_read(request: pytest.FixtureRequest, version: str) -> None:
    logged = opened(
        request,
        version,
        "create table parent (id int, twice int generated always as (id * 2) stored, v text)",
        "create table child (primary key (id)) inherits (parent)",
    )
    logged.execute("insert into child (id, v) values (1, 'a')", "alter table parent alter twice drop expression")
    logged.execute("insert into child values (2, 77, 'b')", "update child set twice = 78 where id = 2")
    (told,) = alterations(logged)
    assert [column.is_generated for column in told.columns] == [False, False, False]
    assert images(logged) == [["1", "a"], ["2", "77", "b"], ["2", "78", "b"]]


@BOTH_SERVERS
def test_unreported_rename_is_found_by_the_column_number(request: pytest.FixtureRequest, version: str) -> None:
    logged = opened(request, version, *THREE_LEVELS)
    forget_triggers(logged)
    logged.execute("insert into child values (1, 'a', 1, 'x')", "alter table top rename column v to w")
    logged.execute("insert into child values (2, 'b', 2, 'y')")
    logged.read_log()
    logged.execute("alter table child rename column extra to more", "insert into child values (3, 'c', 3, 'z')")
    logged.execute("alter table top drop column n")
    logged.execute("insert into child (id, w, more) values (4, 'd', 'z')")
    logged.read_log()
    assert images(logged) == [["1", "a", "1", "x"], ["2", "b", "2", "y"], ["3", "c", "3", "z"], ["4", "d", "z"]]
    told = [event.alteration for event in logged.manifest().state.events if isinstance(event, Altered)]
    assert [alteration.renames for alteration in told] == [(("v", "w"),), (("extra", "more"),)]
    (member,) = logged.manifest().state.members
    assert member.columns == ("id", "w", "n", "more")


def test_column_renamed_twice_unreported_is_found_by_its_place(logged: LoggedDatabase) -> None:
    logged.execute(*THREE_LEVELS)
    logged.enable("child")
    forget_triggers(logged)
    logged.execute("alter table top rename column v to w", "insert into child values (1, 'a', 1, 'x')")
    logged.execute("alter table top rename column w to v2", "insert into child values (2, 'b', 2, 'y')")
    logged.read_log()
    assert images(logged) == [["1", "a", "1", "x"], ["2", "b", "2", "y"]]
    assert renames(logged) == [(("v", "w"),), (("w", "v2"),)]


@BOTH_SERVERS
def test_columns_that_swap_their_names_are_found_by_their_order(request: pytest.FixtureRequest, version: str) -> None:
    logged = opened(request, version, "create table child (id int primary key, v text, w text)")
    forget_triggers(logged)
    logged.execute("insert into child values (1, 'v', 'w')")
    swap = ("v to x", "w to v", "x to w")
    logged.execute(*(f"alter table child rename column {names}" for names in swap))
    logged.execute("insert into child (id, w, v) values (2, 'v', 'w')")
    logged.read_log()
    assert images(logged) == [["1", "v", "w"], ["2", "v", "w"]]
    assert renames(logged) == [(("v", "w"), ("w", "v"))]
    (member,) = logged.manifest().state.members
    assert dict(zip(member.column_numbers, member.columns, strict=True)) == {1: "id", 2: "w", 3: "v"}


@BOTH_SERVERS
def test_what_is_unknown_of_one_table_stops_no_other(request: pytest.FixtureRequest, version: str) -> None:
    logged = opened(request, version, "create table child (id int primary key, a text, v text)")
    logged.execute("create table other (id int primary key)")
    logged.cdc.disable_table("child")
    logged.cdc.enable_table("child", columns=("id", "v"))
    logged.enable("other")
    forget_triggers(logged)
    logged.execute("insert into child values (1, 'a', 'v')", "alter table child rename column v to w")
    logged.execute("insert into child values (2, 'a', 'v')", "insert into other values (1)")
    logged.execute("alter table child rename column w to v2", "alter table child drop column a")
    logged.execute("insert into child values (3, 'v')", "insert into other values (2)")
    state = logged.read_log()
    (lacking,) = state.incomplete
    (left_out,) = [event for event in state.events if isinstance(event, ChangesOmitted)]
    assert left_out.commit_lsn == lacking.lsn
    assert lacking.reason == ("columns were renamed before the log was read, and it has id, a, w: which is v (now v2)?")
    others = {version.table_id for version in state.tables.values() if version.shape.name == "other"}
    read = logged.records()
    assert [row["after"] for row in read if row["table_id"] in others] == [["1"], ["2"]]
    of_child = [row for row in read if row["table_id"] not in others]
    whole = [row["after"] for row in of_child if row["commit_lsn"] != lacking.lsn.value]
    assert whole == [["1", "v"], ["3", "v"]]
    assert len(of_child) == len(whole) + 1
    finding = only(connect(logged.url).check(), lacking.reason)
    assert (finding.state, finding.subject) == (State.WARNING, "instance public_child")
    of_health = [judgement for judgement in connect(logged.url).health() if lacking.reason in judgement.message]
    assert [(judgement.subject, judgement.state) for judgement in of_health] == [("instance public_child", "warning")]
