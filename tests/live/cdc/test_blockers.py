"""What capture cannot follow stops it with a number, after all that came before was published."""

from __future__ import annotations

import pytest

from builders.capture.captured_databases import LoggedDatabase
from rowtide.cdc.capture.instance_lifetimes import InstanceLifetime
from rowtide.cdc.capture.planning import CyclePlan, plan_cycle
from rowtide.cdc.definitions import READER
from rowtide.cdc.errors.capturing import RelationChanged
from rowtide.log.membership import Enabled
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
