"""Replica identities that did not cover what calls need, and were restored: whether the log has all rows nevertheless.

Without an identity the publisher refuses updates and deletes; and a table may only have been inserted into.
"""

from __future__ import annotations

import numpy as np

from rowtide.core.operations import Operation
from rowtide.core.tables import ImageKind
from rowtide.databases.postgres.catalogue import find_by_id
from rowtide.databases.postgres.errors import translated
from rowtide.log.postgres.control_table import mark_log
from rowtide.log.postgres.missed_ddl import shape_of
from rowtide.log.store.manifest import Manifest
from rowtide.log.store.segments import read_segment
from rowtide.replication.articles.articles import Article
from rowtide.replication.articles.call_formats import CallFormat
from rowtide.replication.distribution.altering_transactions import CopyNeeded
from rowtide.replication.distribution.log_events import find_lost_identity
from rowtide.replication.distribution.reader_entry import read_log
from rowtide.replication.distribution.run_context import DeliveryContext
from rowtide.replication.errors.delivery import (
    IdentityLost,
)


def require_intact(
    context: DeliveryContext, manifest: Manifest, article: Article, table_id: int, lost: IdentityLost
) -> None:
    """Raise `lost` while the identity is not restored, and `CopyNeeded` if logged rows lack something.

    No later row of this table version lacks anything then: the log is read up to the statement that restored it. Raises
    `LogNotRead`.
    """
    with translated(), context.engine.begin() as connection:
        table = find_by_id(connection, article.source_id)
        if table is None or find_lost_identity(article, shape_of(table)) is not None:
            raise lost
        # The mark follows the statement that restored the identity: rows below it are all that may lack something.
        mark = mark_log(connection)
    read_log(context.engine, context.url, manifest, mark)
    if _lacks_old_rows(manifest, table_id, article):
        raise CopyNeeded(article, lost)


def _lacks_old_rows(manifest: Manifest, table_id: int, article: Article) -> bool:
    """Whether rows of a table version in the log lack what calls of an article need."""
    needing = [
        operation
        for operation in (Operation.UPDATE, Operation.DELETE)
        if article.command(operation).call_format is not CallFormat.NONE
    ]
    # All that are kept, also below the subscriber's position: the table version is what counts, and it is a rare
    # question.
    for segment in manifest.state.segments:
        if table_id in segment.tables:
            records = read_segment(manifest.store, segment.path)
            is_lacking = np.isin(records["operation"].to_numpy(), needing)
            is_lacking &= records["image"].to_numpy() != ImageKind.FULL
            if (is_lacking & (records["table_id"].to_numpy() == table_id)).any():
                return True
    return False
