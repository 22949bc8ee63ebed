"""The documented tables: their names, those of the tables below them, and the SQL that differs between databases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

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


class DocumentedDialect(Protocol):
    """The SQL that differs between databases."""

    @property
    def pending(self) -> str:
        """The query of rows with log entries: tablenick, rowguid, is_live (1 or 0) and stamp."""

    @property
    def members(self) -> str:
        """The query of rows in partitions.

        Its columns are pubid, partition_id, tablenick, rowguid, parent, and, 1 or 0, is_in: it is in the partition now,
        is_held: a subscriber has it, is_changed: it has metadata.
        """

    @property
    def open_generation(self) -> str:
        """The number that the open generation will probably have."""

    @property
    def of_publisher(self) -> str:
        """The name of the database, at the publisher."""

    def name(self, table: str) -> str:
        """Return the quoted name of a table or view."""

    def join_generation(self, stamp: str) -> str:
        """Return the join that `generation_of` of a stamp needs; each stamp is looked up once."""

    def generation_of(self, stamp: str) -> str:
        """Return the generation of a stamp: a closed one, or the open one."""

    def nicknames(self, query: str) -> str:
        """Return an expression: a query's nicknames in ascending order, 12 hexadecimal digits each."""

    def text(self, document: str, key: str) -> str:
        """Return a field of a JSON object, as a text."""

    def number(self, document: str, key: str) -> str:
        """Return a field of a JSON object that is a number or a boolean, as an integer."""

    def names_in(self, document: str, key: str) -> str:
        """Return an expression: the names of the objects of a JSON array, separated by commas."""

    def elements(self, document: str, key: str) -> str:
        """Return the join that has the elements of a JSON array as `e.value`."""

    def object_id(self, owner: str, table: str) -> str:
        """Return the number that the database gives a table; null if it gives none."""


def publication_number(dialect: DocumentedDialect, pubid: str) -> str:
    """Return the number of a publication: its rank by pubid."""
    return f"(select count(*) from {dialect.name(publications.name)} q where q.pubid <= {pubid})"


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
