"""SymmetricDS's scenarios of constraints at odds (SDS-C01 to SDS-C23) and Dotmim.Sync's matrix of conflicts.

Whatever two nodes did, all come to the same rows, every constraint holds, what was lost is kept as a conflict, and
further synchronisations move nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from builders.merge.merged_databases import FileMember, Merge
from rowtide.merge.conflicts.records import ConflictType
from rowtide.merge.errors.publishing import MergeKeyMissing

PARENT = (
    "create table parent (id integer primary key, name varchar(9) unique, parent_id integer references parent (id))"
)
CHILD = (
    "create table child (id integer primary key, parent_id integer references parent (id), name varchar(9) unique, "
    "note varchar(9))"
)
BEGINNING = ("insert into parent (id, name) values (1, 'a'), (2, 'b')", "insert into child values (1, 1, 'ca', null)")


@dataclass(frozen=True)
class Scenario:
    """What is done at the hub and at a subscriber between two synchronisations; `lost` whether somebody loses."""

    number: str
    hub: tuple[str, ...]
    subscriber: tuple[str, ...]
    lost: bool = True


def parent(key: int, name: str) -> str:
    return f"insert into parent (id, name) values ({key}, '{name}')"


def child(key: int, of: int, name: str) -> str:
    return f"insert into child (id, parent_id, name) values ({key}, {of}, '{name}')"


SCENARIOS = [
    Scenario("C01 insert hits a secondary unique key", (parent(8, "x"),), (parent(9, "x"),)),
    Scenario("C02 and the row in its way is referred to", (parent(8, "x"), child(8, 8, "cx")), (parent(9, "x"),)),
    Scenario("C03 the same in the child table", (child(8, 1, "cx"),), (child(9, 2, "cx"),)),
    Scenario("C04 insert hits the primary key", (parent(9, "x"),), (parent(9, "y"),)),
    Scenario("C05 and as an update it would hit a unique key", (parent(9, "x"), parent(8, "y")), (parent(9, "y"),)),
    Scenario("C06 whose row is referred to", (parent(9, "x"), parent(8, "y"), child(8, 8, "cy")), (parent(9, "y"),)),
    Scenario("C07 the same in the child table", (child(9, 1, "cx"), child(8, 1, "cy")), (child(9, 2, "cy"),)),
    Scenario(
        "C08 update finds its parent missing",
        ("delete from parent where id = 2",),
        ("update parent set parent_id = 2 where id = 1",),
    ),
    Scenario(
        "C09 the same in the child table",
        ("delete from parent where id = 2",),
        ("update child set parent_id = 2 where id = 1",),
    ),
    Scenario(
        "C10 update violates unique and foreign key",
        ("delete from parent where id = 2", parent(8, "x")),
        ("update parent set name = 'x', parent_id = 2 where id = 1",),
    ),
    Scenario("C11 update violates a unique key", (parent(8, "x"),), ("update parent set name = 'x' where id = 1",)),
    Scenario(
        "C12 unique and foreign key in the child table",
        ("delete from parent where id = 2", child(8, 1, "cx")),
        ("update child set name = 'cx', parent_id = 2 where id = 1",),
    ),
    Scenario(
        "C13 update of the primary key onto another's", (parent(9, "x"),), ("update parent set id = 9 where id = 2",)
    ),
    Scenario(
        "C14 which the updated row refers to",
        (parent(9, "x"),),
        ("update parent set parent_id = 1 where id = 2", "update parent set id = 9 where id = 2"),
    ),
    Scenario(
        "C15 the same of a unique key",
        (parent(9, "x"), "update parent set parent_id = 9 where id = 2"),
        ("update parent set name = 'x' where id = 2",),
    ),
    Scenario("C16 one primary key and one unique name", (parent(9, "x"),), (parent(9, "x"),)),
    Scenario("C17 one primary key, referred to", (parent(9, "x"), child(9, 9, "cx")), (parent(9, "y"),)),
    Scenario(
        "C18 unique and primary key, referred to",
        (parent(9, "x"), parent(8, "y"), child(9, 9, "cx"), child(8, 8, "cy")),
        (parent(9, "y"),),
    ),
    Scenario(
        "C19 update finds no row, and as an insert hits a unique key",
        ("delete from parent where id = 2", parent(8, "x")),
        ("update parent set name = 'x' where id = 2",),
    ),
    Scenario(
        "C20 whose row is referred to",
        ("delete from parent where id = 2", parent(8, "x"), child(8, 8, "cx")),
        ("update parent set name = 'x' where id = 2",),
    ),
    Scenario("C21 delete of a row that has children", (child(8, 2, "cx"),), ("delete from parent where id = 2",)),
    Scenario("C22 delete in the child table", (parent(8, "x"),), ("delete from child where id = 1",), lost=False),
]


either_wins = pytest.mark.parametrize("winning", ["publisher-wins", "subscriber-wins"])


@either_wins
@pytest.mark.parametrize("scenario", SCENARIOS, ids=[f"SDS-{each.number}" for each in SCENARIOS])
def test_constraints_hold_and_all_come_to_the_same(merged: Merge, scenario: Scenario, winning: str) -> None:
    options = {"compensate_for_errors": True, "resolver": winning}
    merged.begin(PARENT, CHILD, *BEGINNING, parent=options, child=options)
    merged.hub.execute(*scenario.hub)
    merged.subscribers[0].execute(*scenario.subscriber)
    merged.settle(4)

    merged.require_equal("parent", columns="id, name, parent_id")
    merged.require_equal("child", columns="id, parent_id, name, note")
    for member in merged.members:
        if isinstance(member, FileMember):
            assert member.execute("pragma foreign_key_check") == []
    assert bool(merged.conflicts()) == scenario.lost
    assert all(summary.is_quiet for summary in merged.settle())


def test_sds_c23_a_table_without_primary_key_is_refused(merged: Merge) -> None:
    merged.hub.execute("create table keyless (id integer, name varchar(9))")
    merged.merge.add_publication("shop")

    with pytest.raises(MergeKeyMissing):
        merged.merge.add_article("shop", "keyless")


UPDATE = "update parent set name = '{side}' where id = 1"
MATRIX = {
    "IC-IS": (parent(9, "s"), parent(9, "c"), ConflictType.UPLOAD_INSERT_FAILED),
    "UC-US": (UPDATE.format(side="s"), UPDATE.format(side="c"), ConflictType.UPDATE_CONFLICT),
    "UC-DS": ("delete from parent where id = 1", UPDATE.format(side="c"), None),
    "DC-US": (UPDATE.format(side="s"), "delete from parent where id = 1", None),
    "DC-DS": ("delete from parent where id = 1", "delete from parent where id = 1", 0),
    "NULLC-DS": ("delete from parent where id = 1", "select 1", 0),
    "plain": (parent(9, "s"), parent(8, "c"), 0),
}
"""What server and client do, and the conflict: None is one of update and delete, by who wins, 0 is none."""


@either_wins
@pytest.mark.parametrize("cell", MATRIX)
def test_dotmim_matrix(merged: Merge, cell: str, winning: str) -> None:
    server, client, expected = MATRIX[cell]
    client_wins = winning == "subscriber-wins"
    merged.begin(PARENT, "insert into parent (id, name) values (1, 'a')", parent={"resolver": winning})
    merged.hub.execute(server)
    merged.subscribers[0].execute(client)
    first = merged.sync()
    merged.settle()

    merged.require_equal("parent", columns="id, name")
    names = {name for _, name in merged.hub.rows("parent", "id, name")}
    kinds = [kind for kind, *_ in merged.conflicts()]
    if expected is None:
        is_update_kept = (cell == "UC-DS") is client_wins
        assert bool(names) is is_update_kept
        wins, loses = ConflictType.UPDATE_WINS_DELETE_CONFLICT, ConflictType.UPDATE_DELETE_WINS_CONFLICT
        assert kinds == [wins if is_update_kept else loses]
    elif expected:
        assert kinds == [expected]
        assert ("c" in names) is client_wins
        assert ("s" in names) is not client_wins
    assert first.upload.total.conflicts == len(kinds) == (expected != 0)
    # No ping-pong: the third synchronisation moves nothing.
    assert all(summary.is_quiet for summary in merged.settle(1))
