"""A small table, and changes of its schema that a subscriber can follow."""

from __future__ import annotations

ORDERS = "create table orders (id int primary key, customer text, total int)"
ROWS = "insert into orders values (1, 'ada', 10), (2, null, 20)"
CHANGES = {
    "added": ("alter table orders add column note text",),
    "added with a default": ("alter table orders add column status text not null default 'o''pen'",),
    "added with a default of the moment": ("alter table orders add column at timestamptz default now()",),
    "several added": ("alter table orders add column a int default 7, add column b date",),
    "dropped": ("alter table orders drop column customer",),
    "renamed": ("alter table orders rename column customer to buyer",),
    "swapped": (
        "alter table orders rename column customer to x",
        "alter table orders rename column id to customer",
        "alter table orders rename column x to id",
    ),
}
"""Changes that are followed whether an event trigger reports them or not."""
