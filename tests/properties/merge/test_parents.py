"""A parent and its child: whatever is done in a few steps at a hub and two devices, all come to the same rows."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from builders.merge.parents_and_children import OPERATIONS, SYNCHRONISE, Step, families, histories

SOAK = [pytest.mark.soak, pytest.mark.timeout(7200)]
WHOLE: dict[str, Any] = {"record_conflict_resolution": True}
DETECTED: dict[str, Any] = WHOLE | {"record_conflict_detection": True}
RECORDS = pytest.mark.parametrize(
    "record",
    [
        pytest.param(None, id="rows"),
        pytest.param({}, id="records"),
        pytest.param(WHOLE, id="whole"),
        pytest.param(DETECTED, id="detected"),
    ],
)
RESOLVERS = pytest.mark.parametrize("resolver", ["priority", "subscriber-wins"])


def require_rest_after_all(folder: Path, histories: Iterable[Sequence[Step]], record: Any, **options: Any) -> None:
    with families(folder, record, **options) as maker:
        for steps in histories:
            with maker.open() as family:
                try:
                    family.run(steps)
                    family.require_rest()
                except BaseException as error:
                    error.add_note(f"after {steps}")
                    raise


def anything(seed: int, steps: int) -> list[Step]:
    """Return random operations and synchronisations, the same for a seed."""
    chosen = random.Random(seed)
    return [
        (chosen.choice((1, 2)), SYNCHRONISE) if chosen.random() < 0.3 else (chosen.randrange(3), what)
        for what in (chosen.choice(list(OPERATIONS)) for _ in range(steps))
    ]


def test_a_deleted_parent_and_changed_children_come_to_rest(tmp_path: Path) -> None:
    steps = [(0, "update child"), (1, "delete both"), (2, "insert child"), (1, SYNCHRONISE), (2, SYNCHRONISE)]

    require_rest_after_all(tmp_path, [steps], DETECTED, resolver="subscriber-wins")


@pytest.mark.exhaustive
@pytest.mark.parametrize("part", [32, pytest.param(1, marks=SOAK)])
@RESOLVERS
@RECORDS
def test_one_operation_each_comes_to_rest(tmp_path: Path, record: Any, resolver: str, part: int) -> None:
    require_rest_after_all(tmp_path, islice(histories(1), part // 2, None, part), record, resolver=resolver)


@pytest.mark.exhaustive
@pytest.mark.parametrize("runs", [5, pytest.param(1000, marks=SOAK)])
@pytest.mark.parametrize(
    "tracked_by", [pytest.param({}, id="by row"), pytest.param({"column_tracking": True}, id="by column")]
)
@RESOLVERS
@RECORDS
def test_any_few_steps_come_to_rest(
    tmp_path: Path, record: Any, resolver: str, tracked_by: dict[str, Any], runs: int
) -> None:
    steps = (anything(seed, 8) for seed in range(runs))

    require_rest_after_all(tmp_path, steps, record, resolver=resolver, **tracked_by)


OTHERS = (
    ("download-only", "priority"),
    ("priority", "download-only"),
    ("download-only", "download-only"),
    ("later-wins:value", "earlier-wins:value"),
    ("publisher-wins", "later-wins:value"),
    ("merge-text:value", "merge-text:value:;"),
)
"""Resolvers of the parent and of the child."""


@pytest.mark.exhaustive
@pytest.mark.parametrize("runs", [10, pytest.param(1000, marks=SOAK)])
@pytest.mark.parametrize(("parent", "child"), OTHERS)
def test_other_resolvers_come_to_rest(tmp_path: Path, parent: str, child: str, runs: int) -> None:
    steps = (anything(seed, 8) for seed in range(runs))

    require_rest_after_all(tmp_path, steps, None, resolver=parent, child={"resolver": child}, column_tracking=True)


@pytest.mark.exhaustive
@pytest.mark.parametrize("part", [32, pytest.param(1, marks=SOAK)])
@pytest.mark.parametrize(("parent", "child"), OTHERS[:3])
def test_one_operation_each_may_be_taken_back(tmp_path: Path, parent: str, child: str, part: int) -> None:
    chosen = islice(histories(1), part // 2, None, part)

    require_rest_after_all(tmp_path, chosen, None, resolver=parent, child={"resolver": child})
