from __future__ import annotations

from dataclasses import dataclass

import pytest

from rowtide.relocation.errors import CopyDiverged, PlacesOverlap
from rowtide.relocation.portions import (
    ExistingCopy,
    LakePlace,
    Portion,
    Steps,
    StoreFileKind,
    plan_portion,
    require_apart,
)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (("/a", None), ("/b", None)),
        (("/a", None), ("s3://bucket/a", None)),
        (("s3://bucket/a", None), ("s3://bucket/b", None)),
        (("/a", "/logs"), ("/b", "/logs")),
        (("/a", "/logs"), ("/b", None)),
        (("/lakes/a", None), ("/lakes/ab", None)),
    ],
)
def test_places_that_are_apart(source: tuple[str, str | None], target: tuple[str, str | None]) -> None:
    require_apart(LakePlace.of(*source), LakePlace.of(*target))


@pytest.mark.parametrize(
    ("source", "target", "reason"),
    [
        (("/a", None), ("/a", None), "they are the same"),
        (("/a", None), ("file:///a/", None), "they are the same"),
        (("/a", None), ("/a/copy", None), "/a/copy is inside /a"),
        (("/a/lake", None), ("/a", None), "/a/lake is inside /a"),
        (("/a", "/logs"), ("/logs/b", None), "/logs/b is inside /logs"),
        (("/a", "/logs"), ("/b", "/a/log"), "/a/log is inside /a"),
        (("/a", None), ("/b", "/a/log"), "would be in both"),
        (("s3://bucket/a", None), ("s3a://bucket/a/b", None), "is inside"),
    ],
)
def test_places_that_overlap(source: tuple[str, str | None], target: tuple[str, str | None], reason: str) -> None:
    with pytest.raises(PlacesOverlap, match=f"RT-3124: .*{reason}"):
        require_apart(LakePlace.of(*source), LakePlace.of(*target))


NOTHING = ExistingCopy({})


def portion(first: int, last: int, *, base: int | None = None, data: tuple[str, ...] = ("a", "b")) -> Portion:
    """A table whose entries are named by their number, above a checkpoint `base-<number>`."""
    return Portion(
        name="cdc/t",
        identity="table 1",
        version=last,
        base_version=base,
        base=(f"base-{base}",) if base is not None else (),
        entries={number: f"{number}" for number in range(first, last + 1)},
        data=dict.fromkeys(data, 10),
        content="",
        hint="hint" if base is not None else None,
    )


def existing(version: int | None, *paths: str, identity: str = "table 1") -> ExistingCopy:
    return ExistingCopy(dict.fromkeys(paths, 10), identity if version is not None else None, version)


@dataclass(frozen=True, slots=True)
class Compared:
    """Files that an earlier run compared, or this one."""

    earlier: tuple[str, ...]
    now: tuple[str, ...] = ()

    def has(self, _portion: str, path: str, _size: int) -> bool:
        return path in (*self.earlier, *self.now)

    def was_added(self, _portion: str, path: str) -> bool:
        return path in self.now


def plan(copied: Portion, there: ExistingCopy, *verified: str, now: tuple[str, ...] = ()) -> Steps:
    return plan_portion(copied, there, "/to", "/from", Compared(verified, now))


def paths(steps: Steps) -> tuple[list[str], list[str], list[str], list[str]]:
    stages = (steps.compared, steps.data, steps.hidden, steps.ordered)
    compared, data, hidden, ordered = ([step.path for step in stage] for stage in stages)
    return compared, data, hidden, ordered


def test_a_first_copy_is_completed_by_its_first_entry() -> None:
    assert paths(plan(portion(0, 3), NOTHING)) == ([], ["a", "b"], ["1", "2", "3"], ["0"])


def test_a_first_copy_is_completed_by_its_checkpoint() -> None:
    steps = plan(portion(101, 103, base=100), NOTHING)
    assert paths(steps) == ([], ["a", "b"], ["101", "102", "103"], ["base-100", "hint"])


def test_a_checkpoint_without_entries_is_a_copy() -> None:
    assert paths(plan(portion(101, 100, base=100), NOTHING)) == ([], ["a", "b"], [], ["base-100", "hint"])


def test_later_entries_follow_in_their_order() -> None:
    steps = plan(portion(0, 3), existing(1, "a", "0", "1"), "a", "0", "1")
    assert paths(steps) == (["1"], ["b"], [], ["2", "3"])


def test_a_new_checkpoint_follows_the_entries() -> None:
    there = existing(99, "a", *map(str, range(100)))
    steps = plan(portion(101, 102, base=100), existing(100, *there.sizes, "100"), "a", "100")
    assert paths(steps) == ([], ["b"], [], ["101", "102", "base-100", "hint"])


def test_an_overtaken_copy_is_completed_by_the_checkpoint() -> None:
    steps = plan(portion(201, 202, base=200), existing(50, "a", *map(str, range(51))), "a")
    assert paths(steps) == ([], ["b"], ["201", "202"], ["base-200", "hint"])


def test_what_is_there_and_not_verified_is_compared() -> None:
    steps = plan(portion(0, 1), existing(1, "a", "b", "0", "1"), "a")
    assert paths(steps) == (["0", "1"], ["b"], [], [])
    assert [step.is_there for step in steps.data] == [True]
    assert not list(steps.copied)


def test_the_last_entry_is_compared_though_it_was_verified() -> None:
    steps = plan(portion(0, 1), existing(1, "a", "b", "0", "1"), "a", "b", "0", "1")
    assert paths(steps) == (["1"], [], [], [])
    assert paths(plan(portion(0, 1), existing(1, "a", "b", "0", "1"), "a", "b", "0", now=("1",))) == ([], [], [], [])


def test_a_hint_is_copied_with_its_checkpoint() -> None:
    there = existing(100, "a", "b", "base-100", "hint")
    assert paths(plan(portion(101, 100, base=100), there, "a", "b", now=("base-100",))) == ([], [], [], [])


def test_a_file_of_another_size_is_copied_again() -> None:
    steps = plan(portion(0, 0), ExistingCopy({"a": 9, "b": 10}), "a", "b")
    assert [(step.path, step.kind, step.is_there) for step in steps.data] == [("a", StoreFileKind.DATA, False)]


def test_a_target_that_is_ahead_is_refused() -> None:
    with pytest.raises(CopyDiverged, match=r"RT-3122: /to is not a copy of /from.* version 4, the original at 3"):
        plan(portion(0, 3), existing(4, "0"))


def test_a_target_of_another_identity_is_refused() -> None:
    with pytest.raises(CopyDiverged, match="it has the identity table 2, not table 1"):
        plan(portion(0, 3), existing(2, "0", identity="table 2"))
