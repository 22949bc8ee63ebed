"""What a node's triggers and types make of a received row goes back to its writer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from builders.merge.merged_databases import (
    FileMember,
    Member,
    Merge,
    ServerMember,
    open_file_member,
    open_server_member,
)
from fixtures.servers import fresh_database
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.merge.conflicts.resolvers import Winner

pytestmark = pytest.mark.live

THING = "create table thing (id integer primary key, name text, qty integer, total numeric(10,2), seen timestamptz)"


@pytest.fixture
def devices(server: EmbeddedServer, tmp_path: Path) -> Iterator[Merge]:
    """A server, and two files."""
    with ExitStack() as opened:
        hub: ServerMember = opened.enter_context(open_server_member(opened.enter_context(fresh_database(server))))
        files: list[FileMember] = [opened.enter_context(open_file_member(tmp_path / f"{name}.db")) for name in "ab"]
        yield Merge(hub, files)


def add_trigger(hub: Member, event: str, body: str) -> None:
    hub.execute(
        f"create function touch() returns trigger language plpgsql as $$begin {body} end$$",
        f"create trigger touch {event} on thing for each row execute function touch()",
    )


def require_settled(merge: Merge) -> None:
    """After two rounds all rows are equal, and further rounds move nothing."""
    merge.settle()
    for subscriber in merge.subscribers:
        compared = merge.merge.validate("shop", subscriber.url, checksum=True)
        assert all(row.is_equal for row in compared), compared
    assert all(summary.is_quiet for summary in merge.settle())


def ignored(merge: Merge) -> list[tuple[int, str | None, str | None]]:
    """Return the type, the losing and the winning quantity of each conflict; all are of rows left unwritten."""
    listed = merge.conflicts()
    assert {code for _, code, *_ in listed} <= {"RT-8189"}
    return sorted((kind, *(json.loads(row or "{}").get("qty") for row in rows[:2])) for kind, _, *rows in listed)


@pytest.mark.parametrize("options", [{}, {"column_tracking": True}], ids=["rows", "columns"])
def test_what_the_hubs_trigger_sets_goes_to_the_writer(devices: Merge, options: dict[str, bool]) -> None:
    devices.begin(THING, thing=options)
    add_trigger(
        devices.hub, "before insert or update", "new.name = lower(new.name); new.seen = clock_timestamp(); return new;"
    )
    writer = devices.subscribers[0]
    writer.execute("insert into thing (id, name) values (1, 'BOB'), (2, 'eve')")
    devices.sync()
    assert writer.execute("select name, seen is null from thing order by id") == [("bob", 0), ("eve", 0)]
    require_settled(devices)

    writer.execute("update thing set name = 'ANN', qty = 5 where id = 1")
    require_settled(devices)
    assert [each.rows("thing", "id, name, qty") for each in devices.members] == [[(1, "ann", 5), (2, "eve", None)]] * 3
    assert devices.conflicts() == []


def test_what_the_hubs_types_make_of_values_goes_back(devices: Merge) -> None:
    devices.begin(THING.replace("name text", "name char(5), id2 uuid, doc jsonb, is_done boolean"), thing={})
    guid = "6F9619FF-8B86-D011-B42D-00C04FC964FF"
    devices.subscribers[0].execute(
        "insert into thing (id, total, name, seen, id2, doc, is_done) "
        f"values (1, 1.005, 'ab', '2026-11-23T19:44:00Z', '{guid}', '{{\"b\":1,\"a\":2}}', 'yes')"
    )
    require_settled(devices)

    assert devices.subscribers[0].execute("select total, name, seen, id2, doc, is_done from thing") == [
        (1.01, "ab   ", "2026-11-23 19:44:00+00", guid.lower(), '{"a": 2, "b": 1}', 1)
    ]


def test_a_row_that_the_hubs_trigger_drops_is_gone_everywhere(devices: Merge) -> None:
    devices.begin(THING, thing={})
    add_trigger(devices.hub, "before insert", "if new.qty < 0 then return null; end if; return new;")
    devices.subscribers[0].execute("insert into thing (id, qty) values (1, -1), (2, 1)")
    require_settled(devices)

    assert [each.rows("thing", "id, qty") for each in devices.members] == [[(2, 1)]] * 3
    assert ignored(devices) == [(5, "-1", None)]
    (conflict,) = devices.merge.list_conflicts("shop")
    assert conflict.reason_text == "the publisher's table did not write it: trigger touch"
    devices.hub.execute("drop trigger touch on thing")
    devices.merge.resolve(conflict.conflict_id, Winner.SUBSCRIBER)
    require_settled(devices)
    assert [each.rows("thing", "id, qty") for each in devices.members] == [[(1, -1), (2, 1)]] * 3


def test_a_row_that_the_hub_does_not_update_or_delete_returns(devices: Merge) -> None:
    devices.begin(THING, "insert into thing (id, qty) values (1, 1), (2, 2), (3, 3)", thing={})
    add_trigger(
        devices.hub, "before update or delete", "if old.id < 3 then return null; end if; return coalesce(new, old);"
    )
    devices.subscribers[0].execute("update thing set qty = 9 where id <> 2", "delete from thing where id = 2")
    require_settled(devices)

    assert [each.rows("thing", "id, qty") for each in devices.members] == [[(1, 1), (2, 2), (3, 9)]] * 3
    assert ignored(devices) == [(7, None, "2"), (9, "9", "1")]


def test_additive_columns_count_what_a_trigger_adds_once(devices: Merge) -> None:
    devices.begin(THING, "insert into thing (id, qty) values (1, 100)", thing={"resolver": "additive:qty"})
    add_trigger(devices.hub, "before update", "if new.qty < 95 then new.qty = new.qty + 1000; end if; return new;")
    devices.subscribers[0].execute("update thing set qty = qty - 10")
    devices.sync()
    require_settled(devices)

    assert [each.rows("thing", "qty") for each in devices.members] == [[(1090,)]] * 3


def test_a_file_hub_tells_what_its_declared_types_make(server: EmbeddedServer, tmp_path: Path) -> None:
    with ExitStack() as opened:
        hub = opened.enter_context(open_file_member(tmp_path / "hub.db"))
        branch = opened.enter_context(open_server_member(opened.enter_context(fresh_database(server))))
        merge = Merge(hub, [branch])
        merge.begin("create table thing (id integer primary key, code datetime, rate numeric)", thing={})
        branch.execute("insert into thing (id, code, rate) values (1, '007', 1.10), (2, 'x', -0.50)")
        require_settled(merge)

        assert branch.execute("select code, rate::text from thing order by id") == [("7", "1.10"), ("x", "-0.50")]
        assert hub.execute("select code, rate from thing order by id") == [(7, 1.1), ("x", -0.5)]


def test_a_row_that_a_file_hubs_trigger_ignores_goes_back(tmp_path: Path) -> None:
    with open_file_member(tmp_path / "hub.db") as hub, open_file_member(tmp_path / "device.db") as device:
        merge = Merge(hub, [device])
        merge.begin(THING, "insert into thing (id, qty) values (3, 3), (4, 4)", thing={})
        hub.execute(
            "create trigger kept before insert on thing when new.qty < 0 begin select raise(ignore); end",
            "create trigger stays before update on thing when old.id = 3 begin select raise(ignore); end",
            "create trigger remains before delete on thing when old.id = 4 begin select raise(ignore); end",
        )
        device.execute(
            "insert into thing (id, qty) values (1, -1), (2, 1)",
            "update thing set qty = 9 where id = 3",
            "delete from thing where id = 4",
        )
        require_settled(merge)
        assert [each.rows("thing", "id, qty") for each in merge.members] == [[(2, 1), (3, 3), (4, 4)]] * 2
        assert ignored(merge) == [(5, "-1", None), (7, None, "4"), (9, "9", "3")]
