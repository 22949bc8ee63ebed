"""Plans of registration: what is added, corrected, removed, and under which names."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from rowtide.catalogs.entries import CatalogueEntry, Registered, RegistrationAction, RegistrationStep, plan_steps
from rowtide.catalogs.errors import CatalogueNameTaken

NAMES = ("a b", "a_b", "A_B", "a%b", "é", "orders_CT", "Orders_ct", "x" * 5)


def entry(name: str, location: str = "/lake") -> CatalogueEntry:
    return CatalogueEntry(f"change {name}", name, location)


def hive_name(name: str) -> str:
    return "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in name).lower()


def carry_out(present: dict[str, Registered], steps: list[RegistrationStep]) -> dict[str, Registered]:
    """Return what a catalogue has after some steps; it refuses a name that is there."""
    after = dict(present)
    for step in steps:
        if step.action is RegistrationAction.REMOVE:
            del after[step.name]
            continue
        assert step.entry is not None
        assert (step.name in after) == (step.action is not RegistrationAction.ADD)
        after[step.name] = Registered(step.name, step.entry.key, replace(step.entry, name=""))
    return after


def test_new_changed_and_gone_tables_are_told_apart() -> None:
    present = [
        Registered("same", "change same", replace(entry("same"), name="")),
        Registered("moved", "change moved", replace(entry("moved", "/old"), name="")),
        Registered("gone", "change gone", replace(entry("gone"), name="")),
        Registered("foreign"),
    ]
    steps = plan_steps([entry("same"), entry("moved"), entry("new")], present, str, "lake")
    assert [(step.action.value, step.name) for step in steps] == [
        ("remove", "gone"),
        ("keep", "same"),
        ("correct", "moved"),
        ("add", "new"),
    ]


def test_a_foreign_tables_name_is_not_taken() -> None:
    with pytest.raises(CatalogueNameTaken, match="lake has a table orders"):
        plan_steps([entry("orders")], [Registered("orders")], str, "lake")


def test_a_freed_name_can_be_given_again_in_one_run() -> None:
    present = [Registered("a_b", "change a_b", replace(entry("a_b"), name=""))]
    steps = plan_steps([entry("a b")], present, hive_name, "lake")
    assert [(step.action.value, step.name) for step in steps] == [("remove", "a_b"), ("add", "a_b")]


@pytest.mark.parametrize("seed", range(50))
def test_names_stay_whatever_comes_and_goes(seed: int) -> None:
    chance = random.Random(seed)
    present = {"foreign": Registered("foreign")}
    for _ in range(8):
        wanted = [entry(name, chance.choice("ab")) for name in NAMES if chance.random() < 0.6]
        named = {one.key: one.name for one in present.values() if one.key}
        present = carry_out(present, plan_steps(wanted, present.values(), hive_name, "lake"))
        assert present.pop("foreign") == Registered("foreign")
        found = {one.key: one.entry for one in present.values()}
        assert found == {one.key: replace(one, name="") for one in wanted}
        after = {one.key: one.name for one in present.values()}
        assert all(after[key] == name for key, name in named.items() if key in after)
        present["foreign"] = Registered("foreign")
        again = plan_steps(wanted, present.values(), hive_name, "lake")
        assert {step.action for step in again} <= {RegistrationAction.KEEP}
