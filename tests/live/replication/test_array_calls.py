"""Calls that go at once come to the same as calls one by one; an error names its call all the same."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import pytest

from builders.replication.replicated_databases import ReplicatedDatabase, Subscriber
from rowtide.replication.errors.delivery import CommandRefused, RowNotFound
from rowtide.replication.targets.postgres.delivery import sender

LOOSE = "create table loose (id int primary key, v int)"
ODD_TEXTS = ("", "NULL", "null", '"', "\\", '\\"', "{}", "{1,2}", ",", " a ", "\n", "ä€😀", "'", "$1", None)
TABLES = (
    "create table parents (id int primary key, code text unique, note text)",
    (
        "create table children (a int, b text, parent int references parents deferrable initially deferred, "
        "data bytea, tags text[], at timestamptz, amount numeric(10, 2), primary key (b, a))"
    ),
    (
        "create table loose (id bigint primary key, area box, pair int4range, flag bool, words text, "
        "twice bigint generated always as (id * 2) stored, body text)"
    ),
    "alter table loose alter body set storage external",
)
LONG = "repeat(md5({key}::text), 100)"
"""A value that is stored out of line, and is not logged where it does not change."""


def array_procedures(subscriber: Subscriber) -> list[str]:
    """Return the names of the array procedures at a subscriber."""
    rows = subscriber.execute(
        "select proname::text from pg_proc where pronamespace = 'rowtide_subscriber'::regnamespace "
        "and proname like 'sp\\_MS___array\\_%'"
    )
    return [name for (name,) in rows]


def count_array_calls(subscriber: Subscriber) -> int:
    """Return how many calls of array procedures a subscriber has counted."""
    return count_calls(subscriber, "sp\\_MS___array\\_%")


def count_calls(subscriber: Subscriber, pattern: str = "%loose") -> int:
    """Return how many calls of generated procedures a subscriber has counted."""
    (row,) = subscriber.execute(
        "select coalesce(sum(calls), 0)::int from pg_stat_user_functions "
        f"where schemaname = 'rowtide_subscriber' and funcname like '{pattern}'"
    )
    return int(row[0])


@pytest.fixture
def counted(replicated: ReplicatedDatabase) -> ReplicatedDatabase:
    """A subscriber that counts the calls of its procedures."""
    (row,) = replicated.subscriber.execute("select current_database()")
    replicated.subscriber.execute(f'alter database "{row[0]}" set track_functions = "all"')
    return replicated


def literal(value: str | None) -> str:
    return "null" if value is None else "'" + value.replace("'", "''") + "'"


def random_history(chance: random.Random, steps: int) -> Iterator[str]:
    """Yield statements, most of which change rows; some are refused at the publisher, and leave no trace."""

    def text() -> str:
        return literal(chance.choice(ODD_TEXTS))

    def key() -> int:
        return chance.randrange(12)

    kinds: list[Callable[[], str]] = [
        lambda: f"insert into parents select {key()} + i, 'c' || {key()} + i, {text()} from generate_series(0, 3) i",
        lambda: (
            f"insert into children select i, coalesce({text()}, 'x'), (select min(id) from parents), "
            f"'\\x00{key():02d}5c', array[{text()}, 'a', {text()}], now(), {key()} / 3.0 "
            f"from generate_series({key()}, {key()} + 4) i"
        ),
        lambda: (
            "insert into loose (id, area, pair, flag, words, body) "
            f"select i, '(1,2),(3,{key()})', '[1,{key() + 1}]', i % 2 = 0, {text()}, {LONG.format(key=key())} "
            f"from generate_series({key()}, {key()} + 4) i"
        ),
        lambda: f"update parents set note = {text()}",
        lambda: f"update parents set code = 'c' || {key() * 2} where id = {key()}",
        lambda: f"update parents set id = id + 100 where id > {key()} and id < 50",
        lambda: f"update children set parent = (select max(id) from parents), tags = array[{text()}] where a < {key()}",
        lambda: f"update children set a = a + 1000, b = b || 'k' where a = {key()} and length(b) < 9",
        lambda: f"update loose set words = {text()}, area = null where id % 3 = {key() % 3}",
        lambda: f"update loose set body = {LONG.format(key=key())}, flag = not flag where id % 4 = {key() % 4}",
        lambda: f"update loose set flag = null where id < {key()}",
        lambda: f"update loose set id = id + 1000 where id = {key()}",
        lambda: f"delete from loose where id % 5 = {key() % 5}",
        lambda: f"delete from children where a = {key()}",
        lambda: f"delete from parents where id = {key()}",
        lambda: "truncate loose",
    ]
    weights = [3] * (len(kinds) - 1) + [1]
    for _ in range(steps):
        yield chance.choices(kinds, weights)[0]()


@pytest.fixture
def small_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inserts of a few rows by COPY."""
    monkeypatch.setattr(sender, "FEWEST_AS_COPY", 2)


