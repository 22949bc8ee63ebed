"""The tables that SQL Server documents, as views with its columns (specification 3.6). Pure.

They show the present state, with changes that the agent has yet to look at: a generation that is open has the number
that it will probably be closed with. What merge has no counterpart for is null. The views cost nothing but when read.
"""

from __future__ import annotations

from collections.abc import Mapping

from rowtide.merge.documented.changes import select_contents, select_genhistory, select_tombstone
from rowtide.merge.documented.dialect import Dialect
from rowtide.merge.documented.listings import select_articles, select_filters, select_publications, select_subscriptions
from rowtide.merge.documented.mappings import (
    select_current_mappings,
    select_generation_mappings,
    select_partition_groups,
    select_past_mappings,
)
from rowtide.merge.documented.names import (
    CONTENTS_VIEW,
    CURRENT_MAPPINGS,
    GENERATION_MAPPINGS,
    GENHISTORY_VIEW,
    PAST_MAPPINGS,
    TOMBSTONE_VIEW,
)


def documented_queries(dialect: Dialect) -> Mapping[str, str]:
    """Return the query of each documented table, in an order in which each reads only those before it."""
    return {
        CONTENTS_VIEW: select_contents(dialect),
        TOMBSTONE_VIEW: select_tombstone(dialect),
        GENHISTORY_VIEW: select_genhistory(dialect),
        "MSmerge_partition_groups": select_partition_groups(dialect),
        "sysmergepublications": select_publications(dialect),
        "sysmergearticles": select_articles(dialect),
        "sysmergesubsetfilters": select_filters(dialect),
        "sysmergesubscriptions": select_subscriptions(dialect),
        CURRENT_MAPPINGS: select_current_mappings(dialect),
        PAST_MAPPINGS: select_past_mappings(dialect),
        GENERATION_MAPPINGS: select_generation_mappings(dialect),
    }
