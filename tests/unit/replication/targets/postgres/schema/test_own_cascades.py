"""Which tables deletes get to by cascades."""

from __future__ import annotations

from rowtide.replication.targets.postgres.schema.own_cascades import find_reached


def test_cascaded_deletes_reach_tables_over_several_others() -> None:
    cascades = [("a", "b"), ("b", "c"), ("b", "d"), ("x", "y")]

    assert find_reached(cascades) == {"a": {"b", "c", "d"}, "b": {"c", "d"}, "x": {"y"}}


def test_tables_that_reference_each_other_reach_themselves() -> None:
    assert find_reached([("a", "b"), ("b", "a"), ("c", "c")]) == {"a": {"a", "b"}, "b": {"a", "b"}, "c": {"c"}}


def test_nothing_is_reached_without_cascades() -> None:
    assert find_reached([]) == {}
