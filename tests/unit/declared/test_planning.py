"""Plans: what follows from what, and what is refused before anything is done."""

from __future__ import annotations

import pytest

from rowtide.declared.errors import DeclarationImpossible
from rowtide.declared.file import parse_file
from rowtide.declared.planning import Action, Plan, State, make_plan

CAPTURED = """
[cdc]
lake = "/lake"
[cdc.instances.items]
table = "public.item"
[cdc.consumers.search]
instances = ["items"]
"""
ITEM_WITH_KEYS = CAPTURED.replace('"public.item"', '"public.item"\nbefore_images = "key"')


def state_of(text: str) -> State:
    return parse_file(text, "shop.toml")


def plan_of(present: str, wanted: str, *, prunes: bool = False) -> Plan:
    return make_plan(state_of(present), state_of(wanted), prunes=prunes)


def actions_of(plan: Plan) -> dict[str, Action]:
    return {step.kind: step.action for step in plan.steps if step.action is not Action.LEAVE}


def test_a_consumer_follows_an_instance_that_is_made_again() -> None:
    plan = plan_of(CAPTURED, ITEM_WITH_KEYS)

    assert actions_of(plan) == {"instance": Action.RECREATE, "consumer": Action.CHANGE}
    assert plan.lost == ("instance items: its change rows and its copy of the table in the lake",)
    assert [one.kind.name for one in plan.removals()] == ["instance"]
    assert [one.kind.name for one in plan.additions()] == ["instance", "consumer"]


def test_an_undeclared_reader_stops_a_recreate() -> None:
    wanted = ITEM_WITH_KEYS[: ITEM_WITH_KEYS.index("[cdc.consumers")]

    with pytest.raises(DeclarationImpossible, match="consumer search is not declared, and would go"):
        plan_of(CAPTURED, wanted)
    assert actions_of(plan_of(CAPTURED, wanted, prunes=True))["consumer"] is Action.DROP


def test_a_reader_of_nothing_is_refused() -> None:
    with pytest.raises(DeclarationImpossible, match="names instance other, which is neither declared nor there"):
        plan_of(CAPTURED, CAPTURED.replace('["items"]', '["items", "other"]'))


def test_a_publication_takes_what_it_has_with_it() -> None:
    present = """
    [replication.publications.shop]
    [replication.publications.shop.articles."public.item"]
    [replication.publications.shop.subscriptions."sqlite:////copy.db"]
    """
    wanted = present.replace("shop]\n", "shop]\nreplicate_ddl = false\n", 1)

    with pytest.raises(DeclarationImpossible, match='declare if_exists = "drop"'):
        plan_of(present, wanted)
    dropped = '\nif_exists = "drop"\n'
    decided = wanted.replace('.db"]\n', f'.db"]{dropped}').replace('item"]\n', f'item"]{dropped}')
    plan = plan_of(present, decided)
    assert set(actions_of(plan).values()) == {Action.RECREATE}
    assert [one.kind.name for one in plan.removals()] == ["subscription", "article", "publication"]


def test_a_parameter_without_a_word_for_none_is_made_again() -> None:
    present = "[cdc.jobs.capture]\nmaxtrans = 5\n"

    assert actions_of(plan_of(present, "[cdc.jobs.capture]\nmaxtrans = 6\n")) == {"job": Action.CHANGE}
    assert actions_of(plan_of(present, "[cdc.jobs.capture]\n")) == {"job": Action.RECREATE}
    assert actions_of(plan_of(present, "", prunes=True)) == {}