@pytest.mark.usefixtures("small_copies")
@pytest.mark.parametrize("seed", range(4))
def test_random_histories_agree_with_array_and_single_calls(
    counted: ReplicatedDatabase, second_subscriber: Subscriber, seed: int
) -> None:
    replicated, chance = counted, random.Random(seed)
    second_subscriber.execute(*TABLES)
    replicated.subscriber.execute(*TABLES)
    replicated.publish(*TABLES, parents={}, children={}, loose={})
    replicated.subscribe()
    replicated.subscribe(subscriber=second_subscriber)
    for name in array_procedures(second_subscriber):
        second_subscriber.execute(f'drop procedure rowtide_subscriber."{name}"')
    replicated.publisher.execute(
        "create procedure attempt(what text) language plpgsql as $$ begin execute what; "
        "set constraints all immediate; exception when integrity_constraint_violation then end $$"
    )
    for statement in random_history(chance, 200):
        replicated.publisher.session.execute("call attempt(%s)", [statement])
    replicated.deliver()

    replicated.require_equal("parents", "children", "loose")
    for table in ("parents", "children", "loose"):
        query = f"select t::text from {table} t order by 1"
        assert second_subscriber.execute(query) == replicated.subscriber.execute(query)
    assert count_array_calls(replicated.subscriber) > 10


@pytest.mark.exhaustive
def test_missing_row_in_a_run_is_named_and_the_run_rolled_back(
    replicated: ReplicatedDatabase,
) -> None:
    replicated.begin(LOOSE, loose={})
    replicated.publisher.execute("insert into loose select i, 0 from generate_series(1, 50) i")
    replicated.deliver()
    replicated.subscriber.execute("delete from loose where id = 33")
    replicated.publisher.execute("update loose set v = 1")
    for _ in range(2):
        with pytest.raises(RowNotFound, match="key id = 33 of public.loose .* applying update"):
            replicated.deliver()
    assert replicated.subscriber.execute("select count(*) from loose where v = 1") == [(0,)]

    replicated.subscriber.execute("insert into loose values (33, 0)")
    replicated.deliver()
    replicated.require_equal("loose")


def test_refused_run_continues_after_the_batches_before_it(replicated: ReplicatedDatabase) -> None:
    replicated.begin(LOOSE, loose={})
    replicated.subscriber.execute("insert into loose values (7, 0)")
    replicated.publisher.execute(
        "insert into loose select 1000 + i, 0 from generate_series(1, 1000) i",
        "insert into loose select i, 0 from generate_series(1, 20) i",
        "insert into loose values (2001, 0)",
    )
    with pytest.raises(CommandRefused, match=r"refused insert of public.loose with key id = 7 .23505."):
        replicated.deliver()
    # What is delivered again one by one is committed in smaller batches.
    assert replicated.subscriber.execute("select count(*) from loose") == [(1001,)]

    replicated.subscriber.execute("delete from loose where id = 7")
    replicated.deliver()
    replicated.require_equal("loose")


def test_run_that_one_statement_cannot_apply_is_applied_by_call(replicated: ReplicatedDatabase) -> None:
    replicated.begin("create table loose (id int primary key, v int unique)", loose={})
    replicated.publisher.execute("insert into loose select i, i from generate_series(1, 5) i")
    replicated.deliver()
    with replicated.writer() as writer:
        # At once, the second row's value is there already, in the third.
        for key, value in ((3, 9), (2, 3), (1, 2), (4, 40)):
            writer.execute("update loose set v = %s where id = %s", [value, key])
    replicated.deliver()

    replicated.require_equal("loose")


