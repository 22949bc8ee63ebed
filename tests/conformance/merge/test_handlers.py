"""A publisher's own handler, asked about changes and conflicts."""

from __future__ import annotations

import re

import pytest

from builders.merge.merge_handlers import Broken, Careless, Stock
from builders.merge.merged_databases import PUBLICATION, Merge
from rowtide.merge.articles import ExchangeType
from rowtide.merge.conflicts.records import ConflictType
from rowtide.merge.errors.nodes import HandlerFailed
from rowtide.merge.errors.publishing import ResolverUnknown
from rowtide.merge.handlers import ActionOnDataChange, ActionOnUpdateConflict, BusinessLogicHandler, ChangeStates

CUSTOMER = "create table customer (id integer primary key, name varchar(20), qty integer)"
COLUMNS = "id, name, qty"
INSERT = "insert into customer (id, name, qty) values (2, 'second', 2)"
STOCK = {"resolver": "python:builders.merge.merge_handlers.Stock"}


def begin(merged: Merge, **options: object) -> None:
    merged.begin(CUSTOMER, "insert into customer values (1, 'first', 1)", customer=STOCK | options)


@pytest.mark.parametrize("tracking", [{}, {"column_tracking": True}])
def test_a_conflict_comes_to_what_the_handler_makes_of_it(merged: Merge, tracking: dict[str, bool]) -> None:
    begin(merged, **tracking)
    merged.hub.execute("update customer set qty = 5, name = 'hub'")
    merged.subscribers[0].execute("update customer set qty = 7")
    merged.settle()

    assert merged.hub.rows("customer", COLUMNS) == [(1, "hub", 12)]
    merged.require_equal("customer", columns=COLUMNS)
    assert len(merged.conflicts()) == 1
    assert all(summary.is_quiet for summary in merged.settle())


def test_a_handlers_row_is_new_only_where_it_differs(merged: Merge) -> None:
    begin(merged, column_tracking=True)
    merged.hub.execute("update customer set qty = 5")
    merged.subscribers[0].execute("update customer set qty = 7")
    merged.subscribers[1].execute("update customer set name = 'kept'")
    merged.settle()

    assert merged.hub.rows("customer", COLUMNS) == [(1, "kept", 12)]
    merged.require_equal("customer", columns=COLUMNS)
    assert len(merged.conflicts()) == 1


def test_an_update_is_new_only_where_the_handler_changed_it(merged: Merge) -> None:
    begin(merged, column_tracking=True, resolver="python:builders.merge.merge_handlers.Rounding")
    merged.subscribers[0].execute("update customer set qty = 17")
    merged.subscribers[1].execute("update customer set name = 'kept'")
    merged.settle()

    assert merged.hub.rows("customer", COLUMNS) == [(1, "kept", 10)]
    merged.require_equal("customer", columns=COLUMNS)
    assert merged.conflicts() == []


def test_a_column_that_only_the_handler_changed_conflicts(merged: Merge) -> None:
    begin(merged, column_tracking=True, resolver="python:builders.merge.merge_handlers.Marking")
    merged.subscribers[0].execute("update customer set qty = 17")
    merged.subscribers[1].execute("update customer set name = 'other'")
    merged.settle()

    assert merged.hub.rows("customer", COLUMNS) == [(1, "marked", 17)]
    merged.require_equal("customer", columns=COLUMNS)
    assert [kind for kind, *_ in merged.conflicts()] == [ConflictType.COLUMN_UPDATE_CONFLICT]


def test_a_handlers_value_reaches_a_device_that_goes_on(merged: Merge) -> None:
    begin(merged, column_tracking=True, resolver="python:builders.merge.merge_handlers.Rounding")
    device = merged.subscribers[0]
    device.execute("update customer set qty = 17")
    merged.merge.sync(PUBLICATION, device.url, exchange=ExchangeType.UPLOAD)
    device.execute("update customer set name = 'kept'")
    merged.settle()

    assert merged.hub.rows("customer", COLUMNS) == [(1, "kept", 10)]
    merged.require_equal("customer", columns=COLUMNS)


def test_a_row_that_is_inserted_is_what_the_handler_makes_of_it(merged: Merge) -> None:
    begin(merged)
    Stock.told.clear()
    merged.subscribers[0].execute(INSERT)
    merged.settle()

    assert merged.hub.rows("customer", COLUMNS) == [(1, "first", 1), (2, "SECOND", 2)]
    merged.require_equal("customer", columns=COLUMNS)
    assert "shop customer from" in Stock.told
    assert Stock.told[-1] == "committed"


