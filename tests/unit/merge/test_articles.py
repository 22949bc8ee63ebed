"""Articles as they are stored, and what filters them."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from rowtide.merge.articles import Article, ArticleColumn, FilterType, JoinFilter
from rowtide.merge.errors.nodes import MetadataMalformed

CHILD = Article("child", "", "child", 7, (ArticleColumn("id", "integer", is_nullable=False, key_ordinal=1),))
BY_PARENT = JoinFilter("parent", "child.parent_id = parent.id")


def filtered(*joins: JoinFilter) -> Article:
    return replace(CHILD, join_filters=joins)


def test_join_filters_are_stored_whole() -> None:
    article = filtered(JoinFilter("parent", "true", unique_key=True, filter_type=FilterType.BOTH))

    assert Article.decode(article.encode()) == article
    assert Article.decode(article.encode()).join_filters[0].filter_type is FilterType.BOTH


@pytest.mark.parametrize("odd", [{"sharding": "hash"}, {"subscriber_upload_options": 9}])
def test_definitions_that_no_build_wrote_are_named(odd: dict[str, object]) -> None:
    stored = json.loads(CHILD.encode()) | odd

    with pytest.raises(MetadataMalformed, match="article child"):
        Article.decode(json.dumps(stored))


def test_links_of_logical_records_filter_nothing() -> None:
    assert not filtered(JoinFilter("parent", "true", filter_type=FilterType.RECORD)).is_filtered
    assert filtered(JoinFilter("parent", "true", filter_type=FilterType.BOTH)).is_filtered


def test_promise_of_a_unique_key_keeps_the_rows() -> None:
    assert filtered(BY_PARENT).is_filtered_as(filtered(JoinFilter("parent", BY_PARENT.condition, unique_key=True)))
    assert not filtered(BY_PARENT).is_filtered_as(CHILD)
