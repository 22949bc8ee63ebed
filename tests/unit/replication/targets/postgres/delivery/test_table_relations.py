"""Which articles can influence each other: what foreign keys connect, and everything where users' code runs."""

from __future__ import annotations

from rowtide.replication.targets.postgres.delivery.table_relations import TableRelations, group_articles

TABLES = {"a": 1, "b": 2, "c": 3}


def groups_of(*references: tuple[int, int], entangled: frozenset[int] = frozenset()) -> list[set[str]]:
    grouped = group_articles(TableRelations(TABLES, references, entangled), frozenset()).groups
    return [{article for article in grouped if grouped[article] == group} for group in sorted(set(grouped.values()))]


def test_tables_without_foreign_keys_are_independent() -> None:
    assert groups_of() == [{"a"}, {"b"}, {"c"}]


def test_a_foreign_key_connects_two_tables_in_either_direction() -> None:
    assert {"a", "b"} in groups_of((1, 2))
    assert {"a", "b"} in groups_of((2, 1))


def test_tables_that_are_not_published_connect_those_that_are() -> None:
    assert {"a", "c"} in groups_of((1, 10), (11, 10), (11, 3))


def test_an_entangled_table_connects_all() -> None:
    assert groups_of(entangled=frozenset({2})) == [{"a", "b", "c"}]


def test_reachable_entangled_table_connects_all_tables() -> None:
    assert groups_of((10, 1), entangled=frozenset({10})) == [{"a", "b", "c"}]
    assert len(groups_of((10, 11), entangled=frozenset({10}))) == len(TABLES)


def test_article_without_reachable_entangled_table_is_plain() -> None:
    found = group_articles(TableRelations(TABLES, [(1, 10), (2, 10)], frozenset({10})), frozenset())

    assert found.plain == {"c"}


def test_what_a_user_wrote_connects_all() -> None:
    found = group_articles(TableRelations(TABLES, (), frozenset()), frozenset({"b"}))

    assert set(found.groups.values()) == {0}


def test_an_article_whose_table_is_not_there_has_no_group() -> None:
    assert "d" not in group_articles(TableRelations(TABLES, (), frozenset()), frozenset()).groups
