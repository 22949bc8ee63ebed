"""What commits while a table is copied, at the worst moments: the copy and the log together have each row once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from builders.capture.captured_databases import CapturedDatabase, wait_until
from builders.faults.waiting_commits import waiting_commit
from builders.lakes.base_tables import base_rows, snapshots_of
from fixtures.captured import open_copied
from fixtures.servers import fresh_database
from rowtide.cdc import system_tables
from rowtide.cdc.capture.capture import Capture
from rowtide.cdc.ddl import retyping
from rowtide.cdc.published import BASE_SUFFIX
from rowtide.cdc.snapshots import chunk_copies
from rowtide.cdc.snapshots.chunk_copies import CopyLimits
from rowtide.cdc.snapshots.runner import SnapshotRunner
from rowtide.cdc.snapshots.table_copy import TableCopy
from rowtide.copying import source
from rowtide.copying.chunks import locking_name
from rowtide.core.tables import BeforeImages
from rowtide.lake import tables

if TYPE_CHECKING:
    from rowtide.databases.postgres.embedded import EmbeddedServer

SMALL = CopyLimits(chunk_bytes=16 * 1024, workers=1)
ROWS = 1500
EMPTIED = ("truncate orders", f"insert into orders values (1, 'first'), ({ROWS}, 'last')")
MOVED = (
    f"update orders set id = {ROWS + 1} where id = 1",
    f"update orders set id = 0 where id = {ROWS}",
    f"update orders set customer = 'new' where id in (2, {ROWS - 1})",
    f"delete from orders where id in (3, {ROWS - 2})",
    f"insert into orders values (-1, 'low'), ({ROWS + 2}, 'high')",
)


def make_orders(copied: CapturedDatabase, key: str = "primary key") -> None:
    copied.execute(
        f"create table orders (id int {key}, customer text)",
        f"insert into orders select i, 'customer ' || i from generate_series(1, {ROWS}) i",
    )


def commit(copied: CapturedDatabase, *statements: str) -> None:
    """Commit statements as one transaction of another session."""
    with psycopg.connect(copied.url) as session:
        for statement in statements:
            session.execute(statement.encode())


def copy(copied: CapturedDatabase) -> None:
    with copied.open_snapshots(SMALL) as runner:
        while runner.step():
            runner.wait(0.02)
    copied.capture()


def require_equal(copied: CapturedDatabase) -> None:
    found = copied.cdc.stream_table_as_of("public_orders").to_arrow().read_all().select(["id", "customer"])
    rows = copied.execute("select id, customer from orders")
    assert sorted(tuple(row.values()) for row in found.to_pylist()) == sorted(rows)


@contextmanager
def waiting_for_lock(copied: CapturedDatabase, *statements: str) -> Iterator[None]:
    """Commit statements, of which one waits for a lock that the block holds."""
    writer = threading.Thread(target=commit, args=(copied, *statements))
    writer.start()
    try:
        waiting = "select count(*) from pg_locks where not granted and relation = 'orders'::regclass"
        with psycopg.connect(copied.url, autocommit=True) as watching:
            wait_until(lambda: watching.execute(waiting).fetchone() == (1,), what="the lock is waited for")
        yield
    finally:
        writer.join()


Place = Callable[[pytest.MonkeyPatch, Callable[[], None]], None]


def when_locking(patch: pytest.MonkeyPatch, act: Callable[[], None]) -> None:
    """Act once a chunk's transaction has begun, before it has its lock."""

    def lock(*names: str, is_partitioned: bool) -> str:
        act()
        return locking_name(*names, is_partitioned=is_partitioned)

    patch.setattr(source, "locking_name", lock)


def when_read(patch: pytest.MonkeyPatch, act: Callable[[], None]) -> None:
    """Act once a chunk is read, before the lake has it."""

    def passed(name: str) -> None:
        if name == "base_chunk.before":
            act()

    patch.setattr(chunk_copies, "failpoint", passed)


def on_call(number: int, act: Callable[[], object]) -> Callable[[], None]:
    """Return what acts the n-th time that it is called."""
    calls = iter(range(1, 1 << 20))

    def called() -> None:
        if next(calls) == number:
            act()

    return called


@pytest.mark.exhaustive
@pytest.mark.parametrize("statements", [EMPTIED, MOVED], ids=["truncate", "changes of keys"])
@pytest.mark.parametrize("chunk", [1, 2])
@pytest.mark.parametrize("place", [when_locking, when_read])
def test_a_commit_beside_a_chunk_is_in_the_table(
    copied: CapturedDatabase, monkeypatch: pytest.MonkeyPatch, place: Place, chunk: int, statements: tuple[str, ...]
) -> None:
    make_orders(copied)
    copied.enable("orders", snapshot=True)
    copied.capture()
    happened: list[int] = []

    def act() -> None:
        commit(copied, *statements)
        happened.append(chunk)

    with monkeypatch.context() as patch:
        place(patch, on_call(chunk, act))
        copy(copied)

    assert happened == [chunk]
    (snapshot,) = snapshots_of(copied, "public_orders")
    assert snapshot.definition.of_chunks > 2
    require_equal(copied)


