"""What rows come of what statements: operations, masks, order."""

from __future__ import annotations

from builders.captured_databases import CapturedDatabase


def test_inserts_updates_and_deletes_arrive_in_order_with_masks(captured: CapturedDatabase) -> None:
    captured.execute("create table item (id int primary key, name text, price numeric(8,2))")
    captured.enable("item")
    captured.execute(
        "insert into item values (1, 'tea', 1.50)",
        "update item set price = 1.75 where id = 1",
        "update item set id = 2 where id = 1",
        "delete from item",
    )
    captured.capture()
    assert [
        (*pair, mask.hex()) for *pair, mask in captured.values("public_item", "id", "name", "__$update_mask")
    ] == [
        (2, 1, "tea", "07"),
        (3, 1, "tea", "04"),
        (4, 1, "tea", "04"),
        (1, 1, "tea", "07"),
        (2, 2, "tea", "07"),
        (1, 2, "tea", "07"),
    ]


def test_second(captured: CapturedDatabase) -> None:
    import time, sys
    t=time.time()
    def p(s): print(s, round(time.time()-t,2), file=sys.stderr)
    captured.execute("create table item (id int primary key, name text, price numeric(8,2))")
    captured.enable("item")
    p('enabled')
    captured.execute("insert into item values (1, 'tea', 1.50)")
    m = captured.mark()
    captured.read_log(m)
    p('read')
    captured.capture_log(m)
    p('captured')
    captured.changes('public_item')
    p('changes')
    captured.execute("insert into item values (2, 'tea', 1.50)")
    m = captured.mark()
    captured.read_log(m)
    p('read')
    captured.capture_log(m)
    p('captured')
    captured.changes('public_item')
    p('changes')
