"""Names of the tables that SQL Server documents, which are views here, and of the tables below them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rowtide.merge.definitions import (
    CONTENTS,
    TOMBSTONE,
    article_history,
    articles,
    conflicts_info,
    genhistory,
    identity_ranges,
    partition_groups,
    partition_mappings,
    publications,
    replinfo,
    schema_changes,
    sessions,
    subscriptions,
)

GENHISTORY_VIEW: Final = "MSmerge_genhistory"
CONTENTS_VIEW: Final = "MSmerge_contents"
TOMBSTONE_VIEW: Final = "MSmerge_tombstone"
CURRENT_MAPPINGS: Final = "MSmerge_current_partition_mappings"
PAST_MAPPINGS: Final = "MSmerge_past_partition_mappings"
GENERATION_MAPPINGS: Final = "MSmerge_generation_partition_mappings"
MAPPINGS: Final = (CURRENT_MAPPINGS, PAST_MAPPINGS, GENERATION_MAPPINGS)
"""The views that evaluate filters, by reading the merged tables themselves."""

STORED_BELOW: Final = {
    "MSmerge_contents": CONTENTS,
    "MSmerge_tombstone": TOMBSTONE,
    "MSmerge_genhistory": genhistory.name,
    "MSmerge_partition_groups": partition_groups.name,
    "MSmerge_current_partition_mappings": partition_mappings.name,
    "sysmergepublications": publications.name,
    "sysmergearticles": articles.name,
    "sysmergesubscriptions": subscriptions.name,
}
"""The tables below views that have their rows, by the views' names."""

STORED: Final = {
    table.name: table
    for table in (article_history, conflicts_info, identity_ranges, replinfo, schema_changes, sessions)
}
"""Documented tables that are stored as such."""


def view_names() -> Sequence[str]:
    """Return the names of all documented tables that are views."""
    return (*STORED_BELOW, "sysmergesubsetfilters", PAST_MAPPINGS, GENERATION_MAPPINGS)
