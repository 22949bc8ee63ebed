"""Which rows are in a partition, and which a subscriber has: what the documented mapping tables show. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rowtide.merge.articles import ROWGUID, Article, Partition, PartitionOptions
from rowtide.merge.definitions import partition_mappings, subscriptions
from rowtide.merge.documented.names import CONTENTS_VIEW
from rowtide.merge.errors.publishing import StoredFilterRefused
from rowtide.merge.partitions.belonging import ROW, FilterDialect, belongs
from rowtide.merge.partitions.filters import RowFilter, bind_articles
from rowtide.merge.partitions.partition_membership import FROM_THERE

NOBODY = (
    "select null as pubid, null as partition_id, null as tablenick, null as rowguid, null as parent, 0 as is_in, "
    "0 as is_held, 0 as is_changed where 1 = 0"
)
"""The query of no rows."""


@dataclass(frozen=True, slots=True)
class MappedRows:
    """Writes the queries for a database; `name` quotes the name of a table or view of ours.

    `rowguid_type` is the type of `rowguid`.
    """

    name: Callable[[str], str]
    dialect: FilterDialect
    rowguid_type: str

    def query(self, row_filter: RowFilter, pubid: str, partition_id: str) -> str:
        """Return the query of an article's rows that are in a partition, or were sent to it.

        `pubid` and `partition_id` are SQL. See `documented.dialect.Dialect.members` for the columns.
        """
        article = row_filter.article
        mappings, subscribed = self.name(partition_mappings.name), self.name(subscriptions.name)
        listed = (
            "select c.rowguid, null as parent, 0 as is_held, 1 as is_changed "
            f"from {self.name(CONTENTS_VIEW)} c where c.tablenick = {article.nickname} union all "
            f"select m.rowguid, m.parent, 1, 0 from {mappings} m join {subscribed} s "
            f"on s.replnickname = m.replnickname and s.partition_id = {partition_id} "
            f"where m.tablenick = {article.nickname} and m.generation >= {FROM_THERE}"
        )
        # A uuid has no greatest: one of its texts does.
        known = (
            f"select rowguid, cast(max(cast(parent as text)) as {self.rowguid_type}) as parent, "
            f"max(is_held) as is_held, max(is_changed) as is_changed from ({listed}) l group by rowguid"
        )
        return (
            f"select {pubid} as pubid, {partition_id} as partition_id, {article.nickname} as tablenick, k.rowguid, "
            f"k.parent, case when {belongs(row_filter, self.dialect)} then 1 else 0 end as is_in, k.is_held, "
            f"k.is_changed from ({known}) k "
            f"left join {self.dialect.table_of(article)} {ROW} on {ROW}.{ROWGUID} = k.rowguid"
        )


def mapped_filters(articles: Sequence[Article], partition: Partition) -> list[RowFilter]:
    """Return the filters of a publication's articles in a partition, of those whose rows may be in several.

    Rows of an article whose partitions have one subscriber each are in no mapping table. Filters that are refused by
    now map nothing.
    """
    try:
        bound = bind_articles(articles, partition)
    except StoredFilterRefused:
        return []
    return [
        row_filter
        for row_filter in bound.values()
        if row_filter.article.partition_options is not PartitionOptions.ONE_SUBSCRIBER
    ]
