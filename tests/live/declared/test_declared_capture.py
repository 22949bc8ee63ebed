"""Capture as it is declared: applied, changed, made again, pruned, and exported as it was."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from builders.capture.captured_databases import LoggedDatabase
from builders.declared_states import actions_of, apply_text, export_text, plan_text
from builders.faults.failpoints import DECLARED_FAILPOINTS
from builders.faults.killed_programs import KILLED, run_program
from fixtures.servers import fresh_database
from rowtide.databases.postgres.connect import open_engine
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.declared import applying
from rowtide.declared.errors import DeclarationImpossible, DeclaredStateChanged, DeclaredTablesMissing
from rowtide.handle import connect
from rowtide.log.errors import LeaseHeld, LogStoreTaken
from rowtide.log.postgres.lease import AdvisoryLease

TABLES = (
    "create table item (id int primary key, name text, price int)",
    "create table buyer (id int primary key, secret text)",
    'create schema "Odd.Schema"',
    'create table "Odd.Schema"."a ""b"".C" (id int primary key)',
)


def declare(lake: Path) -> str:
    return f'''
[cdc]
lake = "{lake}"
widened = "mark"

[cdc.instances.items]
table = "item"
before_images = "key"
widened = "rewrite"

[cdc.instances.buyers]
table = "public.buyer"
columns = ["id"]
supports_net_changes = false
snapshot = false
role_name = "readers"

[cdc.instances.odd]
table = '"Odd.Schema"."a ""b"".C"'
index_name = 'a "b".C_pkey'

[cdc.rules."log.*"]
excluding = ["log.tmp*"]
rows_per_second = 5

[cdc.consumers."the warehouse"]
instances = ["odd", "items"]
limit_hours = 5

[cdc.targets.copy]
instances = ["items"]
path = "{lake.parent}/copy"
kind = "history"
rename = {{ name = "called" }}

[cdc.jobs.cleanup]
retention = 60
'''


@pytest.fixture
def shop(logged: LoggedDatabase) -> LoggedDatabase:
    """A database with tables, of which nothing is captured."""
    logged.execute(*TABLES)
    return logged


def test_what_is_declared_is_exported_again(shop: LoggedDatabase) -> None:
    apply_text(shop.url, declare(shop.lake))

    exported = export_text(shop.url)

    assert plan_text(shop.url, exported, prunes=True).is_empty
    assert plan_text(shop.url, declare(shop.lake), prunes=True).is_empty
    assert 'table = "\\"Odd.Schema\\".\\"a \\"\\"b\\"\\".C\\""' in exported
    assert 'columns = ["id"]' in exported
    assert "index_name" not in exported


def test_a_change_is_made_in_place_where_it_can_be(shop: LoggedDatabase) -> None:
    before = declare(shop.lake)
    apply_text(shop.url, before)
    after = before.replace("limit_hours = 5", "limit_hours = 6").replace('widened = "mark"', 'widened = "auto"')
    after = after.replace("retention = 60", 'schedule = "0 3 * * *"').replace('"log.tmp*"', '"log.old*"')

    planned = apply_text(shop.url, after)

    assert actions_of(planned) == {
        "capture": "change",
        "rule log.*": "change",
        "consumer the warehouse": "change",
        "job cleanup": "change",
    }
    assert plan_text(shop.url, after).is_empty


def test_what_cannot_be_changed_is_made_again(shop: LoggedDatabase) -> None:
    before = declare(shop.lake)
    apply_text(shop.url, before)
    after = before.replace('before_images = "key"', "")

    planned = apply_text(shop.url, after)

    # What reads the instance follows the new one.
    assert actions_of(planned) == {
        "instance items": "recreate",
        "consumer the warehouse": "change",
        "target copy": "recreate",
    }
    assert any("instance items: its change rows" in lost for lost in planned.lost)
    assert plan_text(shop.url, after).is_empty
    assert [one.instances for one in shop.cdc.list_consumers() if one.consumer == "the warehouse"] == [("items", "odd")]


def test_what_is_not_declared_stays_unless_pruned(shop: LoggedDatabase) -> None:
    apply_text(shop.url, declare(shop.lake))
    less = f'[cdc]\nlake = "{shop.lake}"\nwidened = "mark"\n[cdc.instances.items]\ntable = "item"\n'
    less += 'before_images = "key"\nwidened = "rewrite"\n'

    assert plan_text(shop.url, less).is_empty
    planned = apply_text(shop.url, less, prunes=True)

    assert set(actions_of(planned).values()) == {"drop"}
    assert [one.capture_instance for one in shop.cdc.list_instances()] == ["items"]
    assert plan_text(shop.url, less, prunes=True).is_empty


def test_an_empty_file_prunes_everything(shop: LoggedDatabase) -> None:
    apply_text(shop.url, declare(shop.lake))

    apply_text(shop.url, "", prunes=True)

    assert applying.read_state(shop.url) == {}


def test_all_tables_that_are_missing_are_named_first(shop: LoggedDatabase) -> None:
    text = f'[cdc]\nlake = "{shop.lake}"\n[cdc.instances.a]\ntable = "later"\n[cdc.instances.b]\ntable = "x.soon"\n'

    with pytest.raises(DeclaredTablesMissing, match="later, x.soon"):
        plan_text(shop.url, text)
    assert applying.read_state(shop.url) == {}


def test_one_object_is_not_declared_by_two_names(shop: LoggedDatabase) -> None:
    text = '[tracking.tables.item]\n[tracking.tables."public.item"]\n'

    with pytest.raises(DeclarationImpossible, match="tracked table public.item is declared twice"):
        plan_text(shop.url, text)


def test_a_lake_is_not_moved_by_a_file(shop: LoggedDatabase) -> None:
    apply_text(shop.url, f'[cdc]\nlake = "{shop.lake}"\n')

    with pytest.raises(DeclarationImpossible, match="rowtide lake copy"):
        plan_text(shop.url, f'[cdc]\nlake = "{shop.lake}_2"\n')


def test_two_people_do_not_apply_at_once(shop: LoggedDatabase) -> None:
    planned = plan_text(shop.url, f'[cdc]\nlake = "{shop.lake}"\n')
    with AdvisoryLease.take(open_engine(shop.url), "declared state"), pytest.raises(LeaseHeld, match="declared state"):
        applying.apply(shop.url, planned)

    shop.cdc.enable_db(str(shop.lake))
    with pytest.raises(DeclaredStateChanged, match="capture"):
        applying.apply(shop.url, planned)


def test_columns_that_came_later_are_no_difference(shop: LoggedDatabase) -> None:
    text = f'[cdc]\nlake = "{shop.lake}"\n[cdc.instances.items]\ntable = "item"\n'
    apply_text(shop.url, text)
    shop.execute("alter table item add column later int")

    assert plan_text(shop.url, text).is_empty
    assert 'columns = ["id", "name", "price"]' in export_text(shop.url)


def test_what_a_rule_enables_is_not_pruned(shop: LoggedDatabase) -> None:
    text = f'[cdc]\nlake = "{shop.lake}"\n[cdc.rules."public.*"]\nexcluding = ["public.buyer"]\n'
    apply_text(shop.url, text)

    assert [one.capture_instance for one in shop.cdc.list_instances()] == ["public_item"]
    assert plan_text(shop.url, text, prunes=True).is_empty


APPLY = """
import sys
from builders.declared_states import apply_text
apply_text(sys.argv[1], sys.argv[2], prunes=True)
"""


@pytest.mark.parametrize("failpoint", DECLARED_FAILPOINTS)
def test_an_interrupted_apply_is_completed_by_a_repeat(server: EmbeddedServer, tmp_path: Path, failpoint: str) -> None:
    """From one state to another with each action, killed at each step."""
    steps = 0
    for hit in range(1, 30):
        before = f"""
