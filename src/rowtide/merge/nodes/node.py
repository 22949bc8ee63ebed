"""The interface of a database to merge: one class per database, one connection per synchronisation."""

from __future__ import annotations

from typing import Protocol

from rowtide.merge.nodes.roles.rows import LinkedRows, MetadataUpkeep, ReachReader, RowReader, RowVersions
from rowtide.merge.nodes.roles.schema import MergedTables
from rowtide.merge.nodes.roles.sending import ChangeSource
from rowtide.merge.nodes.roles.transactions import Sessions
from rowtide.merge.nodes.roles.writing import NumberedKeys, RowWriter


class Node(
    Sessions,
    ChangeSource,
    RowVersions,
    MetadataUpkeep,
    RowReader,
    LinkedRows,
    ReachReader,
    RowWriter,
    NumberedKeys,
    MergedTables,
    Protocol,
):
    """A database that takes part in a merge, over its own connection: all roles of a synchronisation's two ends."""
