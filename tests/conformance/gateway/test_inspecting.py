"""Devices that compare their rows with their hub's, and list what is pending, by requests; with each kind of hub."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from builders.gateway.served_hubs import Gateway, run_at, serving_hub
from builders.merge.merged_databases import PUBLICATION, Merge
from rowtide.gateway.device import Device
from rowtide.merge.catalogue import get_publication
from rowtide.merge.errors.publishing import DefinitionsDiffer
from rowtide.merge.exchange_state import list_subscriptions, read_last_validation
from rowtide.merge.nodes.connecting import open_node

TABLE = "create table item (id integer primary key, name varchar(20), price numeric(10, 2), region varchar(10))"
ROWS = (
    "insert into item values (1, 'a', 1.50, 'north'), (2, null, 2, 'north'), (3, '', -0.10, 'north'), (4, 'd', 4, 'x')"
)


@pytest.fixture
def gateway(merged: Merge) -> Iterator[Gateway]:
    """A gateway, with one publication that is filtered."""
    merged.hub.execute(TABLE, ROWS)
    merged.merge.add_publication(PUBLICATION)
    merged.merge.add_article(PUBLICATION, "item", where="region = host_name()")
    with serving_hub(merged) as served:
        yield served


@pytest.fixture
def tablet(gateway: Gateway, tmp_path: Path) -> Iterator[Device]:
    """A device of the north that has synchronised."""
    with Device(tmp_path / "field.db", gateway.url) as made:
        made.client.pause = gateway.pauses.append
        made.register(gateway.merged.merge.add_device("tablet", publication=PUBLICATION, host_name="north"))
        made.sync()
        yield made


def rowguids(path: Path, condition: str) -> set[str]:
    return {rowguid for (rowguid,) in run_at(path, f"select rowguid from item where {condition}")}


@pytest.mark.parametrize("checksum", [False, True], ids=["counts", "values"])
def test_equal_rows_are_found_equal(gateway: Gateway, tablet: Device, *, checksum: bool) -> None:
    (found,) = tablet.validate(checksum=checksum)
    assert (found.article, found.publisher_rows, found.subscriber_rows, found.is_equal) == ("item", 3, 3, True)
    assert found.differing == ()
    assert (found.checksum is not None) == checksum
    with open_node(gateway.merged.hub.url) as hub:
        pubid = get_publication(hub.connection, PUBLICATION).pubid
        (subscription,) = list_subscriptions(hub.connection, pubid)
        assert read_last_validation(hub.connection, subscription.subid) is not None


def test_a_differing_value_is_named(gateway: Gateway, tablet: Device) -> None:
    run_at(tablet.path, "update item set name = 'other' where id = 3")
    assert tablet.validate()[0].is_equal
    (found,) = tablet.validate(checksum=True)
    assert not found.is_equal
    assert set(found.differing) == rowguids(tablet.path, "id = 3")
    tablet.sync()
    assert tablet.validate(checksum=True)[0].is_equal


def test_a_missing_row_is_named(gateway: Gateway, tablet: Device) -> None:
    gone = rowguids(tablet.path, "id = 1")
    run_at(tablet.path, "delete from item where id = 1")
    (found,) = tablet.validate(checksum=True)
    assert (found.publisher_rows, found.subscriber_rows, found.is_equal) == (3, 2, False)
    assert set(found.differing) == gone


def test_tables_of_another_schema_are_not_compared(gateway: Gateway, tablet: Device) -> None:
    gateway.merged.merge.alter_article(PUBLICATION, "item", "add column note varchar(20)")
    with pytest.raises(DefinitionsDiffer):
        tablet.validate()


def test_what_is_pending_is_listed_as_with_both_databases(gateway: Gateway, tablet: Device) -> None:
    assert tablet.list_pending() == []
    run_at(
        tablet.path,
        "update item set name = 'A' where id = 1",
        "delete from item where id = 2",
        "insert into item (id, name, region) values (7, 'g', 'north'), (8, 'h', 'north')",
    )
    gateway.merged.hub.execute("update item set name = 'C' where id = 3", "update item set name = 'D' where id = 4")
    found = tablet.list_pending()
    assert [(one.direction, one.pending_deletes, one.pending_ins_and_upd) for one in found] == [
        ("upload", 1, 3),
        ("download", 0, 1),
    ]
    direct = gateway.merged.merge.list_pending(PUBLICATION, f"sqlite:///{tablet.path}")
    assert [(one.direction, one.rows) for one in found] == [(one.direction, one.rows) for one in direct]
    tablet.sync()
    assert tablet.list_pending() == []
