"""What capture cannot follow stops it with a number, after all that came before was published."""

from __future__ import annotations

import pytest

from builders.capture.captured_databases import LoggedDatabase, wait_until
from builders.servers.ddl import forget_triggers
from rowtide import connect, open_lake
from rowtide.cdc.capture.planning import CyclePlan, plan_cycle
from rowtide.cdc.ddl.schema_changes import InstanceLifetime
from rowtide.cdc.definitions import READER
from rowtide.cdc.errors.capturing import RelationChanged
from rowtide.log.membership import Enabled
from rowtide.log.opening import open_log_reader
from rowtide.log.store.state import ManifestState

HARMLESS = [
    "alter table item alter name type varchar(9)",
    "alter table item drop column name",
    "alter table item rename column name to label",
    "alter table item rename to thing",
    "alter table item add column more int default 7",
    "alter table item drop column spare",
    "alter table item rename column spare to rest",
    "alter table item alter id set not null",
    "alter table item add check (id > 0)",
    "truncate other, item",
    "alter table other replica identity full",
]


def write(logged: LoggedDatabase, between: str, write_again: str) -> ManifestState:
    """Write three rows, something between, a fourth; return the log store's state after it all."""
    logged.execute("create table item (id int primary key, name text, spare int)", "create table other (id int)")
    logged.enable()
    logged.cdc.enable_table("item", columns=("id", "name"))
    logged.execute(
        "insert into item values (1, 'a', 0), (2, 'b', 0)", "update item set name = 'c' where id = 1", between
    )
    logged.execute(write_again)
    return logged.read_log()


def plan_next(state: ManifestState, after: CyclePlan | None = None) -> CyclePlan:
    """Plan as capture does: its first cycle, or the one after another."""
    if after is None:
        return plan_cycle(state, {}, state.readers[READER].position)
    active: dict[str, InstanceLifetime] = {lifetime.instance.member_id: lifetime for lifetime in after.begun}
    return plan_cycle(state, active, after.to_position)


def test_capture_goes_up_to_the_blocker_and_no_further(logged: LoggedDatabase) -> None:
    state = write(logged, "alter table item replica identity default", "insert into item (id) values (3)")
    before = plan_next(state)
    covered = [row["after"][0] for row in logged.records() if row["commit_lsn"] < before.to_position.value]
    assert covered == ["1", "2", "1"]
    with pytest.raises(RelationChanged, match="RT-4105: .*identity is no longer full"):
        plan_next(state, before)


@pytest.mark.parametrize("statement", HARMLESS)
def test_capture_continues_over_ddl_that_keeps_the_change_table(logged: LoggedDatabase, statement: str) -> None:
    table = "thing" if "rename to" in statement else "item"
    state = write(logged, statement, f"insert into {table} (id) values (3)")
    assert plan_next(state).to_position == state.position
    assert isinstance(state.events[0], Enabled)


def test_recreated_instance_begins_in_a_cycle_of_its_own(logged: LoggedDatabase) -> None:
    """Its change table is emptied then: readers must know of the end by that time."""
    logged.execute("create table item (id int primary key)")
    logged.enable("item")
    first = plan_next(logged.read_log())
    logged.execute("insert into item values (1)")
    logged.cdc.disable_table("item")
    logged.cdc.enable_table("item")
    logged.execute("insert into item values (2)")
    state = logged.read_log()
    ending = plan_next(state, first)
    assert [lifetime.instance for lifetime in ending.ended] == [lifetime.instance for lifetime in first.begun]
    assert ending.begun == ()
    beginning = plan_cycle(state, {}, ending.to_position)
    assert [lifetime.begin.value for lifetime in beginning.begun] == [ending.to_position.value]
    assert len(beginning.work) == 1


@pytest.mark.parametrize("way_out", ["disable", "drop"])
def test_an_instance_that_ended_later_blocks_nothing(logged: LoggedDatabase, way_out: str) -> None:
    """Capture is stopped while what ends the instance is unread: it waits for the log reader."""
    write(logged, "alter table item replica identity nothing", "insert into item (id) values (3)")
    with pytest.raises(RelationChanged, match="no longer full"):
        logged.cdc.run(once=True)
    if way_out == "disable":
        logged.cdc.disable_table("item")
    else:
        logged.execute("drop table item", "create table item (id int primary key)")
    logged.cdc.enable_table("item")
    logged.execute("insert into item values (4)")
    logged.cdc.run(once=True)
    assert ids(logged, "public_item") == [4]


@pytest.mark.parametrize("reading", ["later", "beside"])
def test_a_drop_that_nobody_tells_of_stops_nothing(logged: LoggedDatabase, reading: str) -> None:
    logged.execute("create table item (id int primary key)", "create table other (id int primary key)")
    logged.enable("item", "other")
    forget_triggers(logged)
    if reading == "beside":
        with open_log_reader(logged.url) as reader:
            reader.step()
            logged.execute("drop table item", "insert into other values (1)")
            wait_until(lambda: bool(reader.step()) and not is_listed(logged, "item"), what="the end of item")
    else:
        logged.execute("drop table item", "insert into other values (1)")
    assert [found.message for found in connect(logged.url).check() if found.subject == "publication"] == []
    logged.cdc.run(once=True)
    assert is_listed(logged, "other")
    assert not is_listed(logged, "item")
    assert ids(logged, "public_other") == [1]


def is_listed(logged: LoggedDatabase, table: str) -> bool:
    return table in {instance.source_table for instance in logged.cdc.list_instances()}


def ids(logged: LoggedDatabase, instance: str) -> list[object]:
    return list(open_lake(str(logged.lake)).get_all_changes(instance).to_arrow().read_all()["id"].to_pylist())
