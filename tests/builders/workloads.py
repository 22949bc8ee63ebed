"""Random transactions over two tables, and what they did, written by triggers in the same transactions.

A trigger also notes which capture instances its table has: enabling and disabling wait for the table's writers, so
that is what the whole transaction belongs to.
"""

from __future__ import annotations

import random
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType

import psycopg
from psycopg import errors

TABLES = ("public.account", "public.entry")
COLUMNS = {"public_account": ("id", "balance"), "public_entry": ("account", "amount")}

ChangeRow = tuple[int, int, str, tuple[object, ...]]
"""seqval, operation, capture instance, values."""

History = dict[int, list[ChangeRow]]
"""The change rows of each transaction, by its id, in order."""

_SETUP = """
create table account (id int primary key, balance int not null);
create table entry (account int, amount int);
create table history (
    number bigserial,
    xid bigint not null default pg_current_xact_id()::text::bigint,
    instance text not null,
    members text[] not null,
    old_values int[],
    new_values int[]
);
create function remember_account() returns trigger language plpgsql as $$
begin
    insert into history (instance, members, old_values, new_values) values (
        'public_account',
        array(select member_id from rowtide.members where source_table_id = tg_relid::bigint),
        case when tg_op <> 'INSERT' then array[old.id, old.balance] end,
        case when tg_op <> 'DELETE' then array[new.id, new.balance] end);
    return null;
end $$;
create function remember_entry() returns trigger language plpgsql as $$
begin
    insert into history (instance, members, old_values, new_values) values (
        'public_entry',
        array(select member_id from rowtide.members where source_table_id = tg_relid::bigint),
        case when tg_op <> 'INSERT' then array[old.account, old.amount] end,
        case when tg_op <> 'DELETE' then array[new.account, new.amount] end);
    return null;
end $$;
create trigger remember after insert or update or delete on account
    for each row execute function remember_account();
create trigger remember after insert or update or delete on entry
    for each row execute function remember_entry();
"""
_STATEMENTS = (
    "insert into account select n, 100 from generate_series(%(a)s, %(a)s + 2) n on conflict do nothing",
    "update account set balance = balance + %(b)s where id between %(a)s and %(a)s + 3",
    "update account set id = id + 100000 where id = %(a)s",
    "delete from account where id between %(a)s and %(a)s + 1",
    "insert into entry values (%(a)s, %(b)s), (%(b)s, %(a)s)",
    "update entry set amount = amount + 1 where account = %(a)s",
    "delete from entry where account = %(b)s",
)
_PAUSE_S = 0.04
_WRITERS = 2


def make_tables(connection: psycopg.Connection[tuple[object, ...]]) -> None:
    """Make the tables and their triggers."""
    connection.execute(_SETUP)


class Workload:
    """Writers that run until the context ends; some of their transactions roll back, wholly or to a savepoint.

    One that loses its connection continues with another: whether the commit in hand took place, the history knows.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._stop = threading.Event()
        self._failures: list[BaseException] = []
        self._threads = [threading.Thread(target=self._write, args=(seed,)) for seed in range(_WRITERS)]

    def __enter__(self) -> Workload:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Let the writers finish; raise what stopped one early."""
        self._stop.set()
        for thread in self._threads:
            thread.join()
        if self._failures:
            raise self._failures[0]

    def _write(self, seed: int) -> None:
        chosen = random.Random(seed)
        try:
            while not self._stop.wait(_PAUSE_S):
                self._write_while_connected(chosen)
        except psycopg.Error as error:
            self._failures.append(error)

    def _write_while_connected(self, chosen: random.Random) -> None:
        try:
            with psycopg.connect(self._url) as connection:
                while not self._stop.wait(_PAUSE_S):
                    _run_transaction(connection, chosen)
        except psycopg.OperationalError as error:
            if error.sqlstate is not None and not error.sqlstate.startswith(("08", "57P")):
                raise


def _run_transaction(connection: psycopg.Connection[tuple[object, ...]], chosen: random.Random) -> None:
    try:
        for _ in range(chosen.randint(1, 6)):
            with connection.transaction(force_rollback=chosen.random() < 0.1):
                arguments = {"a": chosen.randrange(300), "b": chosen.randrange(300)}
                connection.execute(chosen.choice(_STATEMENTS), arguments)
        if chosen.random() < 0.1:
            connection.rollback()
        else:
            connection.commit()
    except (errors.DeadlockDetected, errors.UniqueViolation):
        connection.rollback()


def read_history(connection: psycopg.Connection[tuple[object, ...]]) -> History:
    """Return the change rows that the committed transactions should have."""
    history: dict[int, list[ChangeRow]] = defaultdict(list)
    for xid, _, rows in _read_rows(connection):
        history[xid] += rows
    return dict(history)


def read_histories(connection: psycopg.Connection[tuple[object, ...]]) -> dict[str, History]:
    """Return the change rows that each capture instance should have, by its member id."""
    histories: dict[str, dict[int, list[ChangeRow]]] = defaultdict(lambda: defaultdict(list))
    for xid, members, rows in _read_rows(connection):
        for member in members:
            histories[member][xid] += rows
    return {member: dict(history) for member, history in histories.items()}


def _read_rows(
    connection: psycopg.Connection[tuple[object, ...]],
) -> Iterator[tuple[int, Sequence[str], Sequence[ChangeRow]]]:
    """Yield transaction, capture instances and change rows of each row that the log has."""
    rows = connection.execute("select xid, instance, members, old_values, new_values from history order by xid, number")
    seqvals: dict[int, int] = defaultdict(int)
    for xid, instance, members, old, new in rows:
        assert isinstance(xid, int)
        assert isinstance(members, list)
        if members:
            seqvals[xid] += 1
            yield xid, members, list(_change_rows(seqvals[xid], str(instance), old, new))


def _change_rows(seqval: int, instance: str, old: object, new: object) -> Iterable[ChangeRow]:
    before, after = _values(old), _values(new)
    is_move = instance == "public_account" and before[:1] != after[:1]
    if before and (is_move or not after):
        yield seqval, 1, instance, before
    if after and (is_move or not before):
        yield seqval, 2, instance, after
    if before and after and not is_move:
        yield seqval, 3, instance, before
        yield seqval, 4, instance, after


def _values(values: object) -> tuple[object, ...]:
    return tuple(values) if isinstance(values, list) else ()
