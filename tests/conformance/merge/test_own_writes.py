"""What the agent writes is no change of users; what their triggers do while it writes is one."""

from __future__ import annotations

import pytest

from builders.merge.merged_databases import FileMember, Member, Merge

CUSTOMER = "create table customer (id integer primary key, name varchar(20) unique, qty integer)"
ORDERS = "create table orders (id integer primary key, customer_id integer references customer (id), note varchar(20))"
ROWS = "insert into customer values (1, 'a', 1), (2, 'b', 2), (3, 'c', 3)"
COLUMNS = "id, name, qty"


def add_trigger(member: Member, event: str, condition: str, work: str) -> None:
    """Let a program have a trigger for each row of a table, that does something else."""
    if isinstance(member, FileMember):
        member.execute(f"create trigger touch {event} for each row when {condition} begin {work}; end")
        return
    member.execute(
        f"create function touch() returns trigger language plpgsql as $$begin {work}; return null; end$$",
        f"create trigger touch {event} for each row when ({condition}) execute function touch()",
    )


def logged(member: Member) -> int:
    """Return how many rows the log names."""
    prefix = "" if isinstance(member, FileMember) else "rowtide_merge."
    return int(member.execute(f'select count(distinct rowguid) from {prefix}"MSmerge_log"')[0][0])


def test_what_a_trigger_does_to_another_row_goes_to_all(merged: Merge) -> None:
    merged.begin(CUSTOMER, ORDERS, ROWS, customer={}, orders={})
    work = "update customer set qty = qty + 100 where id = new.customer_id"
    add_trigger(merged.subscribers[0], "after insert on orders", "new.id > 0", work)
    merged.hub.execute("insert into orders (id, customer_id, note) values (10, 1, 'x'), (11, 2, 'y')")
    merged.sync()
    assert logged(merged.subscribers[0]) == 2
    merged.settle()

    assert merged.hub.rows("customer", COLUMNS) == [(1, "a", 101), (2, "b", 102), (3, "c", 3)]
    merged.require_equal("customer", columns=COLUMNS)
    merged.require_equal("orders", columns="id, customer_id, note")
    assert merged.conflicts() == []
    assert all(summary.is_quiet for summary in merged.settle())


def test_what_a_trigger_does_to_the_row_itself_goes_to_all(merged: Merge) -> None:
    merged.begin(CUSTOMER, ROWS, customer={})
    work = "update customer set name = upper(name) where id = new.id"
    add_trigger(merged.subscribers[0], "after update on customer", "new.name <> upper(new.name)", work)
    merged.hub.execute("update customer set name = 'x' where id = 1", "update customer set qty = 20 where id = 2")
    merged.sync()
    assert logged(merged.subscribers[0]) == 2
    merged.settle()

    assert merged.hub.rows("customer", COLUMNS) == [(1, "X", 1), (2, "B", 20), (3, "c", 3)]
    merged.require_equal("customer", columns=COLUMNS)
    assert merged.conflicts() == []
    assert all(summary.is_quiet for summary in merged.settle())


def test_row_deleted_by_a_trigger_in_a_sync_is_gone_everywhere(merged: Merge) -> None:
    merged.begin(CUSTOMER, ROWS, customer={})
    add_trigger(merged.subscribers[0], "after update on customer", "new.id = 1", "delete from customer where id = 2")
    merged.hub.execute("update customer set qty = qty * 10")
    merged.sync()
    assert logged(merged.subscribers[0]) == 1
    merged.settle()

    assert merged.hub.rows("customer", COLUMNS) == [(1, "a", 10), (3, "c", 30)]
    merged.require_equal("customer", columns=COLUMNS)
    assert merged.conflicts() == []
    assert all(summary.is_quiet for summary in merged.settle())


def test_swapped_unique_values_are_not_logged_as_user_changes(merged: Merge) -> None:
    merged.begin(CUSTOMER, ROWS, customer={})
    merged.hub.execute(
        "update customer set name = 'between' where id = 1",
        "update customer set name = 'a' where id = 2",
        "update customer set name = 'b' where id = 1",
    )
    merged.sync()

    assert merged.subscribers[0].rows("customer", COLUMNS) == [(1, "b", 1), (2, "a", 2), (3, "c", 3)]
    assert logged(merged.subscribers[0]) == 0
    merged.settle()
    merged.require_equal("customer", columns=COLUMNS)
    assert all(summary.is_quiet for summary in merged.settle())