@pytest.mark.exhaustive
@pytest.mark.parametrize("key", ["primary key", ""], ids=["keyed", "without key"])
def test_a_truncate_that_waits_for_a_chunk_is_in_the_table(
    copied: CapturedDatabase, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    make_orders(copied, key)
    copied.enable("orders", snapshot=True)
    copied.capture()
    take = TableCopy.take

    with ExitStack() as waiting, monkeypatch.context() as patch:
        begins = on_call(1, lambda: waiting.enter_context(waiting_for_lock(copied, *EMPTIED)))

        def take_late(copy_of: TableCopy, chunk: int, rows: int) -> None:
            begins()
            take(copy_of, chunk, rows)

        patch.setattr(TableCopy, "take", take_late)
        copy(copied)
    copied.capture()
    require_equal(copied)


@pytest.mark.exhaustive
@pytest.mark.parametrize("key", ["primary key", ""], ids=["keyed", "without key"])
def test_a_commit_that_stays_invisible_is_in_the_table(
    server_with_standby: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    """It is in the log before the first chunk is read, and visible only after the last one."""
    with fresh_database(server_with_standby) as url, open_copied(url, tmp_path / "lake") as copied:
        make_orders(copied, key)
        copied.enable("orders", snapshot=True)
        copied.capture()
        with ExitStack() as late, monkeypatch.context() as patch:
            when_locking(patch, on_call(1, lambda: late.enter_context(waiting_commit(copied, "; ".join(MOVED)))))
            copy(copied)
            assert copied.execute("select count(*) from orders where id = -1") == [(0,)]
        require_equal(copied)


@pytest.mark.exhaustive
def test_an_open_writer_is_in_the_copy_or_in_the_log(copied: CapturedDatabase) -> None:
    """Nothing keeps writers from a table while it is enabled: its replica identity stays as it is."""
    make_orders(copied)
    copied.enable()
    with ThreadPoolExecutor(1) as pool:
        with copied.transaction() as writer:
            writer.execute("insert into orders values (-1, 'before')")
            enabling = pool.submit(copied.cdc.enable_table, "orders", before_images=BeforeImages.KEY)
            in_publication = "select count(*) from pg_publication_rel where prrelid = 'orders'::regclass"
            wait_until(
                lambda: enabling.done() or copied.execute(in_publication) != [(0,)] or _is_waiting(copied),
                what="the table is being enabled",
            )
            writer.execute("insert into orders values (-2, 'after')")
            writer.commit()
        enabling.result()
    copied.capture()
    copy(copied)
    require_equal(copied)


@dataclass(frozen=True)
class Copying:
    """A table that is about to be copied, and the process that copies and captures it."""

    copied: CapturedDatabase
    capture: Capture
    runner: SnapshotRunner

    def alter(self) -> None:
        self.copied.execute(
            "alter table orders alter customer type numeric(14,2)",
            "update orders set customer = 5000000000.25 where id = 7",
        )

    def capture_all(self) -> None:
        self.copied.read_log(target := self.copied.mark())
        self.copied.capture_by(self.capture, target)

    def plan(self) -> None:
        """Go on until the base table is there, and the snapshot is planned."""

        def is_planned() -> bool:
            return self.runner.step() and bool(snapshots_of(self.copied, "public_orders"))

        wait_until(is_planned, what="the snapshot is planned")

    def has_copied(self) -> bool:
        return base_rows(self.copied, "public_orders", "id") != []


def before_the_base_table(patch: pytest.MonkeyPatch, copying: Copying) -> None:
    """Capture follows the alteration between the look at the instances and the base table."""
    act, ensure = on_call(1, copying.capture_all), tables.ensure_table

    def ensure_late(path: str, *arguments: Any, **options: Any) -> None:
        if path.endswith(BASE_SUFFIX):
            act()
        ensure(path, *arguments, **options)

    patch.setattr(tables, "ensure_table", ensure_late)
    copying.alter()
    copying.plan()


def behind_the_base_table(patch: pytest.MonkeyPatch, copying: Copying) -> None:
    """Capture follows the alteration once there is a base table, before its types are compared."""
    act, follow = on_call(1, copying.capture_all), retyping.follow_change_table

    def follow_late(*arguments: Any) -> None:
        act()
        follow(*arguments)

    patch.setattr(retyping, "follow_change_table", follow_late)
    copying.alter()
    copying.plan()


def before_the_publication(patch: pytest.MonkeyPatch, copying: Copying) -> None:
    """The base table is made when capture has found none, and has not published the instance with its types."""
    act = on_call(1, copying.plan)

    def passed(name: str) -> None:
        if name == "publication.before":
            act()

    patch.setattr(system_tables, "failpoint", passed)
    copying.alter()
    copying.capture_all()


def between_chunks(_patch: pytest.MonkeyPatch, copying: Copying) -> None:
    """Capture follows the alteration when the copy remembers the base table, and begins again."""
    copying.plan()
    wait_until(lambda: copying.runner.step() and copying.has_copied(), what="a chunk is copied")
    copying.alter()
    copying.capture_all()


@pytest.mark.parametrize(
    "beside", [before_the_base_table, behind_the_base_table, before_the_publication, between_chunks]
)
def test_an_alteration_at_any_moment_of_a_copy_is_in_it(
    copied: CapturedDatabase, monkeypatch: pytest.MonkeyPatch, beside: Callable[[pytest.MonkeyPatch, Copying], None]
) -> None:
    """A copy into a base table of other types than those that capture and source know would never end."""
    copied.execute(
        "create table orders (id int primary key, customer numeric(10,2))",
        f"insert into orders select i, i from generate_series(1, {ROWS}) i",
    )
    copied.enable("orders", snapshot=True)
    copied.capture()
    with copied.open_both(SMALL) as (capture, runner):
        copying = Copying(copied, capture, runner)
        with monkeypatch.context() as patch:
            beside(patch, copying)
        wait_until(lambda: not runner.step(), what="the copy ends")
        copying.capture_all()
    copied.capture()
    require_equal(copied)


def _is_waiting(copied: CapturedDatabase) -> bool:
    return copied.execute("select 1 from pg_stat_activity where wait_event_type = 'Lock' limit 1") != []