def test_many_rows_are_inserted_without_any_call(counted: ReplicatedDatabase) -> None:
    counted.begin(LOOSE, loose={})
    counted.publisher.execute("insert into loose select i, nullif(i % 3, 0) from generate_series(1, 2000) i")
    counted.deliver()

    counted.require_equal("loose")
    assert count_calls(counted.subscriber) == 0


@pytest.mark.usefixtures("small_copies")
@pytest.mark.parametrize(
    "at_the_subscriber",
    [
        "alter table loose alter v type bigint",
        'alter procedure rowtide_subscriber."sp_MSins_publicloose" set work_mem = 64',
    ],
)
def test_rows_are_inserted_by_calls_where_copy_could_differ(
    counted: ReplicatedDatabase, at_the_subscriber: str
) -> None:
    counted.begin(LOOSE, loose={})
    counted.subscriber.execute(at_the_subscriber)
    counted.publisher.execute("insert into loose select i, i from generate_series(1, 5) i")
    counted.deliver()

    assert counted.subscriber.execute("select sum(v)::int from loose") == [(15,)]
    assert count_calls(counted.subscriber) > 0


@pytest.mark.usefixtures("small_copies")
def test_refused_row_of_many_is_named_and_the_rest_rolled_back(replicated: ReplicatedDatabase) -> None:
    replicated.begin(LOOSE, loose={})
    replicated.subscriber.execute("insert into loose values (7, 0)")
    replicated.publisher.execute("insert into loose select i, 0 from generate_series(1, 20) i")
    with pytest.raises(CommandRefused, match=r"refused insert of public.loose with key id = 7 .23505."):
        replicated.deliver()
    assert replicated.subscriber.execute("select count(*) from loose") == [(1,)]

    replicated.subscriber.execute("delete from loose where id = 7")
    replicated.deliver()
    replicated.require_equal("loose")


def test_many_updates_of_a_row_arrive_as_one(counted: ReplicatedDatabase) -> None:
    counted.begin("create table loose (id int primary key, v int, w text)", loose={})
    counted.publisher.execute("insert into loose select i, i, 'w' from generate_series(1, 5) i")
    counted.deliver()
    for number in range(30):
        what = "v = v + 1" if number % 3 else f"w = w || '{number}'"
        counted.publisher.execute(f"update loose set {what} where id % 2 = 1")
    before = count_calls(counted.subscriber)
    counted.deliver()

    counted.require_equal("loose")
    assert count_calls(counted.subscriber) - before == 1


@pytest.mark.parametrize(
    "at_the_subscriber",
    [
        (
            "create function f() returns trigger language plpgsql as $$ begin return null; end $$; "
            "create trigger f after insert on loose for each statement execute function f()"
        ),
        "create rule r as on insert to loose do also notify loose",
        "alter table loose enable row level security",
        (
            "create function g(int) returns bool language sql immutable as 'select true'; "
            "alter table loose add check (g(v))"
        ),
        "alter procedure rowtide_subscriber.\"sp_MSins_publicloose\" set work_mem = '4MB'",
        'drop procedure rowtide_subscriber."sp_MSinsarray_publicloose"',
    ],
)
def test_calls_go_one_by_one_where_somebody_could_tell(counted: ReplicatedDatabase, at_the_subscriber: str) -> None:
    counted.begin(LOOSE, loose={})
    counted.subscriber.execute(at_the_subscriber)
    counted.publisher.execute("insert into loose select i, 0 from generate_series(1, 50) i")
    counted.deliver()

    counted.require_equal("loose")
    assert count_array_calls(counted.subscriber) == 0


def test_an_edited_procedure_is_called_for_each_row(counted: ReplicatedDatabase) -> None:
    counted.begin(LOOSE, loose={})
    counted.subscriber.execute(
        'create or replace procedure rowtide_subscriber."sp_MSins_publicloose"(c1 int, c2 int) language sql '
        "as 'insert into loose values (c1, c2 * 10)'"
    )
    counted.publisher.execute("insert into loose select i, i from generate_series(1, 50) i")
    counted.deliver()

    assert counted.subscriber.execute("select sum(v)::int from loose") == [(sum(range(51)) * 10,)]
