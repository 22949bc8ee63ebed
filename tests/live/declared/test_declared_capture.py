"""Capture as it is declared: applied, changed, made again, pruned, and exported as it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from builders.capture.captured_databases import LoggedDatabase
from builders.declared_states import actions_of, apply_text, export_text, plan_text
from rowtide.databases.postgres.connect import open_engine
from rowtide.declared import applying
from rowtide.declared.errors import DeclarationImpossible, DeclaredStateChanged, DeclaredTablesMissing
from rowtide.log.errors import LeaseHeld
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
