"""Three databases that each publish to both others: random changes at all, agents that are killed; one state."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import psycopg
import pytest

from builders.capture.capture_processes import DELIVERY, CaptureProcess
from builders.replication.peers import Peer, deliver_until_quiet
from fixtures.replicated import open_peers
from fixtures.servers import SETTINGS
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.replication.conflicts import Resolver
from rowtide.replication.subscription_settings import SubscriptionSettings

TYPES = (
    "create type mood as enum ('low', 'high')",
    "create domain tag as text check (value <> '')",
)
ITEMS = """create table items (
    id int primary key, n int, note text,
    code int unique,
    slot int unique deferrable initially deferred,
    mood mood, tags tag[],
    unique nulls not distinct (mood, tags))"""
UNIQUE = (
    "create unique index on items ((n % 7)) where note = 'new'",
    "create unique index on items ((tags[1])) where mood is not null",
    "create unique index on items (lower(note), code)",
)
"""At two of the databases what a third one has is refused, unless the earlier one of two rows gives way.

Values are null as often as not.
"""
LAST = SubscriptionSettings(conflicts=Resolver.LAST_COMMIT_TIME)
KEYS = 12
KILLED_AT = ("subscriber_commit.before", "subscriber_commit.after", "reader_advance.after")


@pytest.fixture(params=[18, 16])
def three(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Peer, ...]]:
    """Three databases of one server with the same rows; each has the others' changes."""
    settings = {**SETTINGS, "track_commit_timestamp": "on"}
    if request.param == 18:
        settings["max_active_replication_origins"] = "32"
    with (
        EmbeddedServer.start(tmp_path / "server", version=request.param, settings=settings) as server,
        open_peers(server, tmp_path, 3) as peers,
    ):
        for peer in peers:
            peer.execute(
                *TYPES,
                ITEMS,
                *UNIQUE,
                "insert into items (id, n, note, tags) "
                f"select i, 0, 'first', array[i::text] from generate_series(1, {KEYS // 2}) i",
            )
            peer.publish("items")
        for peer in peers:
            for other in peers:
                if other is not peer:
                    peer.subscribe(other, settings=LAST, forward=False)
        yield peers


def change(random: Random, peer: Peer, number: int) -> None:
    """Run a random transaction at a database; one that it refuses changes nothing."""
    with suppress(psycopg.errors.UniqueViolation), peer.transaction() as writing:
        for _ in range(random.randint(1, 3)):
            key, other = random.randint(1, KEYS), random.randint(1, KEYS)
            match random.randint(0, 13):
                case 0 | 1 | 2:
                    writing.execute(
                        "insert into items values (%s, %s, 'new', %s, %s, %s, %s) on conflict (id) do nothing",
                        [key, number, *unique_values(random)],
                    )
                case 3 | 4 | 5:
                    writing.execute("update items set n = %s where id in (%s, %s)", [number, key, other])
                case 6 | 7:
                    writing.execute("delete from items where id = %s", [key])
                case 8:
                    writing.execute("update items set id = %s, n = %s where id = %s", [other, number, key])
                case 9 | 10:
                    writing.execute(
                        "update items set code = %s, slot = %s, mood = %s, tags = %s where id = %s",
                        [*unique_values(random), key],
                    )
                case 11:
                    # What a deferrable index allows: two rows exchange their values.
                    writing.execute(
                        "update items i set slot = o.slot from items o "
                        "where i.id <> o.id and array[i.id, o.id] <@ %s::int[]",
                        [[key, other]],
                    )
                case 12 if random.random() < 0.2:
                    writing.execute("truncate items")
                case _:
                    writing.execute("update items set note = repeat(md5(%s::text), 200) where id = %s", [number, key])


def unique_values(random: Random) -> tuple[int | None, int | None, str | None, list[str | None] | None]:
    """Return a code, a slot, a mood and tags."""
    code, slot = (random.choice([None, *range(KEYS)]) for _ in range(2))
    some: list[list[str | None] | None] = [None, [None], [str(random.randint(1, KEYS))], ["a", None]]
    return code, slot, random.choice([None, None, "low", "high"]), random.choice(some)


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", [1, 2, 28])
def test_three_databases_come_to_one_state(three: tuple[Peer, ...], tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    for number in range(120):
        change(random, random.choice(three), number)
        if random.random() < 0.2:
            random.choice(three).deliver()
        if number % 30 == 29:
            peer = random.choice(three)
            row = f"({1000 + number}, 0, 'sent', array['{number}'])"
            peer.execute(f"insert into items (id, n, note, tags) values {row}")
            with CaptureProcess(peer.url, tmp_path, DELIVERY) as process:
                process.arm(random.choice(KILLED_AT))
                process.wait_killed()
    deliver_until_quiet(three)

    first, *others = [peer.rows("items") for peer in three]

    assert others == [first, first]
