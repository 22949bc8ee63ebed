"""Which triggers of a file's programs change the rows that arrive."""

from __future__ import annotations

import pytest

from rowtide.merge.nodes.sqlite.tables.triggers import is_rewriting

TOUCH = "update orders set updated_at = datetime('now') where id = new.id"


@pytest.mark.parametrize(
    "sql",
    [
        f"create trigger touch after update on orders begin {TOUCH}; end",
        f"CREATE TRIGGER IF NOT EXISTS [touch] AFTER UPDATE OF note ON `Orders` FOR EACH ROW BEGIN {TOUCH}; END",
        'create trigger "update" after insert on orders begin select 1; update or ignore "ORDERS" set n = n + 1; end',
        f"create trigger t after update on orders -- not MSmerge_agent\n begin {TOUCH}; end",
        "create trigger t before insert on orders begin insert or replace into main.orders values (new.id); end",
        "create trigger t after update on orders begin replace into orders values (new.id); end",
    ],
)
def test_a_trigger_that_writes_to_its_own_table_rewrites(sql: str) -> None:
    assert is_rewriting(sql, "orders")


@pytest.mark.parametrize(
    "sql",
    [
        f"create trigger t after update on orders when not exists (select 1 from MSmerge_agent) begin {TOUCH}; end",
        f"create trigger t after delete on orders begin {TOUCH}; end",
        "create trigger t after update on orders begin insert into log select 'update orders'; end",
        "create trigger t after update on orders begin insert into log values (1) on conflict do update set n = 2; end",
        "create trigger t after update on orders begin select raise(abort, 'orders') from orders; end",
        "create trigger t after update on orders begin delete from orders where id = 0; end",
    ],
)
def test_a_trigger_that_writes_elsewhere_or_asks_does_not(sql: str) -> None:
    assert not is_rewriting(sql, "orders")
