"""Comments on conflicts of delivery, which the publisher keeps: a subscriber may not be reached.

The table is made with the first comment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    DateTime,
    Identity,
    MetaData,
    Table,
    Text,
    delete,
    func,
    insert,
    select,
    text,
)

from rowtide.core.values import frozen
from rowtide.databases.postgres.advisory_locks import CONFLICT_COMMENTS
from rowtide.databases.postgres.catalogue import has_table
from rowtide.log.catalogue import SCHEMA

RETENTION_DAYS = 14
"""As long as subscribers keep conflicts: what is older is of none."""

comments = Table(
    "conflict_comments",
    MetaData(schema=SCHEMA),
    Column("comment_id", BigInteger, Identity(), primary_key=True),
    Column(
        "conflict_id", Text, nullable=False, index=True, comment="of the publication, subscriber and conflict there"
    ),
    Column("commented_at", DateTime(timezone=True), nullable=False, server_default=func.clock_timestamp()),
    Column("commented_by", Text, nullable=False),
    Column("comment", Text, nullable=False),
)
_ALONE = text(f"select pg_catalog.pg_advisory_xact_lock({CONFLICT_COMMENTS})")


@frozen
class ConflictComment:
    """What somebody wrote about a conflict."""

    conflict_id: str
    commented_at: datetime
    commented_by: str
    comment: str


def add_comment(connection: Connection, conflict_ids: Sequence[str], comment: str, commented_by: str) -> None:
    """Record a comment on conflicts, in the caller's transaction; comments older than any conflict go."""
    connection.execute(_ALONE)
    comments.create(connection, checkfirst=True)
    age = func.make_interval(0, 0, 0, RETENTION_DAYS)
    connection.execute(delete(comments).where(comments.c.commented_at < func.now() - age))
    values = {"commented_by": commented_by, "comment": comment}
    connection.execute(insert(comments), [{"conflict_id": one, **values} for one in conflict_ids])


def list_comments(connection: Connection) -> Mapping[str, Sequence[ConflictComment]]:
    """Return the comments on each conflict that has any, oldest first."""
    found: dict[str, list[ConflictComment]] = {}
    if not has_table(connection, SCHEMA, comments.name):
        return found
    c = comments.c
    columns = (c.conflict_id, c.commented_at, c.commented_by, c.comment)
    for row in connection.execute(select(*columns).order_by(c.comment_id)):
        found.setdefault(row.conflict_id, []).append(ConflictComment(*row))
    return found
