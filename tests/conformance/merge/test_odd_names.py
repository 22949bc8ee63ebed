"""Names that are hard to quote, in everything that merging does with a table."""

from __future__ import annotations

from typing import Any

import pytest

from builders.merge.merged_databases import SERVER, Merge, ServerMember
from builders.merge_machines.merge_machine_base import require_foreign_keys
from rowtide.merge.articles import FilterType, Partition, PartitionOptions
from rowtide.merge.conflicts.resolvers import Winner
from rowtide.merge.publishing.requests import Existing

SHOP = "p%s \"ub' é"
PARENT, CHILD = "par%s \"ent'; -- é", "c" * 60 + "é!"
"""The second one has 63 bytes."""
KEY, NUMBER, REGION, VALUE, ADDED = 'ke"y %s', "n'2 :x ?", "reg {ion} $1", "v" * 60 + "%s!", 'ad%s "d'
NORTH, SOUTH = "n'o\"rth %s", "south"
OPTIONS: dict[str, Any] = {"compensate_for_errors": True}


def named(template: str) -> str:
    """Return a statement with the names in place of short ones in angle brackets."""
    names = {"p": PARENT, "c": CHILD, "k": KEY, "n": NUMBER, "r": REGION, "v": VALUE, "a": ADDED}
    for short, name in names.items():
        template = template.replace(f"<{short}>", '"' + name.replace('"', '""') + '"')
    return template.replace("NORTH", "'" + NORTH.replace("'", "''") + "'")


DEFINITIONS = [
    named(
        "create table <p> (<k> text not null, <n> integer not null, <r> varchar(20), <v> text, above text, "
        "above_n integer, primary key (<n>, <k>), foreign key (above, above_n) references <p> (<k>, <n>))"
    ),
    named(
        "create table <c> (id integer primary key, <k> text, <n> integer, <v> text, "
        "foreign key (<k>, <n>) references <p> (<k>, <n>))"
    ),
    named("insert into <p> (<k>, <n>, <r>) values ('k''1', 1, NORTH), ('k''3', 3, 'south')"),
    named("insert into <p> (<k>, <n>, <r>, above, above_n) values ('k''2', 2, 'south', 'k''3', 3)"),
    named("insert into <c> (id, <k>, <n>, <v>) values (1, 'k''1', 1, 'a'), (2, 'k''2', 2, 'b')"),
]


def publish(merged: Merge, filter_type: FilterType, **options: Any) -> None:
    merged.publication = SHOP
    merged.hub.execute(*DEFINITIONS)
    merged.merge.add_publication(SHOP)
    merged.merge.add_article(SHOP, PARENT, where=named("<r> = host_name()"), **options)
    merged.merge.add_article(SHOP, CHILD, **options)
    condition = named("<c>.<k> = <p>.<k> and <c>.<n> = <p>.<n>")
    merged.merge.add_filter(SHOP, CHILD, PARENT, condition, filter_type=filter_type, unique_key=True)
    for subscriber, region in zip(merged.subscribers, (NORTH, SOUTH), strict=True):
        merged.merge.add_subscription(SHOP, subscriber.url, partition=Partition(region))


def settle(merged: Merge) -> None:
    """After two rounds each has its partition's rows, and a third moves nothing."""
    merged.settle()
    for subscriber in merged.subscribers:
        compared = merged.merge.validate(SHOP, subscriber.url, checksum=True)
        assert all(row.is_equal for row in compared), compared
    assert all(summary.is_quiet for summary in merged.settle(1))


@pytest.mark.parametrize("filter_type", [FilterType.JOIN, FilterType.BOTH])
@pytest.mark.parametrize("tracking", [{}, {"column_tracking": True}], ids=["rows", "columns"])
def test_any_names_are_merged(merged: Merge, tracking: dict[str, Any], filter_type: FilterType) -> None:
    publish(merged, filter_type, **OPTIONS, **tracking)
    hub, (north, south), merge = merged.hub, merged.subscribers, merged.merge
    settle(merged)
    # New rows with their parent, a conflict, a parent's key that changes, and a move to another partition.
    north.execute(
        named("update <c> set <v> = 'from a''s \"dev\" %s \\ é'"),
        named("insert into <p> (<k>, <n>, <r>) values ('new', 7, NORTH)"),
        named("insert into <c> (id, <k>, <n>) values (10, 'new', 7)"),
    )
    hub.execute(named("update <c> set <v> = 'hub' where id = 1"))
    settle(merged)
    north.execute(
        named("insert into <p> (<k>, <n>, <r>) values ('moved', 9, NORTH)"),
        named("update <c> set <k> = 'moved', <n> = 9 where id = 10"),
        named("delete from <p> where <n> = 7"),
    )
    settle(merged)
    hub.execute(named("update <p> set <r> = 'south' where <n> = 9"))
    settle(merged)
    assert {key for (key,) in south.execute(named("select id from <c>"))} == {2, 10}

    # A column that is added, with what was done before.
    merge.alter_article(SHOP, CHILD, named("add column <a> varchar(10) default 'it''s'"))
    south.execute(named("update <c> set <v> = 'late' where id = 10"))
    settle(merged)
    for conflict in merge.list_conflicts(SHOP):
        merge.resolve(conflict.conflict_id, Winner.SUBSCRIBER)
    settle(merged)
    assert hub.execute(named("select <a>, <v> from <c> where id = 1")) == [("it's", 'from a\'s "dev" %s \\ é')]


