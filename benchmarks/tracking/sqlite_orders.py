"""A table of orders in a SQLite file, and the ways to know what changed in it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rowtide.core.anchors import Anchor
from rowtide.tracking import ChangeTracking, Storage

if TYPE_CHECKING:
    import apsw

SHAPE = (
    "orders (id integer primary key, customer integer not null, amount real not null, status text not null, note text)"
)
_NUMBERS = "with recursive numbers (i) as (select ?1 union all select i + 1 from numbers where i < ?2)"
INSERT = (
    f"{_NUMBERS} insert into orders (id, customer, amount, status, note) "
    "select i, i % 1000, i * 7 % 100000 / 100.0, 'status-' || i % 10, 'note of ' || i from numbers"
)
UPDATE = "update orders set amount = amount + 1 where id between ?1 and ?2"
DELETE = "delete from orders where id between ?1 and ?2"
OPERATIONS = {"insert": INSERT, "update": UPDATE, "delete": DELETE}
"""Statements over the keys from the first to the last."""
ROW_OPERATIONS = {
    "insert": "insert into orders (id, customer, amount, status, note) values (?, ?, ?, ?, ?)",
    "update": "update orders set amount = amount + 1 where id = ?",
    "delete": "delete from orders where id = ?",
}
"""The same of one row: of an order, or of a key."""

_UPDATED_AT = """
alter table orders add column updated_at real;
create index orders_updated_at on orders (updated_at);
create trigger orders_inserted after insert on orders begin
    update orders set updated_at = julianday('now') where id = new.id;
end;
create trigger orders_updated after update of customer, amount, status, note on orders begin
    update orders set updated_at = julianday('now') where id = new.id;
end;
"""


@dataclass(frozen=True, slots=True)
class Way:
    """One way to know what changed: what it does to the file, and around the writes of a driver's connection."""

    name: str
    prepare: Callable[[Path], None]
    recording: Callable[[Any], AbstractContextManager[None]] = nullcontext


def order(key: int) -> tuple[object, ...]:
    """Return a row, as `INSERT` makes it."""
    return key, key % 1000, key * 7 % 100000 / 100, f"status-{key % 10}", f"note of {key}"


def create(path: Path, way: Way) -> None:
    """Make a file with an empty table, where the way is in use."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("pragma journal_mode = wal")
        connection.execute(f"create table {SHAPE}")
    way.prepare(path)


def take_anchor(path: Path) -> Anchor:
    """Return an anchor of what is committed."""
    with closing(sqlite3.connect(path)) as connection, ChangeTracking(connection).changes(["orders"]) as changes:
        return changes.anchor


def _track(storage: Storage, path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        ChangeTracking(connection).enable_tracking("orders", storage=storage)


def _add_updated_at(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(_UPDATED_AT)


def _leave(path: Path) -> None:
    """Do nothing to the file."""


@contextmanager
def _session(connection: apsw.Connection) -> Iterator[None]:
    """Let SQLite's session extension record, and make its changeset: until then all of it is in memory."""
    import apsw

    with closing(apsw.Session(connection, "main")) as session:
        session.attach("orders")
        yield
        session.changeset()


UNTRACKED = Way("untracked", _leave)
IN_ROW = Way("tracked, stamps in the row", partial(_track, Storage.ROW))
BESIDE = Way("tracked, stamps beside it", partial(_track, Storage.SIDE))
SESSION = Way("session extension, of one connection", _leave, _session)
UPDATED_AT = Way("column `updated_at`, no deletes", _add_updated_at)
WAYS = (UNTRACKED, IN_ROW, BESIDE, SESSION, UPDATED_AT)
TRACKED = (IN_ROW, BESIDE)
