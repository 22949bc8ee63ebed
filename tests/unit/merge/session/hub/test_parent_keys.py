"""Which rows wait for a parent that the hub does not have."""

from __future__ import annotations

from collections.abc import Sequence

from rowtide.merge.articles import Article, ArticleColumn, ArticleReference
from rowtide.merge.session.hub.parent_keys import Families, defer_orphans
from rowtide.merge.versions.changes import Row, RowChange, Write

KEY = ArticleColumn("id", "bigint", is_nullable=False, key_ordinal=1)
TO_CUSTOMER = ArticleReference(("cid",), 1, ("id",))
CUSTOMER = Article("customer", "public", "customer", 1, (KEY,))
ORDERS = Article(
    "orders",
    "public",
    "orders",
    2,
    (KEY, ArticleColumn("cid", "bigint", is_nullable=True, key_ordinal=None)),
    references=(TO_CUSTOMER,),
)
ARTICLES = {1: CUSTOMER, 2: ORDERS}
SENT = [RowChange(rowguid, b"", b"", None, ("7", "3"), parents=(parent,)) for rowguid, parent in ("ap", "bq")]


def write(rowguid: str, row: Row | None) -> Write:
    return Write(rowguid, row, is_live=False, lineage=b"", last=None, columns=None, origin=9)


def find_orphans(
    absent: dict[str, list[tuple[int, str]]], writes: Sequence[Write]
) -> dict[str, tuple[str, str | None]]:
    refused = defer_orphans((ORDERS, SENT), Families(ORDERS, absent=absent), writes, ARTICLES)
    return {rowguid: (str(refusal.error), refusal.holder) for rowguid, refusal in refused.items()}


def test_a_row_without_its_parent_waits_and_others_do_not() -> None:
    writes = [write("a", ("7", "3")), write("b", ("8", "3"))]
    said = "RT-8050: orders refused a row (RT-8050): its parent in customer, p, is not at the publisher"
    orphans = find_orphans({"a": [(1, "p")]}, writes)

    assert list(orphans) == ["a"]
    assert orphans["a"][0].startswith(said)
    assert orphans["a"][1] is None
    assert find_orphans({}, writes) == {}


def test_a_row_that_has_another_parents_key_by_now_does_not_wait() -> None:
    absent = {"a": [(1, "p")], "b": [(1, "q")]}
    assert list(find_orphans(absent, [write("a", ("7", "4")), write("b", ("8", "3"))])) == ["b"]


def test_a_delete_waits_for_no_parent() -> None:
    assert find_orphans({"a": [(1, "p")]}, [write("a", None)]) == {}