def test_any_names_move_begin_again_and_are_prepared(merged: Merge) -> None:
    publish(merged, FilterType.JOIN, **OPTIONS)
    merge, (north, south) = merged.merge, merged.subscribers
    for table in ("sysmergesubsetfilters", "MSmerge_contents", "MSmerge_current_partition_mappings"):
        assert list(merge.read_table(table).columns)
    merge.change_subscription(SHOP, south.url, partition=Partition(NORTH))
    settle(merged)
    south.execute(named("update <c> set <v> = 'south'"))
    assert [(each.direction, each.pending_ins_and_upd) for each in merge.list_pending(SHOP, south.url)] == [
        ("upload", 1)
    ]
    merge.reinitialize(SHOP, south.url, upload_first=True)
    settle(merged)
    merge.drop_subscription(SHOP, south.url, upload_first=True)
    south.execute(named("update <c> set <v> = 'alone'"))
    merge.subscribe_existing(SHOP, south.url, Existing.KEEP, partition=Partition(NORTH))
    settle(merged)

    assert north.execute(named("select id, <v> from <c>")) == [(1, "alone")]
    require_foreign_keys(merged)
    assert merge.dummy_update(CHILD, str(merged.hub.execute(named("select rowguid from <c>"))[0][0]))


def test_rows_of_odd_names_may_not_leave_a_shared_partition(merged: Merge) -> None:
    publish(merged, FilterType.JOIN, partition_options=PartitionOptions.SHARED, **OPTIONS)
    settle(merged)
    merged.subscribers[0].execute(
        named("update <p> set <r> = 'south' where <n> = 1"),
        named("insert into <c> (id, <k>, <n>) values (11, 'k''1', 1)"),
    )
    settle(merged)

    assert merged.subscribers[0].execute(named("select <r> from <p>")) == [(NORTH,)]
    assert {reason for _, reason, *_ in merged.conflicts()} == {"RT-8027"}


@pytest.mark.parametrize("options", [{"renumber": True}, {"identity_range": 10}], ids=str)
def test_odd_names_are_numbered(merged: Merge, options: dict[str, Any]) -> None:
    key = "serial primary key" if isinstance(merged.hub, ServerMember) else "integer primary key autoincrement"
    options = {PARENT: options}
    merged.begin(
        named(f"create table <p> (<k> {key}, <v> text)"),
        named("create table <c> (id integer primary key, <k> integer references <p> (<k>))"),
        subscriber_options=[SERVER, SERVER],
        **options,
        **{CHILD: {}},
    )
    for number, subscriber in enumerate(merged.subscribers):
        given = "1, " if "renumber" in options[PARENT] else ""
        subscriber.execute(
            named(f"insert into <p> ({'<k>, ' if given else ''}<v>) values ({given}'{number}')"),
            named(f"insert into <c> (id, <k>) select {number}, max(<k>) from <p>"),
        )
    merged.settle(3)

    joined = named("select id, <v> from <c> join <p> on <p>.<k> = <c>.<k> order by id")
    assert [member.execute(joined) for member in merged.members] == [[(0, "0"), (1, "1")]] * 3
    assert all(summary.is_quiet for summary in merged.settle())


def test_tables_are_named_literally_or_as_in_sql(merged: Merge) -> None:
    merged.hub.execute('create table "Order ""Lines" (id integer primary key)')
    merged.merge.add_publication(merged.publication)
    merged.merge.add_article(merged.publication, 'Order "Lines')
    schemas = ["", "public.", '"public".'] if isinstance(merged.hub, ServerMember) else [""]
    rowguid = "01a219a1-941d-7000-8000-b4defcc37aac"
    for name in ('Order "Lines', '"Order ""Lines"'):
        for schema in schemas:
            assert len(merged.merge.list_row_replicas(f"{schema}{name}", rowguid)) > 0
    merged.merge.drop_article(merged.publication, '"Order ""Lines"')
