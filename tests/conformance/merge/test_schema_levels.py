"""Schema changes over three levels, and of a table that two publications share in one subscriber."""

from __future__ import annotations

from builders.merge.merged_databases import Merge
from rowtide.merge.api import MergeReplication
from rowtide.merge.articles import SubscriberType

ITEM = "create table item (id integer primary key, name varchar(10), qty integer)"
ROWS = "insert into item (id, name, qty) values (1, 'a', 1), (2, 'b', 2)"
COLUMNS = "id, amount, extra"


def test_a_change_goes_down_three_levels(merged: Merge) -> None:
    top, middle, bottom = merged.members
    upper, lower = MergeReplication(top.url), MergeReplication(middle.url)
    top.execute(ITEM, ROWS)
    for name in ("up", "beside"):
        upper.add_publication(name)
        upper.add_article(name, "item", column_tracking=True)
        upper.add_subscription(name, middle.url, subscriber_type=SubscriberType.SERVER, priority=50.0)
    lower.add_publication("down")
    lower.add_article("down", "item", column_tracking=True)
    lower.add_subscription("down", bottom.url)

    def rounds() -> bool:
        """Synchronise all levels; tell whether nothing moved."""
        done = [lower.sync("down", bottom.url)]
        done += [upper.sync(name, middle.url) for name in ("up", "beside")]
        done += [lower.sync("down", bottom.url)]
        return all(summary.is_quiet for summary in done)

    bottom.execute("update item set qty = 9 where id = 1")
    top.execute(
        "alter table item add column extra varchar(10) default 'd'", "alter table item rename column qty to amount"
    )
    upper.alter_article("up", "item", "drop column name")
    rounds()
    middle.execute("update item set extra = 'm' where id = 2")
    bottom.execute("insert into item (id, amount) values (5, 5)")
    rounds()
    rounds()

    expected = [(1, 9, "d"), (2, 2, "m"), (5, 5, "d")]
    assert [member.rows("item", COLUMNS) for member in merged.members] == [expected] * 3
    assert rounds()
    for merge, name, url in ((upper, "up", middle.url), (upper, "beside", middle.url), (lower, "down", bottom.url)):
        assert all(one.is_equal for one in merge.validate(name, url, checksum=True))
