"""Whom a hub's changes concern, with each kind of hub: others that wait are not woken."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from builders.merge.merged_databases import PUBLICATION, Merge
from rowtide.gateway.long_polling import HeadWatch, find_concerned, read_head
from rowtide.merge.catalogue import get_publication
from rowtide.merge.exchange_state import list_subscriptions
from rowtide.merge.nodes.connecting import open_node
from rowtide.merge.nodes.node import Node

VISIT = "create table visit (id integer primary key, technician varchar(20), note varchar(40))"
STEP = "create table step (id integer primary key, visit_id integer references visit, body varchar(40))"
VISITS = "insert into visit values (1, 'ann', 'a'), (2, 'ben', 'b')"
STEPS = "insert into step values (10, 1, 'x'), (20, 2, 'y')"


def begin(merged: Merge) -> None:
    merged.hub.execute(VISIT, STEP, VISITS, STEPS)
    merged.merge.add_publication(PUBLICATION)
    merged.merge.add_article(PUBLICATION, "visit", where="technician = host_name()")
    merged.merge.add_article(PUBLICATION, "step")
    merged.merge.add_filter(PUBLICATION, "step", "visit", "step.visit_id = visit.id")
    for name, subscriber in zip(("ann", "ben"), merged.subscribers, strict=True):
        merged.merge.add_subscription(PUBLICATION, subscriber.url, host_name=name)


@pytest.mark.parametrize("number", range(7))
def test_changes_concern_who_has_or_gets_the_rows(merged: Merge, number: int) -> None:
    begin(merged)
    many = ", ".join(f"({each}, 'ann', 'm')" for each in range(1000, 1300))
    statement, expected = [
        ("insert into visit (id, technician, note) values (3, 'ann', 'c')", {"ann"}),
        ("insert into visit (id, technician, note) values (3, 'nobody', 'c')", set()),
        ("update visit set technician = 'ben' where id = 1", {"ann", "ben"}),
        ("delete from step where id = 20", {"ben"}),
        ("update step set body = 'z' where id = 10", {"ann"}),
        ("update step set visit_id = 2 where id = 10", {"ann", "ben"}),
        (f"insert into visit (id, technician, note) values {many}", {"ann", "ben"}),
    ][number]
    with open_node(merged.hub.url) as hub:
        pubid = get_publication(hub.connection, PUBLICATION).pubid
        listed = list_subscriptions(hub.connection, pubid)
        names = {one.subid: one.partition.host_name for one in listed if one.partition}
        before, _ = read_head(hub)
        merged.hub.execute(statement)
        assert read_head(hub) == (before, True)
        step = find_concerned(hub, before)
        assert {names[subid] for subid in step.subids} == expected
        assert read_head(hub) == (step.generation, False)
        assert find_concerned(hub, step.generation).subids == frozenset()


def test_without_a_filter_all_are_concerned(merged: Merge) -> None:
    merged.begin(VISIT, visit={})
    with open_node(merged.hub.url) as hub:
        before, _ = read_head(hub)
        merged.hub.execute(VISITS.replace("visit values", "visit (id, technician, note) values"))
        assert len(find_concerned(hub, before).subids) == 2


def test_only_the_concerned_are_told(merged: Merge) -> None:
    begin(merged)
    with open_node(merged.hub.url) as hub:

        async def run(work: Callable[[Node], object]) -> object:
            return work(hub)

        asyncio.run(wait_for(merged, hub, HeadWatch(run)))


async def wait_for(merged: Merge, hub: Node, watch: HeadWatch) -> None:
    pubid = get_publication(hub.connection, PUBLICATION).pubid
    ann, ben = (one.subid for one in sorted(list_subscriptions(hub.connection, pubid), key=_host_name))
    head, _ = read_head(hub)
    told: list[asyncio.Task[bool]] = [asyncio.ensure_future(_wait(watch, each, head)) for each in (ann, ben)]
    await asyncio.sleep(0)
    merged.hub.execute("update visit set note = 'new' where id = 1")
    done, left = await asyncio.wait(told, return_when=asyncio.FIRST_COMPLETED)
    assert (done, left) == ({told[0]}, {told[1]})
    assert await told[0]
    told[1].cancel()
    # Who comes later is told of what was missed alone.
    assert await watch.wait(ann, head, 60)
    assert not await watch.wait(ben, head, 0.01)
    assert await watch.wait(None, head, 60)


def test_a_hub_is_asked_as_often_for_any_number(merged: Merge) -> None:
    """A thousand that wait cost what one does: twice a second a question, and none that reads rows."""
    begin(merged)
    asked: list[object] = []
    with open_node(merged.hub.url) as hub:

        async def run(work: Callable[[Node], object]) -> object:
            asked.append(work)
            return work(hub)

        async def wait_all() -> list[bool]:
            watch, (head, _) = HeadWatch(run), read_head(hub)
            return await asyncio.gather(*(watch.wait(f"device {number}", head, 1.2) for number in range(1000)))

        assert not any(asyncio.run(wait_all()))
    assert 1 <= len(asked) <= 4
    assert set(asked) == {read_head}


def _host_name(subscription: object) -> str:
    return str(getattr(subscription, "partition", None))


def _wait(watch: HeadWatch, subid: str, generation: int) -> Awaitable[bool]:
    return watch.wait(subid, generation, 60)
