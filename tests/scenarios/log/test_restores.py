"""What is restored alone, or together, continues or is refused by an error, which the page on backups has a way for."""

from __future__ import annotations

import re
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from itertools import combinations
from pathlib import Path
from typing import Any, LiteralString

import psycopg
import pytest

from builders.commands.command_lines import rowtide
from builders.commands.hints import run_printed
from fixtures.servers import SETTINGS
from rowtide.cdc.errors.capturing import LakeOfAnotherHistory
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.handle import connect
from rowtide.replication.errors.delivery import SubscriberOfAnotherHistory

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "back-up-and-restore.md"
RUNS = (("cdc", "run", "--once"), ("replication", "run", "--once"))
PARTS = ("database", "log", "lake", "subscriber")
COMBINATIONS = [chosen for size in range(1, len(PARTS) + 1) for chosen in combinations(PARTS, size)]
AN_HOUR_AGO = "strftime('%Y-%m-%d %H:%M:%f', 'now', '-1 hour')"
MOST_COMMANDS = 6


def ways() -> dict[int, tuple[str, ...]]:
    """Return the command that follows each error, by the page's table."""
    rows = re.findall(r"^\| (RT-[^|]*)\|[^|]*\| `rowtide ([^`]*)`", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return {int(number): tuple(way.split()) for numbers, way in rows for number in re.findall(r"RT-(\d+)", numbers)}


class Shop:
    """A captured and published table, whose parts are backed up and restored while the server is stopped."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.places = {"database": folder / "server", "log": folder / "log", "lake": folder / "lake"}
        self.places["subscriber"] = folder / "subscriber" / "copy.db"
        self.places["subscriber"].parent.mkdir(parents=True)
        self.start()

    def start(self) -> None:
        self.server = EmbeddedServer.start(self.places["database"], settings=SETTINGS)
        self.session = psycopg.connect(self.server.url(), autocommit=True)

    def stop(self) -> None:
        self.session.close()
        self.server.stop()

    def execute(self, *statements: LiteralString) -> list[tuple[Any, ...]]:
        cursor = self.session.cursor()
        for statement in statements:
            cursor.execute(statement)
        return cursor.fetchall() if cursor.description else []

    def command(self, *words: str) -> str:
        """Run a command that has to succeed; return what it said."""
        ended = rowtide(*words, "--db", self.server.url())
        assert ended.code == 0, (words, ended)
        return ended.errors

    def run(self) -> None:
        for words in RUNS:
            self.command(*words)

    def back_up(self, name: str) -> None:
        self.stop()
        for part, place in self.places.items():
            self._copy(place, self.folder / "backups" / name / part)
        self.start()

    def restore(self, name: str, parts: tuple[str, ...]) -> None:
        self.stop()
        for part in parts:
            place = self.places[part]
            subprocess.run(["rm", "-rf", place, f"{place}-wal", f"{place}-shm"], check=True)
            self._copy(self.folder / "backups" / name / part, place)
        self.start()

    @staticmethod
    def _copy(source: Path, to: Path) -> None:
        to.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cp", "--archive", source, to], check=True)

    def delivered(self) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.places["subscriber"])) as session:
            return session.execute("select id, qty from item order by id").fetchall()

    def captured(self) -> list[tuple[Any, ...]]:
        """The table as of the last published LSN: the copied rows, and the change rows after them."""
        output = rowtide("cdc", "as-of", "public_item", "--format", "csv", "--db", self.server.url())
        assert output.code == 0, output
        return sorted(tuple(map(int, line.split(",")[-2:])) for line in output.output.splitlines()[1:])

    def age_last_batch(self) -> None:
        """A restore takes longer than a test."""
        with closing(sqlite3.connect(self.places["subscriber"], isolation_level=None)) as session:
            session.execute(f"update MSreplication_subscriptions set time = {AN_HOUR_AGO}")

    def run_by_page(self) -> list[int]:
        """Run, and after each error what the page says; return the errors' numbers."""
        said: list[int] = []
        for _ in range(MOST_COMMANDS):
            ended = [rowtide(*words, "--db", self.server.url()) for words in RUNS]
            errors = re.findall(r"RT-(\d+): ", "".join(one.errors for one in ended if one.code))
            assert bool(errors) == any(one.code for one in ended), ended
            if not errors:
                return said
            number = int(errors[0])
            said.append(number)
            way = ways()[number]
            confirmed = ("--yes",) if way[:2] != ("replication", "reinitialize") else ()
            ended_way = rowtide(*way, *confirmed, "--db", self.server.url())
            said += [int(found) for found in re.findall(r"RT-(\d+): ", ended_way.errors) if ended_way.code]
            if ended_way.code:
                self.command(*ways()[said[-1]], "--yes")
        raise AssertionError(said)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """The parts as of two times, `earlier` and `later`."""
    shop = Shop(tmp_path_factory.mktemp("restores"))
    places = {part: str(place) for part, place in shop.places.items()}
    shop.execute("create table item (id int primary key, qty int)", "insert into item values (1, 1), (2, 2)")
    shop.command("cdc", "enable-db", "--lake", places["lake"], "--log-store", places["log"])
    shop.command("cdc", "enable-table", "item", "--snapshot")
    shop.command("replication", "add-publication", "shop")
    shop.command("replication", "add-article", "shop", "item")
    shop.command("replication", "add-subscription", "shop", "--subscriber", f"sqlite:///{places['subscriber']}")
    shop.run()
    shop.execute("insert into item values (3, 3)")
    shop.run()
    shop.age_last_batch()
    shop.back_up("earlier")
    shop.execute("insert into item values (4, 4)", "update item set qty = 10 where id = 1")
    shop.execute("delete from item where id = 2")
    shop.run()
    shop.age_last_batch()
    shop.back_up("later")
    yield shop
    shop.stop()


def restore(shop: Shop, parts: tuple[str, ...]) -> None:
    """Restore parts to the earlier state, the others to the later, and go on: more than was written between the two."""
    shop.restore("later", tuple(part for part in PARTS if part not in parts))
    shop.restore("earlier", parts)
    shop.execute(*(f"insert into item values ({number}, {number})" for number in range(20, 30)))


def require_right(shop: Shop) -> None:
    """The subscriber and the lake have the table as it is, and what is written next."""
    assert shop.delivered() == shop.execute("select id, qty from item order by id")
    shop.execute("insert into item values (100, 100)", "update item set qty = 5 where id = 3")
    shop.run()
    rows = shop.execute("select id, qty from item order by id")
    assert shop.delivered() == rows
    assert shop.captured() == rows


def test_the_errors_of_other_histories_name_the_way(shop: Shop) -> None:
    restore(shop, ("database", "log"))
    url = shop.server.url()
    with pytest.raises(LakeOfAnotherHistory) as lake:
        connect(url).cdc.run(once=True)
    with pytest.raises(SubscriberOfAnotherHistory) as subscriber:
        connect(url).replication.run(once=True)
    run_printed(lake.value, url)
    run_printed(subscriber.value, url, PUBLICATION="shop")
    shop.run()
    require_right(shop)


@pytest.mark.parametrize(
    ("parts", "numbers"),
    [
        pytest.param(("database", "log", "lake"), [1182], id="all but the subscriber"),
        pytest.param(("lake",), [4106, 7117], id="the lake"),
    ],
)
def test_what_is_behind_is_noticed_and_mended(shop: Shop, parts: tuple[str, ...], numbers: list[int]) -> None:
    restore(shop, parts)
    assert shop.run_by_page() == numbers
    require_right(shop)


@pytest.mark.exhaustive
@pytest.mark.parametrize("parts", COMBINATIONS, ids=" and ".join)
def test_each_combination_is_right_by_the_page(shop: Shop, parts: tuple[str, ...]) -> None:
    restore(shop, parts)
    said = shop.run_by_page()
    assert bool(said) == (parts not in (PARTS, ("subscriber",))), said
    require_right(shop)
