"""Which parent is stored with a row: chains of them end at a row that belongs without one."""

from __future__ import annotations

from rowtide.merge.partitions.belonging import choose_parents, link_members


def test_the_parent_nearest_to_a_row_by_itself_is_chosen() -> None:
    # d follows c and a, c follows b, b follows a, and a belongs by itself.
    found = {"d": ("c", "a"), "c": ("b",), "b": ("a",)}

    assert choose_parents(found) == {"b": "a", "c": "b", "d": "a"}


def test_rows_in_a_circle_lead_out_of_it() -> None:
    found = {"a": ("b", "top"), "b": ("a", "c"), "c": ("b",)}

    assert choose_parents(found) == {"a": "top", "b": "a", "c": "b"}


def test_all_rows_of_a_partition_are_linked() -> None:
    customers: list[tuple[str, tuple[str, ...]]] = [("a", ()), ("b", ("a",))]

    found = link_members({"customer": customers, "orders": [("o", ("b",))]})
    assert found == {"customer": [("a", None), ("b", "a")], "orders": [("o", "b")]}