SWAPPED = {
    "integer check (value > 0)": ("1", "2", "3"),
    "varchar(20)": ("'v1'", "'v2'", "'v3'"),
    "varchar(3)": ("'v1'", "'v2'", "'v3'"),
    "bytes": ("01", "02", "03"),
    "smallint": ("32767", "1", "2"),
    "numeric(3,2) check (value > 0)": ("9.99", "0.01", "2.50"),
    "double precision": ("1.5", "2.5", "-0.5"),
    "date": ("'2026-11-30'", "'2026-12-01'", "'1999-01-01'"),
    "timestamp": ("'2026-11-30 10:00:00'", "'2026-11-30 10:00:01'", "'1999-01-01 00:00:00'"),
}
"""Three values of each type."""


@pytest.mark.parametrize(
    "kind",
    ["integer check (value > 0)", *(pytest.param(kind, marks=pytest.mark.exhaustive) for kind in [*SWAPPED][1:])],
)
def test_values_that_are_never_null_are_swapped(merged: Merge, kind: str) -> None:
    """Rows get other values of the type for a moment, which fit its length and mostly the column's checks."""
    declared = kind.replace("bytes", "blob" if isinstance(merged.hub, FileMember) else "bytea")

    def shown(member: Member, value: str) -> str:
        if kind != "bytes":
            return value
        return f"x'{value}'" if isinstance(member, FileMember) else f"'\\x{value}'"

    def write(member: Member, *values: tuple[int, str]) -> None:
        for id_, value in values:
            member.execute(f"update code set value = {shown(member, value)} where id = {id_}")

    one, other, meanwhile = SWAPPED[kind]
    merged.begin(f"create table code (id integer primary key, value {declared} not null unique)", code={})
    for id_, value in ((1, one), (2, other)):
        merged.hub.execute(f"insert into code (id, value) values ({id_}, {shown(merged.hub, value)})")
    merged.settle()
    write(merged.hub, (1, meanwhile), (2, one), (1, other))
    merged.settle()
    write(merged.subscribers[0], (1, meanwhile), (2, other), (1, one))
    merged.settle()
    assert merged.conflicts() == []
    assert merged.hub.execute(f"select id from code where value = {shown(merged.hub, one)}") == [(1,)]
    merged.require_valid()


def add_exempt_trigger(member: Member) -> None:
    """Count each write of a program's in the row, but not the agent's."""
    if isinstance(member, FileMember):
        member.execute(
            "create trigger touch after update of name on customer "
            "when not exists (select 1 from MSmerge_agent) "
            "begin update customer set qty = qty + 1 where id = new.id; end"
        )
        return
    member.execute(
        "create function touch() returns trigger language plpgsql as $$begin new.qty = old.qty + 1; return new; end$$",
        "create trigger touch before update of name on customer for each row "
        "when (current_setting('rowtide.merge_agent', true) is distinct from 'on') execute function touch()",
    )


def test_triggers_at_all_nodes_can_leave_the_agents_writes_out(merged: Merge) -> None:
    merged.begin(CUSTOMER, ROWS, customer={})
    for member in merged.members:
        add_exempt_trigger(member)
    merged.subscribers[0].execute("update customer set name = 'x' where id = 1")
    merged.hub.execute("update customer set name = 'y' where id = 2")
    merged.settle()

    assert merged.hub.rows("customer", COLUMNS) == [(1, "x", 2), (2, "y", 3), (3, "c", 3)]
    merged.require_equal("customer", columns=COLUMNS)
    assert all(summary.is_quiet for summary in merged.settle())


def test_a_trigger_that_asks_for_the_agent_outlives_the_merge(merged: Merge) -> None:
    merged.begin(CUSTOMER, ROWS, customer={})
    member = merged.subscribers[0]
    add_exempt_trigger(member)
    for subscriber in merged.subscribers:
        merged.merge.drop_subscription("shop", subscriber.url)
    member.execute("update customer set name = 'x' where id = 1")

    assert member.execute("select qty from customer where id = 1") == [(2,)]
