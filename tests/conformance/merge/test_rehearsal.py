"""What publishing would do to a database can be read before it is done."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from builders.commands.command_lines import rowtide
from builders.merge.merged_databases import FileMember, Member, Merge
from rowtide.merge.errors.publishing import MergeArticleUnknown
from rowtide.merge.publishing.handle import MergePublishing

TABLE = "create table customer (id integer primary key, name varchar(20))"
ROW = "insert into customer values (1, 'first')"
Work = Callable[[MergePublishing], object]
WORKS: dict[str, tuple[Work, str]] = {
    "add article": (lambda merge: merge.add_article("shop", "orders"), " trigger "),
    "drop article": (lambda merge: merge.drop_article("shop", "customer"), "drop column rowguid"),
    "drop publication": (lambda merge: merge.drop_publication("shop"), "drop column rowguid"),
}


def catalogue(member: Member) -> list[tuple[object, ...]]:
    """All objects of a database, and what is published."""
    if isinstance(member, FileMember):
        objects = member.execute("select type, name, sql from sqlite_schema order by 1, 2")
        published = "sysmerge_stored_articles"
    else:
        objects = member.execute(
            "select 'r', oid::regclass::text, relnatts::text from pg_class where relnamespace::regnamespace::text in "
            "('public', 'rowtide_merge') union all select 't', tgrelid::regclass::text, tgname::text from "
            "pg_trigger where not tgisinternal order by 1, 2, 3"
        )
        published = "rowtide_merge.sysmerge_stored_articles"
    if any("sysmerge_stored_articles" in str(row) for row in objects):
        objects = [*objects, *member.execute(f"select name, nickname, definition from {published} order by 1")]
    return objects


@pytest.mark.parametrize("name", WORKS)
def test_a_rehearsal_says_what_would_be_done_and_does_nothing(merged: Merge, name: str) -> None:
    work, expected = WORKS[name]
    merged.hub.execute(TABLE, ROW, "create table orders (id integer primary key)")
    merged.merge.add_publication("shop")
    merged.merge.add_article("shop", "customer")
    before = catalogue(merged.hub)
    rehearsal = merged.merge.rehearsal()
    work(rehearsal)

    assert any(expected in statement for statement in rehearsal.statements)
    assert catalogue(merged.hub) == before
    work(merged.merge)
    assert catalogue(merged.hub) != before


def test_a_rehearsed_publication_is_not_there(merged: Merge) -> None:
    before = catalogue(merged.hub)
    rehearsal = merged.merge.rehearsal()
    rehearsal.add_publication("shop")

    assert any("sysmerge_stored_publications" in statement for statement in rehearsal.statements)
    assert catalogue(merged.hub) == before


def test_a_dry_run_prints_statements_and_nothing_else(merged: Merge) -> None:
    merged.hub.execute(TABLE, ROW)
    merged.merge.add_publication("shop")
    done = rowtide("merge", "add-article", "shop", "customer", "--dry-run", "--db", merged.hub.url)

    assert done.code == 0
    assert " trigger " in done.output
    assert "Added" not in done.output + done.errors
    with pytest.raises(MergeArticleUnknown):
        merged.merge.drop_article("shop", "customer")