[cdc]
lake = "{tmp_path}/lake_{hit}"
[cdc.instances.items]
table = "item"
[cdc.instances.buyers]
table = "buyer"
[cdc.consumers.search]
instances = ["items"]
"""
        after = before.replace('"item"', '"item"\nbefore_images = "key"').replace(
            "instances.buyers", "instances.others"
        )
        with fresh_database(server) as url, psycopg.connect(url, autocommit=True) as session:
            for sql in TABLES[:2]:
                session.execute(sql)
            apply_text(url, before)

            killed = run_program(APPLY, url, after, failpoint=f"{failpoint}@{hit}")

            apply_text(url, after, prunes=True)
            assert plan_text(url, after, prunes=True).is_empty
            assert [one.instances for one in connect(url).cdc.list_consumers()] == [("items",)]
        if killed != KILLED:
            break
        steps += 1
    assert steps == {"declared_removal": 2, "declared_addition": 3}[failpoint.partition(".")[0]]


def test_positions_are_not_restored_with_a_state(shop: LoggedDatabase, server: EmbeddedServer) -> None:
    text = f'[cdc]\nlake = "{shop.lake}"\n[cdc.instances.items]\ntable = "item"\nsnapshot = false\n'
    apply_text(shop.url, text + '[cdc.consumers.search]\ninstances = ["items"]\n')
    shop.execute("insert into item values (1)")
    shop.cdc.run(once=True)
    with shop.cdc.consume("search") as window:
        assert window.to is not None
    assert shop.cdc.list_consumers()[0].acknowledged_lsn is not None
    exported = export_text(shop.url)

    with fresh_database(server) as url, psycopg.connect(url, autocommit=True) as session:
        session.execute(TABLES[0])
        elsewhere = exported.replace(str(shop.lake), f"{shop.lake}_2")
        planned = apply_text(url, elsewhere)

        notes = {step.kind: step.note for step in planned.steps}
        assert notes["consumer"] == "its acknowledged LSN is not restored: it begins at the low endpoints"
        assert notes["instance"] == "change rows from before are not restored"
        assert connect(url).cdc.list_consumers()[0].acknowledged_lsn is None
        # A lake has one database.
        connect(url).cdc.disable_db()
        with pytest.raises(LogStoreTaken):
            apply_text(url, exported)
