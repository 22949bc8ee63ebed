"""The interface of a database to merge: one class per database, one connection per synchronisation."""

from __future__ import annotations

from typing import Protocol

from rowtide.merge.nodes.roles.metadata import MetadataUpkeep, RowMetadata
from rowtide.merge.nodes.roles.numbering import NumberedKeys
from rowtide.merge.nodes.roles.reach import ReachReader
from rowtide.merge.nodes.roles.rows import LinkedRows, RowReader
from rowtide.merge.nodes.roles.schema import MergedTables
from rowtide.merge.nodes.roles.sending import ChangeSource
from rowtide.merge.nodes.roles.transactions import Sessions
from rowtide.merge.nodes.roles.writing import RowWriter


class Node(
    Sessions,
    ChangeSource,
    RowMetadata,
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
