"""A subscription is asked for by the names of the command's options; its partition, by a value or as a whole."""

from __future__ import annotations

import pytest

from rowtide.core.errors import OptionsContradict
from rowtide.merge import Existing, ExistingSubscription, NewMergeSubscription, Partition
from rowtide.merge.publishing.requests import choose_partition

NORTH = Partition("north", "ann")


@pytest.mark.parametrize(
    "chosen",
    [
        choose_partition(NORTH, None, None),
        choose_partition(None, "north", "ann"),
        choose_partition(NORTH, "north", "ann"),
        NewMergeSubscription("shop", "sqlite:///a.db", host_name="north", login="ann").chosen_partition,
        NewMergeSubscription("shop", "sqlite:///a.db", partition=NORTH).chosen_partition,
    ],
)
def test_a_partition_is_given_by_values_or_as_a_whole(chosen: Partition) -> None:
    assert chosen == NORTH


def test_values_that_differ_from_the_partition_are_refused() -> None:
    with pytest.raises(OptionsContradict, match="partition and host_name and login"):
        choose_partition(NORTH, "south", None)


def test_taking_over_keeps_what_was_asked() -> None:
    asked = NewMergeSubscription("shop", "sqlite:///a.db", host_name="north", priority=7.0)

    taken = asked.taking_over(Existing.KEEP, absent_is_delete=True)

    assert taken == ExistingSubscription(
        "shop",
        "sqlite:///a.db",
        Existing.KEEP,
        host_name="north",
        priority=7.0,
        absent_is_delete=True,
        on_progress=asked.on_progress,
        on_omission=asked.on_omission,
    )
