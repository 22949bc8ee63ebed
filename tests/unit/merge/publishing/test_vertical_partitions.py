"""The order of articles: parents first, as far as their references allow."""

from __future__ import annotations

import pytest

from rowtide.databases.urls import DatabaseKind
from rowtide.merge.articles import Article
from rowtide.merge.nodes.node_tables import TableDescription, TableReference
from rowtide.merge.publishing.vertical_partitions import in_order


def ordered(**parents: str) -> str:
    """Return the names of articles, one letter each, in order; each is given with the tables that it refers to."""
    described = {}
    for nickname, (name, referenced) in enumerate(parents.items(), 1):
        references = tuple(TableReference(("p",), f"shop.{parent}", ("id",)) for parent in referenced)
        article = Article(name, "shop", name, nickname, ())
        described[article] = TableDescription(
            DatabaseKind.SQLITE, article.qualified_name, "shop", name, (), (), references
        )
    return "".join(article.name for article in in_order(described))


def test_articles_without_references_are_in_order_of_their_names() -> None:
    assert ordered(c="", a="", b="") == "abc"


def test_parents_come_before_children_whatever_their_names() -> None:
    assert ordered(a="b", b="c", c="") == "cba"
    assert ordered(a="bc", b="d", c="d", d="") == "dbca"


def test_a_table_that_refers_to_itself_waits_for_nothing_else() -> None:
    assert ordered(a="a", b="") == "ab"
    assert ordered(a="ab", b="b") == "ba"


def test_a_table_that_is_not_published_keeps_none_back() -> None:
    assert ordered(a="xb", b="x") == "ba"


@pytest.mark.parametrize("places", ["abc", "cba"])
def test_a_circle_is_entered_at_its_first_name(places: str) -> None:
    parents = {"a": "c", "b": "a", "c": "b"}

    assert ordered(**{name: parents[name] for name in places}) == "abc"


def test_around_a_circle_parents_still_come_first() -> None:
    assert ordered(b="cd", c="b", d="", e="b") == "dbce"


def test_what_refers_to_a_circle_comes_after_it() -> None:
    assert ordered(a="b", b="c", c="b") == "bca"