def test_changes_that_the_handler_rejects_are_undone_and_kept(merged: Merge) -> None:
    begin(merged)
    merged.hub.execute("insert into customer (id, name, qty) values (2, 'kept', 2)")
    merged.settle()
    merged.subscribers[0].execute("update customer set qty = -1 where id = 1", "delete from customer where id = 2")
    merged.settle()

    assert merged.hub.rows("customer", COLUMNS) == [(1, "first", 1), (2, "kept", 2)]
    merged.require_equal("customer", columns=COLUMNS)
    kinds = {kind for kind, *_ in merged.conflicts()}
    assert kinds == {ConflictType.UPLOAD_UPDATE_FAILED, ConflictType.UPLOAD_DELETE_FAILED}
    assert all(summary.is_quiet for summary in merged.settle())


def test_an_update_and_a_delete_come_to_what_the_handler_says(merged: Merge) -> None:
    begin(merged)
    merged.hub.execute("update customer set qty = 5")
    merged.subscribers[0].execute("delete from customer")
    merged.settle()

    assert [member.rows("customer") for member in merged.members] == [[], [], []]
    assert [kind for kind, *_ in merged.conflicts()] == [ConflictType.UPDATE_DELETE_WINS_CONFLICT]


@pytest.mark.parametrize(
    ("name", "reason"),
    [("Broken", "no idea about 2"), ("Exiting", "SystemExit: no more after 2"), ("Careless", "custom data")],
)
def test_failing_handler_ends_the_sync_and_changes_no_row(merged: Merge, name: str, reason: str) -> None:
    begin(merged, resolver=f"python:builders.merge.merge_handlers.{name}")
    merged.subscribers[0].execute(INSERT)

    with pytest.raises(HandlerFailed, match=reason):
        merged.sync()
    assert merged.hub.rows("customer", COLUMNS) == [(1, "first", 1)]
    assert merged.merge.status(PUBLICATION)[0].state in ("failed", "waiting")


ANSWERS = {
    "an action of another kind": (ActionOnUpdateConflict.ACCEPT_SUBSCRIBER_DATA, None),
    "no action": (7, None),
    "nothing": None,
    "the action alone": ActionOnDataChange.ACCEPT_DATA,
    "a number in a row of texts": (ActionOnDataChange.ACCEPT_CUSTOM_DATA, {"id": 2, "name": "x", "qty": "1"}),
    "no row": (ActionOnDataChange.ACCEPT_CUSTOM_DATA, None),
}


def test_an_answer_that_is_none_ends_the_sync(merged: Merge, monkeypatch: pytest.MonkeyPatch) -> None:
    begin(merged, resolver="python:builders.merge.merge_handlers.Careless")
    merged.subscribers[0].execute(INSERT)
    for answer in ANSWERS.values():
        monkeypatch.setattr(Careless, "insert_handler", lambda _self, _row, answer=answer: answer)
        with pytest.raises(HandlerFailed, match="insert_handler"):
            merged.sync()
    monkeypatch.setattr(Careless, "__init__", lambda _self, _needed: None, raising=False)
    with pytest.raises(HandlerFailed, match="__init__"):
        merged.sync()
    monkeypatch.undo()
    monkeypatch.setattr(Careless, "insert_handler", BusinessLogicHandler.insert_handler)
    merged.settle()
    merged.require_equal("customer", columns=COLUMNS)


@pytest.mark.parametrize("is_mended", [True, False])
def test_changes_arrive_once_a_failing_handler_is_mended_or_gone(
    merged: Merge, monkeypatch: pytest.MonkeyPatch, *, is_mended: bool
) -> None:
    begin(merged, resolver="python:builders.merge.merge_handlers.Broken")
    merged.hub.execute("update customer set name = 'hub'", "insert into customer (id, name) values (3, 'third')")
    merged.subscribers[0].execute("update customer set name = 'sub', qty = 7", INSERT)
    for _ in range(2):
        with pytest.raises(HandlerFailed, match="no idea about"):
            merged.sync()

    if is_mended:
        monkeypatch.setattr(Broken, "insert_handler", Stock.insert_handler)
        monkeypatch.setattr(Broken, "update_conflicts_handler", Stock.update_conflicts_handler)
    else:
        monkeypatch.setattr(Broken, "handled_change_states", ChangeStates(0))
    merged.settle()

    resolved, inserted = ((1, "hub", 8), "SECOND") if is_mended else ((1, "hub", 1), "second")
    assert merged.hub.rows("customer", COLUMNS) == [resolved, (2, inserted, 2), (3, "third", None)]
    merged.require_equal("customer", columns=COLUMNS)
    [(_, _, loser, _, _)] = merged.conflicts()
    assert '"sub"' in loser


@pytest.mark.parametrize(
    "path", ["nowhere.Stock", "builders.merge.merge_handlers.Nobody", "builders.merge.merge_handlers.Values", ""]
)
def test_a_handler_that_is_none_is_refused(merged: Merge, path: str) -> None:
    merged.hub.execute(CUSTOMER)
    merged.merge.add_publication(PUBLICATION)

    with pytest.raises(ResolverUnknown, match=re.escape(f'there is no resolver "python:{path}"')):
        merged.merge.add_article(PUBLICATION, "customer", resolver=f"python:{path}")
